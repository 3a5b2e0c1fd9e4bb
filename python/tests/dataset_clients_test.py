# SPDX-License-Identifier: Apache-2.0
"""Runs tf.data programs as TensorFlow 1.15 and 2.15 send them: in a session of TensorFlow's own and on a Thalweg server.

The client is the TensorFlow of the interpreter that runs this file. Pipelines have the options that the client gives
them by itself, so that its wrappers (OptimizeDataset, ModelDataset, ...) are sent, too.
"""

import os
import struct
import subprocess
import tempfile
import time
import unittest

import numpy as np
import tensorflow as tf
from ports import free_ports

v1 = tf.compat.v1
Dataset = v1.data.Dataset
experimental = tf.data.experimental
THALWEG = os.path.join(os.environ["THALWEG_BIN"], "thalweg")


def plain(value):
    """Converts values to a form that can be compared: arrays to lists."""
    if isinstance(value, (v1.SparseTensorValue,)):
        return [np.asarray(part).tolist() for part in value]
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return np.asarray(value).tolist()


class ClientsTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        (port,) = free_ports(1)
        cls.server = subprocess.Popen([THALWEG, "server", "--cluster=worker|localhost:%d" % port, "--job_name=worker"])
        cls.target = "grpc://localhost:%d" % port

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.wait(30)

    def setUp(self):
        self.graph = tf.Graph()
        context = self.graph.as_default()
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        v1.set_random_seed(87)
        self.folder = tempfile.mkdtemp()

    def compare(self, program):
        """`program` gets a session and returns the values to compare."""
        results = []
        for target in ("", self.target):
            with v1.Session(target, graph=self.graph) as session:
                results.append(program(session))
        theirs, ours = results
        self.assertEqual(ours, theirs)

    def drain(self, session, fetches, limit=40):
        """Values until the end or an error, and the name of the error."""
        values = []
        try:
            for _ in range(limit):
                values.append(plain(session.run(fetches)))
        except tf.errors.OpError as error:
            values.append(type(error).__name__)
        return values

    def elements(self, *datasets):
        """All elements, of both kinds of iterator."""
        for dataset in datasets:
            iterator = v1.data.make_initializable_iterator(dataset)
            get = iterator.get_next()

            def program(session):
                values = []
                for _ in range(2):
                    session.run(iterator.initializer)
                    values.append(self.drain(session, get))
                return values

            self.compare(program)

    def one_shot(self, *datasets):
        for dataset in datasets:
            get = v1.data.make_one_shot_iterator(dataset).get_next()
            self.compare(lambda session: self.drain(session, get))

    def path(self, name):
        return os.path.join(self.folder, name)

    def records(self, name, count):
        with v1.python_io.TFRecordWriter(self.path(name)) as writer:
            for i in range(count):
                feature = {"x": tf.train.Feature(int64_list=tf.train.Int64List(value=[i, i + 1])),
                           "y": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"%d" % i] * (i % 3)))}
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
        return self.path(name)

    def test_the_example_of_the_documentation(self):
        self.one_shot(Dataset.range(10).shuffle(4, seed=5).map(lambda x: x * x).batch(4))

    def test_default_pipelines(self):
        ten = Dataset.range(10)
        self.elements(ten.map(lambda x: x + 1).batch(3).prefetch(1), ten.shuffle(20, seed=3).repeat(2),
                      ten.cache().repeat(2), ten.map(lambda x: (x, {"y": -x}), num_parallel_calls=4).prefetch(-1),
                      ten.filter(lambda x: tf.equal(x % 2, 0)), ten.flat_map(lambda x: Dataset.range(x)),
                      ten.interleave(lambda x: Dataset.range(x, x + 5), cycle_length=3, block_length=2,
                                     num_parallel_calls=2))

    def test_options(self):
        options = tf.data.Options()
        options.experimental_deterministic = True
        if hasattr(options, "experimental_threading"):
            options.experimental_threading.private_threadpool_size = 2
            options.experimental_threading.max_intra_op_parallelism = 1
        self.elements(Dataset.range(10).map(lambda x: x * 2).with_options(options))

    def test_fused_transformations(self):
        ten = Dataset.range(10)
        self.elements(ten.apply(experimental.map_and_batch(lambda x: x * x, 4)),
                      ten.apply(experimental.map_and_batch(lambda x: x * x, 4, drop_remainder=True)),
                      ten.apply(experimental.shuffle_and_repeat(5, 3, seed=11)),
                      ten.apply(experimental.parallel_interleave(lambda x: Dataset.range(x, x + 3), cycle_length=2)))

    def test_groups(self):
        ten = Dataset.range(10)
        reducer = experimental.Reducer(lambda _: tf.constant(0, tf.int64), lambda state, x: state + x, lambda s: -s)
        self.elements(ten.apply(experimental.group_by_window(lambda x: x % 3, lambda key, w: w.batch(4), 2)),
                      ten.apply(experimental.group_by_reducer(lambda x: x % 3, reducer)),
                      ten.apply(experimental.bucket_by_sequence_length(
                          lambda x: tf.cast(x, tf.int32), [3, 6], [2, 2, 2])),
                      ten.apply(experimental.scan(tf.constant(1, tf.int64), lambda s, x: (s + x, s * x))),
                      ten.apply(experimental.take_while(lambda x: x < 4)),
                      ten.map(lambda x: x % 4).apply(experimental.unique()),
                      ten.batch(4).apply(experimental.unbatch()))

    def test_choices(self):
        ones, tens = Dataset.range(5), Dataset.range(10, 14)
        self.elements(experimental.sample_from_datasets([ones, tens], [0.3, 0.7], seed=5),
                      experimental.choose_from_datasets([ones, tens], Dataset.range(6).map(lambda x: x % 2)),
                      experimental.RandomDataset(seed=4).take(5),
                      Dataset.range(6).apply(experimental.enumerate_dataset(3)))

    def test_errors(self):
        check = Dataset.from_tensor_slices([1., 2., 0., 4.]).map(lambda x: tf.debugging.check_numerics(1. / x, "bad"))
        self.elements(check, check.apply(experimental.ignore_errors()), Dataset.range(3).batch(2).map(
            lambda x: tf.reshape(x, [5])))

    def test_sparse(self):
        rows = Dataset.from_tensor_slices([[1, 2], [3, 4], [5, 6]])
        sparse = tf.SparseTensor([[0, 1], [2, 0], [2, 2]], [1., 2., 3.], [3, 4])
        self.elements(rows.apply(experimental.dense_to_sparse_batch(2, [4])), Dataset.from_sparse_tensor_slices(sparse),
                      Dataset.from_tensor_slices(sparse).batch(2))

    def test_files(self):
        names = [self.records("a", 5), self.records("b", 3)]
        with open(self.path("lines"), "wb") as f:
            f.write(b"one\ntwo\r\nthree")
        features = {"x": v1.FixedLenFeature([2], tf.int64), "y": v1.VarLenFeature(tf.string)}
        read = Dataset.from_tensor_slices(names).interleave(tf.data.TFRecordDataset, cycle_length=2)
        self.elements(tf.data.TFRecordDataset(names), tf.data.TextLineDataset(self.path("lines")),
                      read.batch(3).map(lambda s: v1.parse_example(s, features)),
                      Dataset.list_files(self.path("?"), shuffle=False))

    def test_tables(self):
        with open(self.path("table"), "wb") as f:
            f.write(b'a,b,c\n1,2.5,x\n-3,,"with, comma"\n4,NA,"two\nlines"\n5,1\n')
        defaults = [tf.int32, tf.constant([7.], tf.float32), tf.string]
        self.elements(experimental.CsvDataset(self.path("table"), defaults, header=True, na_value="NA"),
                      experimental.CsvDataset(self.path("table"), [tf.string], header=False, select_cols=[1]),
                      experimental.CsvDataset([self.path("nowhere")], [tf.string]))

    def test_parsed_examples(self):
        name = self.records("a", 7)
        features = {"x": v1.FixedLenFeature([2], tf.int64), "y": v1.VarLenFeature(tf.string)}
        missing = {"z": v1.FixedLenFeature([], tf.int64)}
        batches = tf.data.TFRecordDataset(name).batch(3)
        self.elements(batches.apply(experimental.parse_example_dataset(features, num_parallel_calls=2)),
                      batches.apply(experimental.parse_example_dataset(missing)),
                      v1.data.experimental.make_batched_features_dataset(
                          [name], 2, features, num_epochs=1, shuffle=False))

    def test_several_devices(self):
        from tensorflow.python.data.ops import multi_device_iterator_ops
        iterator = multi_device_iterator_ops.MultiDeviceIterator(
            Dataset.range(7).map(lambda x: x * x), ["/cpu:0", "/cpu:0"], max_buffer_size=2, prefetch_buffer_size=0)
        first, second = iterator.get_next()

        def program(session):
            session.run(iterator.initializer)
            values = [[int(v) for v in session.run([first, second])] for _ in range(3)]
            return values + self.drain(session, first)[-2:] + self.drain(session, second)[-1:]

        self.compare(program)

    def test_a_device_that_falls_behind_blocks_the_others(self):
        from tensorflow.python.data.ops import multi_device_iterator_ops
        iterator = multi_device_iterator_ops.MultiDeviceIterator(
            Dataset.range(9), ["/cpu:0", "/cpu:0"], max_buffer_size=2, prefetch_buffer_size=0)
        first, second = iterator.get_next()

        def program(session):
            session.run(iterator.initializer)
            # Two elements of the second device are kept. Then the first has to wait.
            values = [int(session.run(first)) for _ in range(3)]
            options = v1.RunOptions(timeout_in_ms=1500)
            try:
                values.append(int(session.run(first, options=options)))
                values.append(int(session.run(first, options=options)))
                values.append(int(session.run(first, options=options)))
            except tf.errors.DeadlineExceededError:
                values = ["waits"]
            return values + [int(session.run(second)) for _ in range(2)]

        with v1.Session(self.target, graph=self.graph) as session:
            self.assertEqual(program(session), ["waits", 1, 3])

    if tf.__version__ < "2":  # later versions have it, too, but 2.15 calls it on another device in eager mode only

        def test_copies_to_a_device(self):
            dataset = Dataset.range(5).map(lambda x: x * x)
            self.elements(dataset.apply(experimental.copy_to_device("/cpu:0")),
                          dataset.apply(experimental.copy_to_device("/cpu:0")).prefetch(2),
                          dataset.apply(experimental.prefetch_to_device("/cpu:0", 2)))

    def test_the_fastest_branch(self):
        from tensorflow.python.framework import function
        get = tf.raw_ops

        @function.Defun(tf.variant, tf.int64)
        def double(dataset, offset):
            @function.Defun(tf.int64, tf.int64)
            def add(x, y):
                return x + y
            return get.MapDataset(input_dataset=dataset, other_arguments=[offset], f=add, output_types=[tf.int64],
                                  output_shapes=[tf.TensorShape([])])

        dataset = Dataset.range(7)
        spec = dict(output_types=[tf.int64], output_shapes=[tf.TensorShape([])])
        branches = get.ChooseFastestBranchDataset(
            input_dataset=dataset._variant_tensor, ratio_numerator=1, ratio_denominator=1,
            other_arguments=[tf.constant(10, tf.int64)] * 2, num_elements_per_branch=2, branches=[double, double],
            other_arguments_lengths=[1, 1], **spec)
        iterator = get.IteratorV2(shared_name="branches", container="", **spec)
        start = get.MakeIterator(dataset=branches, iterator=iterator)
        element = get.IteratorGetNext(iterator=iterator, **spec)

        def program(session):
            session.run(start)
            return self.drain(session, element)

        self.compare(program)

    def test_wrappers_that_programs_rarely_use(self):
        raw, spec = tf.raw_ops, dict(output_types=[tf.int64], output_shapes=[tf.TensorShape([])])
        dataset = Dataset.range(6)

        def elements(variant, name, **more):
            iterator = raw.IteratorV2(shared_name=name, container="", **dict(spec, **more))
            return (raw.MakeIterator(dataset=variant, iterator=iterator),
                    raw.IteratorGetNext(iterator=iterator, **dict(spec, **more)))

        pool = raw.ThreadPoolHandle(num_threads=2, max_intra_op_parallelism=1, display_name="pool", container="",
                                    shared_name="pool")
        pairs = [tf.TensorShape([None])]
        ten = Dataset.range(10).batch(4)._variant_tensor
        cases = [
            elements(raw.ThreadPoolDataset(input_dataset=dataset._variant_tensor, thread_pool=pool, **spec), "pooled"),
            elements(raw.AssertNextDataset(
                input_dataset=raw.TakeDataset(
                    input_dataset=raw.SkipDataset(input_dataset=dataset._variant_tensor, count=tf.constant(1, tf.int64), **spec),
                    count=tf.constant(3, tf.int64), **spec), transformations=["Take", "Skip"], **spec), "right"),
            elements(raw.AssertNextDataset(
                input_dataset=raw.TakeDataset(input_dataset=dataset._variant_tensor, count=tf.constant(3, tf.int64),
                                              **spec), transformations=["Map"], **spec), "wrong"),
            elements(raw.RebatchDataset(input_dataset=ten, num_replicas=tf.constant(2, tf.int64),
                                        output_types=[tf.int64], output_shapes=pairs), "rebatched", output_shapes=pairs),
        ]
        if tf.__version__ >= "2":
            cases.append(elements(raw.ListDataset(tensors=[tf.constant(i, tf.int64) for i in range(3)], **spec), "listed"))
        for start, element in cases:

            def program(session):
                try:
                    session.run(start)
                except tf.errors.OpError as error:
                    return type(error).__name__
                return self.drain(session, element)

            self.compare(program)

    def test_lmdb(self):
        """A database made by hand: a root, two leaves, and a value on pages of its own. TensorFlow reads it with LMDB."""
        def compare(program):
            if tf.__version__ < "2":
                return self.compare(program)
            with v1.Session(self.target, graph=self.graph) as session:  # TensorFlow 2 cannot read them anymore
                program(session)

        size = 4096
        pages = [bytearray(size) for _ in range(7)]

        def page(number, flags, nodes=()):
            ends = 16 + 2 * len(nodes)
            struct.pack_into("<QHHHH", pages[number], 0, number, 0, flags, ends, size)
            at = size
            for i, (head, key, value) in enumerate(nodes):
                at -= (8 + len(key) + len(value) + 1) // 2 * 2
                struct.pack_into("<H", pages[number], 16 + 2 * i, at)
                pages[number][at:at + 8 + len(key) + len(value)] = head + struct.pack("<H", len(key)) + key + value
            struct.pack_into("<H", pages[number], 14, at)

        for i in range(2):  # the descriptions
            struct.pack_into("<QHHHH", pages[i], 0, i, 0, 8, 0, 0)
            struct.pack_into("<IIQQ", pages[i], 16, 0xBEEFC0DE, 1, 0, size * len(pages))
            struct.pack_into("<IHHQQQQQ", pages[i], 40, size, 0, 0, 0, 0, 0, 0, 2**64 - 1)
            struct.pack_into("<IHHQQQQQ", pages[i], 88, 0, 0, 2, 1, 2, 2, 4, 2)
            struct.pack_into("<QQ", pages[i], 136, len(pages) - 1, i + 1)
        value = bytes(range(250)) * 20
        page(2, 1, [(struct.pack("<IH", 3, 0), b"", b""), (struct.pack("<IH", 4, 0), b"c", b"")])
        page(3, 2, [(struct.pack("<IH", 3, 0), b"a", b"one"), (struct.pack("<IH", 0, 0), b"bb", b"")])
        page(4, 2, [(struct.pack("<IH", 5, 0), b"c", b"three"), (struct.pack("<IH", len(value), 1), b"d", struct.pack("<Q", 5))])
        struct.pack_into("<QHHI", pages[5], 0, 5, 0, 4, 2)
        pages[5][16:], pages[6][:] = value[:size - 16], value[size - 16:].ljust(size, b"\0")
        os.mkdir(self.path("base"))
        for name in (self.path("base/data.mdb"), self.path("file")):
            with open(name, "wb") as f:
                f.write(b"".join(pages))
        with open(self.path("other"), "wb") as f:
            f.write(b"not a database" * 1000)

        spec = dict(output_types=[tf.string] * 2, output_shapes=[tf.TensorShape([])] * 2)
        for i, names in enumerate(([self.path("base")], [self.path("file"), self.path("base")])):
            iterator = tf.raw_ops.IteratorV2(shared_name="lmdb%d" % i, container="", **spec)
            start = tf.raw_ops.MakeIterator(dataset=tf.raw_ops.LMDBDataset(filenames=names, **spec), iterator=iterator)
            element = tf.raw_ops.IteratorGetNext(iterator=iterator, **spec)

            def program(session):
                session.run(start)
                return self.drain(session, element)

            compare(program)
            with v1.Session(self.target, graph=self.graph) as session:
                self.assertEqual(len(program(session)), 4 * len(names) + 1)
        bad = tf.raw_ops.IteratorV2(shared_name="bad", container="", **spec)
        start = tf.raw_ops.MakeIterator(dataset=tf.raw_ops.LMDBDataset(filenames=[self.path("other")], **spec), iterator=bad)
        get = tf.raw_ops.IteratorGetNext(iterator=bad, **spec)
        with v1.Session(self.target, graph=self.graph) as session:
            session.run(start)
            with self.assertRaisesRegex(tf.errors.DataLossError, "not an LMDB database"):
                session.run(get)

        queue = v1.FIFOQueue(2, tf.string)
        fill = queue.enqueue(self.path("file"))
        reader = v1.LMDBReader()
        record = reader.read(queue)

        def read(session):
            session.run(fill)
            return [plain(session.run(record)) for _ in range(4)]

        compare(read)

    def test_shards_of_files(self):
        names = [self.path("part%d" % i) for i in range(5)]
        for i, name in enumerate(names):
            with open(name, "w") as f:
                f.writelines("%d.%d\n" % (i, line) for line in range(2))
        raw = tf.raw_ops
        spec = dict(output_types=[tf.string], output_shapes=[tf.TensorShape([])])
        named, read = Dataset.from_tensor_slices(names), v1.data.TextLineDataset
        readers = {
            "read": read(names),
            "flat": named.flat_map(read),
            "interleave": named.interleave(read, cycle_length=2),
            "shuffled": named.shuffle(5, seed=7).interleave(read, cycle_length=2),
            "shuffled alike": named.shuffle(3, seed=7, reshuffle_each_iteration=False).flat_map(read).repeat(2),
            "shuffled anew": named.shuffle(5, seed=7).flat_map(read).repeat(3),
            "shuffled twice": named.shuffle(5, seed=1).shuffle(2, seed=2).flat_map(read),
            "shuffled and repeated": named.shuffle(4, seed=3).repeat(3).flat_map(read),
            "listed": Dataset.list_files(self.path("part*"), shuffle=True, seed=5).flat_map(read),
            "lines shuffled": named.flat_map(read).shuffle(10, seed=4),
            "few": Dataset.from_tensor_slices(names[:2]).shuffle(2, seed=3).flat_map(read),
        }
        policies = (0, 1, 2) if tf.__version__ >= "2" else (0,)
        for name, dataset in readers.items():
            for policy, tasks, task in [(policy, 2, 1) for policy in policies] + [(0, 3, i) for i in range(3)]:
                more = dict(auto_shard_policy=policy) if tf.__version__ >= "2" else {}
                variant = raw.AutoShardDataset(
                    input_dataset=dataset._variant_tensor, num_workers=tf.constant(tasks, tf.int64),
                    index=tf.constant(task, tf.int64), **dict(spec, **more))
                iterator = raw.IteratorV2(shared_name="%s%d%d%d" % (name, policy, tasks, task), container="", **spec)
                start = raw.MakeIterator(dataset=variant, iterator=iterator)
                element = raw.IteratorGetNext(iterator=iterator, **spec)

                def program(session):
                    try:
                        session.run(start)
                    except tf.errors.OpError as error:
                        return [type(error).__name__]
                    return self.drain(session, element)

                with self.subTest(name=name, policy=policy, tasks=tasks, task=task):
                    self.compare(program)

    def test_cache_in_a_file(self):
        for i in range(2):
            cached = Dataset.range(5).map(lambda x: (x, tf.strings.as_string(x)))
            get = v1.data.make_initializable_iterator(cached.cache(self.path("cache%d" % i)))
            element = get.get_next()

            def program(session):
                session.run(get.initializer)
                return self.drain(session, element)

            # The second session reads what the first wrote, whichever of the two wrote it.
            targets = ["", self.target] if i == 0 else [self.target, ""]
            values = []
            for target in targets:
                with v1.Session(target, graph=self.graph) as session:
                    values.append(program(session))
            self.assertEqual(values[0], values[1])
            self.assertEqual(len(values[0]), 6)

    def write_and_read(self, write, read, name):
        """Each session reads the files that the other one wrote: the same elements."""
        values = []
        for i, targets in enumerate((("", self.target), (self.target, ""), (self.target, self.target))):
            folder = self.path("%s%d" % (name, i))
            with tf.Graph().as_default():
                save = write(folder)
                with v1.Session(targets[0]) as session:
                    self.drain(session, save)
            with tf.Graph().as_default():
                get = v1.data.make_one_shot_iterator(read(folder)).get_next()
                with v1.Session(targets[1]) as session:
                    values.append(self.drain(session, get))
        self.assertEqual(values[1], values[0])
        self.assertEqual(values[2], values[0])
        return values[0]

    if tf.__version__ >= "2":
        def test_save_and_load(self):
            def elements():
                return Dataset.range(7).map(lambda x: (x, tf.strings.as_string(x), tf.fill([x], 0.5)))

            def in_order(datasets):
                return datasets.flat_map(lambda shard: shard)

            one = self.write_and_read(lambda folder: elements().save(folder), tf.data.Dataset.load, "plain")
            self.assertEqual(len(one), 8)
            from tensorflow.python.data.ops import save_op
            passing = self.write_and_read(
                lambda folder: v1.data.make_one_shot_iterator(
                    save_op._SaveDataset(elements(), folder, None, "")).get_next(), tf.data.Dataset.load, "passing")
            self.assertEqual(passing, one)
            for compression in ("GZIP", "SNAPPY"):
                packed = self.write_and_read(
                    lambda folder: elements().save(folder, compression=compression),
                    lambda folder: tf.data.Dataset.load(folder, compression=compression), compression)
                self.assertEqual(packed, one)
            sharded = self.write_and_read(
                lambda folder: elements().save(folder, shard_func=lambda x, y, z: x % 3),
                lambda folder: tf.data.Dataset.load(folder, reader_func=in_order), "sharded")
            self.assertEqual([row[0] for row in sharded[:7]], [0, 3, 6, 1, 4, 2, 5])
            large = self.write_and_read(
                lambda folder: Dataset.range(2).map(lambda x: tf.range(x, 200000)).save(folder, compression="SNAPPY"),
                lambda folder: tf.data.Dataset.load(folder, compression="SNAPPY"), "large")
            self.assertEqual(large[1][-1], 199999)
            with self.assertRaises(tf.errors.NotFoundError):
                with v1.Session(self.target) as session:
                    load = tf.data.Dataset.load(self.path("nowhere"), element_spec=tf.TensorSpec([], tf.int64))
                    session.run(v1.data.make_one_shot_iterator(load).get_next())

    def test_snapshot(self):
        """The first epoch writes, the second reads without running the pipeline."""
        snapshot = getattr(experimental, "snapshot", None)
        if snapshot is None:
            from tensorflow.python.data.experimental.ops import snapshot as module
            snapshot = module.snapshot

        def epochs(session, path):
            calls = v1.get_variable("calls", [], tf.int64, v1.zeros_initializer(), use_resource=True)
            counted = Dataset.range(5).map(lambda x: (x * x, v1.assign_add(calls, 1)))
            iterator = v1.data.make_initializable_iterator(counted.apply(snapshot(path)))
            get = iterator.get_next()
            session.run(calls.initializer)
            values = []
            for _ in range(2):
                session.run(iterator.initializer)
                values.append(self.drain(session, get))
            return values, int(session.run(calls))

        with tf.Graph().as_default(), v1.Session(self.target) as session:
            values, calls = epochs(session, self.path("snapshot"))
        self.assertEqual(values[0], values[1])
        self.assertEqual([row[0] for row in values[0][:5]], [0, 1, 4, 9, 16])
        self.assertEqual(calls, 5)
        # Another session finds the snapshot of the same pipeline; another pipeline does not.
        with tf.Graph().as_default(), v1.Session(self.target) as session:
            again, calls = epochs(session, self.path("snapshot"))
            self.assertEqual((again, calls), ([values[0]] * 2, 0))
            other = v1.data.make_one_shot_iterator(Dataset.range(3).apply(snapshot(self.path("snapshot")))).get_next()
            self.assertEqual(self.drain(session, other), [0, 1, 2, "OutOfRangeError"])

    if tf.__version__ >= "2":
        def test_columns_to_leave_out(self):
            with open(self.path("table"), "wb") as f:
                f.write(b"1,a,2,b\n3,c,4,d,\n5\n,,,\n")
            for exclude in ([0], [1, 3], [3], [1, 2, 3], [7]):
                self.elements(experimental.CsvDataset(self.path("table"), [["x"]] * 2, exclude_cols=exclude))
            with v1.Session(self.target, graph=self.graph) as session:
                for exclude in ([1, 1], [-1]):
                    get = v1.data.make_one_shot_iterator(
                        experimental.CsvDataset(self.path("table"), [["x"]], exclude_cols=exclude)).get_next()
                    self.assertEqual(self.drain(session, get), ["InvalidArgumentError"])

    if tf.__version__ >= "2":
        def test_other_ops_of_datasets(self):
            name = self.records("a", 5)
            size = os.path.getsize(name)
            raw = tf.raw_ops
            names, offset = tf.constant([name]), lambda at: tf.constant([at], tf.int64)

            def records(at):
                return raw.TFRecordDatasetV2(filenames=names, compression_type="", buffer_size=1, byte_offsets=offset(at))

            def element(dataset, types):
                return raw.DatasetToSingleElement(dataset=dataset, output_types=types, output_shapes=[[]] * len(types))

            def last(at):
                skipped = raw.SkipDataset(input_dataset=records(at), count=tf.constant(4, tf.int64),
                                          output_types=[tf.string], output_shapes=[[]])
                return element(skipped, [tf.string])

            with open(name, "rb") as f:
                length = 12 + int.from_bytes(f.read(8), "little") + 4
            three = Dataset.range(8).batch(3).prefetch(2).repeat()
            options = tf.data.Options()
            options.autotune.enabled = False
            listed = raw.WindowOp(inputs=[tf.random.uniform([], 3, 4, tf.int32), tf.constant("x")], output_types=[tf.int32, tf.string],
                                  output_shapes=[[], []])
            table = tf.data.experimental.table_from_dataset(
                Dataset.from_tensor_slices((["a", "b"], [5, 7])), default_value=-1, key_dtype=tf.string)
            found = table.lookup(tf.constant(["b", "c", "a"]))
            fetches = [last(0), element(raw.TakeDataset(input_dataset=records(length), count=tf.constant(1, tf.int64),
                                                        output_types=[tf.string], output_shapes=[[]]), [tf.string]),
                       raw.ComputeBatchSize(input_dataset=three._variant_tensor),
                       raw.ComputeBatchSize(input_dataset=three.unbatch()._variant_tensor),
                       raw.ComputeBatchSize(input_dataset=Dataset.zip((three, three))._variant_tensor),
                       element(listed, [tf.int32, tf.string])]
            serialized = raw.GetOptions(input_dataset=three.with_options(options)._variant_tensor)
            far = last(size + 1)

            def program(session):
                session.run(v1.tables_initializer())
                values = [plain(session.run(fetches)), plain(session.run(found))]
                from tensorflow.core.framework import dataset_options_pb2
                parsed = dataset_options_pb2.Options.FromString(session.run(serialized))
                try:
                    session.run(far)
                except tf.errors.OpError:
                    values.append("error")
                return values, parsed.autotune_options.enabled

            self.compare(program)

    def test_rows_of_a_database(self):
        import sqlite3
        with sqlite3.connect(self.path("people.sqlite")) as database:
            database.execute("CREATE TABLE people (name TEXT, age INTEGER, size REAL)")
            database.executemany("INSERT INTO people VALUES (?, ?, ?)",
                                 [("ann", 31, 1.75), ("bob", -4, 2.5), (None, None, None), ("zo\u00eb", 2**40, 1e300)])
        SqlDataset = v1.data.experimental.SqlDataset
        path = self.path("people.sqlite")
        self.elements(SqlDataset("sqlite", path, "SELECT name, age, size FROM people ORDER BY rowid",
                                 (tf.string, tf.int64, tf.float64)),
                      SqlDataset("sqlite", path, "SELECT age, age > 0, size FROM people ORDER BY age",
                                 (tf.int8, tf.bool, tf.string)),
                      SqlDataset("sqlite", path, "SELECT name FROM people WHERE age > 1000000000000000", (tf.string,)),
                      SqlDataset("sqlite", path, "SELECT name, age FROM people", (tf.string,)),
                      SqlDataset("sqlite", path, "SELECT FROM nothing", (tf.string,)))
        self.one_shot(SqlDataset("mysql", path, "SELECT name FROM people", (tf.string,)),
                      SqlDataset("sqlite", path, "SELECT size FROM people", (tf.complex64,)))

        nowhere = v1.data.make_one_shot_iterator(
            SqlDataset("sqlite", self.path("no/such/folder"), "SELECT 1", (tf.int32,))).get_next()
        with v1.Session(self.target, graph=self.graph) as session:  # TensorFlow crashes
            self.assertEqual(self.drain(session, nowhere), ["InvalidArgumentError"])

    def test_a_query_without_end(self):
        query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0"
        get = v1.data.make_one_shot_iterator(
            v1.data.experimental.SqlDataset("sqlite", ":memory:", query, (tf.int64,))).get_next()
        with v1.Session(self.target) as session:
            with self.assertRaises(tf.errors.DeadlineExceededError):
                session.run(get, options=v1.RunOptions(timeout_in_ms=200))

    def test_loops_and_conditionals_in_functions(self):
        def collatz(x):
            return tf.while_loop(lambda n, k: n > 1, lambda n, k: (tf.cond(tf.equal(n % 2, 0), lambda: n // 2,
                                                                           lambda: 3 * n + 1), k + 1), (x, 0))[1]

        self.elements(Dataset.range(1, 12).map(collatz), Dataset.range(1, 12).map(collatz, num_parallel_calls=3),
                      Dataset.range(6).map(lambda x: tf.map_fn(lambda i: i * x, tf.range(x + 1))))

    def test_feedable_and_reinitializable_iterators(self):
        first, second = Dataset.range(4).map(lambda x: x * 2), Dataset.range(10, 13).batch(1).map(lambda x: x[0])
        either = v1.data.Iterator.from_structure(tf.int64, [])
        get = either.get_next()
        starts = [either.make_initializer(first), either.make_initializer(second)]
        handle = v1.placeholder(tf.string, [])
        fed = v1.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
        iterators = [v1.data.make_one_shot_iterator(first), v1.data.make_initializable_iterator(second)]

        def program(session):
            values = []
            for start in starts * 2:
                session.run(start)
                values.append(self.drain(session, get))
            session.run(iterators[1].initializer)
            for text in session.run([iterator.string_handle() for iterator in iterators]):
                values.append([int(session.run(fed, {handle: text})) for _ in range(3)])
            return values

        self.compare(program)

    def test_checkpoints(self):
        iterator = v1.data.make_initializable_iterator(
            Dataset.range(20).shuffle(5, seed=7, reshuffle_each_iteration=False).map(lambda x: x * x).prefetch(2))
        get = iterator.get_next()
        v1.add_to_collection(v1.GraphKeys.SAVEABLE_OBJECTS, experimental.make_saveable_from_iterator(iterator))
        saver = v1.train.Saver()

        def program(session):
            session.run(iterator.initializer)
            values = [int(session.run(get)) for _ in range(5)]
            path = saver.save(session, os.path.join(tempfile.mkdtemp(), "model"))
            after = self.drain(session, get)
            session.run(iterator.initializer)
            saver.restore(session, path)
            self.assertEqual(self.drain(session, get), after)
            return values + after

        self.compare(program)

    def test_a_dataset_in_a_conditional_step(self):
        """A waiting iterator does not block other steps, and a step that times out leaves it usable."""
        queue = v1.FIFOQueue(10, tf.int64, [[]], shared_name="of_the_dataset")
        iterator = v1.data.make_initializable_iterator(
            Dataset.range(3).map(lambda x: x + queue.dequeue()).prefetch(1))
        get, put = iterator.get_next(), queue.enqueue(tf.constant(10, tf.int64))

        def program(session):
            session.run(iterator.initializer)
            try:
                session.run(get, options=v1.RunOptions(timeout_in_ms=300))
                return "got something"
            except tf.errors.DeadlineExceededError:
                pass
            values = []
            for _ in range(3):
                session.run(put)
                values.append(int(session.run(get)))
            return values

        with v1.Session(self.target, graph=self.graph) as session:
            self.assertEqual(program(session), [10, 11, 12])

    if tf.__version__ < "2":  # later versions have no statistics of datasets
        def test_statistics(self):
            aggregator = experimental.StatsAggregator()
            options = tf.data.Options()
            options.experimental_stats.aggregator = aggregator
            dataset = Dataset.range(5).apply(experimental.bytes_produced_stats("bytes")).apply(
                experimental.latency_stats("latency")).with_options(options)
            iterator = v1.data.make_initializable_iterator(dataset)
            get, summary = iterator.get_next(), aggregator.get_summary()

            def program(session):
                session.run(iterator.initializer)
                self.drain(session, get)
                values = {v.tag: v.histo for v in v1.Summary.FromString(session.run(summary)).value}
                return values["bytes"].num, values["bytes"].sum, values["latency"].num

            self.compare(program)


if __name__ == "__main__":
    unittest.main()
