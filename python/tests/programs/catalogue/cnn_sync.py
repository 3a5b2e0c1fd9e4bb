# SPDX-License-Identifier: Apache-2.0
"""A small CNN with batch normalization and dropout, trained synchronously, with checkpoints and summaries."""

import argparse
import tempfile

import tensorflow.compat.v1 as tf

from toy_data import Digits

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
FLAGS = parser.parse_args()


def model(images, labels):
    net = tf.reshape(images, [-1, 12, 12, 1])
    net = tf.layers.conv2d(net, 8, 3, padding="same", use_bias=False)
    net = tf.nn.relu(tf.layers.batch_normalization(net, training=True))
    net = tf.layers.max_pooling2d(net, 2, 2)
    net = tf.layers.conv2d(net, 16, 3, padding="same", activation=tf.nn.relu)
    net = tf.layers.flatten(tf.layers.average_pooling2d(net, 2, 2))
    net = tf.layers.dropout(net, 0.1, training=True)
    logits = tf.layers.dense(net, 10)
    return tf.losses.softmax_cross_entropy(labels, logits)


def main():
    worker_hosts = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": worker_hosts})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    is_chief = FLAGS.task_index == 0
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % FLAGS.task_index,
                                                  cluster=cluster)):
        images = tf.placeholder(tf.float32, [None, 144])
        labels = tf.placeholder(tf.float32, [None, 10])
        loss = model(images, labels)
        tf.summary.scalar("loss", loss)
        step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.01, step, 50, 0.9)
        opt = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(rate), replicas_to_aggregate=len(worker_hosts),
                                             total_num_replicas=len(worker_hosts))
        train_op = tf.group(opt.minimize(loss, global_step=step), *tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    data = Digits(seed=FLAGS.task_index)
    hooks = [opt.make_session_run_hook(is_chief), tf.train.StopAtStepHook(last_step=60)]
    with tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=is_chief, checkpoint_dir=tempfile.mkdtemp() if is_chief else None,
            hooks=hooks, save_checkpoint_secs=30, save_summaries_steps=20,
            config=tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])) as sess:
        while not sess.should_stop():
            xs, ys = data.next_batch(32)
            _, value = sess.run([train_op, loss], {images: xs, labels: ys})
    print("RESULT loss=%.4f" % value, flush=True)


main()
