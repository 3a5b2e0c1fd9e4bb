# SPDX-License-Identifier: Apache-2.0
"""The shape of the CIFAR-10 tutorial: files -> queue runners -> CNN with LRN, decayed rate, moving averages, summaries."""

import argparse
import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10)
FLAGS = parser.parse_args()


def write_records(path, n):
    random = np.random.RandomState(0)
    with open(path, "wb") as file:
        for _ in range(n):
            label = random.randint(2)
            image = np.clip(random.randn(3, 8, 8) * 20 + (60 if label else 180), 0, 255).astype(np.uint8)
            file.write(bytes(bytearray([label])) + image.tobytes())


def inputs(path, batch):
    queue = tf.train.string_input_producer([path])
    _, value = tf.FixedLengthRecordReader(record_bytes=1 + 3 * 8 * 8).read(queue)
    record = tf.decode_raw(value, tf.uint8)
    label = tf.cast(record[0], tf.int32)
    image = tf.transpose(tf.reshape(tf.strided_slice(record, [1], [1 + 3 * 8 * 8]), [3, 8, 8]), [1, 2, 0])
    image = tf.image.per_image_standardization(tf.cast(image, tf.float32))
    return tf.train.shuffle_batch([image, label], batch, capacity=200, min_after_dequeue=50, num_threads=2)


def model(images):
    with tf.variable_scope("conv1"):
        kernel = tf.get_variable("weights", [3, 3, 3, 8], initializer=tf.truncated_normal_initializer(stddev=5e-2))
        biases = tf.get_variable("biases", [8], initializer=tf.constant_initializer(0.0))
        net = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(images, kernel, [1, 1, 1, 1], padding="SAME"), biases))
        tf.summary.histogram("activations", net)
    net = tf.nn.max_pool(net, [1, 3, 3, 1], [1, 2, 2, 1], padding="SAME")
    net = tf.nn.lrn(net, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)
    net = tf.reshape(net, [-1, 4 * 4 * 8])
    with tf.variable_scope("softmax"):
        weights = tf.get_variable("weights", [128, 2], initializer=tf.truncated_normal_initializer(stddev=0.04))
        tf.add_to_collection("losses", 0.004 * tf.nn.l2_loss(weights))
        biases = tf.get_variable("biases", [2], initializer=tf.constant_initializer(0.0))
        return tf.matmul(net, weights) + biases


def main():
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "data.bin")
    write_records(path, 200)
    server = tf.train.Server.create_local_server()
    with tf.device("/cpu:0"):
        images, labels = inputs(path, 16)
        logits = model(images)
        cross_entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        tf.add_to_collection("losses", cross_entropy)
        loss = tf.add_n(tf.get_collection("losses"))
        loss_averages = tf.train.ExponentialMovingAverage(0.9, name="avg").apply([loss])
        global_step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.1, global_step, 100, 0.1, staircase=True)
        tf.summary.scalar("learning_rate", rate)
        with tf.control_dependencies([loss_averages]):
            optimizer = tf.train.GradientDescentOptimizer(rate)
            grads = optimizer.compute_gradients(loss)
        apply_op = optimizer.apply_gradients(grads, global_step=global_step)
        averages = tf.train.ExponentialMovingAverage(0.999, global_step)
        with tf.control_dependencies([apply_op]):
            train_op = averages.apply(tf.trainable_variables())
        right = tf.reduce_sum(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.int32))
    summaries = tf.summary.merge_all()
    with tf.Session(server.target) as sess:
        sess.run(tf.global_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        writer = tf.summary.FileWriter(folder, sess.graph)
        for step in range(FLAGS.steps):
            _, value, summary = sess.run([train_op, loss, summaries])
            writer.add_summary(summary, step)
        saver = tf.train.Saver(averages.variables_to_restore())
        saver.save(sess, os.path.join(folder, "model"), global_step=global_step)
        print("loss %.3f, %d of 16 right, step %d" % (value, sess.run(right), sess.run(global_step)))
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=20)
        writer.close()
    assert tf.train.latest_checkpoint(folder), "no checkpoint"


main()
