# SPDX-License-Identifier: Apache-2.0
"""A GAN: two networks, two optimizers with var_lists, trained in turns."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps":
    server.join()


def dense(x, units, name, activation=None):
    return tf.layers.dense(x, units, activation, name=name,
                           kernel_initializer=tf.glorot_normal_initializer(seed=len(name)))


def generator(z):
    with tf.variable_scope("generator"):
        return dense(dense(z, 16, "hidden", tf.nn.relu), 2, "out")


def discriminator(x, reuse=False):
    with tf.variable_scope("discriminator", reuse=reuse):
        return dense(dense(x, 16, "hidden_layer", tf.nn.leaky_relu), 1, "score")


with tf.device(tf.train.replica_device_setter(cluster=cluster,
                                              worker_device="/job:worker/task:%d" % FLAGS.task_index)):
    real = tf.placeholder(tf.float32, [None, 2])
    noise = tf.placeholder(tf.float32, [None, 4])
    fake = generator(noise)
    real_logits, fake_logits = discriminator(real), discriminator(fake, reuse=True)
    bce = tf.nn.sigmoid_cross_entropy_with_logits
    d_loss = tf.reduce_mean(bce(labels=tf.ones_like(real_logits), logits=real_logits) +
                            bce(labels=tf.zeros_like(fake_logits), logits=fake_logits))
    g_loss = tf.reduce_mean(bce(labels=tf.ones_like(fake_logits), logits=fake_logits))
    d_vars = [v for v in tf.trainable_variables() if v.name.startswith("discriminator")]
    g_vars = [v for v in tf.trainable_variables() if v.name.startswith("generator")]
    step = tf.train.get_or_create_global_step()
    d_train = tf.train.AdamOptimizer(2e-3, beta1=0.5).minimize(d_loss, var_list=d_vars)
    g_train = tf.train.AdamOptimizer(2e-3, beta1=0.5).minimize(g_loss, var_list=g_vars, global_step=step)

random = np.random.RandomState(FLAGS.task_index)
config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
with tf.train.MonitoredTrainingSession(server.target, FLAGS.task_index == 0, config=config) as sess:
    for _ in range(150):
        batch = random.randn(32, 2) * 0.2 + [1.0, -1.0]
        z = random.uniform(-1, 1, [32, 4])
        sess.run(d_train, {real: batch, noise: z})
        sess.run(g_train, {noise: z})
    dl, gl, samples = sess.run([d_loss, g_loss, fake], {real: batch, noise: z})
print("RESULT d_loss=%.4f g_loss=%.4f mean=%.4f" % (dl, gl, samples.mean()), flush=True)
