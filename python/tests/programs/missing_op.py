# SPDX-License-Identifier: Apache-2.0
"""Runs an op that Thalweg does not have (TensorFlow has it for its own tests), after others that it has."""

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
server = tf.train.Server.create_local_server()
with tf.Session(server.target) as session:
    missing = tf.raw_ops.Fact(name="claim")
    print("one is %d" % session.run(tf.constant(1)), flush=True)
    session.run(tf.strings.join([missing, "!"]))
