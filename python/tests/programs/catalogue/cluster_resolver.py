# SPDX-License-Identifier: Apache-2.0
"""The cluster from TFConfigClusterResolver; towers on two CPU devices of each worker, as multi-GPU programs build."""

import tensorflow as tf
from tensorflow.contrib.cluster_resolver import TFConfigClusterResolver

from toy_data import Digits

BATCH = 32


def inference(images):
    """The CIFAR-10 tutorial's style: variables on the CPU, weight decay in a collection."""
    with tf.variable_scope("conv1"):
        kernel = tf.get_variable("weights", [3, 3, 1, 8],
                                 initializer=tf.truncated_normal_initializer(stddev=0.1, seed=1))
        tf.add_to_collection("losses", tf.multiply(tf.nn.l2_loss(kernel), 1e-4))
        conv = tf.nn.bias_add(tf.nn.conv2d(images, kernel, [1, 1, 1, 1], padding="SAME"),
                              tf.get_variable("biases", [8], initializer=tf.constant_initializer(0.0)))
        net = tf.nn.max_pool(tf.nn.relu(conv), [1, 3, 3, 1], [1, 2, 2, 1], padding="SAME")
        net = tf.nn.lrn(net, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)
    with tf.variable_scope("softmax"):
        flat = tf.reshape(net, [-1, 6 * 6 * 8])
        weights = tf.get_variable("weights", [288, 10],
                                  initializer=tf.truncated_normal_initializer(stddev=0.05, seed=2))
        return tf.matmul(flat, weights) + tf.get_variable("biases", [10], initializer=tf.constant_initializer(0.1))


def average_gradients(tower_grads):
    average = []
    for pairs in zip(*tower_grads):
        stacked = tf.concat(axis=0, values=[tf.expand_dims(g, 0) for g, _ in pairs])
        average.append((tf.reduce_mean(stacked, 0), pairs[0][1]))
    return average


def main():
    resolver = TFConfigClusterResolver()
    spec = resolver.cluster_spec()
    config = tf.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
    server = tf.train.Server(spec, job_name=resolver.task_type, task_index=resolver.task_id, config=config)
    if resolver.task_type == "ps":
        server.join()
    me = "/job:%s/task:%d" % (resolver.task_type, resolver.task_id)
    is_chief = resolver.task_type == "chief"
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.1, step, 100, 0.5, staircase=True)
        optimizer = tf.train.GradientDescentOptimizer(rate)
    with tf.device(me + "/cpu:0"):
        digits = Digits(seed=resolver.task_id + is_chief)
        queue = tf.contrib.slim.prefetch_queue.prefetch_queue(tf.train.shuffle_batch(
            [digits.images.reshape(-1, 12, 12, 1), digits.labels], BATCH, 600, 100, enqueue_many=True), capacity=4)
    towers, losses = [], []
    with tf.variable_scope(tf.get_variable_scope()):
        for i in range(2):
            setter = tf.train.replica_device_setter(worker_device=me + "/cpu:%d" % i, ps_device="/job:ps", ps_tasks=1)
            with tf.device(setter), tf.name_scope("tower_%d" % i) as scope:
                images, labels = queue.dequeue()
                cross = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=inference(images))
                tf.add_to_collection("losses", tf.reduce_mean(cross))
                losses.append(tf.add_n(tf.get_collection("losses", scope)))
                tf.get_variable_scope().reuse_variables()
                towers.append(optimizer.compute_gradients(losses[-1]))
    with tf.device(tf.train.replica_device_setter(cluster=spec, worker_device=me)):
        apply = optimizer.apply_gradients(average_gradients(towers), global_step=step)
        averages = tf.train.ExponentialMovingAverage(0.9, step)
        with tf.control_dependencies([apply]):
            train = averages.apply(tf.trainable_variables())
        loss = tf.add_n(losses) / 2
    config.log_device_placement = False
    with tf.train.MonitoredTrainingSession(server.target, is_chief, config=config,
                                           hooks=[tf.train.StopAtStepHook(150)]) as session:
        while not session.should_stop():
            value, _ = session.run([loss, train])
    print("RESULT loss=%.4f" % value, flush=True)


if __name__ == "__main__":
    main()
