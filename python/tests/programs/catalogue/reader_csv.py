# SPDX-License-Identifier: Apache-2.0
"""Files of comma-separated values through TextLineReader; a local server, one task."""

import os
import tempfile

import tensorflow.compat.v1 as tf

from toy_data import linear

tf.disable_v2_behavior()

folder = tempfile.mkdtemp()
x, y = linear(200)
for part in range(2):
    with open(os.path.join(folder, "part-%d.csv" % part), "w") as file:
        for row, target in zip(x[part::2], y[part::2]):
            file.write(",".join("%.6f" % v for v in list(row) + list(target)) + "\n")

server = tf.train.Server.create_local_server()
names = tf.train.string_input_producer(tf.train.match_filenames_once(os.path.join(folder, "*.csv")), shuffle=False,
                                       num_epochs=20)
reader = tf.TextLineReader()
_, line = reader.read(names)
columns = tf.decode_csv(line, record_defaults=[[0.0]] * 5)
features, target = tf.train.batch([tf.stack(columns[:4]), tf.stack(columns[4:])], batch_size=20, capacity=100)
w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
loss = tf.reduce_mean(tf.squared_difference(tf.matmul(features, w), target))
step = tf.train.get_or_create_global_step()
train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss, step)

with tf.Session(server.target) as sess:
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess, coord)
    try:
        while not coord.should_stop():
            _, value = sess.run([train, loss])
    except tf.errors.OutOfRangeError:
        pass
    finally:
        coord.request_stop()
    coord.join(threads)
    weights = sess.run(w).ravel()
    print("RESULT steps=%d loss=%.5f w0=%.4f w3=%.4f" % (sess.run(step), value, weights[0], weights[3]), flush=True)
