# SPDX-License-Identifier: Apache-2.0
"""Runs graphs with functions on TensorFlow and with Thalweg: calls, functional conditionals and loops, nested."""

import unittest

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import function
from tensorflow.python.ops import functional_ops
from tensorflow_testlib import Failure, Step, difference, run_tensorflow, run_thalweg

v1 = tf.compat.v1


class FunctionsTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        v1.enable_control_flow_v2()
        self.graph = tf.Graph()
        self.enterContext(self.graph.as_default())
        v1.set_random_seed(87)

    def compare(self, steps, tolerance=1e-5):
        theirs, ours = run_tensorflow(self.graph, steps), run_thalweg(self.graph, steps)
        for i, (step, a, b) in enumerate(zip(steps, ours, theirs)):
            if isinstance(a, Failure) or isinstance(b, Failure):
                self.assertEqual(getattr(a, "code", 0), getattr(b, "code", 0), f"step {i}: ours {a}, TensorFlow's {b}")
                continue
            for name, x, y in zip(step.fetches, a, b):
                text = difference(x, y, tolerance if x.dtype.kind == "f" else None)
                self.assertIsNone(text, f"step {i}, {name}: {text}")
        return ours

    def values(self, *tensors, feeds=None):
        names = [t.name for t in tensors]
        return self.compare([Step({t.name: v for t, v in feed.items()}, names) for feed in feeds or [{}]])

    def ops(self):
        """The op types of the graph and its functions."""
        graph = self.graph.as_graph_def()
        return {n.op for n in graph.node} | {n.op for f in graph.library.function for n in f.node_def}

    # Calls.

    def test_function(self):
        @tf.function
        def affine(x, y):
            return x * y + 1., x - y

        a, b = affine(tf.constant([1., 2.]), tf.constant(3.))
        c, _ = affine(a, b)
        self.assertIn("PartitionedCall", self.ops())
        (values,) = self.values(a, b, c)
        np.testing.assert_allclose(values[0], [4, 7])

    def test_functions_call_functions(self):
        @tf.function
        def square(x):
            return x * x

        @tf.function
        def cube(x):
            return square(x) * x, x

        @tf.function
        def both(x):
            y, same = cube(x)
            return y + square(y), same

        x = v1.placeholder(tf.float32, [])
        self.values(*both(x), *both(x + 1), feeds=[{x: 2.}, {x: -1.5}])

    def test_result_that_is_an_argument_or_a_constant(self):
        @tf.function
        def f(x, y):
            return y, x, tf.constant([5, 6]), y

        self.values(*f(tf.constant(1.), tf.constant("text")))

    def test_defun(self):
        @function.Defun(tf.float32, tf.float32, func_name="Hypotenuse")
        def hypotenuse(a, b):
            return tf.sqrt(a * a + b * b)

        @function.Defun(tf.float32)
        def twice(x):
            return hypotenuse(x, x), x + 1.

        h = hypotenuse(tf.constant([3., 5.]), tf.constant([4., 12.]))
        self.values(h, *twice(h))
        self.assertIn("Hypotenuse", self.ops())

    def test_gradient_of_a_defun(self):
        @function.Defun(tf.float32, tf.float32)
        def gradient(x, dy):
            return dy * 100.

        @function.Defun(tf.float32, grad_func=gradient)
        def with_gradient(x):
            return x * x

        @function.Defun(tf.float32, tf.float32)
        def without(x, y):
            return tf.reduce_sum(x * x * y), tf.tanh(x)

        x, y = tf.constant([1., 2.]), tf.constant([3., 4.])
        a, b = without(x, y)
        self.values(*tf.gradients([a, b, with_gradient(x)], [x, y]))
        self.assertIn("SymbolicGradient", self.ops())

    def test_for(self):
        @function.Defun(tf.int32, tf.float32, tf.int32)
        def body(i, x, n):
            return x * 2. + tf.cast(i, tf.float32), n

        bounds = [v1.placeholder(tf.int32, []) for _ in range(3)]
        loop = functional_ops.For(*bounds, [1., 7], body)
        self.assertIn("For", self.ops())
        self.values(*loop, feeds=[dict(zip(bounds, b)) for b in ((0, 4, 1), (9, 0, -2), (3, 3, 1), (0, 4, 0), (0, 4, -1))])

    def test_remote_call(self):
        @function.Defun(tf.int32, tf.int32)
        def f(a, b):
            return a * b

        self.values(*functional_ops.remote_call(args=[tf.constant(6), tf.constant(7)], Tout=[tf.int32], f=f,
                                                target="/job:localhost/replica:0/task:0/cpu:0"))

    def test_effects_run_with_the_call(self):
        v = v1.get_variable("v", initializer=1., use_resource=True)
        w = v1.get_variable("w", initializer=10., use_resource=True)

        @tf.function
        def update(x):
            v.assign_add(x)
            w.assign(v * 2.)
            return x + 1.

        y = update(tf.constant(5.))
        with tf.control_dependencies([y]):
            after = v.read_value()
        init = v1.global_variables_initializer()
        self.compare([Step(targets=[init.name]), Step(fetches=[y.name]), Step(fetches=[v.value().name, w.value().name]),
                      Step(targets=[y.op.name]), Step(fetches=[v.value().name]), Step(fetches=[after.name]),
                      Step(fetches=[w.value().name])])

    def test_control_dependencies_of_a_call(self):
        v = v1.get_variable("v", initializer=1., use_resource=True)

        @tf.function
        def read():
            return v.read_value() + 0., tf.constant(3.)

        with tf.control_dependencies([v.assign_add(4.)]):
            after = read()
        with tf.control_dependencies([after[0]]):
            last = v.assign_add(1., read_value=False)
        init = v1.global_variables_initializer()
        self.compare([Step(targets=[init.name]), Step(fetches=[after[0].name, after[1].name]),
                      Step(fetches=[after[0].name], targets=[last.name]), Step(fetches=[v.value().name])])

    def test_devices(self):
        @tf.function
        def f(x):
            with tf.device("/cpu:0"):
                y = x + 1.
            return y * 2.

        with tf.device("/job:localhost/replica:0/task:0"):
            self.values(f(tf.constant(1.)))

    def test_gradient_of_a_call(self):
        w = v1.get_variable("w", initializer=np.float32([[1., -2.], [3., .5]]), use_resource=True)

        @tf.function
        def layer(x):
            return tf.nn.relu(tf.matmul(x, w))

        x = tf.constant([[1., 2.], [-3., 4.]])
        loss = tf.reduce_sum(layer(layer(x)) ** 2)
        gradients = tf.gradients(loss, [x, w])
        self.compare([Step(targets=[v1.global_variables_initializer().name]),
                      Step(fetches=[loss.name] + [g.name for g in gradients])])

    # Conditionals.

    def test_cond(self):
        p, x = v1.placeholder(tf.bool, []), v1.placeholder(tf.float32, [None])
        y, z = tf.cond(p, lambda: (x + 1., tf.constant(7)), lambda: (tf.zeros([2, 2]), tf.size(x)))
        self.assertIn("StatelessIf", self.ops())
        self.values(y, z, feeds=[{p: True, x: [1., 2.]}, {p: False, x: [1., 2.]}, {p: True, x: []}])

    def test_cond_takes_one_branch(self):
        p = v1.placeholder(tf.bool, [])
        v = v1.get_variable("v", initializer=0., use_resource=True)

        def checked():
            with tf.control_dependencies([tf.debugging.Assert(False, ["the wrong branch"])]):
                return tf.identity(v.assign_add(100.))

        y = tf.cond(p, checked, lambda: v.assign_add(1.) + 0.)
        after = v.value()
        self.compare([Step(targets=[v1.global_variables_initializer().name]), Step({p.name: False}, [y.name]),
                      Step({p.name: False}, [], [y.op.name]), Step({p.name: True}, [y.name]), Step(fetches=[after.name])])

    def test_cond_of_a_number(self):
        @tf.function
        def yes(x):
            return x + 1

        @tf.function
        def no(x):
            return x - 1

        x = v1.placeholder(tf.int32, [])
        c = tf.constant(5)
        names = [f.get_concrete_function(tf.TensorSpec([], tf.int32)) for f in (yes, no)]
        for f in names:
            f.add_to_graph(self.graph)
        y = tf.raw_ops.If(cond=x, input=[c], Tout=[tf.int32], then_branch=names[0], else_branch=names[1])[0]
        self.values(y, feeds=[{x: 0}, {x: 3}, {x: -1}])

    def test_nested_conds(self):
        a, b = v1.placeholder(tf.bool, []), v1.placeholder(tf.bool, [])
        x = tf.constant(3.)
        y = tf.cond(a, lambda: tf.cond(b, lambda: x + 1., lambda: x), lambda: tf.cond(b, lambda: x * 2., lambda: -x))
        z = tf.cond(a, lambda: y, lambda: tf.constant(1.))
        self.values(y, z, feeds=[{a: i, b: j} for i in (True, False) for j in (True, False)])

    def test_gradient_of_cond(self):
        p, x = v1.placeholder(tf.bool, []), v1.placeholder(tf.float32, [2])
        y = tf.cond(p, lambda: tf.exp(x) * x, lambda: tf.sin(x) * 2.)
        (g,) = tf.gradients(y, x)
        self.values(y, g, feeds=[{p: True, x: [1., 2.]}, {p: False, x: [1., 2.]}])

    def test_switch_case(self):
        i = v1.placeholder(tf.int32, [])
        x = tf.constant([1., 2.])
        y = tf.switch_case(i, [lambda: x + 1., lambda: x * 10., lambda: tf.reverse(x, [0])])
        self.assertIn("StatelessCase", self.ops())
        (g,) = tf.gradients(y, x)
        self.values(y, g, feeds=[{i: n} for n in (-1, 0, 1, 2, 3)])

    # Loops.

    def test_while(self):
        n = v1.placeholder(tf.int32, [])
        limit = tf.constant(3)
        i, s = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s * 2. + tf.cast(limit, tf.float32)), [0, 1.])
        self.assertIn("StatelessWhile", self.ops())
        self.values(i, s, feeds=[{n: 0}, {n: 1}, {n: 10}])

    def test_while_changes_shapes(self):
        x = tf.constant([1., 2.])
        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.concat([y, y + 1.], 0)), [0, x],
                             shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])])
        self.values(y)

    def test_nested_whiles(self):
        def outer(i, total):
            _, row = tf.while_loop(lambda j, s: j <= i, lambda j, s: (j + 1, s + i * j), [0, 0])
            return i + 1, total + row

        n = v1.placeholder(tf.int32, [])
        self.values(*tf.while_loop(lambda i, total: i < n, outer, [0, 0]), feeds=[{n: 0}, {n: 1}, {n: 6}])

    def test_while_in_cond_and_cond_in_while(self):
        p = v1.placeholder(tf.bool, [])

        def body(i, x):
            return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: x * 3, lambda: x + 1)

        y = tf.cond(p, lambda: tf.while_loop(lambda i, x: i < 7, body, [0, 1])[1], lambda: tf.constant(-1))
        self.values(y, feeds=[{p: True}, {p: False}])

    def test_while_with_effects(self):
        v = v1.get_variable("v", initializer=0, use_resource=True)

        @tf.function
        def run():
            i = tf.constant(0)
            while i < 5:
                v.assign_add(i)
                i += 1
            while v < 100:
                v.assign_add(7)
            return i

        y = run()
        self.compare([Step(targets=[v1.global_variables_initializer().name]), Step(fetches=[y.name]),
                      Step(fetches=[v.value().name])])

    def test_calls_in_a_loop(self):
        @tf.function
        def f(x):
            return x * tf.constant(2.) + tf.constant([1., 1.])

        _, y = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, f(f(y))), [0, tf.constant([0., 1.])])
        self.values(y)

    def test_calls_in_v1_control_flow(self):
        v1.disable_control_flow_v2()
        v = v1.get_variable("v", initializer=0., use_resource=True)

        @function.Defun(tf.float32)
        def f(x):
            return x * tf.constant(2.) + 1.

        @function.Defun(tf.float32)
        def constant(x):
            return tf.constant([4., 5.])

        p = v1.placeholder(tf.bool, [])
        y = tf.cond(p, lambda: constant(f(v)), lambda: tf.constant([0., 0.]) + f(1.))
        z = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, f(x)), [0, 1.],
                          shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])[1]
        self.assertIn("Switch", self.ops())
        self.assertIn("Enter", self.ops())
        init = v1.global_variables_initializer().name
        self.compare([Step(targets=[init])] + [Step({p.name: b}, [y.name, z.name]) for b in (True, False)])

    def test_v1_loop_in_a_function_called_twice(self):
        v1.disable_control_flow_v2()

        @function.Defun(tf.float32)
        def f(x):
            return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2.), [0, x])[1]

        self.assertIn("Enter", self.ops() | {n.op for n in f.definition.node_def})
        self.values(f(1.), f(f(tf.constant(5.))))

    def test_random_in_functions_goes_on(self):
        @tf.function
        def noise():
            return tf.random.uniform([3], seed=4)

        a, b = noise(), noise()
        results = run_thalweg(self.graph, [Step(fetches=[a.name, b.name]), Step(fetches=[b.name, a.name])])
        self.assertFalse(np.array_equal(results[0][0], results[1][1]))

    def test_gradient_of_while(self):
        x = v1.placeholder(tf.float32, [2])
        y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y) * x), [0, x])[1]
        (g,) = tf.gradients(y, x)
        self.values(y, g, feeds=[{x: [.5, 1.5]}])

    def test_training_with_a_recurrent_cell(self):
        w = v1.get_variable("w", initializer=np.float32(np.eye(3) * .5), use_resource=True)
        x = tf.constant(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))

        def cell(i, h):
            return i + 1, tf.tanh(tf.matmul(h, w) + tf.reshape(x[i], [1, 3]))

        _, h = tf.while_loop(lambda i, h: i < 4, cell, [0, tf.zeros([1, 3])])
        loss = tf.reduce_sum((h - 1.) ** 2)
        train = v1.train.GradientDescentOptimizer(.1).minimize(loss)
        self.compare([Step(targets=[v1.global_variables_initializer().name])] +
                     [Step(fetches=[loss.name], targets=[train.name])] * 5 + [Step(fetches=[w.value().name])])

    def test_arrays_of_a_loop(self):
        n = v1.placeholder(tf.int32, [])
        x = v1.placeholder(tf.float32, [None])
        array = tf.TensorArray(tf.float32, size=n, element_shape=[])
        _, array = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, x[i] ** 2)), [0, array])
        y = array.stack()
        (g,) = tf.gradients(tf.reduce_sum(y * y), x)
        self.values(y, g, feeds=[{n: 3, x: [1., 2., 3.]}, {n: 1, x: [4., 5.]}])


if __name__ == "__main__":
    v1.disable_eager_execution()
    unittest.main()
