# SPDX-License-Identifier: Apache-2.0
"""Tests that TensorFlow and Thalweg read each other's checkpoints and write the same bytes."""

import os
import pathlib
import tempfile
import unittest

import numpy as np
import tensorflow as tf
from tensorflow_testlib import Failure, Step, difference, run_tensorflow, run_thalweg

v1 = tf.compat.v1

VALUES = {
    "bool": np.array([True, False]),
    "complex": np.array([[1 + 2j]], np.complex64),
    "double": np.arange(6, dtype=np.float64).reshape(2, 3),
    "empty": np.zeros([0, 3], np.float32),
    "float": np.linspace(-1, 1, 1000, dtype=np.float32).reshape(10, 100),
    "half": np.array([1.5, -2], np.float16),
    "int8": np.array([-1, 2], np.int8),
    "long": np.array(1 << 40, np.int64),
    "nested/name:with (odd) characters": np.array([1, 2, 3], np.int32),
    "none": np.array([], object),
    "strings": np.array([b"", b"abc", b"\x00\xff" * 200], object),
    "uint16": np.array([7], np.uint16),
}
RUNNERS = {"tensorflow": run_tensorflow, "thalweg": run_thalweg}


class CheckpointTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.graph = tf.Graph()
        self.enterContext(self.graph.as_default())

    def path(self, name):
        return os.path.join(self.folder, name)

    def files(self, prefix):
        """The contents of the files by suffix, without the name of the checkpoint."""
        return {p.name.removeprefix(prefix): p.read_bytes() for p in pathlib.Path(self.folder).glob(prefix + "*")
                if p.is_file()}

    def run_ok(self, runner, steps):
        results = RUNNERS[runner](self.graph, steps)
        for result in results:
            self.assertNotIsInstance(result, Failure)
        return results

    def expect_same(self, ours, theirs, what):
        self.assertIsNone(difference(np.asarray(ours), np.asarray(theirs)), what)

    def save_step(self, prefix, values, slices=None):
        save = tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(values),
                                 shape_and_slices=slices or [""] * len(values),
                                 tensors=[tf.constant(v) for v in values.values()])
        return Step(targets=[save.name])

    def test_bytes_are_the_same(self):
        for runner in RUNNERS:
            self.run_ok(runner, [self.save_step(self.path(runner), VALUES)])
        ours, theirs = self.files("thalweg"), self.files("tensorflow")
        self.assertEqual(sorted(ours), [".data-00000-of-00001", ".index"])
        self.assertEqual(ours, theirs)

    def test_many_names_fill_many_blocks(self):
        values = {f"layer_{i // 7}/kernel_{i}/Adam": np.int32(i) for i in range(4000)}
        names = tf.constant(list(values))
        for runner in RUNNERS:
            save = tf.raw_ops.SaveV2(prefix=self.path(runner), tensor_names=names, shape_and_slices=[""] * 4000,
                                     tensors=tf.unstack(tf.constant(np.arange(4000, dtype=np.int32))))
            self.run_ok(runner, [Step(targets=[save.name])])
        self.assertEqual(self.files("thalweg"), self.files("tensorflow"))

    def test_tensorflow_reads_ours(self):
        self.run_ok("thalweg", [self.save_step(self.path("c"), VALUES)])
        reader = tf.train.load_checkpoint(self.path("c"))
        self.assertEqual(set(reader.get_variable_to_shape_map()), set(VALUES))
        for name, value in VALUES.items():
            self.expect_same(reader.get_tensor(name), value, name)

    def test_we_read_what_tensorflow_wrote(self):
        self.run_ok("tensorflow", [self.save_step(self.path("c"), VALUES)])
        dtypes = [tf.string if v.dtype == object else v.dtype for v in VALUES.values()]
        values = tf.raw_ops.RestoreV2(prefix=self.path("c"), tensor_names=list(VALUES),
                                      shape_and_slices=[""] * len(VALUES), dtypes=dtypes)
        (restored,) = self.run_ok("thalweg", [Step(fetches=[v.name for v in values])])
        for name, ours in zip(VALUES, restored):
            self.expect_same(ours, VALUES[name], name)

    def test_parts(self):
        """A partitioned variable, saved by two tasks and merged, read whole and in other parts."""
        whole = np.arange(40, dtype=np.float32).reshape(8, 5)
        merged = {}
        for runner in RUNNERS:
            parts = [self.path(f"temp_{runner}/part-{i}") for i in range(2)]
            steps = [self.save_step(parts[0], {"w": whole[:3], "a": np.int32(1)}, ["8 5 0,3:-", ""]),
                     self.save_step(parts[1], {"w": whole[3:], "b": np.int32(2)}, ["8 5 3,5:-", ""])]
            merge = tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=self.path(runner))
            self.run_ok(runner, steps + [Step(targets=[merge.name])])
            self.assertFalse(os.path.exists(self.path(f"temp_{runner}")))
            merged[runner] = self.files(runner)
        self.assertEqual(merged["thalweg"], merged["tensorflow"])
        self.assertEqual(len(merged["thalweg"]), 3)
        slices = ["", "8 5 2,4:-", "8 5 -:1,2", "8 5 0,3:-", "8 5 7,1:4,1"]
        expected = [whole, whole[2:6], whole[:, 1:3], whole[:3], whole[7:, 4:]]
        values = tf.raw_ops.RestoreV2(prefix=self.path("thalweg"), tensor_names=["w"] * 5, shape_and_slices=slices,
                                      dtypes=[tf.float32] * 5)
        for runner in RUNNERS:
            (restored,) = self.run_ok(runner, [Step(fetches=[v.name for v in values])])
            for ours, value, text in zip(restored, expected, slices):
                self.expect_same(ours, value, f"{runner} {text}")

    def test_older_format(self):
        values = {name: v for name, v in VALUES.items() if v.dtype.name in ("float32", "int32", "float64", "int64",
                                                                            "bool", "int8", "complex64", "uint16",
                                                                            "float16", "object")}
        for runner in RUNNERS:
            save = tf.raw_ops.SaveSlices(filename=self.path(runner), tensor_names=list(values),
                                         shapes_and_slices=[""] * len(values),
                                         data=[tf.constant(v) for v in values.values()])
            part = tf.raw_ops.SaveSlices(filename=self.path(runner + "-part"), tensor_names=["w"],
                                         shapes_and_slices=["4 0,2"], data=[tf.constant([1., 2.])])
            self.run_ok(runner, [Step(targets=[save.name, part.name])])
        self.assertEqual(self.files("thalweg").keys(), self.files("tensorflow").keys())
        self.assertEqual(self.files("thalweg-part"), self.files("tensorflow-part"))
        for writer in RUNNERS:
            fetches = [tf.raw_ops.RestoreSlice(file_pattern=self.path(writer), tensor_name=name, shape_and_slice="",
                                               dt=tf.constant(v).dtype).name for name, v in values.items()]
            both = [tf.raw_ops.RestoreV2(prefix=self.path(writer), tensor_names=["double"],
                                         shape_and_slices=["2 3 -:0,1"], dtypes=[tf.float64])[0],
                    tf.raw_ops.Restore(file_pattern=self.path(writer), tensor_name="long", dt=tf.int64)]
            for reader in RUNNERS:
                (restored,) = self.run_ok(reader, [Step(fetches=fetches + [t.name for t in both])])
                for (name, value), ours in zip(values.items(), restored):
                    self.expect_same(ours, value, f"{writer} {reader} {name}")
                self.expect_same(restored[-2], VALUES["double"][:, :1], reader)
                self.expect_same(restored[-1], VALUES["long"], reader)

    def test_saver(self):
        """v1.train.Saver's own graph: partitioned and sharded variables, several checkpoints."""
        with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(3)):
            table = v1.get_variable("table", initializer=tf.reshape(tf.range(30.), [10, 3]))
        count = v1.get_variable("count", initializer=5, use_resource=True)
        off = tf.raw_ops.DisableCopyOnRead(resource=count.handle)
        change = tf.group(*[v1.assign(p, p * 2) for p in table], v1.assign_add(count, 1))
        init = v1.global_variables_initializer()
        for sharded in (False, True):
            saver = v1.train.Saver(sharded=sharded)
            spec = saver.saver_def
            def save(name):
                return Step({spec.filename_tensor_name: np.array(self.path(name).encode(), object)},
                            [spec.save_tensor_name])
            def restore(name):
                return Step({spec.filename_tensor_name: np.array(self.path(name).encode(), object)},
                            targets=[spec.restore_op_name])
            show = Step(fetches=[tf.convert_to_tensor(table).name, count.read_value().name])
            for writer in RUNNERS:
                name = f"{writer}{sharded}"
                self.run_ok(writer, [Step(targets=[init.name]), Step(targets=[off.name]), Step(targets=[change.name]),
                                    save(name)])
                for reader in RUNNERS:
                    _, values = self.run_ok(reader, [restore(name), show])
                    self.expect_same(values[0], np.arange(30, dtype=np.float32).reshape(10, 3) * 2, name)
                    self.assertEqual(values[1], 6)
            self.assertEqual(self.files(f"thalweg{sharded}"), self.files(f"tensorflow{sharded}"))

    def compare(self, steps):
        """The values or error codes of both."""
        for i, (ours, theirs) in enumerate(zip(run_thalweg(self.graph, steps), run_tensorflow(self.graph, steps))):
            self.assertEqual(isinstance(ours, Failure), isinstance(theirs, Failure), f"{i}: {ours} {theirs}")
            if isinstance(ours, Failure):
                self.assertEqual(ours.code, theirs.code, f"{i}: {ours.message} {theirs.message}")
                continue
            for a, b in zip(ours, theirs):
                self.expect_same(a, b, str(i))

    def test_other_vocabularies(self):
        """Rows and columns in a new order, from a matrix that was saved in two parts."""
        matrix = np.arange(20, dtype=np.float32).reshape(5, 4)
        parts = [self.path("part0"), self.path("part1")]
        steps = [self.save_step(parts[0], {"m": matrix[:2]}, ["5 4 0,2:-"]),
                 self.save_step(parts[1], {"m": matrix[2:], "v": np.zeros(3, np.float32)}, ["5 4 2,3:-", ""])]
        merge = tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=self.path("c"))
        self.run_ok("tensorflow", steps + [Step(targets=[merge.name])])
        def load(rows, columns, values, name="m", limit=-1, num_rows=None):
            m = tf.raw_ops.LoadAndRemapMatrix(
                ckpt_path=self.path("c"), old_tensor_name=name, row_remapping=np.array(rows, np.int64),
                col_remapping=np.array(columns, np.int64), initializing_values=np.array(values, np.float32),
                num_rows=len(rows) if num_rows is None else num_rows, num_cols=len(columns) or 4,
                max_rows_in_memory=limit)
            return Step(fetches=[m.name])
        self.compare([load([4, 0, 2], [], []), load([4, 0, 2], [3, 1], []), load([1, -1, 3], [-1, 2, 0], range(5)),
                      load([3, 1], [], [], limit=1), load([-1, -1], [], range(8)), load([0, 0], [], []),
                      load([7], [], []), load([0], [], [1]), load([-1], [], [1]), load([0], [], [], "v"),
                      load([0], [], [], "missing"), load([0, 1], [], [], num_rows=3)])
        for name, words in (("new", "knitting\neats\nhere\n"), ("old", "here\neats\nsew")):
            pathlib.Path(self.path(name)).write_text(words)
        def remap(new="new", old="old", offset=0, count=3, size=-1):
            outputs = tf.raw_ops.GenerateVocabRemapping(
                new_vocab_file=self.path(new), old_vocab_file=self.path(old), new_vocab_offset=offset,
                num_new_vocab=count, old_vocab_size=size)
            return Step(fetches=[t.name for t in outputs])
        self.compare([remap(), remap(offset=1, count=2), remap(count=0), remap(size=1), remap(count=4),
                      remap(new="none")])

    def test_schemes(self):
        """file:// refers to this machine; a path of another file system does not become a local folder."""
        values = {"a": np.float32([1, 2])}
        for runner in RUNNERS:
            prefix = "file://" + self.path(runner)
            restored = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=["a"], shape_and_slices=[""],
                                            dtypes=[tf.float32])[0]
            found = tf.raw_ops.MatchingFiles(pattern=prefix + ".ind*")
            results = self.run_ok(runner, [self.save_step(prefix, values), Step(fetches=[restored.name, found.name])])
            self.expect_same(results[1][0], values["a"], runner)
            self.assertEqual(list(results[1][1]), [(prefix + ".index").encode()])
            self.assertTrue(os.path.exists(self.path(runner) + ".index"))
        steps = []
        for scheme in ["s3", "hdfs", "viewfs"]:
            path = scheme + "://bucket/x"
            steps.append(self.save_step(path, values))
            steps.append(Step(fetches=[tf.raw_ops.ReadFile(filename=path).name]))
            steps.append(Step(targets=[tf.raw_ops.WriteFile(filename=path, contents="x").name]))
            steps.append(Step(fetches=[tf.raw_ops.MatchingFiles(pattern=path + "/*").name]))
        for ours, theirs in zip(run_thalweg(self.graph, steps), run_tensorflow(self.graph, steps)):
            self.assertIsInstance(ours, Failure)
            self.assertEqual(ours.code, tf.errors.UNIMPLEMENTED, ours.message)
            self.assertEqual(ours.code, theirs.code, theirs.message)
            self.assertRegex(ours.message, "scheme '(s3|hdfs|viewfs)'")
        self.assertFalse(os.path.exists("s3:"))

    def test_errors(self):
        self.run_ok("tensorflow", [self.save_step(self.path("c"), {"a": np.float32([1, 2])})])
        pathlib.Path(self.path("garbage.index")).write_bytes(b"garbage" * 20)
        pathlib.Path(self.path("garbage")).write_bytes(b"garbage" * 20)
        pathlib.Path(self.path("cut.index")).write_bytes(pathlib.Path(self.path("c.index")).read_bytes())
        pathlib.Path(self.path("cut.data-00000-of-00001")).write_bytes(b"1234567")
        pathlib.Path(self.path("wrong.index")).write_bytes(pathlib.Path(self.path("c.index")).read_bytes())
        pathlib.Path(self.path("wrong.data-00000-of-00001")).write_bytes(b"12345678")
        pathlib.Path(self.path("alone.index")).write_bytes(pathlib.Path(self.path("c.index")).read_bytes())
        cases = [("c", "missing", "", tf.float32), ("none", "a", "", tf.float32), ("c", "a", "", tf.int32),
                 ("c", "a", "3 0,1", tf.float32), ("c", "a", "2 0,3", tf.float32), ("c", "a", "bad", tf.float32),
                 ("garbage", "a", "", tf.float32), ("wrong", "a", "", tf.float32), ("alone", "a", "", tf.float32),
                 ("cut", "a", "", tf.float32)]
        steps = []
        for prefix, name, text, dtype in cases:
            slices = v1.placeholder_with_default([text], [1])  # so that only the kernel sees it
            value = tf.raw_ops.RestoreV2(prefix=self.path(prefix), tensor_names=[name], shape_and_slices=slices,
                                         dtypes=[dtype])
            steps.append(Step(fetches=[value[0].name]))
        for case, ours, theirs in zip(cases, run_thalweg(self.graph, steps), run_tensorflow(self.graph, steps)):
            self.assertIsInstance(ours, Failure, case)
            self.assertIsInstance(theirs, Failure, case)
            if case[0] == "cut":  # TensorFlow says OUT_OF_RANGE for what is lost
                self.assertEqual(ours.code, tf.errors.DATA_LOSS, ours.message)
            else:
                self.assertEqual(ours.code, theirs.code, f"{case}: {ours.message} {theirs.message}")


if __name__ == "__main__":
    v1.disable_eager_execution()
    v1.disable_v2_behavior()
    unittest.main()
