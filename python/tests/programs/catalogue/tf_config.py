# SPDX-License-Identifier: Apache-2.0
"""A task that learns who it is from TF_CONFIG, as TonY and Kubeflow set it; a chief beside the workers."""

import json
import os

import tensorflow.compat.v1 as tf

from toy_data import linear

tf.disable_v2_behavior()


def main():
    config = json.loads(os.environ["TF_CONFIG"])
    cluster = tf.train.ClusterSpec(config["cluster"])
    job, index = config["task"]["type"], config["task"]["index"]
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        server.join()
        return
    is_chief = job == "chief"
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device="/job:%s/task:%d" % (job, index))):
        x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
        prediction = tf.layers.dense(x, 1, kernel_initializer=tf.zeros_initializer())
        loss = tf.losses.mean_squared_error(y, prediction)
        step = tf.train.get_or_create_global_step()
        train = tf.train.FtrlOptimizer(0.5).minimize(loss, step)
    xs, ys = linear(256, seed=index)
    filters = tf.ConfigProto(device_filters=["/job:ps", "/job:%s/task:%d" % (job, index)])
    with tf.train.MonitoredTrainingSession(server.target, is_chief, config=filters,
                                           hooks=[tf.train.StopAtStepHook(last_step=300)]) as sess:
        value = None
        while not sess.should_stop():
            value = sess.run([loss, train], {x: xs, y: ys})[0]
    print("RESULT loss=%.5f" % value, flush=True)


main()
