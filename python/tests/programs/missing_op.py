# SPDX-License-Identifier: Apache-2.0
"""Runs an op that Thalweg does not have, after others that it has."""

import argparse
import threading

import tensorflow.compat.v1 as tf

parser = argparse.ArgumentParser()
parser.add_argument("--how", default="raise", choices=["raise", "near", "thread"])
how = parser.parse_args().how

tf.disable_v2_behavior()
server = tf.train.Server.create_local_server()
with tf.Session(server.target) as session:
    if how == "near":  # TensorFlow has no kernel for it
        values = tf.bitcast(tf.constant([1, 2], tf.uint8), tf.quint8)
        missing = tf.raw_ops.QuantizedReluX(features=values, max_value=1.0, min_features=0.0, max_features=2.0,
                                            name="claim").activations
    else:  # TensorFlow has it for its own tests
        missing = tf.strings.join([tf.raw_ops.Fact(name="claim"), "!"])
    print("one is %d" % session.run(tf.constant(1)), flush=True)
    if how == "thread":
        thread = threading.Thread(target=session.run, args=[missing])
        thread.start()
        thread.join()
        print("the script goes on", flush=True)
    else:
        session.run(missing)
