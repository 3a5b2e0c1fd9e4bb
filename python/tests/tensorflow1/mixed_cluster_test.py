# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 1.15 tasks in a cluster whose master is a Thalweg task.

The master completes nodes with the attributes of newer TensorFlow versions, which these tasks do not know. Runs with
TensorFlow 1.15 (`make test-tf1`).
"""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import numpy as np
import tensorflow as tf
from ports import free_ports

PROGRAM = os.path.join(os.environ["THALWEG_BIN"], "thalweg")
SERVE = """
import sys, tensorflow as tf
server = tf.train.Server({"ps": [sys.argv[1]], "worker": [sys.argv[2]]}, job_name="ps", task_index=0)
print("ready", flush=True)
sys.stdin.read()
"""


class MixedClusterTest(unittest.TestCase):
    """A parameter server of TensorFlow and a worker of Thalweg, which is the master."""

    @classmethod
    def setUpClass(cls):
        cls.ports = free_ports(2)
        addresses = ["localhost:%d" % port for port in cls.ports]
        commands = [[sys.executable, "-c", SERVE] + addresses,
                    [PROGRAM, "server", "--cluster=ps|%s,worker|%s" % tuple(addresses), "--job_name=worker", "--task_index=0"]]
        cls.processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, universal_newlines=True) for command in commands]
        for process in cls.processes:
            process.stdout.readline()

    @classmethod
    def tearDownClass(cls):
        for process in cls.processes:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def setUp(self):
        tf.reset_default_graph()

    def session(self):
        config = tf.ConfigProto(isolate_session_state=True, operation_timeout_in_ms=60000)
        return tf.Session("grpc://localhost:%d" % self.ports[1], config=config)

    def test_checkpoints(self):
        with tf.device("/job:ps/task:0"):
            a = tf.Variable([1.0, 2.0], name="a", use_resource=False)
            b = tf.Variable([3.0, 4.0], name="b", use_resource=True)
        with tf.device("/job:worker/task:0"):
            c = tf.Variable([5.0, 6.0], name="c", use_resource=False)
        saver = tf.train.Saver(sharded=True)
        with tempfile.TemporaryDirectory() as folder:
            with self.session() as session:
                session.run(tf.global_variables_initializer())
                path = saver.save(session, os.path.join(folder, "model"), write_meta_graph=False)
            with self.session() as session:
                saver.restore(session, path)
                values = session.run([a, b, c])
        np.testing.assert_array_equal(values, [[1, 2], [3, 4], [5, 6]])

    def test_ops_that_have_got_attributes_since(self):
        """On the parameter server, and on the worker for comparison."""
        fetches = {}
        for device in ["/job:ps/task:0", "/job:worker/task:0"]:
            with tf.device(device):
                x = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
                filters = tf.ones([2, 2, 1, 1])
                accum, linear = [tf.Variable([1.0, 2.0], use_resource=False) for _ in range(2)]
                var = tf.Variable([1.0, 2.0], use_resource=False)
                ftrl = tf.raw_ops.ApplyFtrl(var=var._ref(), accum=accum._ref(), linear=linear._ref(), grad=[0.5, 0.5],
                                            lr=0.1, l1=0.0, l2=0.0, lr_power=-0.5)
                fetches[device] = [
                    tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
                    tf.nn.depthwise_conv2d(x, filters, [1, 1, 1, 1], "SAME"),
                    tf.nn.fused_batch_norm(x, [1.0], [0.0])[0],
                    tf.nn.top_k([1.0, 5.0, 3.0], 2)[1],
                    tf.sparse.segment_sum(tf.range(6.0), [0, 1, 3], [0, 0, 1]),
                    tf.abs(tf.signal.rfft(tf.range(8.0))),
                    tf.quantization.quantize(tf.range(4.0), 0.0, 4.0, tf.quint8)[0],
                    ftrl]
        with self.session() as session:
            session.run(tf.global_variables_initializer())
            theirs, ours = session.run([fetches["/job:ps/task:0"], fetches["/job:worker/task:0"]])
        for a, b in zip(theirs, ours):
            np.testing.assert_allclose(a, b, 1e-4, 1e-4)


if __name__ == "__main__":
    unittest.main()
