# SPDX-License-Identifier: Apache-2.0
"""A client without a server: calls a function on devices that it names when it runs."""

import argparse

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import function
from tensorflow.python.ops import functional_ops

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--master", required=True)
FLAGS = parser.parse_args()


@function.Defun(tf.float32, tf.float32)
def multiply(a, b):
    return a * b


x = tf.placeholder(tf.float32, [])
target = tf.placeholder(tf.string, [])
with tf.device("/job:worker/task:0"):
    product, = functional_ops.remote_call(args=[x, tf.constant(7.0)], Tout=[tf.float32], f=multiply, target=target)

with tf.Session(FLAGS.master) as sess:
    for task in ("/job:worker/replica:0/task:1", "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1"):
        metadata = tf.RunMetadata()
        result = sess.run(product, {x: 6.0, target: task + "/device:CPU:0"},
                          tf.RunOptions(output_partition_graphs=True), metadata)
        places = {node.device for graph in metadata.partition_graphs for node in graph.node if node.op == "Mul"}
        assert result == 42 and places == {task + "/device:CPU:0"}, (result, places)
    try:
        sess.run(product, {x: 6.0, target: "/job:nobody/task:0/cpu:0"})
        raise AssertionError("a device that is not there")
    except tf.errors.InvalidArgumentError as e:
        assert "nobody" in e.message, e.message
print("product = %d" % result)
