# SPDX-License-Identifier: Apache-2.0
"""Runs an op that Thalweg does not have, after others that it has."""

import argparse
import threading

import tensorflow.compat.v1 as tf

parser = argparse.ArgumentParser()
parser.add_argument("--near", action="store_true", help="an op whose name is close to that of another")
parser.add_argument("--thread", choices=["target", "subclass"], help="run it in a thread, and end well")
FLAGS = parser.parse_args()
tf.disable_v2_behavior()
server = tf.train.Server.create_local_server()
with tf.Session(server.target) as session:
    if FLAGS.near:  # TensorFlow has no kernel for it
        values = tf.bitcast(tf.constant([1, 2], tf.uint8), tf.quint8)
        fails = tf.raw_ops.QuantizedReluX(features=values, max_value=1.0, min_features=0.0, max_features=2.0,
                                          name="claim").activations
    else:  # TensorFlow has it for its own tests
        fails = tf.strings.join([tf.raw_ops.Fact(name="claim"), "!"])
    print("one is %d" % session.run(tf.constant(1)), flush=True)

    class Runner(threading.Thread):

        def run(self):
            session.run(fails)

    if not FLAGS.thread:
        session.run(fails)
    threads = [Runner() if FLAGS.thread == "subclass" else threading.Thread(target=session.run, args=[fails])
               for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("end", flush=True)
