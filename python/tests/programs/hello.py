# SPDX-License-Identifier: Apache-2.0
"""The tutorials' first program: one task, in this process."""

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

hello = tf.constant("Hello, distributed TensorFlow!")
server = tf.train.Server.create_local_server()
with tf.Session(server.target) as sess:
    print(sess.run(hello).decode())
