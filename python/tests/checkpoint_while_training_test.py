# SPDX-License-Identifier: Apache-2.0
"""TensorFlow programs train while TensorFlow's Saver writes a checkpoint, and the checkpoint is one moment."""

import os
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest

import tensorflow.compat.v1 as tf
from ports import free_ports

tf.disable_v2_behavior()  # also for the thread that saves
PROGRAM = os.path.join(os.environ["THALWEG_BIN"], "thalweg")
WRITING = 15  # how long the file of the first task that writes takes, in seconds: ps:0, or worker:0 with TensorFlow 2


class CheckpointWhileTrainingTest(unittest.TestCase):
    def setUp(self):
        self.ports = free_ports(4)
        cluster = "ps|localhost:%d;localhost:%d,worker|localhost:%d;localhost:%d" % tuple(self.ports)
        for job, task in [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)]:
            process = subprocess.Popen([PROGRAM, "server", "--cluster=" + cluster, "--job_name=" + job,
                                        "--task_index=%d" % task, "--forever",
                                        "--faults=" + ",".join("hang=%s@save.before_rename:1+%ds" % (writer, WRITING)
                                                               for writer in ("ps:0", "worker:0"))],
                                       stdout=subprocess.PIPE, universal_newlines=True)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            self.addCleanup(process.stdout.close)
            self.assertIn("Started server", process.stdout.readline())

    def session(self, worker):
        session = tf.Session("grpc://localhost:%d" % self.ports[2 + worker])
        self.addCleanup(session.close)
        return session

    def train_while_saving(self, **saver):
        folder = self.enterContext(tempfile.TemporaryDirectory()) if hasattr(self, "enterContext") else tempfile.mkdtemp()
        with tf.Graph().as_default():
            counters = []
            for i in range(2):
                with tf.device("/job:ps/task:%d" % i):
                    counters.append(tf.get_variable("v%d" % i, initializer=tf.zeros([1000]), use_resource=False))
            train = tf.group(*[tf.assign_add(v, tf.ones([1000])).op for v in counters])
            writer = tf.train.Saver(**saver)
            chief, worker = self.session(0), self.session(1)
            chief.run(tf.global_variables_initializer())
            worker.run(train)
            chief.run(train)
            save = threading.Thread(target=writer.save, args=(chief, os.path.join(folder, "model")),
                                    kwargs={"write_meta_graph": False})
            save.start()
            while not [p for p in pathlib.Path(folder).rglob("*") if p.is_file()]:
                self.assertTrue(save.is_alive(), "the checkpoint has failed")
                time.sleep(0.01)
            for _ in range(5):
                worker.run(train)
            self.assertTrue(save.is_alive(), "the steps waited for the checkpoint")
            save.join()
            reader = tf.train.load_checkpoint(os.path.join(folder, "model"))
            self.assertEqual([reader.get_tensor("v%d" % i)[999] for i in range(2)], [2, 2])

    def test_one_file(self):
        self.train_while_saving()

    def test_sharded(self):
        self.train_while_saving(sharded=True)


if __name__ == "__main__":
    unittest.main()
