# SPDX-License-Identifier: Apache-2.0
"""Runs the same graph on TensorFlow and with the program `thalweg`, for tests that compare them.

Needs TensorFlow, and the folder of the program in THALWEG_BIN.
"""

import dataclasses
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import op_def_pb2
from tensorflow.core.protobuf import named_tensor_pb2  # noqa: F401  eval.proto uses it

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.path.join(os.environ["THALWEG_BIN"], "thalweg")


@dataclasses.dataclass
class Step:
    """One call of Session.run: tensors and nodes by name."""
    feeds: dict = dataclasses.field(default_factory=dict)  # arrays by name
    fetches: list = dataclasses.field(default_factory=list)
    targets: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Failure:
    """The result of a failed step."""
    code: int
    message: str


def load_descriptors(files):
    """The FileDescriptorProtos of .proto files of the project, imports included."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["protoc", "-I.", "--include_imports", f"--descriptor_set_out={out.name}", *files], cwd=ROOT,
                       check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(out.read()).file


def eval_messages():
    """The classes of EvalSteps and EvalResults, on TensorFlow's TensorProto."""
    (file,) = [f for f in load_descriptors(["thalweg/proto/eval.proto"]) if f.package == "thalweg"]
    file.dependency[:] = ["tensorflow/core/protobuf/named_tensor.proto"]
    pool = descriptor_pool.Default()
    pool.Add(file)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"thalweg.{name}"))
            for name in ("EvalSteps", "EvalResults")]


EvalSteps, EvalResults = eval_messages()


# Ops of tf.contrib and others which TensorFlow 2 does not have. cluster_programs_test.py and
# tensorflow1/contrib_test.py compare them with TensorFlow 1.
CONTRIB = ("AdjustHsvInYiq", "BipartiteMatch", "CompareAndBitpack", "DecodeLibsvm", "GatherTree",
           "ImageConnectedComponents", "ImageProjectiveTransform", "MaskedMatmul", "ObtainNext", "ReduceSliceMax",
           "ReduceSliceMin", "ReduceSliceProd", "ReduceSliceSum", "Resampler", "ResamplerGrad",
           "SkipGramGenerateCandidates", "SparseFeatureCross", "SparseFeatureCrossV2", "TensorForestCreateTreeVariable",
           "TensorForestTreeDeserialize", "TensorForestTreeIsInitializedOp", "TensorForestTreePredict",
           "TensorForestTreeResourceHandleOp", "TensorForestTreeSerialize", "TensorForestTreeSize",
           "WALSComputePartialLhsAndRhs", "ZeroInitializer", "ZeroVarInitializer")


def registered_ops():
    """The OpDefs of the program by name, without those that only the runtime adds to graphs and those of tf.contrib."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ops.pb")
        subprocess.run([PROGRAM, "ops", "--binary", path], check=True)
        ops = op_def_pb2.OpList.FromString(pathlib.Path(path).read_bytes())
    return {op.name: op for op in ops.op if not op.name.startswith("_") and op.name not in CONTRIB}


def run_thalweg(graph, steps, flags=()):
    """Runs the steps in one session; returns the values or a Failure of each."""
    messages = EvalSteps()
    for step in steps:
        message = messages.step.add(fetch=step.fetches, target=step.targets)
        for name, value in step.feeds.items():
            message.feed.add(name=name, tensor=tf.make_tensor_proto(value))
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, name) for name in ("graph", "steps", "out")}
        pathlib.Path(paths["graph"]).write_bytes(graph.as_graph_def().SerializeToString())
        pathlib.Path(paths["steps"]).write_bytes(messages.SerializeToString())
        subprocess.run([PROGRAM, "eval", "--keep_going", *(f"--{name}={path}" for name, path in paths.items()), *flags],
                       check=True)
        results = EvalResults.FromString(pathlib.Path(paths["out"]).read_bytes())
    return [Failure(step.code, step.message) if step.code else [tf.make_ndarray(t.tensor) for t in step.tensor]
            for step in results.step]


def run_tensorflow(graph, steps):
    """The same on TensorFlow, with graph rewriting turned off."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    results = []
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        for step in steps:
            try:
                targets = [graph.get_operation_by_name(name) for name in step.targets]
                values = session.run([step.fetches, targets], step.feeds)[0]
                results.append([np.array(v, object) if isinstance(v, bytes) else np.asarray(v) for v in values])
            except tf.errors.OpError as error:
                results.append(Failure(error.error_code, error.message.rpartition("\n\t [[")[0][-200:]))
    return results


# Relative and absolute tolerance: a few units in the last place.
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "complex64": 1e-5, "float64": 1e-12,
             "complex128": 1e-12}


def difference(ours, theirs, tolerance=None):
    """Describes where two arrays differ; None if they do not."""
    if ours.dtype != theirs.dtype:
        return f"type {ours.dtype}, TensorFlow's {theirs.dtype}"
    if ours.shape != theirs.shape:
        return f"shape {ours.shape}, TensorFlow's {theirs.shape}"
    limit = tolerance if tolerance is not None else TOLERANCE.get(ours.dtype.name)
    if limit is None or ours.dtype == object:
        same = ours == theirs
    else:
        wide = np.complex128 if ours.dtype.kind == "c" else np.float64
        same = np.isclose(ours.astype(wide), theirs.astype(wide), rtol=limit, atol=limit, equal_nan=True)
    if np.all(same):
        return None
    index = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0])
    at = index if ours.shape else ()
    return f"{np.sum(~same)} of {ours.size} elements; {list(at)} is {ours[at]!r}, TensorFlow's {theirs[at]!r}"


def nameless(message):
    """Removes the numbers in the names of anonymous resources."""
    return re.sub(r"'_\d+_|_\d+\b", "_", message)


class ProgramTest(unittest.TestCase):
    """Base class of tests that build a graph and compare the values and error codes of its steps."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.ops = registered_ops()
        cls.shown = set()  # the op types of all graphs

    def setUp(self):
        self.graph = tf.Graph()
        self.enterContext(self.graph.as_default())
        tf.compat.v1.set_random_seed(1234)

    def compare(self, steps, tolerance=1e-5, texts=False):
        """With `texts`, error messages must be the same, too, except for the names of anonymous resources."""
        types = {op.type for op in self.graph.get_operations()}
        self.assertEqual(sorted(types - self.ops.keys()), [], "op types that are not there")
        self.shown.update(types)
        theirs, ours = run_tensorflow(self.graph, steps), run_thalweg(self.graph, steps)
        problems = []
        for i, (step, a, b) in enumerate(zip(steps, ours, theirs)):
            if isinstance(a, Failure) or isinstance(b, Failure):
                if not (isinstance(a, Failure) and isinstance(b, Failure) and a.code == b.code):
                    problems.append(f"step {i}: ours {str(a)[:300]}, TensorFlow's {str(b)[:300]}")
                elif texts and (text := nameless(b.message.splitlines()[-1])) not in nameless(a.message):
                    problems.append(f"step {i}: ours {nameless(a.message)!r}, TensorFlow's {text!r}")
                continue
            for name, x, y in zip(step.fetches, a, b):
                if text := difference(x, y, tolerance if x.dtype.kind == "f" else None):
                    problems.append(f"step {i}, {name}: {text}")
        if problems:
            self.fail("\n".join(problems[:40]))
        return ours

    def values(self, *tensors):
        return self.compare([Step(fetches=[t.name for t in tensors])])[0]
