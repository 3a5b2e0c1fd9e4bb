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


if __name__ == "__main__":
    v1.disable_eager_execution()
    v1.disable_v2_behavior()
    unittest.main()
