# SPDX-License-Identifier: Apache-2.0
"""Reads its place in the cluster from the variables that TonY sets: CLUSTER_SPEC, JOB_NAME and TASK_INDEX."""

import json
import os
import tempfile

import tensorflow as tf

from toy_data import Digits

STEPS, BATCH, HIDDEN = 300, 50, 32


def deepnn(x):
    with tf.name_scope("fc1"):
        w = tf.Variable(tf.truncated_normal([144, HIDDEN], stddev=0.1, seed=1))
        b = tf.Variable(tf.constant(0.1, shape=[HIDDEN]))
        h = tf.nn.relu(tf.matmul(x, w) + b)
    with tf.name_scope("dropout"):
        keep_prob = tf.placeholder(tf.float32)
        h = tf.nn.dropout(h, keep_prob)
    with tf.name_scope("fc2"):
        w = tf.Variable(tf.truncated_normal([HIDDEN, 10], stddev=0.1, seed=2))
        return tf.matmul(h, w) + tf.Variable(tf.constant(0.1, shape=[10])), keep_prob


def main(_):
    job_name, task_index = os.environ["JOB_NAME"], int(os.environ["TASK_INDEX"])
    cluster = tf.train.ClusterSpec(json.loads(os.environ["CLUSTER_SPEC"]))
    server = tf.train.Server(cluster, job_name=job_name, task_index=task_index)
    if job_name == "ps":
        server.join()
    digits = Digits(seed=task_index)
    device = tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % task_index, cluster=cluster)
    with tf.device(device):
        x, y_ = tf.placeholder(tf.float32, [None, 144]), tf.placeholder(tf.float32, [None, 10])
        logits, keep_prob = deepnn(x)
        with tf.name_scope("loss"):
            cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y_, logits=logits))
        global_step = tf.train.get_or_create_global_step()
        train_op = tf.train.AdamOptimizer(1e-2).minimize(cross_entropy, global_step=global_step)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(y_, 1)), tf.float32))
        tf.summary.scalar("accuracy", accuracy)
        merged = tf.summary.merge_all()
    folder = tempfile.mkdtemp()
    with tf.summary.FileWriter(folder) as writer, tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=task_index == 0, hooks=[tf.train.StopAtStepHook(STEPS)]) as session:
        while not session.should_stop():
            images, labels = digits.next_batch(BATCH)
            summary, step, _ = session.run([merged, global_step, train_op], {x: images, y_: labels, keep_prob: 0.9})
            if step % 100 == 0:
                writer.add_summary(summary, step)
            if not session.should_stop():
                value = session.run(accuracy, {x: digits.images, y_: digits.one_hot, keep_prob: 1.0})
    print("RESULT accuracy=%.4f" % value, flush=True)


if __name__ == "__main__":
    tf.app.run()
