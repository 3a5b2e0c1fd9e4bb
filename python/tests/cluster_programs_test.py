# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of tests/programs/, written as in tutorials, on Thalweg servers. Every task is a real process.

The client is the TensorFlow of the interpreter that runs this file.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import tensorflow
from ports import free_ports
from program_testlib import JobTest, PROGRAMS, THALWEG


class ClusterProgramsTest(JobTest):

    def test_hello(self):
        self.assert_ends(self.start("hello.py"), "Hello, distributed TensorFlow!")

    def test_hello_two(self):
        for order, device in (((0, 1), "/job:local/task:1"), ((1, 0), "")):
            with self.subTest(order=order, device=device):
                hosts = ",".join("localhost:%d" % port for port in free_ports(2))
                tasks = {}
                for i in order:
                    tasks[i] = self.start("hello_two.py", "--hosts=" + hosts, "--task_index=%d" % i,
                                          "--device=" + device)
                self.assert_ends(tasks[0], "y = 7")
                place = "y: (%s): /job:local/replica:0/task:%d/device:CPU:0"
                # TensorFlow 2's clients send AddV2.
                self.assertTrue(any(place % (op, 1 if device else 0) in tasks[0].output for op in ("Add", "AddV2")),
                                tasks[0].output)
                tasks[1].stop()

    def test_clients_without_servers(self):
        for name, thalweg in (("all ours", {"ps": True, "worker": True}),
                              ("TensorFlow workers", {"ps": True, "worker": False}),
                              ("TensorFlow ps", {"ps": False, "worker": True})):
            with self.subTest(name):
                hosts = self.cluster(1, 2)
                ps = self.start_job("servers.py", hosts, "ps", 1, thalweg=thalweg["ps"])
                workers = self.start_job("servers.py", hosts, "worker", 2, thalweg=thalweg["worker"])
                for master in (hosts[0].split("=")[1], hosts[1].split("=")[1].split(",")[1]):
                    self.assert_ends(self.start("matrices.py", "--master=grpc://" + master), "sum = ")
                # The numbers of loops that cross tasks are those of TensorFlow 2.
                if all(thalweg.values()) or tensorflow.__version__.startswith("2."):
                    self.assert_ends(self.start("loops.py", "--master=grpc://" + master), "loops = ")
                if all(thalweg.values()):
                    self.assert_ends(self.start("remote_call.py", "--master=grpc://" + master), "product = 42")
                for process in ps + workers:
                    process.stop()

    def test_the_debugger_sees_what_it_sees_of_tensorflow(self):
        seen = {}
        for thalweg in (False, True):
            hosts = self.cluster(1, 1)
            self.start_job("debugged.py", hosts, "ps", 1, thalweg=thalweg)
            worker, = self.start_job("debugged.py", hosts, "worker", 1, thalweg=thalweg)
            self.assert_ends(worker, "done")
            seen[thalweg] = re.findall(r"^(?:DEVICES|METADATA|INPUTS|WATCHED|LOSS) .*$", worker.output, re.M)
        self.assertEqual(seen[True], seen[False])
        self.assertIn("WATCHED loss:0:DebugIdentity 1017.75", seen[True])

    def test_boosted_trees(self):
        """All outputs of the ops equal TensorFlow's. Later versions have no kernels for them."""
        if not tensorflow.__version__.startswith("1."):
            return
        for program, first in (("boosted_trees.py", "made [False, False]"), ("boosted_trees_v2.py", "trees begin")):
            for pruning in range(3):
                with self.subTest(program=program, pruning=pruning):
                    ours, theirs = (self.words(program, first, "--pruning_mode=%d" % pruning, thalweg=thalweg)
                                    for thalweg in (True, False))
                    self.assertEqual(len(ours), len(theirs))
                    self.assertGreater(len(ours), 1000)
                    for i, (a, b) in enumerate(zip(ours, theirs)):
                        if a != b:
                            self.assertAlmostEqual(float(a), float(b), delta=1e-4 + 1e-3 * abs(float(b)),
                                                   msg=" ".join(theirs[i - 5:i]))
        refused = " ".join(self.words("boosted_trees_v2.py", "trees begin", "--bad_input"))
        self.assertNotIn("accepted", refused)
        self.assertEqual(refused.count("refused"), 17, refused)
        for text in ('split_types[0] of feature 0 is "sideways"', "pruning_mode must be 0, 1 or 2, got 3",
                     "feature[1, 0] is in bucket 6", "node_ids[1] = 16 is not in [0, 16)",
                     "feature_indices[1] = [0, 0] does not follow", "nodes [0, 17) are not all in a summary of 16",
                     "stats_summary_indices[0, 1] = 7 is not in [0, 2)", "stats_summary_shape[3] must be 2"):
            self.assertIn(text, refused)

    def words(self, program, first, *args, **kwargs):
        """What a program about trees prints from the line `first` on."""
        process = self.start(program, *args, **kwargs)
        self.assert_ends(process, "trees done")
        lines = [line for line in process.output.splitlines() if not re.match(r"[IWE]\d{4} ", line)]
        return " ".join(lines[lines.index(first):lines.index("trees done")]).split()

    def test_ops_of_contrib(self):
        """They compute what TensorFlow's do, random numbers included. Later versions have no tf.contrib."""
        if not tensorflow.__version__.startswith("1."):
            return
        outputs = []
        for thalweg in (True, False):
            process = self.start("contrib_ops.py", thalweg=thalweg)
            self.assert_ends(process, "contrib ends")
            lines = [line for line in process.output.splitlines() if not re.match(r"[IWE]\d{4} ", line)]
            outputs.append(lines[lines.index("contrib begins"):lines.index("contrib ends")])
        self.assertEqual(*outputs)
        self.assertGreater(len(outputs[0]), 150)

    def test_collectives(self):
        def run(*thalweg):
            hosts = "--worker_hosts=" + ",".join("localhost:%d" % port for port in free_ports(len(thalweg)))
            workers = [self.start("collectives.py", hosts, "--task_index=%d" % i, thalweg=ours)
                       for i, ours in enumerate(thalweg)]
            for worker in workers:
                self.assert_ends(worker, "Done")
            results = [re.findall(r"^[\w ]+ = .*", worker.output, re.MULTILINE) for worker in workers]
            for result in results:
                self.assertEqual(result, results[0])
            return results[0]

        expected = run(False, False)
        clusters = [(True, True)]
        if tensorflow.__version__.startswith("2."):  # others have another form of the call that makes groups
            clusters += [(True, False), (False, True)]
        for cluster in clusters:
            with self.subTest(thalweg=cluster):
                self.assertEqual(run(*cluster), expected)

    def mnist(self, folder, steps, *args, workers=2, thalweg_workers=True):
        hosts = self.cluster(2, workers)
        args = ("--steps=%d" % steps, "--checkpoint_dir=" + folder) + args
        ps = self.start_job("distributed_mnist.py", hosts, "ps", 2, *args)
        workers = self.start_job("distributed_mnist.py", hosts, "worker", workers, *args, thalweg=thalweg_workers)
        for worker in workers:
            self.assert_ends(worker, "Done at step")
        for process in ps:
            if thalweg_workers:
                self.assert_ends(process, "the job is over")  # by itself
            else:
                process.stop()
        return workers

    def test_distributed_mnist(self):
        for name, args in (("async", ()), ("sync", ("--is_sync",))):
            with self.subTest(name):
                folder = tempfile.mkdtemp()
                try:
                    chief = self.mnist(folder, 200, *args)[0]
                    loss = float(re.search(r"Done at step \d+, loss: ([\d.]+)", chief.output).group(1))
                    self.assertLess(loss, 1.5)
                    # The second start continues from the checkpoint.
                    chief = self.mnist(folder, 220, *args)[0]
                    first = int(re.search(r"First step (\d+)", chief.output).group(1))
                    self.assertGreaterEqual(first, 200, chief.output)
                finally:
                    shutil.rmtree(folder)

    def test_tensorflow_workers_with_our_parameter_servers(self):
        folder = tempfile.mkdtemp()
        try:
            # One worker: with two, TensorFlow's own master waits forever for one that was done before the other joined.
            self.mnist(folder, 100, workers=1, thalweg_workers=False)
        finally:
            shutil.rmtree(folder)

    def test_cpp_workers_with_tensorflows_parameter_servers(self):
        """Steps of several kinds in a session: TensorFlow keeps kernels by name, those that send among them."""
        hosts = self.cluster(1, 2)
        ps, = self.start_job("servers.py", hosts, "ps", 1, thalweg=False)
        program = os.path.join(os.environ["THALWEG_BIN"], "examples", "distributed_mnist")
        with tempfile.TemporaryDirectory() as folder:
            # The chief comes last: the other is told when there are variables.
            workers = [subprocess.Popen([program, *hosts, "--job_name=worker", "--task_index=%d" % i, "--steps=100",
                                         "--save_steps=50", "--checkpoint_dir=" + folder], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, universal_newlines=True) for i in (1, 0)]
            try:
                outputs = [worker.communicate(timeout=180)[0] for worker in workers]
            finally:
                for worker in workers:
                    worker.kill()
        for worker, output in zip(workers, outputs):
            self.assertEqual(worker.returncode, 0, output)
        self.assertIn("test accuracy", outputs[1])
        ps.stop()

    def test_parameter_servers_that_leave_by_a_queue(self):
        hosts = self.cluster(2, 2)
        ps = self.start_job("ps_queue.py", hosts, "ps", 2)
        workers = self.start_job("ps_queue.py", hosts, "worker", 2)
        for worker in workers:
            self.assert_ends(worker, "counted to")
        for i, process in enumerate(ps):
            self.assert_ends(process, "ps %d received done 1" % i)

    def test_a_whole_job_under_thalweg_run(self):
        done = subprocess.run(
            [THALWEG, "run", "--ps=1", "--workers=2", "--ps_grace=1m", "--", THALWEG, "python", "--python",
             sys.executable, os.path.join(PROGRAMS, "ends.py"), "--ps_hosts={ps_hosts}",
             "--worker_hosts={worker_hosts}", "--job_name={job_name}", "--task_index={task_index}"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180, universal_newlines=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"worker \d \| counted to 2")
        self.assertIn("the job is over", done.stdout)
        self.assertNotIn("sending SIGTERM", done.stdout)

    def test_an_orphan_saves_what_tensorflow_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "orphan")
            hosts = self.cluster(1, 1)
            ps, = self.start_job("distributed_mnist.py", hosts, "ps", 1,
                                 env={"THALWEG_ORPHAN_AFTER": "1s", "THALWEG_ORPHAN_CHECKPOINT": prefix})
            worker, = self.start_job("distributed_mnist.py", hosts, "worker", 1, "--steps=100000")
            self.assertTrue(worker.wait_for("Train step"), worker.output)
            worker.stop(signal.SIGKILL)
            self.assertEqual(ps.wait(), 132, ps.output)
            saved = tensorflow.train.load_checkpoint(prefix + "-ps-0")
            self.assertEqual(saved.get_variable_to_shape_map()["dense/kernel"], [784, 500])
            self.assertGreater(saved.get_tensor("global_step"), 0)

    def test_towers(self):
        for args in ((), ("--is_sync",)):
            with self.subTest(args=args):
                hosts = self.cluster(1, 2)
                ps = self.start_job("towers.py", hosts, "ps", 1, *args)
                for worker in self.start_job("towers.py", hosts, "worker", 2, *args):
                    self.assert_ends(worker, "done, loss")
                self.assert_ends(ps[0], "the job is over")

    def test_queue_runners_averages_and_summaries(self):
        self.assert_ends(self.start("queue_cnn.py"), "step 10")

    def test_loops_and_recurrent_networks(self):
        self.assert_ends(self.start("rnn.py"), "2^10 = 1024")


if __name__ == "__main__":
    unittest.main()
