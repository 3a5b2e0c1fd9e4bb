# SPDX-License-Identifier: Apache-2.0
"""Prints what functions in Python give to a graph, and what becomes of their errors: the same on all servers."""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()

TYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "bool", "complex64", "complex128"]


class Custom(Exception):
    pass


def raising(error):
    def function(x):
        raise error
    return function


def show(name, session, fetches, feeds=None):
    try:
        values = session.run(fetches, feeds)
    except tf.errors.OpError as error:
        lines = str(error).split("\n")
        text = [line for line in lines if "Error" in line or "Custom" in line or "pyfunc" in line or "Stop" in line or "Exit" in line]
        print("RESULT", name, type(error).__name__, text[0].split("} ")[-1] if text else lines[0])
        return
    for value in values if isinstance(values, (list, tuple)) else [values]:
        print("RESULT", name, getattr(value, "dtype", type(value).__name__), np.shape(value), np.asarray(value).tolist())


def shapes_and_types(session):
    x = v1.placeholder(tf.float32)
    seen = []
    y = v1.py_func(lambda a: (seen.append((type(a).__name__, np.shape(a))), np.sinh(a))[1], [x], tf.float32)
    for value in (3.0, [1.0, 2.0], np.zeros((0, 3)), np.ones((2, 1, 2))):
        show("sinh", session, y, {x: value})
    print("RESULT seen", seen)
    for name in TYPES:
        values = np.array([[0, 1], [1, 3]]).astype(name)
        show(name, session, v1.py_func(lambda a: a[::-1].T, [tf.constant(values)], tf.as_dtype(name)))
    big = np.arange(3000000, dtype=np.int64)
    show("big", session, v1.py_func(lambda a: (a + 1).sum(), [tf.constant(big)], tf.int64))
    show("large", session, tf.reduce_sum(v1.py_func(lambda: big, [], tf.int64)))
    show("written", session, v1.py_func(write_to, [tf.constant([1.0, 2.0])], tf.float32))


def kept_inputs(session):
    """Inputs that the program keeps stay as they were, whatever later calls get."""
    kept, x = [], v1.placeholder(tf.float32)
    y = v1.py_func(lambda a: (kept.append(a[1:]), a * 2)[1], [x], tf.float32)
    total = tf.reduce_sum(y)
    for i in range(6):
        print("RESULT total", session.run(total, {x: np.full(40000 + 100 * i, i, np.float32)}))
        if i == 3:
            del kept[1:3]
    print("RESULT kept", [(len(a), a.min(), a.max()) for a in kept])
    same = v1.py_func(lambda a, b: (b, a), [x, x + 1], [tf.float32, tf.float32])
    for _ in range(3):
        print("RESULT swapped", [v.sum() for v in session.run(same, {x: np.ones([300, 300])})])
    sizes = v1.py_func(lambda a: [np.arange(n, dtype=np.int64) for n in a], [v1.placeholder(tf.int64, [2], "n")],
                       [tf.int64, tf.int64])
    for pair in ((1, 200000), (200000, 50000), (9000, 9000), (600000, 0)):
        print("RESULT sizes", [(len(v), v.sum()) for v in session.run(sizes, {"n:0": pair})])


def write_to(a):
    a = np.array(a)
    a[0] = 7
    return a


def strings(session):
    s = tf.constant([[b"a", b"\0b\0", b""]])
    show("bytes", session, v1.py_func(lambda a: a + b"!", [s], tf.string))
    show("string", session, v1.py_func(lambda a: a.decode() + "\u00fc", [tf.constant("x")], tf.string))
    show("unicode", session, v1.py_func(lambda: np.array(["\u00e4", "longer"]), [], tf.string))
    show("fixed", session, v1.py_func(lambda: np.array([b"a", b"bcd"]), [], tf.string))
    show("list", session, v1.py_func(lambda: [[b"a", b"bc"], 1.5], [], [tf.string, tf.float64]))
    show("none at all", session, v1.py_func(lambda: np.zeros((0, 2), dtype=object), [], tf.string))
    show("objects", session, tf.shape(v1.py_func(lambda: np.array([b"x", "y"], dtype=object), [], tf.string)))


def results_and_errors(session):
    x = tf.constant(1.0)
    show("nothing", session, v1.py_func(lambda a: None, [x], []))
    show("two", session, v1.py_func(lambda a: (a, np.int64(2)), [x], [tf.float32, tf.int64]))
    show("too few", session, v1.py_func(lambda a: a, [x], [tf.float32, tf.float32]))
    show("too many", session, v1.py_func(lambda a: (a, a), [x], tf.float32))
    show("wrong type", session, v1.py_func(lambda a: np.float64(a), [x], tf.float32))
    for error in (ValueError("v"), TypeError("t"), StopIteration(), MemoryError("m"), NotImplementedError("n"),
                  Custom("c"), KeyError("k"), UnicodeError("u"), SystemExit(3)):
        show("raises " + type(error).__name__, session, v1.py_func(raising(error), [x], tf.float32))
    for value in ({"a": 1}, [object()], np.zeros(0, [("a", np.float32)])):
        show("returns %s" % type(value).__name__, session, v1.py_func(lambda value=value: value, [], tf.float32))
    show("stateless", session, v1.py_func(lambda a: np.float32(a + 1), [x], tf.float32, stateful=False))


