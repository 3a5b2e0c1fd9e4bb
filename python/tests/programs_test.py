# SPDX-License-Identifier: Apache-2.0
"""Runs whole programs, written as for TensorFlow 1, on TensorFlow and with Thalweg: the same graph, the same steps."""

import unittest

import numpy as np
import tensorflow as tf
from tensorflow_testlib import ProgramTest, Step

v1 = tf.compat.v1


def random_batch(step, size=16):
    """Images whose label is where the largest of their first five numbers stands."""
    images = np.random.RandomState(step).uniform(0, 1, (size, 20)).astype(np.float32)
    return images, np.argmax(images[:, :5], 1).astype(np.int32)


class ProgramsTest(ProgramTest):
    # Training.

    def train(self, optimizer, model, steps=20, tolerance=1e-4):
        """Twenty steps from the same random weights: every loss, and all variables in the end."""
        images, labels = v1.placeholder(tf.float32, [None, 20]), v1.placeholder(tf.int32, [None])
        loss = model(images, labels)
        train = optimizer.minimize(loss, global_step=v1.train.get_or_create_global_step())
        init = v1.global_variables_initializer()
        run = [Step(targets=[init.name])]
        for step in range(steps):
            x, y = random_batch(step)
            run.append(Step({images.name: x, labels.name: y}, [loss.name], [train.name]))
        run.append(Step(fetches=[v.value().name for v in v1.global_variables()]))
        results = self.compare(run, tolerance)
        self.assertLess(results[-2][0], results[1][0], "the loss goes down")

    @staticmethod
    def mlp(images, labels):
        net = images
        for i, units in enumerate((32, 16, 5)):
            w = v1.get_variable(f"w{i}", [net.shape[1], units], initializer=v1.glorot_uniform_initializer(seed=i + 1))
            b = v1.get_variable(f"b{i}", [units], initializer=v1.zeros_initializer())
            net = tf.matmul(net, w) + b
            net = tf.nn.relu(net) if i < 2 else net
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=net))

    @staticmethod
    def embedding(images, labels):
        """Sparse gradients: rows of a table, some of them twice."""
        table = v1.get_variable("table", [5, 8], initializer=v1.truncated_normal_initializer(seed=7))
        weights = v1.get_variable("weights", [20, 8], initializer=v1.random_normal_initializer(seed=8, stddev=.1))
        rows = v1.nn.embedding_lookup(table, labels)
        return tf.reduce_mean(tf.square(tf.matmul(images, weights) - rows))

    def test_mlp_with_adam(self):
        self.train(v1.train.AdamOptimizer(.01), self.mlp)

    def test_mlp_with_adam_on_resource_variables(self):
        with v1.variable_scope("", use_resource=True):
            self.train(v1.train.AdamOptimizer(.01), self.mlp)

    def test_mlp_with_gradient_descent(self):
        self.train(v1.train.GradientDescentOptimizer(.1), self.mlp)

    def test_mlp_with_momentum(self):
        self.train(v1.train.MomentumOptimizer(.05, .9, use_nesterov=True), self.mlp)

    def test_mlp_with_adagrad(self):
        self.train(v1.train.AdagradOptimizer(.1), self.mlp)

    def test_mlp_with_rmsprop(self):
        self.train(v1.train.RMSPropOptimizer(.005, momentum=.5), self.mlp)

    def test_mlp_with_ftrl(self):
        self.train(v1.train.FtrlOptimizer(.1), self.mlp)

    def test_embedding_with_gradient_descent(self):
        self.train(v1.train.GradientDescentOptimizer(.1), self.embedding)

    def test_embedding_with_momentum(self):
        self.train(v1.train.MomentumOptimizer(.02, .9), self.embedding)

    def test_embedding_with_adagrad(self):
        self.train(v1.train.AdagradOptimizer(.1), self.embedding)

    def test_embedding_with_adam(self):
        self.train(v1.train.AdamOptimizer(.01), self.embedding)

    def test_embedding_with_adam_on_resource_variables(self):
        with v1.variable_scope("", use_resource=True):
            self.train(v1.train.AdamOptimizer(.01), self.embedding)

    def test_readers_after_an_update_see_it(self):
        """Through the one Identity that reads a reference variable: averages are those of the updated values."""
        v = v1.get_variable("v", initializer=np.float32(np.arange(3)), use_resource=False)
        average = v1.train.ExponentialMovingAverage(.5)
        loss = tf.reduce_sum(v * v)  # reads it too, before
        with tf.control_dependencies([v1.train.GradientDescentOptimizer(.25).minimize(loss)]):
            average_op = average.apply([v])
        with tf.control_dependencies([v.assign_add([1., 1., 1.])]):
            added = tf.reduce_sum(v.value())
        fetch = [v.name, average.average(v).name]
        self.compare([Step(targets=[v1.global_variables_initializer().name]), Step(targets=[average_op.name]),
                      Step(fetches=fetch), Step(targets=[average_op.name]),
                      Step(fetches=fetch), Step(fetches=[added.name]), Step(fetches=fetch)])

    def test_clipped_gradients_decay_and_moving_averages(self):
        def model(images, labels):
            loss = self.mlp(images, labels)
            return loss + .001 * tf.add_n([tf.nn.l2_loss(v) for v in v1.trainable_variables()])

        class Clipped(v1.train.GradientDescentOptimizer):
            def apply_gradients(self, gradients, global_step=None, name=None):
                clipped, _ = tf.clip_by_global_norm([g for g, _ in gradients], .5)
                updates = super().apply_gradients(list(zip(clipped, [v for _, v in gradients])), global_step, name)
                average = v1.train.ExponentialMovingAverage(.9, global_step)
                with tf.control_dependencies([updates]):
                    return average.apply([v for _, v in gradients])
        # Of a ref variable TensorFlow's averages may see the value before or after the update.
        with v1.variable_scope("", use_resource=True):
            rate = v1.train.exponential_decay(.5, v1.train.get_or_create_global_step(), 5, .8, staircase=True)
            self.train(Clipped(rate), model)

    # Control flow of v1.

    def test_while_loop(self):
        n = v1.placeholder(tf.int32, [])
        i, total = tf.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t * 2 + tf.cast(i, tf.float32)), [0, 1.])
        self.compare([Step({n.name: np.int32(count)}, [i.name, total.name]) for count in (0, 1, 5, 20)])

    def test_loop_whose_shape_grows(self):
        _, rows = tf.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, tf.concat([x, x[-1:] * 2], 0)),
                                [0, tf.ones([1, 3])], [tf.TensorShape([]), tf.TensorShape([None, 3])])
        self.values(rows)

    def test_nested_loops(self):
        def outer(i, total):
            _, inner = tf.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + i * 10 + j), [0, total])
            return i + 1, inner
        self.values(*tf.while_loop(lambda i, t: i < 6, outer, [0, 0]))

    def test_parallel_iterations(self):
        self.values(*tf.while_loop(lambda i, t: i < 50, lambda i, t: (i + 1, tf.sin(t) + 1), [0, 1.],
                                   parallel_iterations=1))

    def test_cond(self):
        x, y = v1.placeholder(tf.float32, []), v1.placeholder(tf.float32, [])
        bigger = tf.cond(x > y, lambda: x * 10, lambda: y - x)
        both = tf.cond(x > 0, lambda: (x, tf.constant(1)), lambda: (-x, tf.constant(0)))
        slopes = tf.gradients(bigger, [x, y])
        names = [t.name for t in (bigger, *both, *slopes)]
        self.compare([Step({x.name: np.float32(a), y.name: np.float32(b)}, names) for a,
                      b in ((1, 2), (3, 2), (-3, -4))])

    def test_case_of_several(self):
        x = v1.placeholder(tf.int32, [])
        result = v1.case([(tf.equal(x, 1), lambda: tf.constant(17)), (x > 5, lambda: x * 2)],
                         default=lambda: tf.constant(-1))
        self.compare([Step({x.name: np.int32(value)}, [result.name]) for value in (1, 3, 9)])

    def test_cond_in_a_loop(self):
        def body(i, odd, even):
            return tf.cond(tf.equal(i % 2, 0), lambda: (i + 1, odd, even + i), lambda: (i + 1, odd * 2 + i, even))
        self.values(*tf.while_loop(lambda i, *_: i < 15, body, [0, 0, 0]))

    def test_loop_in_a_cond(self):
        n = v1.placeholder(tf.int32, [])
        result = tf.cond(n > 3, lambda: tf.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + i), [0, 0])[1],
                         lambda: -n)
        self.compare([Step({n.name: np.int32(value)}, [result.name]) for value in (2, 7)])

    def test_gradient_of_a_loop(self):
        x, n = tf.constant([1.1, .9, -1.2]), v1.placeholder(tf.int32, [])
        _, power = tf.while_loop(lambda i, p: i < n, lambda i, p: (i + 1, p * x + tf.sin(p)), [0, tf.ones([3])])
        names = [t.name for t in (power, *tf.gradients(power, x))]
        self.compare([Step({n.name: np.int32(count)}, names) for count in (0, 1, 6)])

    def test_gradient_of_nested_loops(self):
        x = tf.constant([[.5, .2], [.1, -.3]])
        def outer(i, total):
            _, inner = tf.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, tf.matmul(t, x) + 1), [0, total])
            return i + 1, tf.tanh(inner)
        _, result = tf.while_loop(lambda i, t: i < 5, outer, [0, tf.eye(2)])
        self.values(result, *tf.gradients(result, x))

    def test_gradient_of_a_cond_in_a_loop(self):
        x = tf.constant(1.5)
        def body(i, t):
            return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: t * x, lambda: t + x * x)
        _, result = tf.while_loop(lambda i, t: i < 7, body, [0, tf.constant(1.)])
        self.values(result, *tf.gradients(result, x))

    def test_scan_and_map(self):
        x = tf.constant(np.random.RandomState(3).uniform(-1, 1, (6, 4)).astype(np.float32))
        sums = v1.scan(lambda total, row: total * .5 + row * row, x)
        rows = v1.map_fn(lambda row: tf.reduce_sum(row) * row, x)
        fold = v1.foldl(lambda total, row: total + row**3, x)
        self.values(sums, rows, fold, *(tf.gradients(t, x)[0] for t in (sums, rows, fold)))

    def recurrent(self, cell_type):
        """A recurrent net over sequences of different lengths, trained."""
        images, labels = v1.placeholder(tf.float32, [None, 20]), v1.placeholder(tf.int32, [None])
        sequences = tf.reshape(images, [-1, 5, 4])
        with v1.variable_scope("net", initializer=v1.glorot_uniform_initializer(seed=5)):
            _, state = v1.nn.dynamic_rnn(cell_type(8), sequences, sequence_length=labels + 1, dtype=tf.float32)
            state = state[-1] if isinstance(state, tuple) else state
            w = v1.get_variable("w", [8, 5], initializer=v1.glorot_uniform_initializer(seed=6))
        logits = tf.matmul(state, w)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        train = v1.train.AdamOptimizer(.02).minimize(loss)
        steps = [Step(targets=[v1.global_variables_initializer().name])]
        for step in range(15):
            x, y = random_batch(step)
            steps.append(Step({images.name: x, labels.name: y}, [loss.name], [train.name]))
        steps.append(Step(fetches=[v.value().name for v in v1.trainable_variables()]))
        results = self.compare(steps, 1e-4)
        self.assertLess(results[-2][0], results[1][0], "the loss goes down")

    def test_dynamic_rnn_of_lstm_cells(self):
        self.recurrent(v1.nn.rnn_cell.BasicLSTMCell)

    def test_dynamic_rnn_of_gru_cells(self):
        self.recurrent(v1.nn.rnn_cell.GRUCell)

    def test_variables_in_a_loop(self):
        counter = v1.get_variable("counter", initializer=0)
        def body(i):
            with tf.control_dependencies([v1.assign_add(counter, i)]):
                return i + 1
        loop = tf.while_loop(lambda i: i < 10, body, [0], parallel_iterations=1)
        with tf.control_dependencies(tf.nest.flatten(loop)):
            read = tf.identity(counter.read_value())
        self.compare([Step(targets=[counter.initializer.name]), Step(fetches=[read.name]), Step(fetches=[read.name])])

    # Variables, feeds, errors.

    def test_assigns_and_control_dependencies(self):
        v = v1.get_variable("v", initializer=[1., 2.])
        add = v1.assign_add(v, [10., 10.])
        with tf.control_dependencies([add]):
            doubled = v1.assign(v, v.read_value() * 2)
            with tf.control_dependencies([doubled]):
                after = tf.identity(v.read_value())
        row = v1.scatter_update(v, [1], [-5.])
        self.compare([Step(fetches=[v.value().name]), Step(targets=[v.initializer.name]), Step(fetches=[after.name]),
                      Step(fetches=[after.name, doubled.name]), Step(targets=[row.op.name]),
                      Step(fetches=[v.value().name])])

    def test_feeds_in_the_middle(self):
        x = v1.placeholder(tf.float32, [2])
        middle = x * 2
        end = middle + tf.constant([1., 1.])
        two, default = np.float32([1, 2]), v1.placeholder_with_default([5., 6.], [2])
        total = end + default
        self.compare([Step({middle.name: two}, [end.name]), Step({x.name: two}, [end.name, x.name]),
                      Step({x.name: two}, [total.name]), Step({x.name: two, default.name: two}, [total.name]),
                      Step({end.name: two, x.name: two}, [end.name, middle.name])])

    def test_errors(self):
        x = v1.placeholder(tf.float32, [2])
        v = v1.get_variable("v", initializer=[1., 2.])
        rows = tf.gather(tf.constant([1., 2.]), v1.placeholder_with_default([5], [1]))
        checked = tf.debugging.check_numerics(x, "bad")
        self.compare([Step(fetches=[(x * 2).name]), Step(fetches=[(v + 1).name]), Step(fetches=[rows.name]),
                      Step({x.name: np.float32([1, np.nan])}, [checked.name]), Step(targets=[v.initializer.name]),
                      Step(fetches=[(v + 1).name])])

    def test_random_numbers_go_on(self):
        draws = [tf.random.uniform([3], seed=5), tf.random.normal([4], seed=6), v1.truncated_normal([2], seed=7),
                 v1.random_uniform([2], maxval=10, dtype=tf.int32, seed=8), v1.random_shuffle([1, 2, 3, 4, 5, 6, 7],
                                                                                              seed=9)]
        self.compare([Step(fetches=[t.name for t in draws])] * 3)


if __name__ == "__main__":
    v1.disable_eager_execution()
    v1.disable_v2_behavior()
    unittest.main()
