# SPDX-License-Identifier: Apache-2.0
"""tf.contrib.slim end to end: arg_scope, batch normalization, queues of examples, and slim.learning.train."""

import tempfile

import tensorflow as tf

from toy_data import Digits

slim = tf.contrib.slim
flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "parameter servers")
flags.DEFINE_string("worker_hosts", "", "workers")
flags.DEFINE_string("job_name", "", "ps or worker")
flags.DEFINE_integer("task_index", 0, "index of the task")
FLAGS = flags.FLAGS


def network(images, is_training):
    with slim.arg_scope([slim.conv2d, slim.fully_connected], normalizer_fn=slim.batch_norm,
                        normalizer_params={"is_training": is_training, "decay": 0.9},
                        weights_regularizer=slim.l2_regularizer(1e-4)):
        net = slim.conv2d(images, 8, [3, 3], scope="conv1")
        net = slim.max_pool2d(net, [2, 2], scope="pool1")
        net = slim.repeat(net, 2, slim.conv2d, 8, [3, 3], scope="conv2")
        net = slim.flatten(net)
        net = slim.dropout(net, 0.9, is_training=is_training)
        net = slim.fully_connected(net, 32, scope="fc")
    return slim.fully_connected(net, 10, activation_fn=None, scope="logits")


def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(cluster=cluster)):
        digits = Digits(seed=FLAGS.task_index)
        image, label = tf.train.slice_input_producer([digits.images.reshape(-1, 12, 12, 1), digits.one_hot])
        images, labels = tf.train.batch([image, label], batch_size=32, num_threads=2, capacity=128)
        logits = network(images, is_training=True)
        tf.losses.softmax_cross_entropy(labels, logits)
        total_loss = tf.losses.get_total_loss()
        step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.05, step, 50, 0.9, staircase=True)
        train_op = slim.learning.create_train_op(total_loss, tf.train.RMSPropOptimizer(rate / 10),
                                                 summarize_gradients=True, clip_gradient_norm=5)
        for variable in slim.get_model_variables():
            tf.summary.histogram(variable.op.name, variable)
        loss = slim.learning.train(
            train_op, tempfile.mkdtemp(), master=server.target, is_chief=FLAGS.task_index == 0, number_of_steps=80,
            log_every_n_steps=40, save_summaries_secs=1, save_interval_secs=600,
            startup_delay_steps=0 if FLAGS.task_index == 0 else 5)
    print("RESULT loss=%.4f" % loss, flush=True)


if __name__ == "__main__":
    tf.app.run()
