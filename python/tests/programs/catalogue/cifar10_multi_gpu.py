# SPDX-License-Identifier: Apache-2.0
"""The CIFAR-10 tutorial with several GPUs on each worker of a cluster. Soft placement runs towers on the CPU.

Towers share variables on the parameter server; each worker averages its towers' gradients and applies them.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

from toy_data import Digits

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
parser.add_argument("--num_gpus", type=int, default=2)
parser.add_argument("--max_steps", type=int, default=160)
FLAGS = parser.parse_args()
TOWER_NAME, BATCH, MOVING_AVERAGE_DECAY = "tower", 32, 0.99
NUM_EXAMPLES_PER_EPOCH = 600


def variable_on_cpu(name, shape, initializer):
    with tf.device("/job:ps/task:0/cpu:0"):
        return tf.get_variable(name, shape, initializer=initializer, dtype=tf.float32)


def variable_with_weight_decay(name, shape, stddev, wd, seed):
    var = variable_on_cpu(name, shape, tf.truncated_normal_initializer(stddev=stddev, seed=seed))
    if wd is not None:
        tf.add_to_collection("losses", tf.multiply(tf.nn.l2_loss(var), wd, name="weight_loss"))
    return var


def inference(images):
    with tf.variable_scope("conv1") as scope:
        kernel = variable_with_weight_decay("weights", [5, 5, 1, 8], 0.1, None, 1)
        biases = variable_on_cpu("biases", [8], tf.constant_initializer(0.0))
        conv1 = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(images, kernel, [1, 1, 1, 1], padding="SAME"), biases),
                           name=scope.name)
    pool1 = tf.nn.max_pool(conv1, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME", name="pool1")
    norm1 = tf.nn.lrn(pool1, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name="norm1")
    with tf.variable_scope("local2") as scope:
        reshape = tf.reshape(norm1, [BATCH, -1])
        weights = variable_with_weight_decay("weights", [reshape.shape[1].value, 32], 0.04, 0.001, 2)
        local2 = tf.nn.relu(tf.matmul(reshape, weights) + variable_on_cpu("biases", [32], tf.constant_initializer(0.1)),
                            name=scope.name)
    with tf.variable_scope("softmax_linear") as scope:
        weights = variable_with_weight_decay("weights", [32, 10], 0.1, None, 3)
        return tf.add(tf.matmul(local2, weights), variable_on_cpu("biases", [10], tf.constant_initializer(0.0)),
                      name=scope.name)


def tower_loss(scope, images, labels):
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=inference(images))
    tf.add_to_collection("losses", tf.reduce_mean(cross_entropy, name="cross_entropy"))
    return tf.add_n(tf.get_collection("losses", scope), name="total_loss")


def average_gradients(tower_grads):
    average_grads = []
    for grad_and_vars in zip(*tower_grads):
        grad = tf.reduce_mean(tf.concat(axis=0, values=[tf.expand_dims(g, 0) for g, _ in grad_and_vars]), 0)
        average_grads.append((grad, grad_and_vars[0][1]))
    return average_grads


def train(server, worker):
    with tf.device("/job:ps/task:0/cpu:0"):
        global_step = tf.train.get_or_create_global_step()
        decay_steps = NUM_EXAMPLES_PER_EPOCH // BATCH
        lr = tf.train.exponential_decay(0.3, global_step, 10 * decay_steps, 0.9, staircase=True)
    opt = tf.train.GradientDescentOptimizer(lr)
    digits = Digits(seed=FLAGS.task_index)
    with tf.device(worker + "/cpu:0"):
        dataset = tf.data.Dataset.from_tensor_slices((digits.images.reshape(-1, 12, 12, 1), digits.labels))
        dataset = dataset.repeat().shuffle(200, seed=1).batch(BATCH, drop_remainder=True).prefetch(2)
        iterator = tf.data.make_initializable_iterator(dataset)
        tf.add_to_collection(tf.GraphKeys.LOCAL_INIT_OP, iterator.initializer)
    tower_grads = []
    with tf.variable_scope(tf.get_variable_scope()):
        for i in range(FLAGS.num_gpus):
            with tf.device(worker + "/gpu:%d" % i), tf.name_scope("%s_%d" % (TOWER_NAME, i)) as scope:
                image_batch, label_batch = iterator.get_next()
                loss = tower_loss(scope, image_batch, label_batch)
                tf.get_variable_scope().reuse_variables()
                tower_grads.append(opt.compute_gradients(loss))
    with tf.device("/job:ps/task:0/cpu:0"):
        apply_gradient_op = opt.apply_gradients(average_gradients(tower_grads), global_step=global_step)
        variable_averages = tf.train.ExponentialMovingAverage(MOVING_AVERAGE_DECAY, global_step)
        with tf.control_dependencies([apply_gradient_op]):
            train_op = tf.group(apply_gradient_op, variable_averages.apply(tf.trainable_variables()))
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.max_steps), tf.train.NanTensorHook(loss)]
    config = tf.ConfigProto(allow_soft_placement=True, device_filters=["/job:ps", worker])
    scaffold = tf.train.Scaffold(local_init_op=tf.group(tf.local_variables_initializer(), iterator.initializer))
    losses = []
    with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, scaffold=scaffold, hooks=hooks,
                                           config=config) as mon_sess:
        while not mon_sess.should_stop():
            losses.append(mon_sess.run([train_op, loss])[1])
    print("RESULT loss=%.4f" % np.mean(losses[-5:]), flush=True)


spec = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(spec, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps":
    server.join()
else:
    train(server, "/job:worker/task:%d" % FLAGS.task_index)
