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

    def test_bits(self):
        """CompareAndBitpack on both: TensorFlow 2 has no kernel for it."""
        x = np.random.RandomState(3).randint(-5, 5, [3, 16])
        fetches = {}
        for device in ["/job:ps/task:0", "/job:worker/task:0"]:
            with tf.device(device):
                fetches[device] = [
                    tf.raw_ops.CompareAndBitpack(input=tf.placeholder_with_default(x.astype(t), None),
                                                 threshold=np.array(1, t))
                    for t in (np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.bool_)]
        with self.session() as session:
            theirs, ours = session.run([fetches["/job:ps/task:0"], fetches["/job:worker/task:0"]])
        for a, b in zip(theirs, ours):
            np.testing.assert_array_equal(a, b)


class TensorFlowsMasterTest(unittest.TestCase):
    """A worker of TensorFlow, which is the master, and a task of Thalweg that computes. The master's optimizer makes ops
    that no client sends."""

    @classmethod
    def setUpClass(cls):
        cls.ports = free_ports(2)
        addresses = ["localhost:%d" % port for port in cls.ports]
        serve = SERVE.replace('"ps", task', '"worker", task')
        commands = [[PROGRAM, "server", "--cluster=ps|%s,worker|%s" % tuple(addresses), "--job_name=ps", "--task_index=0"],
                    [sys.executable, "-c", serve] + addresses]
        cls.processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, universal_newlines=True) for command in commands]
        for process in cls.processes:
            process.stdout.readline()

    tearDownClass = MixedClusterTest.__dict__["tearDownClass"]

    def setUp(self):
        tf.reset_default_graph()

    def build(self, device):
        """Fetches that the optimizer rewrites, from values that it does not know."""
        random = np.random.RandomState(5)

        def unknown(*shape):
            return tf.placeholder_with_default(random.uniform(0.1, 1, shape).astype(np.float32), shape)

        with tf.device(device):
            image, window, bias = unknown(2, 6, 6, 3), unknown(3, 3, 3, 4), unknown(4)
            scale, offset, mean, variance = [unknown(4) for _ in range(4)]
            conv = tf.nn.conv2d(image, window, [1, 1, 1, 1], "SAME")
            other = tf.nn.conv2d(image, window, [1, 2, 2, 1], "VALID")
            a, b = unknown(3, 5), unknown(5, 4)
            return [
                tf.identity(tf.nn.relu(tf.nn.bias_add(conv, bias))),
                tf.identity(tf.nn.relu(tf.nn.fused_batch_norm(other, scale, offset, mean, variance, is_training=False)[0])),
                tf.identity(tf.nn.relu(tf.nn.bias_add(tf.matmul(a, b), bias))),
                tf.identity(tf.exp(tf.sqrt(tf.square(unknown(7))))),
                tf.identity(tf.tanh(tf.negative(unknown(7)))),
                tf.parallel_stack([unknown(3, 2), unknown(3, 2), unknown(3, 2)]),
            ]

    def test_ops_of_the_optimizer(self):
        theirs, ours = self.build("/job:worker/task:0"), self.build("/job:ps/task:0")
        metadata = tf.RunMetadata()
        config = tf.ConfigProto(isolate_session_state=True, operation_timeout_in_ms=60000)
        with tf.Session("grpc://localhost:%d" % self.ports[1], config=config) as session:
            for _ in range(3):
                expected, got = session.run([theirs, ours])
                for a, b in zip(expected, got):
                    np.testing.assert_allclose(a, b, 1e-5, 1e-5)
            session.run(ours, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
        labels = [node.timeline_label for device in metadata.step_stats.dev_stats if "/job:ps" in device.device
                  for node in device.node_stats]
        for op in ("_FusedConv2D", "_FusedMatMul", "_UnaryOpsComposition", "_ParallelConcatStart", "_ParallelConcatUpdate"):
            self.assertTrue(any(" = %s(" % op in label for label in labels), (op, labels))

    def test_a_parallel_stack_of_strings(self):
        with tf.device("/job:ps/task:0"):
            stacked = tf.parallel_stack([tf.placeholder_with_default(["a"], [1])] * 2)
        with tf.Session("grpc://localhost:%d" % self.ports[1]) as session:
            with self.assertRaises(tf.errors.UnimplementedError):
                session.run(stacked)


if __name__ == "__main__":
    unittest.main()
