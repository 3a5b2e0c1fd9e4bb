# SPDX-License-Identifier: Apache-2.0
"""Distributed MNIST, between-graph replication, asynchronous or synchronous."""

import argparse
import time

import tensorflow.compat.v1 as tf

from mnist_data import Images

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--is_sync", action="store_true")
parser.add_argument("--data_dir", default="/usr/share/datasets/fashion-mnist")
parser.add_argument("--checkpoint_dir", default=None)
parser.add_argument("--steps", type=int, default=2000)
FLAGS = parser.parse_args()


def model(images):
    net = tf.layers.dense(images, 500, activation=tf.nn.relu)
    net = tf.layers.dense(net, 500, activation=tf.nn.relu)
    return tf.layers.dense(net, 10)


def main():
    ps_hosts = FLAGS.ps_hosts.split(",")
    worker_hosts = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return

    is_chief = FLAGS.task_index == 0
    data = Images(FLAGS.data_dir, "train", seed=FLAGS.task_index)
    with tf.device(tf.train.replica_device_setter(
            worker_device="/job:worker/task:%d" % FLAGS.task_index, cluster=cluster)):
        images = tf.placeholder(tf.float32, [None, 784])
        labels = tf.placeholder(tf.int32, [None])
        logits = model(images)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        tf.summary.scalar("loss", loss)
        global_step = tf.train.get_or_create_global_step()
        optimizer = tf.train.AdamOptimizer(learning_rate=1e-4)
        hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps)]
        if FLAGS.is_sync:
            optimizer = tf.train.SyncReplicasOptimizer(
                optimizer, replicas_to_aggregate=len(worker_hosts), total_num_replicas=len(worker_hosts))
            hooks.append(optimizer.make_session_run_hook(is_chief, num_tokens=0))
        train_op = optimizer.minimize(loss, global_step=global_step)

    start, first, report = time.time(), None, 0
    with tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=is_chief, checkpoint_dir=FLAGS.checkpoint_dir, hooks=hooks,
            save_checkpoint_secs=60 if FLAGS.checkpoint_dir else None) as session:
        while not session.should_stop():
            batch_images, batch_labels = data.next_batch(32)
            _, value, step = session.run([train_op, loss, global_step], {images: batch_images, labels: batch_labels})
            if first is None:
                first = step
                print("First step %d" % step, flush=True)
            # Other workers' steps count too, so a worker does not see every number.
            if step >= report or session.should_stop():
                report = step + 100
                print("Train step %d, loss: %f" % (step, value), flush=True)
    print("Done at step %d, loss: %f, %.1f s" % (step, value, time.time() - start), flush=True)


main()
