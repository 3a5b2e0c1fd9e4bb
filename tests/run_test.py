# SPDX-License-Identifier: Apache-2.0
"""Runs whole jobs under `thalweg run` with real programs and processes, some of which are killed."""

import glob
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python", "tests"))
from ports import free_ports  # noqa: E402

BIN = os.environ["THALWEG_BIN"]
THALWEG = os.path.join(BIN, "thalweg")
TIMEOUT = 300


def example(name):
    return os.path.join(BIN, "examples", name)


class Running:
    """A program with captured output lines that a test can wait for."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._lines = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._lines.append(None)
            self._changed.notify_all()

    @property
    def output(self):
        with self._changed:
            return "".join(line for line in self._lines if line is not None)

    def wait_for(self, pattern):
        """The first line that matches; None if the program ends without one."""
        seen = 0
        with self._changed:
            while True:
                for line in self._lines[seen:]:
                    found = line is not None and re.search(pattern, line)
                    if found or line is None:
                        return found or None
                seen = len(self._lines)
                if not self._changed.wait(TIMEOUT):
                    return None

    def end(self):
        """Waits for the program to end by itself, and returns its exit code."""
        try:
            return self.process.wait(TIMEOUT)
        finally:
            self.process.kill()
            self._reader.join()
            self.process.stdout.close()


def pid_of(run, job, index):
    """The process of a task of a job that `thalweg run` runs; None if it has ended."""
    task = '"type": "%s", "index": %d' % (job, index)
    try:
        with open("/proc/%d/task/%d/children" % (run.process.pid, run.process.pid)) as children:
            pids = children.read().split()
    except OSError:
        return None  # the job has ended, too
    for pid in pids:
        try:
            with open("/proc/%s/environ" % pid) as environ:
                if task in environ.read():
                    return int(pid)
        except OSError:
            continue  # one that has just ended
    return None


def kill_task(run, job, index):
    """False if the task has ended before."""
    pid = pid_of(run, job, index)
    try:
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return pid is not None


def await_port(port):
    """Waits until a process listens on the port."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("localhost", port)) == 0:
                return
        time.sleep(0.01)
    raise AssertionError("nobody listens on port %d" % port)


