# SPDX-License-Identifier: Apache-2.0
"""Runs programs with queues and other stateful ops on TensorFlow and with Thalweg, and compares every step."""

import gzip
import os
import tempfile
import unittest
import zlib

import numpy as np
import tensorflow as tf
from cases.stateful_ops import IN_PROGRAMS
from tensorflow.python.ops import data_flow_ops
from tensorflow_testlib import ProgramTest, Step

v1 = tf.compat.v1
raw = tf.raw_ops


def fetch(*tensors):
    return Step(fetches=[t.name for t in tf.nest.flatten(tensors)])


def run(*operations):
    return Step(targets=[op.name.partition(":")[0] for op in operations])


class DataFlowTest(ProgramTest):
    tests_run = 0

    def setUp(self):
        super().setUp()
        type(self).tests_run += 1

    @classmethod
    def tearDownClass(cls):
        if cls.tests_run < len(unittest.defaultTestLoader.getTestCaseNames(cls)):
            return  # one test alone need not show all
        missing = (IN_PROGRAMS & cls.ops.keys()) - cls.shown
        assert not missing, f"no program has {sorted(missing)}"

    # Queues.

    def test_queue(self):
        q = v1.FIFOQueue(10, [tf.int32, tf.float32], [[], [2]])
        one, many = q.enqueue([7, [1., 2.]]), q.enqueue_many([[1, 2, 3], [[1., 2.], [3., 4.], [5., 6.]]])
        self.compare([
            fetch(q.size(), q.is_closed()), run(one), run(many), fetch(q.size()), fetch(*q.dequeue()),
            fetch(*q.dequeue_many(2)), run(many), run(q.close()), fetch(q.is_closed(), q.size()), run(one),
            run(q.close()), fetch(*q.dequeue_many(9)), fetch(*q.dequeue_up_to(3)), fetch(*q.dequeue_up_to(9)),
            fetch(*q.dequeue_up_to(9)), fetch(*q.dequeue()), fetch(*q.dequeue_many(0)),
            run(q.close(cancel_pending_enqueues=True))
        ], texts=True)

    def test_refs_to_queues(self):
        steps = []
        for kind, kwargs in ((raw.FIFOQueue, {}), (raw.PaddingFIFOQueue, {}), (raw.PriorityQueue, {}),
                             (raw.RandomShuffleQueue, {"seed": 3, "seed2": 5})):
            priority = [] if kind is not raw.PriorityQueue else [np.int64(2)]
            types = [tf.int64] * len(priority) + [tf.float32]
            q = kind(component_types=[tf.float32], shapes=[[2]], shared_name=kind.__name__, **kwargs)
            handle = tf.identity(q)
            put = raw.QueueEnqueue(handle=q, components=priority + [[1., 2.]])
            rows = np.arange(8, dtype=np.float32).reshape(4, 2)
            puts = raw.QueueEnqueueMany(handle=q, components=[p.repeat(4) for p in priority] + [rows])
            size, closed = raw.QueueSize(handle=q), raw.QueueIsClosed(handle=q)
            one = raw.QueueDequeue(handle=q, component_types=types)
            two = raw.QueueDequeueMany(handle=q, n=2, component_types=types)
            rest = raw.QueueDequeueUpTo(handle=q, n=9, component_types=types)
            close = raw.QueueClose(handle=q)
            steps += [fetch(handle), run(put), run(puts), fetch(size, closed), fetch(*one), fetch(*two)]
            steps += [run(close), fetch(size, closed)]
            if not priority:  # TensorFlow loses the rest of a priority queue
                steps += [fetch(*rest)]
        self.compare(steps, texts=True)

    def test_padding(self):
        q = v1.PaddingFIFOQueue(10, [tf.int32, tf.string], [[None], [2, None]])
        self.compare([run(q.enqueue([[1, 2, 3], [["a"], ["b"]]])), run(q.enqueue([[4], [["c", "d"], ["e", "f"]]])),
                      run(q.enqueue_many([[[5, 6]], [[[], []]]])), fetch(*q.dequeue_many(3)), fetch(*q.dequeue_many(0)),
                      run(raw.QueueEnqueueV2(handle=q.queue_ref, components=[1, [["a"], ["b"]]]))], texts=True)

    def test_priorities(self):
        q = v1.PriorityQueue(100, [tf.int32], [[]])
        keys = np.random.RandomState(1).randint(0, 5, 30)
        self.compare([run(q.enqueue_many([keys, np.arange(30)])), fetch(*q.dequeue_many(10)), fetch(*q.dequeue()),
                      run(q.enqueue([np.int64(-1), 77])), fetch(*q.dequeue_many(11)),
                      run(raw.QueueEnqueueV2(handle=q.queue_ref, components=[np.int64([1]), 1]))], texts=True)

    def test_shuffled(self):
        q = v1.RandomShuffleQueue(100, 5, [tf.int32], [[]], seed=7)
        other = v1.RandomShuffleQueue(100, 0, [tf.int32, tf.string], seed=8)
        self.compare([run(q.enqueue_many([np.arange(40)])), fetch(q.dequeue_many(10)), fetch(q.dequeue()),
                      run(q.enqueue_many([np.arange(100, 120)])), fetch(q.dequeue_many(30)), run(q.close()),
                      fetch(q.dequeue_up_to(50)), fetch(q.dequeue()), run(other.enqueue([1, "a"])),
                      run(other.enqueue([2, "b"])), fetch(*other.dequeue()), fetch(other.size())], texts=True)

    def test_shared_queues(self):
        def make(**changes):
            return v1.FIFOQueue(**{"capacity": 3, "dtypes": [tf.float32, tf.int32], "shared_name": "q"} | changes)
        def shuffled(**changes):
            return v1.RandomShuffleQueue(**{"capacity": 9, "min_after_dequeue": 1, "dtypes": [tf.int32], "seed": 4,
                                            "shared_name": "r"} | changes)
        queues = [make(), make(), make(capacity=4), make(dtypes=[tf.int32]), make(shapes=[[], [2]]),
                  v1.PaddingFIFOQueue(3, [tf.float32, tf.int32], [[], []], shared_name="q"),
                  shuffled(), shuffled(min_after_dequeue=0), shuffled(seed=99), shuffled(seed=4)]
        sizes = [fetch(q.size()) for q in queues]
        self.compare([run(queues[0].enqueue([1., 2])), *sizes, fetch(*queues[1].dequeue())], texts=True)

    def test_bad_queues(self):
        q = v1.FIFOQueue(3, [tf.float32, tf.int32], [[], [2]]).queue_ref
        open_q = v1.FIFOQueue(3, [tf.float32, tf.int32]).queue_ref
        n = v1.placeholder_with_default(-2, None)
        types = [tf.float32, tf.int32]
        self.compare([
            fetch(*raw.QueueDequeueV2(handle=q, component_types=[tf.float32])),
            run(raw.QueueEnqueueV2(handle=q, components=[1.])),
            run(raw.QueueEnqueueV2(handle=q, components=[1., 1])),
            run(raw.QueueEnqueueManyV2(handle=q, components=[[1.], [[1]]])),
            run(raw.QueueEnqueueManyV2(handle=open_q, components=[[1.], [1, 2]])),
            fetch(*raw.QueueDequeueManyV2(handle=open_q, n=2, component_types=types)),
            fetch(*raw.QueueDequeueManyV2(handle=q, n=n, component_types=types)),
            fetch(*raw.QueueDequeueUpToV2(handle=q, n=n, component_types=types)),
            fetch(raw.QueueSizeV2(handle=raw.FIFOQueueV2(component_types=[tf.int32], shapes=[[], []]))),
            fetch(raw.QueueSizeV2(handle=raw.FIFOQueueV2(component_types=[tf.int32], shapes=[[None]]))),
            fetch(raw.QueueSizeV2(handle=raw.PaddingFIFOQueueV2(component_types=[tf.int32], shapes=[]))),
            fetch(raw.QueueSizeV2(handle=raw.RandomShuffleQueueV2(component_types=[tf.int32], capacity=3,
                                                                  min_after_dequeue=4))),
            fetch(raw.QueueSizeV2(handle=raw.RandomShuffleQueueV2(component_types=[tf.int32], min_after_dequeue=-4))),
        ], texts=True)

    # Accumulators.

    def accumulate(self, make, apply, take, set_step, count, **attributes):
        """The same program with both forms of the ops."""
        handle = make(dtype=tf.float32, shape=tf.TensorShape([None, 2]), **attributes)
        gradient = v1.placeholder(tf.float32)
        step = v1.placeholder(tf.int64)
        applied = apply(handle=handle, local_step=step, gradient=gradient)
        taken, size = take(handle=handle, num_required=2, dtype=tf.float32), count(handle=handle)
        def put(local_step, value):
            return Step({step.name: np.int64(local_step), gradient.name: np.float32(value)}, targets=[applied.name])
        self.compare([
            put(0, [[1, 2], [3, 4]]), fetch(size), put(7, [[3, 3], [3, 1]]), put(0, [[0, 0]]),
            put(0, [[.1, .2], [3, 4]]), fetch(size), fetch(taken), fetch(size), put(0, [[5, 5]]), put(1, [5, 5]),
            fetch(size), put(1, [[5, 5]]), put(1, [[6, 5]]), run(set_step(handle=handle, new_global_step=np.int64(3))),
            put(2, [[9, 9]]), fetch(taken), put(3, [[9, 9]]), fetch(size),
            fetch(take(handle=handle, num_required=0, dtype=tf.float32))
        ], texts=True)

    def test_accumulators(self):
        for reduction in ("MEAN", "SUM"):
            self.accumulate(raw.ResourceConditionalAccumulator, raw.ResourceAccumulatorApplyGradient,
                            raw.ResourceAccumulatorTakeGradient, raw.ResourceAccumulatorSetGlobalStep,
                            raw.ResourceAccumulatorNumAccumulated, reduction_type=reduction)

    def test_refs_to_accumulators(self):
        for reduction in ("MEAN", "SUM"):
            self.accumulate(raw.ConditionalAccumulator, raw.AccumulatorApplyGradient, raw.AccumulatorTakeGradient,
                            raw.AccumulatorSetGlobalStep, raw.AccumulatorNumAccumulated, reduction_type=reduction)

    def test_accumulators_of_types(self):
        steps = []
        for dtype in (tf.float16, tf.float32, tf.float64):
            a = v1.ConditionalAccumulator(dtype, [50])
            for i in range(5):
                value = np.random.RandomState(i).uniform(-1, 1, 50).astype(dtype.as_numpy_dtype)
                steps.append(run(a.apply_grad(tf.constant(value), 0)))
            steps.append(fetch(a.take_grad(5)))
        self.compare(steps)

    def test_sparse_accumulators(self):
        for reduction in ("MEAN", "SUM"):
            a = v1.SparseConditionalAccumulator(tf.float32, [9, 2], reduction_type=reduction)
            def put(step, indices, *rows, shape=None):
                return run(a.apply_grad(np.int64(indices), np.float32(rows).reshape(-1, 2), shape, local_step=step))
            self.compare([
                put(0, [1, 4], [1, 2], [3, 4]), put(0, [0, 4, 8], [1, 1], [5, 6], [7, 8]), put(0, []),
                put(0, [4, 4, 2], [1, 1], [2, 2], [3, 3]), fetch(a.num_accumulated()), fetch(*a.take_grad(3)),
                put(0, [1], [9, 9]), fetch(a.num_accumulated()), put(1, [9], [9, 9]), put(1, [1], [9, 9], shape=[9, 3]),
                put(1, [1], [9, 9], shape=[9, 2]), put(1, [3, 1], [5, 5], [6, 6]), put(1, [1, 3], [1, 1], [2, 2]),
                fetch(*a.take_grad(2))
            ], texts=True)

    # Stacks and arrays of tensors.

    def test_stacks(self):
        steps, bad = [], []
        for make, push, pop, close in (
                (lambda: raw.StackV2(max_size=2, elem_type=tf.float32), raw.StackPushV2, raw.StackPopV2,
                 raw.StackCloseV2),
                (lambda: raw.Stack(elem_type=tf.float32), raw.StackPush, raw.StackPop, raw.StackClose)):
            stack = make()
            one = push(handle=stack, elem=[1., 2.])
            with tf.control_dependencies([one]):
                two = push(handle=stack, elem=3.)
            with tf.control_dependencies([two]):
                top = pop(handle=stack, elem_type=tf.float32)
                third = push(handle=stack, elem=4.)
            with tf.control_dependencies([top]):
                next_one = pop(handle=stack, elem_type=tf.float32)
            with tf.control_dependencies([next_one]):
                none = pop(handle=stack, elem_type=tf.float32)
                closed = close(handle=stack)
            with tf.control_dependencies([closed]):
                late = push(handle=stack, elem=4.)
            bad.append(fetch(push(handle=stack, elem=4)))
            steps += [fetch(one, two, top, next_one), fetch(none), fetch(third), fetch(late), run(closed)]
        self.compare(steps, texts=True)
        self.compare(bad)

    def test_tensor_arrays(self):
        a = tf.TensorArray(tf.float32, 4, clear_after_read=False, element_shape=[2], infer_shape=False)
        a = a.write(0, [1., 2.]).write(2, [5., 6.])
        strings = tf.TensorArray(tf.string, 0, dynamic_size=True).unstack([["a", "b"], ["c", "d"], ["e", "f"]])
        parts = tf.TensorArray(tf.int32, 3, infer_shape=False).split([1, 2, 3, 4], [1, 0, 3])
        empty = tf.TensorArray(tf.int32, 0, element_shape=[3])
        once = tf.TensorArray(tf.float32, 2).unstack([1., 2.])
        with tf.control_dependencies([once.read(0)]):
            twice = once.read(0)
        open_shape = tf.TensorArray(tf.float32, 2, infer_shape=False)
        same = tf.TensorArray(tf.float32, 2).write(0, [1., 2.])
        with tf.control_dependencies([raw.TensorArrayCloseV3(handle=same.handle)]):
            closed = same.size()
        index = v1.placeholder_with_default(9, None)
        self.compare([
            fetch(a.stack(), a.read(2), a.read(3), a.gather([2, 0]), a.size()), fetch(a.concat()),
            fetch(strings.stack()), fetch(strings.concat(), strings.size()), fetch(parts.concat()),
            fetch(parts.read(2), parts.read(1)), fetch(empty.stack(), empty.size()), fetch(twice),
            fetch(a.write(0, [1., 2.]).flow),
            fetch(a.write(index, [1., 2.]).flow), fetch(a.read(index)), fetch(open_shape.read(0)),
            fetch(raw.TensorArrayWriteV3(handle=same.handle, index=1, value=tf.zeros([3]), flow_in=same.flow)),
            fetch(raw.TensorArrayWriteV3(handle=same.handle, index=1, value=1, flow_in=same.flow)),
            fetch(raw.TensorArrayReadV3(handle=same.handle, index=0, dtype=tf.int32, flow_in=same.flow)), fetch(closed),
            fetch(raw.TensorArraySplitV3(handle=open_shape.handle, value=[1., 2.], lengths=[np.int64(2)],
                                         flow_in=open_shape.flow)),
            fetch(raw.TensorArraySplitV3(handle=open_shape.handle, value=[1., 2.], lengths=np.int64([2, 2]),
                                         flow_in=open_shape.flow)),
            fetch(raw.TensorArrayScatterV3(handle=open_shape.handle, indices=[1, 2], value=[1., 2.],
                                           flow_in=open_shape.flow)),
        ], texts=True)

    def test_gradients_of_tensor_arrays(self):
        x, y = tf.constant([[1., 2.], [3., 4.], [5., 6.]]), tf.constant([7., 8.])
        a = tf.TensorArray(tf.float32, 4, clear_after_read=False).scatter([0, 3, 1], x).write(2, y)
        loss = tf.reduce_sum(a.gather([3, 2, 1]) * a.read(1)) + tf.reduce_sum(a.read(1)**2)
        split = tf.TensorArray(tf.float32, 2, infer_shape=False).split(x, [1, 2])
        handle, flow = raw.TensorArrayGradWithShape(handle=a.handle, flow_in=a.flow, shape_to_prepend=[5], source="s")
        zeros = raw.TensorArrayReadV3(handle=handle, index=1, flow_in=flow, dtype=tf.float32)
        self.compare([fetch(*tf.gradients(loss, [x, y])), fetch(*tf.gradients(tf.reduce_sum(split.concat()**2), [x])),
                      fetch(zeros)])

    # Readers and files.

    def write(self, name, contents):
        path = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), name)
        with open(path, "wb") as file:
            file.write(contents)
        return path

    def read(self, reader, names, steps, up_to=(), extra=()):
        """Reads until an error, one by one and several at once."""
        q = v1.FIFOQueue(100, [tf.string], [[]])
        read = reader.read(q)
        counts = [reader.num_records_produced(), reader.num_work_units_completed()]
        several = [reader.read_up_to(q, n) for n in up_to]
        self.compare([fetch(*counts), run(q.enqueue_many([names])), run(q.close()), *[fetch(*read)] * steps,
                      *[fetch(*t) for t in several], fetch(*counts), *extra, *[fetch(*read)] * 3, fetch(*counts),
                      run(reader.reset()), fetch(*counts)])

    def test_lines(self):
        names = [self.write("a", b"one\ntwo\r\n\nfour"), self.write("b", b""), self.write("c", b"five\nsix\nseven\n")]
        self.read(v1.TextLineReader(), names, 3, [2, 2])
        self.read(v1.TextLineReader(skip_header_lines=2), names, 1, [1, 9])
        self.read(v1.TextLineReader(), [names[0], "/does/not/exist", names[2]], 5)

    def test_fixed_lengths(self):
        names = [self.write("a", b"HDabcdefghijF"), self.write("b", b"HDxyzF"), self.write("c", b"H")]
        packed = [self.write("a", gzip.compress(b"HDabcdefghijF")), self.write("b", zlib.compress(b"HDabcdefghijF"))]
        self.read(v1.FixedLengthRecordReader(3, 2, 1), names, 3, [4])
        self.read(v1.FixedLengthRecordReader(3, 2, 1, hop_bytes=1), names, 5, [2, 9])
        self.read(v1.FixedLengthRecordReader(3, 2, 1, hop_bytes=5), names, 2, [9])
        self.read(v1.FixedLengthRecordReader(3, 2, 1, encoding="GZIP"), packed[:1], 2, [3])
        self.read(v1.FixedLengthRecordReader(3, 2, 1, encoding="ZLIB"), packed[1:], 2, [3])

    def test_tfrecords(self):
        for compression in ("", "GZIP", "ZLIB"):
            names = []
            for records in ([b"one", b"", b"x" * 100000], [], [b"four", b"five"]):
                names.append(self.write("records", b""))
                with tf.io.TFRecordWriter(names[-1], compression) as writer:
                    for record in records:
                        writer.write(record)
            options = v1.python_io.TFRecordOptions({
                "": v1.python_io.TFRecordCompressionType.NONE, "GZIP": v1.python_io.TFRecordCompressionType.GZIP,
                "ZLIB": v1.python_io.TFRecordCompressionType.ZLIB}[compression])
            self.read(v1.TFRecordReader(options=options), names, 2, [5, 1])
        with open(names[0], "rb") as file:
            broken = self.write("broken", zlib.decompress(file.read())[:-5])
        self.read(v1.TFRecordReader(), [broken], 3)

    def test_whole_files(self):
        names = [self.write("a", b"all\0of it"), self.write("b", b"")]
        self.read(v1.WholeFileReader(), names, 1, [5])
        self.read(v1.IdentityReader(), ["x", "y", "z"], 2, [5])

    def test_states_of_readers(self):
        for reader in (v1.IdentityReader(), v1.WholeFileReader(), v1.TextLineReader()):
            q = v1.FIFOQueue(100, [tf.string], [[]])
            state = reader.serialize_state()
            bad = [reader.restore_state(text) for text in (b"\x08\x05", b"nonsense", b"\x08" + b"\xff" * 9 + b"\x01")]
            known = reader.restore_state(b"\x08\x02\x10\x02\x18\x02\x22\x01y")
            name = self.write("a", b"contents")
            self.compare([run(q.enqueue([name])), fetch(*reader.read(q)), fetch(state), run(known), fetch(state),
                          fetch(reader.num_records_produced()), *[run(op) for op in bad], fetch(state)])

    def test_refs_to_readers(self):
        q = raw.FIFOQueue(component_types=[tf.string], shapes=[[]])
        reader = raw.WholeFileReader()
        read = raw.ReaderRead(reader_handle=reader, queue_handle=q)
        several = raw.ReaderReadUpTo(reader_handle=reader, queue_handle=q, num_records=3)
        state = raw.ReaderSerializeState(reader_handle=reader)
        counts = [raw.ReaderNumRecordsProduced(reader_handle=reader),
                  raw.ReaderNumWorkUnitsCompleted(reader_handle=reader)]
        names = [self.write("a", b"one"), self.write("b", b"two")]
        self.compare([run(raw.QueueEnqueueMany(handle=q, components=[names])), fetch(*read), fetch(*several),
                      fetch(*counts), fetch(state), run(raw.ReaderReset(reader_handle=reader)), fetch(*counts),
                      run(raw.ReaderRestoreState(reader_handle=reader, state=b"\x18\x02")), fetch(*counts)])

    def test_wrong_queues_for_readers(self):
        steps = []
        for types, value in (([tf.int32], [1]), ([tf.string, tf.string], ["a", "b"]), ([tf.string], [["a", "b"]])):
            q = v1.FIFOQueue(3, types)
            steps += [run(q.enqueue(value)), fetch(*v1.IdentityReader().read(q))]
        self.compare(steps, texts=True)

    def test_files(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for name in ("b.txt", "a.txt", ".hidden", "c.csv", "x/a.txt", "y/a.txt", "y/[z]"):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "wb") as file:
                file.write(name.encode())
        def match(*patterns):
            return raw.MatchingFiles(pattern=[os.path.join(folder, p) for p in patterns])
        written = os.path.join(folder, "new/folder/file")
        self.compare([
            fetch(match("*.txt")), fetch(match("*/*.txt", "c.csv")), fetch(match("[ab].???")), fetch(match("nothing*")),
            fetch(match("*/a.txt")), fetch(match("y/*")), fetch(raw.MatchingFiles(pattern=folder + "/b.txt")),
            fetch(raw.ReadFile(filename=folder + "/b.txt")), fetch(raw.ReadFile(filename=folder + "/none")),
            run(raw.WriteFile(filename=written, contents=b"a\0b")), fetch(raw.ReadFile(filename=written)),
        ])

    # Tables.

    def sorted_export(self, export):
        """Sorts the contents, because tables are not ordered."""
        keys, values = export
        order = tf.argsort(keys if keys.dtype != tf.string else v1.string_to_number(keys))
        return tf.gather(keys, order), tf.gather(values, order)

    def test_tables_that_are_filled_once(self):
        steps = []
        for make, initialize, find, size, export in (
                (raw.HashTableV2, raw.InitializeTableV2, raw.LookupTableFindV2, raw.LookupTableSizeV2,
                 raw.LookupTableExportV2),
                (raw.HashTable, raw.InitializeTable, raw.LookupTableFind, raw.LookupTableSize, raw.LookupTableExport)):
            for keys, values, wanted, default in (
                    (["1", "2", "3"], np.int64([10, 20, 30]), [["1", "3"], ["4", "2"]], np.int64(-1)),
                    (np.int64([5, 7]), ["five", "seven"], np.int64([7, 8, 5]), "none"),
                    (np.int32([5, -7]), np.float32([.5, .7]), np.int32(-7), np.float32(0))):
                key_type, value_type = tf.convert_to_tensor(keys).dtype, tf.convert_to_tensor(values).dtype
                t = make(key_dtype=key_type, value_dtype=value_type)
                found = find(table_handle=t, keys=wanted, default_value=default)
                exported = export(table_handle=t, Tkeys=key_type, Tvalues=value_type)
                steps += [fetch(size(table_handle=t)), fetch(found), run(exported[0]),
                          run(initialize(table_handle=t, keys=keys, values=values)), fetch(found),
                          fetch(size(table_handle=t)), run(initialize(table_handle=t, keys=keys, values=values)),
                          run(initialize(table_handle=t, keys=keys[:1], values=values[:1])),
                          fetch(*self.sorted_export(exported))]
            t = make(key_dtype=tf.int64, value_dtype=tf.int64)
            steps += [run(initialize(table_handle=t, keys=np.int64([1, 1]), values=np.int64([2, 3]))),
                      run(initialize(table_handle=t, keys=["a"], values=np.int64([2])))]
        self.compare(steps, texts=True)

    def test_tables_that_change(self):
        steps = []
        for make, insert, find, size, export, load in (
                (raw.MutableHashTableV2, raw.LookupTableInsertV2, raw.LookupTableFindV2, raw.LookupTableSizeV2,
                 raw.LookupTableExportV2, raw.LookupTableImportV2),
                (raw.MutableHashTable, raw.LookupTableInsert, raw.LookupTableFind, raw.LookupTableSize,
                 raw.LookupTableExport, raw.LookupTableImport)):
            t = make(key_dtype=tf.string, value_dtype=tf.int64)
            def get(*keys, default=np.int64(-1)):
                return fetch(find(table_handle=t, keys=list(keys), default_value=default))
            def put(op, keys, values):
                return run(op(table_handle=t, keys=keys, values=np.int64(values)))
            exported = export(table_handle=t, Tkeys=tf.string, Tvalues=tf.int64)
            steps += [get("1"), put(insert, ["1", "2"], [10, 20]), get("1", "2", "3"),
                      put(insert, ["2", "3"], [21, 30]), get("1", "2", "3"), fetch(size(table_handle=t)),
                      fetch(*self.sorted_export(exported)),
                      get("2", "7", default=np.int64([100, 200])), put(load, ["4"], [40]), get("1", "4"),
                      put(insert, "5", 50), fetch(size(table_handle=t)), put(insert, ["5"], [50, 51]),
                      get("2", "7", default=np.int64([100, 200, 300]))]
        steps += [run(raw.LookupTableRemoveV2(table_handle=raw.MutableHashTableV2(
            key_dtype=tf.string, value_dtype=tf.int64, shared_name="shared"), keys=["a"]))]
        t = raw.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64, shared_name="numbers")
        steps += [run(raw.LookupTableInsertV2(table_handle=t, keys=np.arange(100), values=np.arange(100) * 2)),
                  run(raw.LookupTableRemoveV2(table_handle=t, keys=np.arange(10, 200))),
                  fetch(*self.sorted_export(raw.LookupTableExportV2(table_handle=t, Tkeys=tf.int64, Tvalues=tf.int64))),
                  fetch(raw.LookupTableSizeV2(table_handle=raw.MutableHashTableV2(
                      key_dtype=tf.int32, value_dtype=tf.int32, shared_name="numbers"))),
                  run(raw.InitializeTableV2(table_handle=t, keys=np.int64([1]), values=np.int64([1])))]
        self.compare(steps)

    def test_tables_of_vectors(self):
        steps = []
        for make, insert, find in ((raw.MutableHashTableOfTensorsV2, raw.LookupTableInsertV2, raw.LookupTableFindV2),
                                   (raw.MutableHashTableOfTensors, raw.LookupTableInsert, raw.LookupTableFind)):
            t = make(key_dtype=tf.int64, value_dtype=tf.string, value_shape=[2])
            steps += [run(insert(table_handle=t, keys=np.int64([1, 2]), values=[["a", "b"], ["c", "d"]])),
                      fetch(find(table_handle=t, keys=np.int64([[2, 3]]), default_value=["x", "y"])),
                      run(insert(table_handle=t, keys=np.int64([1]), values=["a", "b"]))]
        bad = raw.MutableHashTableOfTensorsV2(key_dtype=tf.int64, value_dtype=tf.string)
        self.compare(steps + [fetch(raw.LookupTableSizeV2(table_handle=bad))], texts=True)

    def test_dense_tables(self):
        t = raw.MutableDenseHashTableV2(empty_key=np.int64(0), deleted_key=np.int64(-1), value_dtype=tf.float32,
                                        value_shape=[2], initial_num_buckets=4, shared_name="d")
        other = raw.MutableDenseHashTableV2(empty_key=np.int64(0), deleted_key=np.int64(-1), value_dtype=tf.float32,
                                            value_shape=[2], initial_num_buckets=4, shared_name="e")
        words = raw.MutableDenseHashTableV2(empty_key=["", ""], deleted_key=["-", ""], value_dtype=tf.int64)
        keys, values = raw.LookupTableExportV2(table_handle=t, Tkeys=tf.int64, Tvalues=tf.float32)
        def get(table, keys, default):
            return fetch(raw.LookupTableFindV2(table_handle=table, keys=keys, default_value=default))
        def put(table, keys, values):
            return run(raw.LookupTableInsertV2(table_handle=table, keys=keys, values=values))
        none = np.float32([-1, -2])
        self.compare([
            put(t, np.int64([5, 9]), np.float32([[1, 2], [3, 4]])), get(t, np.int64([9, 5, 7]), none),
            fetch(keys, values), put(t, np.int64([9, 13, 6]), np.float32([[5, 5], [6, 6], [7, 7]])),
            fetch(keys, values),
            fetch(raw.LookupTableSizeV2(table_handle=t)), get(t, np.int64([0]), none), get(t, np.int64([-1]), none),
            put(t, np.int64([0]), none[None]),
            run(raw.LookupTableImportV2(table_handle=other, keys=keys, values=values)),
            get(other, np.int64([13, 9, 4]), none), run(raw.LookupTableRemoveV2(table_handle=t, keys=np.int64([9, 4]))),
            get(t, np.int64([13, 9]), none), fetch(keys, values), put(t, np.int64([21]), np.float32([[8, 8]])),
            fetch(keys, values), put(words, [["a", "b"], ["c", ""]], np.int64([1, 2])),
            get(words, [["c", ""], ["a", "c"]], np.int64(-1)), fetch(raw.LookupTableSizeV2(table_handle=words)),
            fetch(raw.LookupTableSizeV2(table_handle=raw.MutableDenseHashTableV2(
                empty_key=np.int64(0), deleted_key=np.int64(0), value_dtype=tf.int64))),
            fetch(raw.LookupTableSizeV2(table_handle=raw.MutableDenseHashTableV2(
                empty_key=np.int64(0), deleted_key=np.int64(1), value_dtype=tf.int64, initial_num_buckets=12))),
        ])

    def test_buckets_of_dense_tables(self):
        """Checkpoints hold them."""
        steps = []
        for empty, removed, make in ((np.int64(-1), np.int64(-2), np.int64),
                                     (np.int64([-1, 0]), np.int64([-2, 0]), lambda n: np.stack([n, n * 7], 1)),
                                     ("", "-", lambda n: np.array([b"key number %d" % i for i in n])),
                                     (["", ""], ["-", ""], lambda n: np.array([[b"%d" % i, b"x"] for i in n]))):
            t = raw.MutableDenseHashTableV2(empty_key=empty, deleted_key=removed, value_dtype=tf.int64,
                                            initial_num_buckets=8)
            types = {"Tkeys": tf.convert_to_tensor(empty).dtype, "Tvalues": tf.int64}
            buckets = fetch(*raw.LookupTableExportV2(table_handle=t, **types))
            def put(numbers):
                return run(raw.LookupTableInsertV2(table_handle=t, keys=make(numbers), values=numbers.astype(np.int64)))
            def remove(numbers):
                return run(raw.LookupTableRemoveV2(table_handle=t, keys=make(numbers)))
            steps += [buckets, put(np.arange(5)), buckets, remove(np.array([1, 3])), buckets, put(np.arange(20, 22)),
                      buckets, put(np.arange(30, 60)), buckets, remove(np.arange(20, 40)), buckets]
        self.compare(steps)

    def test_tables_without_names(self):
        fixed = raw.AnonymousHashTable(key_dtype=tf.int64, value_dtype=tf.int64)
        filled = raw.InitializeTableV2(table_handle=fixed, keys=np.int64([1]), values=np.int64([2]))
        with tf.control_dependencies([filled]):
            steps = [fetch(raw.LookupTableFindV2(table_handle=fixed, keys=np.int64([1, 2]), default_value=np.int64(0)))]
        types = {"key_dtype": tf.int64, "value_dtype": tf.int64}
        for t, values in ((raw.AnonymousMutableHashTable(**types), np.int64([3])),
                          (raw.AnonymousMutableHashTableOfTensors(value_shape=[1], **types), np.int64([[3]])),
                          (raw.AnonymousMutableDenseHashTable(empty_key=np.int64(0), deleted_key=np.int64(2),
                                                              value_dtype=tf.int64), np.int64([3]))):
            with tf.control_dependencies([raw.LookupTableInsertV2(table_handle=t, keys=np.int64([1]), values=values)]):
                steps.append(fetch(raw.LookupTableSizeV2(table_handle=t)))
        self.compare(steps * 2)

    def test_tables_from_text(self):
        words = self.write("words", b"brain\nsalad\r\nsurgery\n")
        columns = self.write("columns", b"1,brain,.5\n7,salad,2\n9,surgery,-1\n")
        gap = self.write("gap", b"brain\n\nsurgery\n")
        def table(file, key_dtype, value_dtype, keys, default, op=raw.InitializeTableFromTextFileV2,
                  make=raw.HashTableV2, find=raw.LookupTableFindV2, **attributes):
            t = make(key_dtype=key_dtype, value_dtype=value_dtype)
            return [run(op(table_handle=t, filename=file, **attributes)),
                    fetch(find(table_handle=t, keys=keys, default_value=default))]
        whole = {"key_index": -2, "value_index": -1}
        text, ids = ["surgery", "brain", "tank"], np.int64([0, 2, 9])
        self.compare([
            *table(words, tf.string, tf.int64, text, np.int64(-1), **whole),
            *table(words, tf.string, tf.int64, text, np.int64(-1), raw.InitializeTableFromTextFile, raw.HashTable,
                   raw.LookupTableFind, **whole),
            *table(words, tf.string, tf.int64, text, np.int64(-1), offset=100, **whole),
            *table(words, tf.int64, tf.string, ids, "none", key_index=-1, value_index=-2),
            *table(words, tf.string, tf.int64, text, np.int64(-1), vocab_size=2, **whole),
            *table(words, tf.string, tf.int64, text, np.int64(-1), vocab_size=5, **whole),
            *table(columns, tf.string, tf.int32, text, -1, key_index=1, value_index=0, delimiter=","),
            *table(columns, tf.int64, tf.float32, ids, -1., key_index=0, value_index=2, delimiter=","),
            *table(columns, tf.int64, tf.float32, ids, -1., key_index=0, value_index=1, delimiter=","),
            *table(columns, tf.string, tf.int64, text, np.int64(-1), key_index=5, value_index=0, delimiter=","),
            *table(gap, tf.string, tf.int64, text, np.int64(-1), **whole),
            *table("/does/not/exist", tf.string, tf.int64, text, np.int64(-1), **whole),
            *table(words, tf.string, tf.int32, text, -1, **whole),
        ])

    # Lists of tensors.

    def test_tensor_lists(self):
        unknown = tf.constant(-1)
        empty = raw.EmptyTensorList(element_shape=[2], max_num_elements=3, element_dtype=tf.float32)
        a = raw.TensorListPushBack(input_handle=empty, tensor=[1., 2.])
        b = raw.TensorListPushBack(input_handle=a, tensor=[3., 4.])
        c = raw.TensorListSetItem(input_handle=b, index=0, item=[9., 9.])
        rows = tf.constant([[1., 2.], [3., 4.], [5., 6.]])
        whole = raw.TensorListFromTensor(tensor=rows, element_shape=[2])
        reserved = raw.TensorListReserve(element_shape=unknown, num_elements=3, element_dtype=tf.float32)
        one = raw.TensorListSetItem(input_handle=reserved, index=1, item=[[7.], [8.]])
        scattered = raw.TensorListScatterV2(tensor=rows, indices=[3, 0, 1], element_shape=[2], num_elements=5)
        old = raw.TensorListScatter(tensor=rows, indices=[3, 0, 1], element_shape=unknown)
        parts = raw.TensorListSplit(tensor=rows, element_shape=[-1, 2], lengths=np.int64([1, 0, 2]))
        open_parts = raw.TensorListSplit(tensor=rows, element_shape=unknown, lengths=np.int64([2, 1]))
        batch = raw.TensorListPushBackBatch(input_handles=tf.stack([a, b]), tensor=[[5., 5.], [6., 6.]])
        joined = raw.TensorListConcatLists(input_a=b, input_b=whole, element_dtype=tf.float32)
        words = raw.TensorListPushBack(input_handle=raw.EmptyTensorList(
            element_shape=unknown, max_num_elements=-1, element_dtype=tf.string), tensor=["a", "b"])
        index = v1.placeholder_with_default(7, None)
        def hide(handle):
            """As the graph knows it: nothing is known of its elements."""
            return raw.PlaceholderWithDefault(input=handle, shape=[])
        def stack(handle, shape=unknown, dtype=tf.float32, **attributes):
            return raw.TensorListStack(input_handle=handle, element_shape=shape, element_dtype=dtype, **attributes)
        def item(handle, i, shape=unknown):
            return raw.TensorListGetItem(input_handle=handle, index=i, element_shape=shape, element_dtype=tf.float32)
        def shape(handle):
            return raw.TensorListElementShape(input_handle=handle, shape_type=tf.int64)
        def pop(handle, shape=unknown):
            return raw.TensorListPopBack(input_handle=handle, element_shape=shape, element_dtype=tf.float32)
        def concat(handle, shape=unknown, leading=()):
            return raw.TensorListConcatV2(input_handle=handle, element_shape=shape, leading_dims=np.int64(leading),
                                          element_dtype=tf.float32)
        def resize(handle, size):
            return raw.TensorListResize(input_handle=handle, size=size)
        three = raw.TensorListPushBack(input_handle=b, tensor=[0., 0.])
        full = raw.TensorListPushBack(input_handle=three, tensor=[1., 1.])
        self.compare([
            fetch(stack(a), stack(b), stack(c), stack(empty)), fetch(stack(whole), item(whole, 2), shape(whole)),
            fetch(*[raw.TensorListLength(input_handle=h) for h in (empty, a, b, whole, reserved, joined)]),
            fetch(stack(one), item(one, 0), item(one, 1), shape(one)), fetch(stack(pop(b)[0]), pop(b)[1], stack(b)),
            fetch(stack(scattered), stack(resize(scattered, 2)), stack(resize(scattered, 7)), stack(old)),
            fetch(stack(raw.TensorListScatterIntoExistingList(input_handle=b, tensor=rows, indices=[3, 0, 2]))),
            fetch(raw.TensorListGather(input_handle=whole, indices=[2, 0, 2], element_shape=unknown,
                                       element_dtype=tf.float32)),
            fetch(*concat(parts), *concat(open_parts), shape(parts)), fetch(*concat(reserved, [-1, 2], [1, 0, 2])),
            fetch(*raw.TensorListConcat(input_handle=parts, element_dtype=tf.float32)),
            fetch(stack(batch[0]), stack(batch[1])),
            fetch(stack(joined)), fetch(stack(words, dtype=tf.string)), fetch(stack(tf.add_n([b, b, c]))),
            fetch(stack(raw.ZerosLike(x=whole)), stack(tf.add_n([one, one]))),
            # Arguments that do not fit.
            fetch(stack(reserved)), fetch(item(b, index)), fetch(item(reserved, 0)), fetch(pop(empty)[1]),
            fetch(stack(hide(b), dtype=tf.int32)), fetch(stack(hide(b), [3])), fetch(stack(b, num_elements=5)),
            fetch(stack(full)), fetch(stack(raw.TensorListPushBack(input_handle=hide(empty), tensor=[1.]))),
            fetch(*concat(reserved, [-1, 2])),
            fetch(stack(raw.TensorListSetItem(input_handle=b, index=index, item=[9., 9.]))),
            fetch(stack(raw.TensorListSetItem(input_handle=b, index=index, item=[9., 9.],
                                              resize_if_index_out_of_bounds=True))),
            fetch(stack(raw.TensorListSplit(tensor=rows, element_shape=unknown, lengths=np.int64([2, 2])))),
            fetch(stack(raw.TensorListSplit(tensor=rows, element_shape=unknown, lengths=np.int64([2])))),
            fetch(stack(tf.add_n([a, b]))), fetch(stack(resize(b, tf.constant(-1)))),
        ], texts=True)

    # Barriers and staging areas.

    def test_barriers(self):
        b = data_flow_ops.Barrier([tf.float32, tf.string], [[2], []], shared_name="b")
        same = data_flow_ops.Barrier([tf.float32], [[2]], shared_name="b")
        def put(component, keys, values):
            return run(b.insert_many(component, keys, values))
        sizes = fetch(b.ready_size(), b.incomplete_size())
        self.compare([
            sizes, put(0, ["k1", "k2"], [[1., 2.], [3., 4.]]), sizes, put(1, ["k2", "k3"], ["two", "three"]), sizes,
            put(0, ["k2"], [[1., 1.]]), put(0, ["k1"], [[1., 1.]]), fetch(*b.take_many(1)), sizes,
            put(0, ["k2"], [[5., 5.]]), put(0, ["k3"], [[6., 6.]]), put(1, ["k1"], ["one"]), sizes,
            fetch(*b.take_many(2)), sizes,
            run(b.close()), put(0, ["new"], [[1., 1.]]), put(1, ["k2"], ["again"]), fetch(*b.take_many(5)),
            fetch(*b.take_many(5, allow_small_batch=True)), fetch(*b.take_many(1)), run(b.close()),
            run(b.close(cancel_pending_enqueues=True)), put(1, ["k2"], ["again"]), fetch(same.ready_size()),
        ])

    def test_stages(self):
        name = {"shared_name": "area", "capacity": 3}
        area = {"dtypes": [tf.float32, tf.string], **name}
        put, put_two = raw.Stage(values=[[1., 2.], "one"], **name), raw.Stage(values=[[3.], "two"], **name)
        size = raw.StageSize(**area)
        self.compare([
            fetch(size), run(put), run(put_two), fetch(size), fetch(*raw.StagePeek(index=1, **area)),
            fetch(*raw.StagePeek(index=0, **area)), fetch(*raw.Unstage(**area)), fetch(size),
            run(raw.StageClear(**area)), fetch(size), run(raw.Stage(values=[tf.zeros([100])], memory_limit=50)),
            run(put), fetch(*raw.Unstage(dtypes=[tf.float32], shared_name="area"))
        ], texts=True)

    def test_staging_maps(self):
        for kind in ("Map", "OrderedMap"):
            def op(name, **arguments):
                return getattr(raw, kind + name)(dtypes=[tf.float32, tf.string], shared_name=kind, **arguments)
            def put(key, indices, *values):
                return run(op("Stage", key=np.int64(key), indices=indices, values=list(values)))
            def get(name, key, indices):
                dtypes = [[tf.float32, tf.string][i] for i in indices] or [tf.float32]
                return fetch(*getattr(raw, kind + name)(key=np.int64(key), indices=np.int32(indices), dtypes=dtypes,
                                                        shared_name=kind))
            sizes = fetch(op("Size"), op("IncompleteSize"))
            self.compare([
                sizes, put(7, [0, 1], 1.5, "seven"), put(3, [1], "three"), sizes, put(3, [1], "again"),
                put(3, [0], 2.5), sizes, get("Peek", 3, [0, 1]), get("Unstage", 3, [0]), get("Unstage", 3, [0]), sizes,
                get("Unstage", 3, [1]), sizes, fetch(*op("UnstageNoKey", indices=[0, 1])), sizes,
                put(4, [1, 0], "a", 1.), put(4, [], 1.), put(4, [7], "a"), put(4, [0, 1], 1., "a"),
                get("Peek", 4, []), get("Unstage", 4, [1]), run(op("Clear")), sizes
            ], texts=True)

    # Whole programs.

    def test_training_in_step(self):
        """SyncReplicasOptimizer with two workers: their steps, and the chief's, one after the other."""
        with v1.variable_scope("", use_resource=True):
            x = v1.placeholder(tf.float32, [4, 3])
            rows = v1.placeholder(tf.int32, [4])
            w = v1.get_variable("w", [3, 2], initializer=v1.ones_initializer())
            table = v1.get_variable("table", [6, 2], initializer=v1.ones_initializer())
            loss = tf.reduce_mean((tf.matmul(x, w) - v1.nn.embedding_lookup(table, rows))**2)
            step = v1.train.get_or_create_global_step()
            optimizer = v1.train.SyncReplicasOptimizer(v1.train.MomentumOptimizer(.1, .9), 2, 2)
            train = optimizer.minimize(loss, global_step=step)
        chief = optimizer.get_chief_queue_runner().enqueue_ops[0]
        steps = [run(v1.global_variables_initializer()), run(optimizer.local_step_init_op),
                 run(optimizer.get_init_tokens_op(2))]
        for i in range(6):
            for worker in range(2):
                random = np.random.RandomState(2 * i + worker)
                feeds = {x.name: random.uniform(-1, 1, (4, 3)).astype(np.float32),
                         rows.name: random.permutation(6)[:4].astype(np.int32)}
                steps.append(Step(feeds, [loss.name], run(train).targets))
            # Without threads nobody takes a token between the chief's step and the next.
            steps += [run(chief), run(optimizer.local_step_init_op),
                      fetch(step.read_value(), w.read_value(), table.read_value())]
        self.compare(steps)

    def test_input_pipeline(self):
        """Names of files, lines of them, shuffled batches: three queues in a row."""
        files = [self.write("lines", b"".join(b"%d,%d\n" % (10 * f + i, f) for i in range(8))) for f in range(3)]
        names = v1.FIFOQueue(9, [tf.string], [[]])
        lines = v1.RandomShuffleQueue(100, 10, [tf.string] * 2, [[], []], seed=5)
        left = v1.get_variable("left", initializer=0, collections=[v1.GraphKeys.LOCAL_VARIABLES])
        name = tf.gather(v1.random_shuffle(tf.constant(files), seed=3), v1.count_up_to(left, 3))
        put_name = names.enqueue([name])
        put_line = lines.enqueue(v1.TextLineReader().read(names))
        batch, rest = lines.dequeue_many(4), lines.dequeue_up_to(4)
        steps = [run(left.initializer), *[run(put_name)] * 4, run(names.close()), *[run(put_line)] * 20]
        steps += [fetch(*batch)] * 2 + [run(put_line)] * 5 + [run(lines.close())] + [fetch(*rest)] * 5
        self.compare(steps)


if __name__ == "__main__":
    v1.disable_eager_execution()
    v1.disable_v2_behavior()
    unittest.main()
