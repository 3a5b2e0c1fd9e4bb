# SPDX-License-Identifier: Apache-2.0
"""MNIST for beginners on a cluster: softmax regression, feeds, Supervisor.managed_session, asynchronous."""

import tensorflow.compat.v1 as tf

from toy_data import Digits

tf.disable_v2_behavior()

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "")
flags.DEFINE_string("worker_hosts", "", "")
flags.DEFINE_string("job_name", "", "")
flags.DEFINE_integer("task_index", 0, "")
flags.DEFINE_string("logdir", None, "")
FLAGS = flags.FLAGS


def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    elif FLAGS.job_name == "worker":
        with tf.device(tf.train.replica_device_setter(
                worker_device="/job:worker/task:%d" % FLAGS.task_index, cluster=cluster)):
            x = tf.placeholder(tf.float32, [None, 144])
            y_ = tf.placeholder(tf.float32, [None, 10])
            W = tf.Variable(tf.zeros([144, 10]))
            b = tf.Variable(tf.zeros([10]))
            y = tf.matmul(x, W) + b
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y))
            global_step = tf.Variable(0, name="global_step", trainable=False)
            train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=global_step)
            accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1)), tf.float32))
            saver = tf.train.Saver()
            summary_op = tf.summary.merge([tf.summary.scalar("loss", loss), tf.summary.histogram("W", W)])
            init_op = tf.global_variables_initializer()
        sv = tf.train.Supervisor(is_chief=FLAGS.task_index == 0, logdir=FLAGS.logdir, init_op=init_op,
                                 summary_op=summary_op if FLAGS.task_index == 0 else None, saver=saver,
                                 global_step=global_step, save_model_secs=600, save_summaries_secs=600,
                                 recovery_wait_secs=1)
        data = Digits(seed=FLAGS.task_index)
        config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
        with sv.managed_session(server.target, config=config) as sess:
            step = 0
            while not sv.should_stop() and step < 200:
                images, labels = data.next_batch(50)
                _, step = sess.run([train_op, global_step], feed_dict={x: images, y_: labels})
                if step % 100 == 0:
                    print("step %d" % step, flush=True)
            test = Digits(seed=99)
            print("RESULT accuracy=%.4f" % sess.run(accuracy, {x: test.images, y_: test.one_hot}), flush=True)
        sv.stop()


if __name__ == "__main__":
    tf.app.run()