class RunTest(unittest.TestCase):

    def check(self, run, code=0):
        self.assertEqual(run.end(), code, run.output)

    def test_a_job_starts_works_and_ends(self):
        run = Running(THALWEG, "run", "--ps", "2", "--workers", "2", "--", example("hello_cluster"))
        self.check(run)
        for text in ('worker 0 | worker 0 of 2, the chief, got "Hello, Thalweg!" from ps 0',
                     'worker 1 | worker 1 of 2 got "Hello, Thalweg!" from ps 0',
                     "ps 0     | ps 0 is no longer needed", "ps 1     | ps 1 is no longer needed"):
            self.assertIn(text, run.output)

    def test_flags_by_placeholders(self):
        run = Running(THALWEG, "run", "--", "env", "-u", "TF_CONFIG", example("hello_cluster"), "--ps_hosts={ps_hosts}",
                      "--worker_hosts={worker_hosts}", "--job_name={job_name}", "--task_index={task_index}")
        self.check(run)
        self.assertIn("ps 0     | ps 0 is no longer needed", run.output)

    def test_a_wrong_description_is_permanent(self):
        run = Running(THALWEG, "run", "--restart=on-failure", "--", example("hello_cluster"), "--job_name=boss")
        self.check(run, 3)
        self.assertIn("INVALID_ARGUMENT: --worker_hosts is missing", run.output)
        self.assertIn("which a restart would not change", run.output)

    def train(self, folder, *args):
        return Running(THALWEG, "run", "--ps=2", "--workers=2", "--restart=on-failure", "--",
                       example("distributed_mnist"), "--checkpoint_dir=" + folder, "--save_steps=50", *args)

    def last_saved(self, folder):
        with open(os.path.join(folder, "checkpoint")) as state:
            return int(re.search(r"model.ckpt-(\d+)", state.read()).group(1))

    def accuracy(self, run):
        self.check(run)
        return float(re.search(r"worker 0 \| test accuracy (\d+\.\d+) %", run.output).group(1))

    def train_and_kill(self, folder, job, index, *flags):
        """A job in which a task was killed after the first checkpoint: where it saves, and the job."""
        # The longer ones are for when the job ends before we get there.
        for steps in (400, 1600, 6400):
            saves = os.path.join(folder, str(steps))
            run = self.train(saves, "--steps=%d" % steps, *flags)
            self.assertTrue(run.wait_for(r"Saved .*model.ckpt-[1-9]"), run.output)
            if kill_task(run, job, index) and run.wait_for(r"%s %d was ended by signal 9" % (job, index)):
                return saves, run
            self.check(run)
        self.fail("no job was long enough")

    def test_training_survives_the_loss_of_any_task(self):
        rate = "--learning_rate=3e-4"
        with tempfile.TemporaryDirectory() as folder:
            run = self.train(folder, "--steps=400", rate)
            undisturbed = self.accuracy(run)
            self.assertIn("worker 0 | checkpoints and TensorBoard's files are in " + folder, run.output)
        for job, index, mode in (("ps", 1, ()), ("worker", 0, ()), ("worker", 1, ()), ("ps", 0, ("--is_sync",)),
                                 ("worker", 0, ("--is_sync",)), ("worker", 1, ("--is_sync",))):
            with self.subTest(job=job, index=index, mode=mode), tempfile.TemporaryDirectory() as folder:
                saves, run = self.train_and_kill(folder, job, index, rate, *mode)
                # Undisturbed runs differ by up to 3.
                self.assertGreater(self.accuracy(run), undisturbed - 6, run.output)
                self.assertRegex(run.output, "%s %d was ended by signal 9.*restarting it" % (job, index))
                # Worker 0 is the chief: it restores when it starts, and when variables were lost.
                restored = re.search(r"worker 0 \| .*Restoring %s/model.ckpt-(\d+)" % saves, run.output)
                self.assertEqual(restored is not None, (job, index) != ("worker", 1), run.output)
                if restored:
                    self.assertGreater(int(restored.group(1)), 0, run.output)
                self.assertGreaterEqual(self.last_saved(saves), 400)

    def test_a_chief_beside_the_workers_is_one_of_them(self):
        chief, ps, worker, other = ("localhost:%d" % port for port in free_ports(4))
        hosts = ["--chief_hosts=" + chief, "--ps_hosts=" + ps, "--worker_hosts=%s,%s" % (worker, other)]
        with tempfile.TemporaryDirectory() as folder:
            tasks = [Running(example("distributed_mnist"), *hosts, "--job_name=" + job, "--task_index=%d" % index,
                             "--is_sync", "--steps=30", "--checkpoint_dir=" + folder)
                     for job, index in (("ps", 0), ("worker", 0), ("worker", 1), ("chief", 0))]
            for task in tasks:
                self.check(task)
            self.assertIn("test accuracy", tasks[-1].output)
            self.assertEqual(self.last_saved(folder), 30)
            # Each of the three gives a gradient for every step.
            with open(os.path.join(folder, "graph.pbtxt")) as graph:
                self.assertEqual(set(re.findall(r"worker_(\d+)/accepted_steps", graph.read())), {"0", "1", "2"})

    def test_a_loss_that_is_no_number_ends_the_job(self):
        for mode in ((), ("--is_sync",)):
            with self.subTest(mode=mode), tempfile.TemporaryDirectory() as folder:
                run = self.train(folder, "--steps=100000", "--learning_rate=1e30", *mode)
                self.check(run, 9)
                self.assertRegex(run.output, r"worker \d \| FAILED_PRECONDITION: NaN loss: ")
                self.assertIn("which a restart would not change", run.output)
                verified = subprocess.run([THALWEG, "checkpoint", "verify", folder], capture_output=True, text=True)
                self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_a_parameter_server_dies_in_the_middle_of_a_save(self):
        with tempfile.TemporaryDirectory() as folder:
            # Two tables of 40 MB: a save takes some time.
            run = Running(THALWEG, "run", "--ps=2", "--workers=1", "--restart=on-failure", "--",
                          example("distributed_word2vec"), "--generated", "--depth=50000", "--batch_size=8",
                          "--sampled=8", "--steps=20", "--save_steps=4", "--checkpoint_dir=" + folder)
            self.assertTrue(run.wait_for(r"Saved .*model.ckpt-[1-9]"), run.output)
            victim = pid_of(run, "ps", 1)
            self.assertIsNotNone(victim, run.output)
            saved = self.last_saved(folder)
            unfinished = os.path.join(folder, "*_temp_*")
            while not glob.glob(os.path.join(unfinished, "*")):
                self.assertIsNone(run.process.poll(), run.output)
            os.kill(victim, signal.SIGKILL)
            self.assertTrue(run.wait_for("ps 1 was ended by signal 9.*restarting it"), run.output)
            self.check(run)
            # The last that was complete: what we knew, or another that was when the kill came.
            restored = re.search(r"Restoring %s/model.ckpt-(\d+)" % folder, run.output)
            self.assertGreaterEqual(int(restored.group(1)), saved, run.output)
            self.assertGreaterEqual(self.last_saved(folder), 20)
            self.assertEqual(glob.glob(unfinished), [])
            verified = subprocess.run([THALWEG, "checkpoint", "verify", folder], capture_output=True, text=True)
            self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_training_in_step_stops_at_a_signal_and_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            run = self.train(folder, "--is_sync", "--steps=100000")
            self.assertTrue(run.wait_for(r"Train step [1-9]\d\d"), run.output)
            run.process.send_signal(signal.SIGTERM)
            self.check(run, 128 + signal.SIGTERM)
            saved = self.last_saved(folder)
            self.assertGreaterEqual(saved, 100)
            run = self.train(folder, "--is_sync", "--steps=%d" % (saved + 100))
            self.check(run)
            first = int(re.search(r"Train step (\d+)", run.output).group(1))
            self.assertGreaterEqual(first, saved, run.output)  # the step is read before the update


    def start_task(self, ports, job, index, folder):
        ps, workers = ports[:1], ports[1:]
        return Running(example("distributed_mnist"), "--ps_hosts=localhost:%d" % ps[0],
                       "--worker_hosts=" + ",".join("localhost:%d" % port for port in workers), "--job_name=" + job,
                       "--task_index=%d" % index, "--checkpoint_dir=" + folder, "--steps=1000000", "--is_sync")

    def test_sigterm_ends_a_worker_that_waits(self):
        with tempfile.TemporaryDirectory() as folder:
            ports = free_ports(3)
            ps = self.start_task(ports, "ps", 0, folder)
            waits = self.start_task(ports, "worker", 1, folder)  # for the chief, which is not there yet
            self.assertTrue(waits.wait_for("Still waiting after"), waits.output)
            waits.process.send_signal(signal.SIGTERM)
            self.assertEqual(waits.end(), 129, waits.output)
            self.assertIn("interrupted: Terminated", waits.output)

            chief = self.start_task(ports, "worker", 0, folder)
            worker = self.start_task(ports, "worker", 1, folder)
            self.assertTrue(worker.wait_for(r"Train step [1-9]"), worker.output)
            chief.process.kill()  # the worker's step waits for it
            chief.end()
            self.assertTrue(worker.wait_for("has waited for"), worker.output)
            worker.process.send_signal(signal.SIGTERM)
            self.assertEqual(worker.end(), 129, worker.output)

            chief = self.start_task(ports, "worker", 0, folder)
            worker = self.start_task(ports, "worker", 1, folder)
            self.assertTrue(worker.wait_for(r"Train step [1-9]"), worker.output)
            ps.process.kill()
            ps.end()
            for task in chief, worker:  # in a step, or still on its way to one
                self.assertTrue(task.wait_for("A task was lost|Still waiting after"), task.output)
                task.process.send_signal(signal.SIGTERM)
                self.assertEqual(task.end(), 129, task.output)


