# SPDX-License-Identifier: Apache-2.0
"""Compares ops that newer graphs may not use any more: both sides take them from graphs of an older version."""

import unittest

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow_testlib import Failure, Step, difference, registered_ops, run_tensorflow, run_thalweg

# Older than all that deprecated the ops below.
VERSION = 1


def numbers(*shape, seed=1):
    return np.random.RandomState(seed).uniform(-1, 1, shape)


def definite(*shape):
    x = numbers(*shape)
    return x @ np.swapaxes(x, -1, -2) + 2 * np.eye(shape[-1])


class OldGraph:
    """One op, fed by placeholders."""

    def __init__(self, op, inputs, attrs, outputs):
        self.definition = graph_pb2.GraphDef()
        self.definition.versions.producer = VERSION
        self.feeds = {}
        names = []
        for i, value in enumerate(inputs):
            node = self.definition.node.add(name=f"x{i}", op="Placeholder")
            node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
            names.append(node.name)
            self.feeds[f"x{i}:0"] = value
        node = self.definition.node.add(name="y", op=op, input=names)
        for name, value in attrs.items():
            if isinstance(value, bool):
                node.attr[name].b = value
            elif isinstance(value, int):
                node.attr[name].i = value
            elif isinstance(value, float):
                node.attr[name].f = value
            else:
                node.attr[name].type = value.as_datatype_enum
        self.step = Step(feeds=self.feeds, fetches=[f"y:{i}" for i in range(outputs)])
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.import_graph_def(self.definition, name="")


class DeprecatedTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.ops = registered_ops()

    def results(self, op, *inputs, outputs=1, **attrs):
        self.assertIn(op, self.ops)
        old = OldGraph(op, inputs, attrs, outputs)
        return run_thalweg(old.graph, [old.step])[0], run_tensorflow(old.graph, [old.step])[0]

    def compare(self, op, *inputs, outputs=1, tolerance=1e-9, **attrs):
        ours, theirs = self.results(op, *inputs, outputs=outputs, **attrs)
        for side in (ours, theirs):
            self.assertNotIsInstance(side, Failure, f"{op}: {side}")
        for i, (a, b) in enumerate(zip(ours, theirs)):
            self.assertIsNone(difference(a, b, tolerance), f"{op} [{i}]")

    def test_linear_algebra(self):
        t = tf.float64
        x, b = numbers(2, 4, 4) + 3 * np.eye(4), numbers(2, 4, 3, seed=2)
        self.compare("BatchCholesky", definite(2, 4, 4), T=t)
        self.compare("BatchCholeskyGrad", np.tril(x), b @ np.swapaxes(b, -1, -2), T=t)
        self.compare("BatchMatrixDeterminant", x, T=t)
        for adjoint in (False, True):
            self.compare("BatchMatrixInverse", x, T=t, adjoint=adjoint)
            self.compare("BatchMatrixSolve", x, b, T=t, adjoint=adjoint)
            self.compare("BatchMatrixTriangularSolve", x, b, T=t, adjoint=adjoint, lower=not adjoint)
        for fast in (False, True):
            self.compare("BatchMatrixSolveLs", x[..., :3], b, np.array(.5 if fast else 0.), T=t, fast=fast)
        self.compare("BatchSvd", x, T=t, compute_uv=False, full_matrices=False)
        self.compare("BatchSelfAdjointEigV2", definite(2, 4, 4), T=t, compute_v=False)

    def test_matrix_exponential(self):
        for scale in (.01, 1, 30):
            for t in (tf.float64, tf.complex128):
                x = scale * numbers(2, 5, 5)
                x = x.astype(t.as_numpy_dtype)
                ours, theirs = self.results("MatrixExponential", x, T=t)
                limit = np.abs(theirs[0]).max()
                self.assertIsNone(difference(ours[0] / limit, theirs[0] / limit, 1e-9))
        self.compare("MatrixExponential", np.zeros((0, 0)), T=tf.float64)

    def test_eigenvectors(self):
        """Values above vectors, which are known but for a factor."""
        for op in ("SelfAdjointEig", "BatchSelfAdjointEig"):
            ours, theirs = self.results(op, definite(2, 4, 4), T=tf.float64)
            self.assertIsNone(difference(ours[0][..., 0, :], theirs[0][..., 0, :], 1e-9))
            ours, theirs = (np.abs(side[0][..., 1:, :]) for side in (ours, theirs))
            self.assertIsNone(difference(ours, theirs, 1e-9))

    def test_first_graphs(self):
        f = tf.float32
        x = numbers(2, 4, 6, 3).astype("float32")
        channels = [numbers(3, seed=i).astype("float32") for i in range(4)]
        channels[1] = channels[1] ** 2 + .1
        for scale in (False, True):
            attrs = dict(T=f, variance_epsilon=.001, scale_after_normalization=scale, tolerance=1e-5)
            self.compare("BatchNormWithGlobalNormalization", x, *channels, **attrs)
            self.compare("BatchNormWithGlobalNormalizationGrad", x, *channels[:3], numbers(2, 4, 6, 3, seed=9).astype("float32"),
                         outputs=5, **attrs)
        for given in (False, True):
            self.compare("QuantizeAndDequantize", x, T=f, signed_input=True, num_bits=6, range_given=given, input_min=-.5,
                         input_max=.7, tolerance=1e-6)
        low, high, factor = (np.array(v, np.float32) for v in (-1., 1., 1.5))
        self.compare("AdjustContrast", x, factor, low, high, T=f, tolerance=1e-5)
        self.compare("RandomCrop", x[0], np.array([4, 6], np.int64), T=f, seed=1, seed2=2)

    def test_errors(self):
        for op in ("BatchCholesky", "BatchMatrixInverse", "SelfAdjointEig", "MatrixExponential"):
            ours, theirs = self.results(op, numbers(2, 3), T=tf.float64)
            self.assertIsInstance(theirs, Failure, op)
            self.assertIsInstance(ours, Failure, op)
            self.assertEqual(ours.code, theirs.code, op)


if __name__ == "__main__":
    tf.compat.v1.disable_eager_execution()
    unittest.main()