def control_flow(session):
    calls = []
    i = tf.while_loop(lambda i: i < 5,
                      lambda i: v1.py_func(lambda n: (calls.append(int(n)), np.int32(n + 1))[1], [i], tf.int32),
                      [tf.constant(0)], shape_invariants=[tf.TensorShape(None)])
    show("loop", session, i)
    print("RESULT calls", calls)
    taken = v1.placeholder(tf.bool, [])
    y = tf.cond(taken, lambda: v1.py_func(lambda: np.int32(1), [], tf.int32),
                lambda: v1.py_func(lambda: np.int32(2), [], tf.int32))
    show("true", session, y, {taken: True})
    show("false", session, y, {taken: False})


def eager(session):
    x = v1.placeholder(tf.float32)
    y = tf.py_function(lambda a: tf.square(a) if tf.reduce_sum(a) > 1 else a, [x], tf.float32)
    show("eager", session, [y, tf.gradients(y, x)[0]], {x: [3.0, 4.0]})
    show("eager scalar", session, y, {x: 0.5})
    show("eager string", session, tf.py_function(lambda s: tf.strings.join([s, b"-"]), [tf.constant([b"p", b"q"])],
                                                 tf.string))
    show("eager two", session, tf.py_function(lambda a: (a, tf.shape(a)), [tf.constant([[1.0]])],
                                              [tf.float32, tf.int32]))
    show("eager nothing", session, tf.py_function(lambda: None, [], []))
    show("eager error", session, tf.py_function(raising(ValueError("eager")), [tf.constant(1.0)], tf.float32))
    show("numpy", session, tf.numpy_function(np.cumsum, [tf.constant([1.0, 2.0])], tf.float32))


def generators(session):
    def pairs():
        for i in range(5):
            yield i, [b"s" * i]

    data = tf.data.Dataset.from_generator(pairs, (tf.int64, tf.string), ((), (1,)))
    for name, dataset in (("generator", data), ("batches", data.repeat(2).shuffle(3, seed=1).batch(4).prefetch(2)),
                          ("mapped", data.map(lambda i, s: v1.py_func(lambda a: a * 2, [i], tf.int64),
                                              num_parallel_calls=3)),
                          ("twice", data.take(2).concatenate(data))):
        element = v1.data.make_one_shot_iterator(dataset).get_next()
        while True:
            try:
                values = session.run(element)
                print("RESULT", name, [np.asarray(v).tolist() for v in (values if isinstance(values, tuple) else [values])])
            except tf.errors.OutOfRangeError:
                break

    made = []
    options = tf.data.Options()
    if hasattr(options.experimental_optimization, "inject_prefetch"):  # which takes elements that nobody asks for
        options.experimental_optimization.inject_prefetch = False
        options.experimental_optimization.map_parallelization = False

    def counted(n=20):
        for i in range(n):
            made.append(i)
            yield np.int64(i)

    def count(name, of, steps=2):
        """How many elements a pipeline takes to give some."""
        del made[:]
        dataset = of(tf.data.Dataset.from_generator(counted, tf.int64, [])).with_options(options)
        element = v1.data.make_one_shot_iterator(dataset).get_next()
        values = [session.run(element) for _ in range(steps)]
        print("RESULT taken for", name, [np.asarray(v).tolist() for v in values], len(made))

    numbers = tf.data.Dataset.range(2)
    count("one", lambda d: d, 3)
    count("batches", lambda d: d.batch(4))
    count("padded batches", lambda d: d.map(lambda i: i + 1).padded_batch(4, []))
    count("filtered", lambda d: d.filter(lambda i: tf.equal(i % 2, 0)).batch(3))
    count("zipped first", lambda d: tf.data.Dataset.zip((d, numbers)).batch(5).map(lambda a, b: a), 1)
    count("while", lambda d: d.apply(tf.data.experimental.take_while(lambda i: i < 2)).batch(5), 1)
    count("taken", lambda d: d.take(3).batch(5), 1)
    count("repeated", lambda d: d.take(3).repeat().batch(4))
    count("windows", lambda d: d.batch(2).batch(2).repeat(), 2)
    count("skipped", lambda d: d.skip(2).batch(3), 1)
    count("shuffled", lambda d: d.shuffle(6, seed=1).batch(2).map(tf.size))

    def failing():
        yield 1
        raise Custom("in a generator")

    bad = v1.data.make_one_shot_iterator(tf.data.Dataset.from_generator(failing, tf.int32)).get_next()
    show("first", session, bad)
    show("failing", session, bad)


server = v1.train.Server.create_local_server()
with v1.Session(server.target) as sess:
    for part in (shapes_and_types, kept_inputs, strings, results_and_errors, control_flow, eager, generators):
        part(sess)
print("RESULT end")
