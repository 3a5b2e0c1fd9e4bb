# SPDX-License-Identifier: Apache-2.0
"""Runs tf.data programs on TensorFlow and with Thalweg: the same elements in the same order, and the same ends."""

import os
import tempfile
import unittest

import numpy as np
import tensorflow as tf
from tensorflow_testlib import Failure, Step, registered_ops, run_tensorflow, run_thalweg

v1 = tf.compat.v1
Dataset = tf.data.Dataset
STEPS = 24


def plain(results):
    """Converts results to a form that can be compared: values to lists, failures to their code."""
    return [r.code if isinstance(r, Failure) else [value.tolist() for value in r] for r in results]


class Variant(tf.data.Dataset):
    """A dataset made by a raw op."""

    def __init__(self, variant, spec):
        self._spec = spec
        super().__init__(variant)

    def _inputs(self):
        return []

    @property
    def element_spec(self):
        return self._spec


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
        """Iterates twice with both kinds of iterators, to the end and beyond, and compares all elements."""
        for dataset in datasets:
            steps = []
            iterator = v1.data.make_initializable_iterator(dataset)
            get = Step(fetches=[t.name for t in tf.nest.flatten(iterator.get_next())])
            steps += [get, *([Step(targets=[iterator.initializer.name])] + [get] * STEPS) * 2]
            if not isinstance(dataset, Variant) and not self.captures:
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

    def test_groups(self):
        ten = Dataset.range(10)
        init, add, negate = (lambda key: (key, tf.constant(0, tf.int64)), lambda state, x: (state[0], state[1] + x),
                             lambda key, total: (key, -total))
        self.elements(ten.group_by_window(lambda x: x % 3, lambda key, w: w.batch(4), window_size=2),
                      ten.group_by_window(lambda x: x % 4, lambda key, w: w.map(lambda x: x + 100 * key),
                                          window_size_func=lambda key: key + 1),
                      ten.group_by_window(lambda x: x % 3, lambda key, w: w.batch(4), window_size_func=lambda key: key),
                      ten.apply(tf.data.experimental.group_by_reducer(
                          lambda x: x % 3, tf.data.experimental.Reducer(init, add, negate))),
                      ten.scan(tf.constant(1, tf.int64), lambda s, x: (s + x, s * x)),
                      ten.take_while(lambda x: x < 4), ten.map(lambda x: x % 4).unique(),
                      ten.map(lambda x: tf.strings.as_string(x % 4)).unique(), ten.batch(4).unbatch(),
                      ten.map(lambda x: (tf.zeros([x]), tf.zeros([2]))).skip(2).unbatch())

    def test_batches(self):
        ten = Dataset.range(10)
        raw, spec = tf.raw_ops, {"output_types": [tf.int64], "output_shapes": [[None]]}
        self.elements(ten.apply(tf.data.experimental.map_and_batch(lambda x: x * x, 4)),
                      ten.apply(tf.data.experimental.map_and_batch(lambda x: x * x, 4, drop_remainder=True)),
                      ten.batch(5).rebatch([2, 1]), ten.batch(4).rebatch(3, drop_remainder=True),
                      Dataset.from_tensor_slices([[1, 2], [3, 4], [5, 6]]).apply(
                          tf.data.experimental.dense_to_sparse_batch(2, [4])).map(tf.sparse.to_dense),
                      Dataset.from_tensor_slices(["ab", "c"]).map(lambda s: tf.strings.bytes_split(s)).apply(
                          tf.data.experimental.dense_to_sparse_batch(2, [1])).map(lambda t: t.values),
                      v1.data.Dataset.from_sparse_tensor_slices(
                          tf.SparseTensor([[0, 1], [2, 0], [2, 2]], [1., 2., 3.], [3, 4])))
        sliding = [raw.SlidingWindowDataset(input_dataset=ten._variant_tensor, window_size=3, window_shift=shift,
                                            window_stride=2, drop_remainder=drop, **spec)
                   for shift, drop in ((2, True), (3, False), (7, False))]
        self.elements(*[Variant(v, tf.TensorSpec([None], tf.int64)) for v in sliding])

    def test_choices(self):
        self.captures = True
        ones, tens = Dataset.range(5), Dataset.range(10, 14)
        choose = Dataset.range(8).map(lambda x: x % 3)
        self.elements(Dataset.choose_from_datasets([ones, tens, ones], choose, stop_on_empty_dataset=False),
                      Dataset.choose_from_datasets([ones, tens], choose, stop_on_empty_dataset=True),
                      Dataset.sample_from_datasets([ones, tens], [0.3, 0.7], seed=5, stop_on_empty_dataset=False),
                      Dataset.random(seed=4).take(5), Dataset.random(seed=4, rerandomize_each_iteration=True).take(3),
                      ones.apply(tf.data.experimental.assert_cardinality(5)),
                      ones.apply(tf.data.experimental.assert_cardinality(4)),
                      ones.apply(tf.data.experimental.assert_cardinality(6)))
        raw, spec = tf.raw_ops, {"output_types": [tf.int64], "output_shapes": [[]]}
        variant = Dataset.range(30)._variant_tensor
        self.elements(*[Variant(v, tf.TensorSpec([], tf.int64)) for v in (
            raw.SamplingDataset(input_dataset=variant, rate=0.4, seed=3, seed2=9, **spec),
            raw.ShuffleAndRepeatDataset(input_dataset=ones._variant_tensor, buffer_size=4, seed=3, seed2=9, count=3,
                                        **spec),
            raw.ShuffleAndRepeatDataset(input_dataset=ones._variant_tensor, buffer_size=7, seed=3, seed2=9, count=2,
                                        reshuffle_each_iteration=False, **spec),
            raw.ChooseFastestDataset(input_datasets=[variant, variant], num_experiments=1, **spec),
            raw.SleepDataset(input_dataset=ones._variant_tensor, sleep_microseconds=10, **spec),
            raw.AutoShardDataset(input_dataset=variant, num_workers=3, index=1, auto_shard_policy=2, **spec),
            raw.AutoShardDataset(input_dataset=variant, num_workers=2, index=2, **spec))])

    def test_parallel_forms(self):
        ten = Dataset.range(10)
        self.elements(ten.map(lambda x: x + 1, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE),
                      ten.filter(lambda x: x % 2 > 0).prefetch(100),
                      ten.map(lambda x: tf.reshape(x, [x]), num_parallel_calls=3),
                      ten.interleave(lambda x: Dataset.range(x).prefetch(1), cycle_length=3, block_length=2,
                                     num_parallel_calls=2).prefetch(1),
                      ten.interleave(lambda x: Dataset.range(x).map(lambda y: y * x, num_parallel_calls=2),
                                     cycle_length=4, num_parallel_calls=4),
                      ten.prefetch(2).repeat(2), ten.prefetch(0))

    def test_functions_keep_their_state_over_rounds(self):
        self.elements(Dataset.range(3).map(lambda x: tf.random.uniform([], seed=3)).repeat(3),
                      Dataset.range(3).flat_map(
                          lambda _: Dataset.range(2).map(lambda x: tf.random.uniform([], seed=3))))

    def test_loops(self):
        def power(x):
            return tf.while_loop(lambda k, y: k > 0, lambda k, y: (k - 1, y * x), [x, tf.constant(1, tf.int64)])[1]

        self.elements(Dataset.range(6).map(power), Dataset.range(6).map(power, num_parallel_calls=2),
                      Dataset.range(4).map(lambda x: tf.map_fn(lambda i: i * x, tf.range(x + 1))))

    def test_a_function_that_ends_the_sequence(self):
        steps, maps = [], []
        for i, dataset in enumerate((v1.data.Dataset, Dataset)):
            for calls in (None, 1):
                queue = tf.queue.FIFOQueue(9, tf.int64, [[]], shared_name=f"queue{i}{calls}")
                maps.append(dataset.range(10).map(lambda x: x + queue.dequeue(), num_parallel_calls=calls))
                iterator = v1.data.make_initializable_iterator(maps[-1])
                names = [queue.enqueue_many([[10, 20, 30]]).name, queue.close().name, iterator.initializer.name]
                steps += [Step(targets=[name]) for name in names]
                steps += [Step(fetches=[iterator.get_next().name])] * 5
        cardinalities = [tf.raw_ops.DatasetCardinality(input_dataset=d._variant_tensor).name for d in maps]
        self.compare(steps + [Step(fetches=cardinalities)])

    def test_errors(self):
        fails = Dataset.from_tensor_slices([1., 0., 4.]).map(lambda x: tf.debugging.check_numerics(1. / x, "bad"))
        self.elements(fails, fails.ignore_errors(), fails.prefetch(1), fails.batch(2))

    def test_reduce(self):
        ten = Dataset.range(10)
        fetches = [ten.reduce(tf.constant(0, tf.int64), lambda a, x: a + x),
                   *ten.prefetch(2).reduce((tf.constant(0, tf.int64), 1), lambda s, x: (s[0] + x, s[1] * 2)),
                   ten.map(lambda x: tf.reshape(x, [x])).reduce(tf.constant(0, tf.int64), lambda a, x: a + x[0])]
        self.compare([Step(fetches=[t.name]) for t in fetches])

    def test_optionals(self):
        iterator = v1.data.make_initializable_iterator(Dataset.range(2))
        optional = tf.raw_ops.IteratorGetNextAsOptional(iterator=iterator._iterator_resource, output_types=[tf.int64],
                                                        output_shapes=[[]])
        has = tf.raw_ops.OptionalHasValue(optional=optional)
        self.compare([Step(targets=[iterator.initializer.name])] + [Step(fetches=[has.name])] * 3)

    def test_anonymous_iterators(self):
        raw, spec = tf.raw_ops, {"output_types": [tf.int64], "output_shapes": [[]]}
        fetches = []
        for handle in (raw.AnonymousIterator(**spec), raw.AnonymousIteratorV2(**spec).handle,
                       raw.AnonymousIteratorV3(**spec)):
            make = raw.MakeIterator(dataset=Dataset.range(5, 9)._variant_tensor, iterator=handle)
            with tf.control_dependencies([make]):
                first = raw.IteratorGetNext(iterator=handle, **spec)[0]
            with tf.control_dependencies([first]):
                second = raw.IteratorGetNext(iterator=handle, **spec)[0]
            fetches.append([first.name, second.name])
        self.compare([Step(fetches=names) for names in fetches] * 2)

    def test_records(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "records")
            words = Dataset.from_tensor_slices(["a", "bc", ""])
            write = tf.raw_ops.DatasetToTFRecord(input_dataset=words._variant_tensor, filename=path,
                                                 compression_type="GZIP")
            wrong = tf.raw_ops.DatasetToTFRecord(input_dataset=Dataset.range(2)._variant_tensor, filename=path + "x",
                                                 compression_type="")
            read = v1.data.make_initializable_iterator(tf.data.TFRecordDataset(path, "GZIP"))
            get = Step(fetches=[read.get_next().name])
            self.compare([Step(targets=[write.name]), Step(targets=[read.initializer.name])] + [get] * 4 +
                         [Step(targets=[wrong.name])])

    def test_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            # Each program writes its own first, and reads it the second time.
            count = iter(range(100))
            for run in (run_tensorflow, run_thalweg):
                graph = tf.Graph()
                with graph.as_default():
                    cached = Dataset.range(3).map(lambda x: (x, tf.strings.as_string(x))).cache(
                        os.path.join(folder, "cache%d" % next(count)))
                    iterator = v1.data.make_initializable_iterator(cached.repeat(2))
                    get = Step(fetches=[t.name for t in iterator.get_next()])
                    steps = [Step(targets=[iterator.initializer.name])] + [get] * 7
                results = plain(run(graph, steps * 2))
                self.assertEqual(results[1:8], results[9:])
                self.assertEqual(results[1:4], results[4:7])

    def test_other_names(self):
        """Ops that have a second name, from when they were experimental, are the same under it."""
        ours, ten = registered_ops(), Dataset.range(10)
        datasets = [ten.group_by_window(lambda x: x % 3, lambda key, w: w.batch(4), window_size=2),
                    ten.scan(tf.constant(1, tf.int64), lambda s, x: (s + x, s * x)), ten.take_while(lambda x: x < 4),
                    ten.map(lambda x: x % 4).unique(), ten.batch(4).unbatch(), ten.ignore_errors(),
                    ten.apply(tf.data.experimental.map_and_batch(lambda x: x * x, 4)),
                    Dataset.choose_from_datasets([ten, ten], ten.map(lambda x: x % 2), stop_on_empty_dataset=False),
                    ten.apply(tf.data.experimental.parallel_interleave(Dataset.range, 2))]
        for dataset in datasets:
            iterator = v1.data.make_initializable_iterator(dataset)
            get, start = iterator.get_next().name, iterator.initializer.name
            renamed, seen = self.graph.as_graph_def(), []
            nodes = [*renamed.node, *(n for f in renamed.library.function for n in f.node_def)]
            for node in nodes:
                other = ours.get("Experimental" + node.op)
                if other is None:
                    continue
                node.op = other.name
                seen.append(node.op)
                for attr in set(node.attr) - {a.name for a in other.attr}:
                    del node.attr[attr]
            self.assertTrue(seen, dataset)
            graph = tf.Graph()
            with graph.as_default():
                tf.import_graph_def(renamed, name="")
            steps = [Step(targets=[start])] + [Step(fetches=[get])] * STEPS
            self.assertEqual(plain(run_thalweg(graph, steps)), plain(run_tensorflow(self.graph, steps)), seen)

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