class ServerTest(unittest.TestCase):

    def start(self, *args):
        server = Running(THALWEG, "server", "--cluster=ps|localhost:%d,worker|localhost:%d" % tuple(free_ports(2)),
                         "--job_name=ps", *args)
        self.assertTrue(server.wait_for("Started server"), server.output)
        return server

    def test_sigterm_drains(self):
        server = self.start()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.end(), 0, server.output)
        self.assertIn("exits: all its steps have ended", server.output)

    def test_an_orphan_has_a_code_of_its_own(self):
        server = self.start("--orphan_after=300ms")
        self.assertEqual(server.end(), 132, server.output)
        self.assertIn("DEADLINE_EXCEEDED: /job:ps/replica:0/task:0: there was no worker for 300ms", server.output)

    def test_orphans_save_what_they_have_and_another_job_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            ports = free_ports(3)
            ps_hosts = ["localhost:%d" % port for port in ports[:2]]
            cluster = "--cluster=ps|%s,worker|localhost:%d" % (";".join(ps_hosts), ports[2])
            worker = Running(example("distributed_mnist"), "--ps_hosts=" + ",".join(ps_hosts),
                             "--worker_hosts=localhost:%d" % ports[2], "--job_name=worker", "--task_index=0",
                             "--checkpoint_dir=" + folder, "--save_steps=100000", "--steps=100000")
            await_port(ports[2])  # nobody is an orphan because the worker starts slowly
            servers = [Running(THALWEG, "server", cluster, "--job_name=ps", "--task_index=%d" % i, "--orphan_after=2s",
                               "--orphan_checkpoint=" + os.path.join(folder, "orphan")) for i in range(2)]
            self.assertTrue(worker.wait_for(r"Train step 1\d\d"), worker.output)
            worker.process.kill()
            worker.end()
            for i, server in enumerate(servers):
                self.assertEqual(server.end(), 132, server.output)
                self.assertRegex(server.output, r"no worker for 2s; its \d+ variables are in .*/orphan-ps-%d" % i)
            checkpoints = [os.path.join(folder, name) for name in ("model.ckpt-orphan", "orphan-ps-0", "orphan-ps-1")]
            merged = subprocess.run([THALWEG, "checkpoint", "merge", *checkpoints], capture_output=True, text=True)
            self.assertEqual(merged.returncode, 0, merged.stderr)
            run = Running(THALWEG, "run", "--ps=1", "--workers=1", "--", example("distributed_mnist"),
                          "--checkpoint_dir=" + folder, "--steps=100")
            self.assertEqual(run.end(), 0, run.output)
            self.assertRegex(run.output, "Restoring .*model.ckpt-orphan")
            self.assertGreaterEqual(int(re.search(r"Saved .*model.ckpt-(\d+)", run.output).group(1)), 100)


if __name__ == "__main__":
    unittest.main()
