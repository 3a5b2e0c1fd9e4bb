"""Runs programs with queues and the like on TensorFlow and with Thalweg: what one step leaves, the next one finds."""

import unittest

import numpy as np
import tensorflow as tf
from op_cases_data_flow import IN_PROGRAMS
from tensorflow_testlib import ProgramTest, Step

v1 = tf.compat.v1
raw = tf.raw_ops


def fetch(*tensors):
    return Step(fetches=[t.name for t in tensors])


def run(*operations):
    return Step(targets=[op.name if isinstance(op, tf.Operation) else op.op.name for op in operations])


class DataFlowTest(ProgramTest):
    @classmethod
    def tearDownClass(cls):
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
            if not priority:  # of which TensorFlow loses the rest
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


if __name__ == "__main__":
    v1.disable_eager_execution()
    v1.disable_v2_behavior()
    unittest.main()
