"""Runs tf.data programs on TensorFlow and with Thalweg: the same elements in the same order, and the same ends."""

import os
import tempfile
import unittest

import numpy as np
import tensorflow as tf
from tensorflow_testlib import Failure, Step, run_tensorflow, run_thalweg

v1 = tf.compat.v1
Dataset = tf.data.Dataset
STEPS = 24


def plain(results):
    """What can be compared: values as lists, failures as their code."""
    return [r.code if isinstance(r, Failure) else [value.tolist() for value in r] for r in results]


class DatasetTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.graph = tf.Graph()
        self.enterContext(self.graph.as_default())
        v1.set_random_seed(87)

    def compare(self, steps):
        theirs, ours = run_tensorflow(self.graph, steps), run_thalweg(self.graph, steps)
        for i, (a, b) in enumerate(zip(plain(ours), plain(theirs))):
            self.assertEqual(a, b, f"step {i}, ours {ours[i]}, TensorFlow's {theirs[i]}")

    def elements(self, *datasets):
        """All of them, twice, of both kinds of iterator, to the end and beyond."""
        for dataset in datasets:
            steps = []
            iterator = v1.data.make_initializable_iterator(dataset)
            get = Step(fetches=[t.name for t in tf.nest.flatten(iterator.get_next())])
            steps += [get, *([Step(targets=[iterator.initializer.name])] + [get] * STEPS) * 2]
            if dataset.element_spec is not None and not self.captures:
                one_shot = v1.data.make_one_shot_iterator(dataset).get_next()
                steps += [Step(fetches=[t.name for t in tf.nest.flatten(one_shot)])] * STEPS
            self.compare(steps)

    captures = False

    def test_sources(self):
        self.elements(Dataset.from_tensors((np.eye(2), b"x")),
                      Dataset.from_tensor_slices((np.arange(6).reshape(3, 2), ["a", "b", "c"])),
                      Dataset.range(1, 10, 3), Dataset.range(5, -5, -4), Dataset.range(3, output_type=tf.float32),
                      Dataset.from_tensor_slices(np.zeros((0, 2))))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            names = [os.path.join(folder, name) for name in ("a", "b")]
            for i, name in enumerate(names):
                with tf.io.TFRecordWriter(name + ".records") as writer:
                    for k in range(3 + i):
                        writer.write(b"record %d of %d" % (k, i))
                with open(name, "wb") as f:
                    f.write(b"headABCDEFtail" if i == 0 else b"one\r\ntwo\n\nthree")
            self.elements(tf.data.TFRecordDataset([n + ".records" for n in names]),
                          tf.data.TextLineDataset(names), tf.data.FixedLengthRecordDataset(names[0], 3, 4, 4),
                          tf.data.FixedLengthRecordDataset(names[0], 4, 4, 4),
                          tf.data.TextLineDataset(names[0] + ".nowhere"), tf.data.TFRecordDataset(names[0]))

    def test_moves(self):
        ten = Dataset.range(10)
        self.elements(ten.repeat(2), ten.take(3), ten.take(-1), ten.skip(7), ten.skip(-1), ten.shard(3, 1),
                      ten.repeat(), Dataset.range(0).repeat(), ten.concatenate(ten.take(2)),
                      Dataset.zip((ten, Dataset.range(5, 8))).prefetch(2), ten.batch(4), ten.batch(4, drop_remainder=True),
                      ten.batch(3, num_parallel_calls=2), ten.take(3).cache().repeat(2),
                      Dataset.from_tensor_slices([[1, 2], [3, 4], [5, 6]]).batch(2))

    def test_shuffle(self):
        self.elements(v1.data.Dataset.range(10).shuffle(4, seed=5).repeat(2), Dataset.range(10).shuffle(100, seed=7),
                      Dataset.range(10).shuffle(3, seed=1, reshuffle_each_iteration=False).repeat(2))

    def test_functions(self):
        ten = Dataset.range(10)
        self.elements(ten.map(lambda x: (x * x, tf.strings.as_string(x))), ten.map(lambda x: x + 1, num_parallel_calls=2),
                      ten.filter(lambda x: tf.equal(x % 3, 0)), Dataset.range(4).flat_map(Dataset.range),
                      Dataset.range(4).interleave(lambda x: Dataset.from_tensors(x).repeat(3), cycle_length=2,
                                                  block_length=2),
                      ten.map(lambda x: tf.cond(x > 2, lambda: x, lambda: -x)),
                      ten.map(lambda x: tf.random.uniform([], seed=3)),
                      ten.map(lambda x: tf.reshape(x, [x])))

    def test_windows(self):
        words = Dataset.range(1, 6).map(lambda n: tf.fill([n], tf.strings.as_string(n)))
        self.elements(words.padded_batch(2, [None]), words.padded_batch(2, [7], b"-"), words.padded_batch(2, [3]),
                      words.padded_batch(2, [None], drop_remainder=True),
                      *[Dataset.range(10).window(size, shift, stride, drop).flat_map(lambda w: w.batch(9))
                        for size, shift, stride, drop in ((3, 3, 1, False), (3, 2, 2, False), (2, 4, 1, True))])

    def test_captures(self):
        self.captures = True
        base = tf.constant(100, tf.int64)
        self.elements(Dataset.range(4).map(lambda x: x + base))

    def test_handles_and_checkpoints(self):
        dataset = Dataset.range(8).shuffle(3, seed=4, reshuffle_each_iteration=False)
        iterator = v1.data.make_initializable_iterator(dataset)
        other = v1.data.make_one_shot_iterator(Dataset.range(20, 30))
        text = v1.placeholder(tf.string, [])
        chosen = v1.data.Iterator.from_string_handle(text, tf.int64, []).get_next()
        handles = [iterator.string_handle(), other.string_handle()]
        get = Step(fetches=[iterator.get_next().name])
        raw = tf.raw_ops
        state = raw.SerializeIterator(resource_handle=iterator._iterator_resource)
        saved = raw.WriteFile(filename="state", contents=tf.io.serialize_tensor(state))
        restored = raw.DeserializeIterator(
            resource_handle=iterator._iterator_resource,
            serialized=tf.io.parse_tensor(tf.io.read_file("state"), tf.variant))
        through = [v1.data.Iterator.from_string_handle(handle, tf.int64, []).get_next() for handle in handles]
        wrong = v1.data.Iterator.from_string_handle(handles[0], tf.float32, []).get_next()
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                start = Step(targets=[iterator.initializer.name])
                self.compare([Step(targets=[saved.name]), start, get, get, get, Step(targets=[saved.name]), get, get,
                              Step(targets=[restored.name]), get, get, Step(fetches=[t.name for t in through]),
                              Step({text.name: b"nonsense"}, [chosen.name]), Step(fetches=[wrong.name])])
            finally:
                os.chdir(before)

    def test_elements_by_index(self):
        raw, fetches = tf.raw_ops, []
        for dataset in (Dataset.range(5), Dataset.range(5).repeat(), Dataset.range(5).filter(lambda x: x > 1)):
            variant = dataset._variant_tensor
            for index in (0, 4, 5, -1):
                fetches += raw.GetElementAtIndex(dataset=variant, index=index, output_types=[tf.int64],
                                                 output_shapes=[[]])
            fetches.append(raw.DatasetCardinality(input_dataset=variant))
            fetches += raw.DatasetToSingleElement(dataset=dataset.take(1)._variant_tensor, output_types=[tf.int64],
                                                  output_shapes=[[]])
            fetches += raw.DatasetToSingleElement(dataset=variant, output_types=[tf.int64], output_shapes=[[]])
        self.compare([Step(fetches=[t.name]) for t in fetches])


if __name__ == "__main__":
    unittest.main()
