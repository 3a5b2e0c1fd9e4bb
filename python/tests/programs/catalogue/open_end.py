# SPDX-License-Identifier: Apache-2.0
"""Synchronous training in a monitored session that is never closed; a plain session then measures the accuracy."""

from datetime import datetime

import tensorflow.compat.v1 as tf

from toy_data import Digits

tf.disable_v2_behavior()
flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "hosts of parameter servers")
flags.DEFINE_string("worker_hosts", "", "hosts of workers")
flags.DEFINE_string("job_name", "worker", "worker or ps")
flags.DEFINE_integer("task_index", 0, "index of the task")
FLAGS = flags.FLAGS


def main(_):
    hosts = {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
    server = tf.train.Server(tf.train.ClusterSpec(hosts), job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    elif FLAGS.job_name == "worker":
        digits = Digits()
        is_chief = FLAGS.task_index == 0
        replicas = len(hosts["worker"])
        with tf.device(tf.train.replica_device_setter(
                worker_device="/job:%s/task:%d/cpu:0" % (FLAGS.job_name, FLAGS.task_index),
                cluster=tf.train.ClusterSpec(hosts))):
            x = tf.placeholder("float", [None, 144])
            y = tf.placeholder("float", [None, 10])
            weights = tf.Variable(tf.zeros([144, 10]))
            bias = tf.Variable(tf.zeros([10]))
            prediction = tf.nn.softmax(tf.matmul(x, weights) + bias)
            loss = tf.reduce_mean(-tf.reduce_sum(y * tf.log(prediction + 1e-9), reduction_indices=1))
            accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(prediction, 1), tf.argmax(y, 1)), tf.float32))
            global_step = tf.Variable(0, name="global_step", trainable=False)
            optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1),
                                                       replicas_to_aggregate=replicas, total_num_replicas=replicas)
            training_op = optimizer.minimize(loss, global_step=global_step)
            hooks = [optimizer.make_session_run_hook(is_chief), tf.train.StopAtStepHook(last_step=60)]
            tf.summary.scalar("loss", loss)
            merged = tf.summary.merge_all()
            session = tf.train.MonitoredTrainingSession(
                master=server.target, is_chief=is_chief, config=tf.ConfigProto(log_device_placement=False), hooks=hooks,
                stop_grace_period_secs=10)
            begin = datetime.now()
            while not session.should_stop():
                xs, ys = digits.next_batch(75)
                _, _, step = session.run((training_op, merged, global_step), feed_dict={x: xs, y: ys})
                if step % 10 == 0:
                    print("%s: worker %d, step %d" % (datetime.now() - begin, FLAGS.task_index, step), flush=True)
            with tf.Session(server.target) as plain:
                value = accuracy.eval({x: digits.images, y: digits.one_hot}, session=plain)
                print("RESULT accuracy=%.4f" % value, flush=True)


if __name__ == "__main__":
    tf.app.run()
