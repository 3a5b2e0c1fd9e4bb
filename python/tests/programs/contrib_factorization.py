# SPDX-License-Identifier: Apache-2.0
"""Resampler and matrix factorization of tf.contrib, on a server. Prints the results."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib.factorization.python.ops import gen_factorization_ops

tf.logging.set_verbosity(tf.logging.ERROR)
server = tf.train.Server.create_local_server()
random = np.random.RandomState(0)


def show(name, *tensors):
    """Prints what each tensor gives, or the first line of its error."""
    with tf.Session(server.target) as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for i, tensor in enumerate(tensors):
            try:
                value = np.asarray(session.run(tensor))
                text = (value.astype(np.float64).round(3) + 0.0 if value.dtype.kind == "f" else value).tolist()
            except tf.errors.OpError as error:
                text = type(error).__name__
            print("RESULT %s %d %s" % (name, i, text), flush=True)


def resampler():
    data, warp = tf.constant(random.randn(2, 4, 5, 3)), tf.constant(random.uniform(-2, 6, (2, 8, 2)))
    for dtype in (tf.float32, tf.float64):
        x, w = tf.cast(data, dtype), tf.cast(warp, dtype)
        y = tf.contrib.resampler.resampler(x, w)
        show("resampler %s" % dtype.name, y, *tf.gradients(y * y, [x, w]))


def factorization():
    places = np.array([[0, 0], [0, 1], [1, 1], [3, 0], [3, 2]], np.int64)
    entries = tf.SparseTensor(places, [1.0, 2.0, 3.0, 4.0, 5.0], [4, 3])
    for weights in (None, 1.0):
        with tf.variable_scope("model_%s" % weights):
            model = tf.contrib.factorization.WALSModel(
                4, 3, 2, num_row_shards=2, regularization=0.1, unobserved_weight=0.1, row_weights=weights,
                col_weights=weights, row_init=[random.randn(2, 2), random.randn(2, 2)], col_init=[random.randn(3, 2)])
        with tf.Session(server.target) as session:
            session.run(tf.global_variables_initializer())
            session.run(model.worker_init)
            for _ in range(3):
                for prepare, initialize, update in (
                        (model.row_update_prep_gramian_op, model.initialize_row_update_op,
                         model.update_row_factors(sp_input=entries)[1]),
                        (model.col_update_prep_gramian_op, model.initialize_col_update_op,
                         model.update_col_factors(sp_input=entries)[1])):
                    session.run(prepare)
                    session.run(initialize)
                    session.run(update)
            for name, factors in (("rows", model.row_factors), ("columns", model.col_factors)):
                values = np.concatenate(session.run(factors)).astype(np.float64)
                print("RESULT wals %s %s %s" % (weights, name, values.round(2).tolist()), flush=True)
    masked = gen_factorization_ops.masked_matmul
    a, b = random.randn(4, 2).astype(np.float32), random.randn(2, 3).astype(np.float32)
    show("masked_matmul", masked(a, b, places, False, False), masked(a.T, b, places, True, False),
         masked(a, b.T, places, False, True), masked(a.T, b.T, places, True, True), masked(a, b, places, True, False))


for part in (resampler, factorization):
    with tf.Graph().as_default():
        part()
print("RESULT end", flush=True)
