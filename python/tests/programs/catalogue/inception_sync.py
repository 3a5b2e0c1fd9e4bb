# SPDX-License-Identifier: Apache-2.0
"""Inception's distributed training: towers of convolutions side by side, synchronous RMSProp, moving averages.

Updates of batch normalization and averages of the losses run with every step, a Supervisor starts the chief's queue
runner, and the tokens are put before the first step.
"""

import argparse

import tensorflow as tf

from toy_data import Digits

slim = tf.contrib.slim

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
parser.add_argument("--max_steps", type=int, default=60)
FLAGS = parser.parse_args()


def block(net, depth, scope):
    """Convolutions of several sizes and a pooling, concatenated."""
    with tf.variable_scope(scope):
        one = slim.conv2d(net, depth, [1, 1], scope="b0_1x1")
        three = slim.conv2d(slim.conv2d(net, depth, [1, 1], scope="b1_1x1"), depth, [3, 3], scope="b1_3x3")
        five = slim.conv2d(slim.conv2d(net, depth, [1, 1], scope="b2_1x1"), depth, [5, 5], scope="b2_5x5")
        pool = slim.conv2d(slim.avg_pool2d(net, [3, 3], stride=1, padding="SAME"), depth, [1, 1], scope="b3_1x1")
        return tf.concat([one, three, five, pool], 3)


def inference(images):
    arguments = {"decay": 0.9, "epsilon": 0.001, "updates_collections": tf.GraphKeys.UPDATE_OPS}
    with slim.arg_scope([slim.conv2d, slim.fully_connected], weights_regularizer=slim.l2_regularizer(4e-5)), \
            slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm, normalizer_params=arguments,
                           weights_initializer=tf.truncated_normal_initializer(stddev=0.1, seed=1)):
        net = slim.max_pool2d(slim.conv2d(images, 8, [3, 3], scope="conv0"), [2, 2], scope="pool0")
        net = slim.max_pool2d(block(net, 4, "mixed_1"), [2, 2], scope="pool1")
        net = block(net, 4, "mixed_2")
        net = tf.reduce_mean(net, [1, 2])
        return slim.fully_connected(net, 10, activation_fn=None, scope="logits")


def train(server, spec):
    workers, is_chief = spec.num_tasks("worker"), FLAGS.task_index == 0
    worker = "/job:worker/task:%d" % FLAGS.task_index
    with tf.device(tf.train.replica_device_setter(cluster=spec, worker_device=worker)):
        global_step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.05, global_step, 40, 0.8, staircase=True)
        opt = tf.train.RMSPropOptimizer(rate, 0.9, momentum=0.5, epsilon=0.1)

        digits = Digits(seed=FLAGS.task_index)
        image, label = tf.train.slice_input_producer([digits.images.reshape(-1, 12, 12, 1), digits.labels], seed=3)
        images, labels = tf.train.batch([image, label], 32, num_threads=2, capacity=128)
        logits = inference(images)
        tf.losses.sparse_softmax_cross_entropy(labels, logits)
        losses = tf.get_collection(tf.GraphKeys.LOSSES)
        losses += tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        total_loss = tf.add_n(losses, name="total_loss")
        if is_chief:
            loss_averages = tf.train.ExponentialMovingAverage(0.9, name="avg")
            with tf.control_dependencies([loss_averages.apply(losses + [total_loss])]):
                total_loss = tf.identity(total_loss)
        averages = tf.train.ExponentialMovingAverage(0.99, global_step)
        opt = tf.train.SyncReplicasOptimizer(
            opt, replicas_to_aggregate=workers, total_num_replicas=workers, variable_averages=averages,
            variables_to_average=tf.trainable_variables() + tf.moving_average_variables())
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies([tf.group(*updates)]):
            total_loss = tf.identity(total_loss)
        grads = opt.compute_gradients(total_loss)
        apply_gradients_op = opt.apply_gradients(grads, global_step=global_step)
        with tf.control_dependencies([apply_gradients_op]):
            train_op = tf.identity(total_loss, name="train_op")
        chief_queue_runners = [opt.get_chief_queue_runner()]
        init_tokens_op = opt.get_init_tokens_op()
        local_init_op = opt.chief_init_op if is_chief else opt.local_step_init_op
        correct = tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.float32))

    sv = tf.train.Supervisor(is_chief=is_chief, logdir=None, init_op=tf.global_variables_initializer(),
                             local_init_op=local_init_op, ready_for_local_init_op=opt.ready_for_local_init_op,
                             summary_op=None, global_step=global_step, recovery_wait_secs=1, saver=None)
    sess = sv.prepare_or_wait_for_session(server.target, config=tf.ConfigProto(
        allow_soft_placement=True, device_filters=["/job:ps", worker]))
    sv.start_queue_runners(sess, tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS))
    if is_chief:
        sv.start_queue_runners(sess, chief_queue_runners)
        sess.run(init_tokens_op)
    accuracy = []
    while not sv.should_stop():
        try:
            loss_value, step, value = sess.run([train_op, global_step, correct])
        except (tf.errors.OutOfRangeError, tf.errors.CancelledError, tf.errors.AbortedError):
            break  # another worker has ended the training
        accuracy = accuracy[-4:] + [value]
        if step >= FLAGS.max_steps:
            break
    print("RESULT loss=%.4f accuracy=%.4f" % (loss_value, sum(accuracy) / len(accuracy)), flush=True)
    sv.stop()


spec = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(spec, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps":
    server.join()
else:
    train(server, spec)
