# SPDX-License-Identifier: Apache-2.0
"""Tests how scripts under `thalweg python` end, and how their jobs end."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import tensorflow as tf
from program_testlib import JobTest, PROGRAMS, THALWEG


class ScriptEndTest(JobTest):

    def test_a_script_ends_with_an_open_session(self):
        for how, code in (("return", 0), ("thread", 0), ("raise", 1), ("sys.exit", 3), ("exit", 4), ("os._exit", 5),
                          ("crash", 137)):
            with self.subTest(how=how):
                self.assert_ends(self.start("open_session.py", "--how=" + how), "one is 1", code)

    def test_a_missing_op_is_the_last_word(self):
        process = self.start("missing_op.py")
        self.assert_ends(process, "one is 1", code=1)
        lines = [line for line in process.output.splitlines() if not re.match(r"[IWE]\d{4} ", line)]
        self.assertRegex(lines[-1], r"^thalweg: Op type not registered 'Fact' \(node 'claim'\)")

    def test_a_missing_op_with_a_near_name(self):
        process = self.start("missing_op.py", "--near")
        self.assert_ends(process, "one is 1", code=1)
        lines = [line for line in process.output.splitlines() if not re.match(r"[IWE]\d{4} ", line)]
        self.assertRegex(lines[-1], r"^thalweg: Op type not registered 'QuantizedReluX' \(node 'claim'\); the most similar "
                         "op type is 'QuantizedRelu6?'")

    def test_a_missing_op_that_ended_a_thread_is_the_last_word(self):
        for thread in ("target", "subclass"):
            with self.subTest(thread=thread):
                process = self.start("missing_op.py", "--thread=" + thread)
                self.assert_ends(process, "one is 1")
                lines = [line for line in process.output.splitlines() if not re.match(r"[IWE]\d{4} ", line)]
                self.assertRegex(lines[-1], r"^thalweg: Op type not registered 'Fact' \(node 'claim'\)")
                self.assertEqual(process.output.count("thalweg: Op type"), 1, "both threads need it: " + process.output)
                self.assertLess(lines.index("end"), len(lines) - 1)

    def test_queue_runners_that_wait_for_room_are_not_logged(self):
        with tempfile.TemporaryDirectory() as folder:
            stop = os.path.join(folder, "stop")
            process = self.start("coordinated.py", "--part=noise", "--stop=" + stop)
            # The runners have waited longer than this step when it is logged.
            self.assertTrue(process.wait_for("'take_from_empty'"), process.output)
            open(stop, "w").close()
            self.assert_ends(process, "end")
        self.assertNotIn("'fill'", process.output)

    def test_the_time_that_threads_have_to_end_is_said_once(self):
        process = self.start("coordinated.py", "--part=grace")
        self.assert_ends(process, "end")
        self.assertEqual(process.output.count("threads are left: True"), 2, process.output)
        self.assertEqual(process.output.count("cancelled"), 2, process.output)
        self.assertEqual(process.output.count("threads have 5 s to end before their session is closed"), 1,
                         process.output)

    def test_tensorflows_semantics_can_be_kept(self):
        hosts, keep = self.cluster(1, 1), ["--keep_tensorflow_semantics"]
        ps, = self.start_job("ends.py", hosts, "ps", 1, flags=keep)
        # Neither the end of the only worker nor a failure ends the parameter server, or is announced.
        for args, text, code in (([], "counted to 1", 0), (["--bad=0"], "", 3), ([], "counted to 2", 0)):
            worker, = self.start_job("ends.py", hosts, "worker", 1, *args, flags=keep)
            self.assert_ends(worker, text, code)
        self.assertTrue(ps.is_running(), ps.output)
        for text in ("the job is over", "has ended", "no worker is left", "join() has returned"):
            self.assertNotIn(text, ps.output)
        code = "import tensorflow.compat.v1 as tf; print('join of', tf.train.Coordinator.join.__module__.split('.')[0])"
        for flags, module in (((), "thalweg_server"), (keep, tf.__name__.split(".")[0])):
            out = subprocess.check_output([THALWEG, "python", "--python", sys.executable, *flags, "-c", code],
                                          universal_newlines=True, timeout=180)
            self.assertRegex(out, "join of %s" % module)

    def test_join_ends_the_script_with_its_job(self):
        hosts = self.cluster(1, 1)
        ps, = self.start_job("ps_falls_through.py", hosts, "ps", 1)
        worker, = self.start_job("ps_falls_through.py", hosts, "worker", 1)
        self.assert_ends(worker, "step 1")
        self.assert_ends(ps, "the job is over")
        self.assertNotIn("the work of a worker", ps.output)

    def test_a_worker_that_fails_does_not_end_the_job(self):
        for how in ("sys.exit", "exit", "os._exit"):
            with self.subTest(how=how):
                hosts = self.cluster(1, 2)
                ps, = self.start_job("ends.py", hosts, "ps", 1)
                good, bad = self.start_job("ends.py", hosts, "worker", 2, "--bad=1", "--how=" + how)
                self.assert_ends(bad, "", code=3)
                self.assert_ends(good, "counted to 1")
                # It may be started again; this time it ends well.
                again = self.start("ends.py", *hosts, "--job_name=worker", "--task_index=1")
                self.assert_ends(again, "counted to 2")
                self.assert_ends(ps, "the job is over")

    def start_sync_job(self, failed_after, *how, text="RuntimeError: no more data", code=1):
        """Worker 1 raises an exception, or is killed, after 3 batches. Without extra tokens the chief cannot train alone."""
        hosts = [*self.cluster(1, 2), "--num_tokens=0"]
        env = {"THALWEG_FAILED_AFTER": failed_after}
        ps, = self.start_job("catalogue/sync_uneven.py", hosts, "ps", 1, env=env)
        chief = self.start("catalogue/sync_uneven.py", *hosts, "--job_name=worker", "--task_index=0", env=env)
        worker = [*hosts, "--job_name=worker", "--task_index=1"]
        failing = self.start("catalogue/sync_uneven.py", *worker, "--raise_after=3", *how, env=env)
        self.assert_ends(failing, text, code=code)
        return ps, chief, worker

    def test_synchronous_training_fails_with_a_worker(self):
        ps, chief, _ = self.start_sync_job("10s")
        self.assert_ends(chief, "waits for gradients of /job:worker/replica:0/task:1, which ended with an error", code=1)
        self.assert_ends(ps, "no worker is left", code=132)

    def test_synchronous_training_fails_with_a_worker_that_was_killed(self):
        # The server of a killed script announces it. If it was killed too, the parameter server notices.
        for killed, why in (("script", "ended with an error"), ("all", "has not answered for")):
            with self.subTest(killed=killed):
                ps, chief, _ = self.start_sync_job("10s", "--killed=" + killed, text="batch 2", code=-signal.SIGKILL)
                self.assert_ends(chief, "waits for gradients of /job:worker/replica:0/task:1, which " + why, code=1)
                self.assert_ends(ps, "no worker is left", code=132)
                self.assertIn("/job:worker/replica:0/task:1 " + why, ps.output)

    def test_synchronous_training_goes_on_with_a_restarted_worker(self):
        for how in ({}, {"text": "batch 2", "code": -signal.SIGKILL}):
            with self.subTest(how=how):
                ps, chief, worker = self.start_sync_job("10m", *(["--killed=all"] if how else []), **how)
                again = self.start("catalogue/sync_uneven.py", *worker)
                self.assert_ends(again, "RESULT batches=10")
                self.assert_ends(chief, "RESULT batches=30")
                self.assert_ends(ps, "the job is over")

    def test_a_worker_waits_for_a_lost_parameter_server(self):
        hosts = self.cluster(1, 1)
        with tempfile.TemporaryDirectory() as folder:
            ps, = self.start_job("recovering.py", hosts, "ps", 1, "--folder=" + folder)
            worker, = self.start_job("recovering.py", hosts, "worker", 1, "--folder=" + folder)
            self.assertTrue(worker.wait_for("step 10"), worker.output)
            ps.kill()
            self.assertTrue(worker.wait_for("is tried again until it works"), worker.output)
            again, = self.start_job("recovering.py", hosts, "ps", 1, "--folder=" + folder)
            self.assertTrue(worker.wait_for("a new session works, after"), worker.output)
            open(os.path.join(folder, "stop"), "w").close()
            self.assert_ends(worker, "done")
            self.assert_ends(again, "the job is over")
        self.assertEqual(worker.output.count("is tried again until it works"), 1, worker.output)
        self.assertNotIn("An error was raised while a session was being created", worker.output)

    def test_ctrl_c_is_left_to_the_script(self):
        hosts = self.cluster(1, 1)
        with tempfile.TemporaryDirectory() as folder:
            ps, = self.start_job("interrupted.py", hosts, "ps", 1)
            worker, = self.start_job("interrupted.py", hosts, "worker", 1, "--folder=" + folder)
            self.assertTrue(worker.wait_for("running"), worker.output)
            ps.interrupt()
            worker.interrupt()
            self.assert_ends(worker, "saved")
            self.assertTrue(os.path.exists(os.path.join(folder, "model.index")), worker.output)
            self.assertIn("KeyboardInterrupt", ps.output if ps.wait() else "")

    def test_tasks_of_multiprocessing_say_that_they_are_done(self):
        for method in ("spawn", "fork", "forkserver"):
            with self.subTest(method=method):
                job = self.start("one_script.py", *self.cluster(1, 2), "--method=" + method)
                self.assert_ends(job, "codes [0, 0, 0]")
                self.assertIn("counted to 2", job.output)

    def test_workers_look_for_the_variables_often(self):
        code = ("import tensorflow.compat.v1 as tf; m = tf.train.SessionManager; "
                "print('seconds', m()._recovery_wait_secs, m(recovery_wait_secs=7)._recovery_wait_secs)")
        for flags, seconds in (((), "seconds 2 7"), (("--keep_tensorflow_semantics",), "seconds 30 7")):
            with self.subTest(flags=flags):
                out = subprocess.check_output([THALWEG, "python", "--python", sys.executable, *flags, "-c", code],
                                              universal_newlines=True, timeout=180)
                self.assertIn(seconds, out)

    def test_flags_of_the_interpreter(self):
        python = [THALWEG, "python", "--python", sys.executable]
        code = "import tensorflow.compat.v1 as tf; print('target', tf.train.Server.create_local_server().target)"
        for flags in (["-u", os.path.join(PROGRAMS, "hello.py")], ["-m", "hello"], ["-Bum", "hello"],
                      ["-W", "ignore", "-X", "faulthandler", "-c", code], ["--", "-c", code]):
            with self.subTest(flags=flags):
                done = subprocess.run(python + flags, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180,
                                      universal_newlines=True, env=dict(os.environ, PYTHONPATH=PROGRAMS))
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn("Started server with target", done.stdout)
        for flags, error in ((["-I", "x.py"], "Python's flag -I"), (["-uE", "x.py"], "Python's flag -E"),
                             (["-u"], "Expected a script, -m MODULE or -c COMMAND")):
            with self.subTest(flags=flags):
                done = subprocess.run(python + flags, stderr=subprocess.PIPE, universal_newlines=True)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(error, done.stderr)


if __name__ == "__main__":
    unittest.main()
