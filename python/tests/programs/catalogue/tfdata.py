# SPDX-License-Identifier: Apache-2.0
"""tf.data pipelines: shuffled batches with an initializable iterator, evaluation with a reinitializable one."""

import argparse

import tensorflow.compat.v1 as tf

from toy_data import Digits

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
FLAGS = parser.parse_args()


def dataset(digits, training):
    data = tf.data.Dataset.from_tensor_slices((digits.images, digits.labels))
    if training:
        data = data.shuffle(200, seed=3).repeat()
    return data.map(lambda image, label: (image * 2.0 - 1.0, label), num_parallel_calls=2).batch(50).prefetch(1)


def main():
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    worker = "/job:worker/task:%d" % FLAGS.task_index
    with tf.device(worker):
        train_data = dataset(Digits(400, seed=FLAGS.task_index), True)
        test_data = dataset(Digits(200, seed=77), False)
        iterator = tf.data.Iterator.from_structure(tf.data.get_output_types(train_data),
                                                   tf.data.get_output_shapes(train_data))
        start_training, start_test = iterator.make_initializer(train_data), iterator.make_initializer(test_data)
        images, labels = iterator.get_next()
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
        logits = tf.layers.dense(images, 10, kernel_initializer=tf.zeros_initializer())
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        right = tf.reduce_sum(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.int32))
        step = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, step)
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, config=config) as sess:
        sess.run(start_training)
        for _ in range(80):
            _, value = sess.run([train, loss])
        sess.run(start_test)
        total = 0
        try:
            while True:
                total += sess._tf_sess().run(right)
        except tf.errors.OutOfRangeError:
            pass
    print("RESULT accuracy=%.4f loss=%.4f" % (total / 200.0, value), flush=True)


main()
