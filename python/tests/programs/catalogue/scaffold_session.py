# SPDX-License-Identifier: Apache-2.0
"""A Scaffold with every part given, MonitoredSession from session creators, and the zoo of hooks."""

import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

from toy_data import linear

tf.disable_v2_behavior()
tf.flags.DEFINE_string("ps_hosts", None, "")
tf.flags.DEFINE_string("worker_hosts", None, "")
tf.flags.DEFINE_string("job_name", None, "")
tf.flags.DEFINE_integer("task_index", None, "")
FLAGS = tf.flags.FLAGS


class Listener(tf.train.CheckpointSaverListener):

    def __init__(self):
        self.saves = 0

    def before_save(self, session, global_step_value):
        session.run(self.marker, {self.mark: global_step_value})

    def begin(self):
        self.mark = tf.placeholder(tf.int64, [])
        self.marker = tf.assign([v for v in tf.global_variables() if v.op.name == "last_save"][0], self.mark)

    def after_save(self, session, global_step_value):
        self.saves += 1


def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index, start=False)
    server.start()
    if FLAGS.job_name == "ps":
        server.join()
    is_chief = FLAGS.task_index == 0
    folder = os.path.join(tempfile.gettempdir(), "scaffold-" + FLAGS.worker_hosts.replace(":", "-").replace(",", "-"))
    xs, ys = linear(256, seed=FLAGS.task_index)
    worker = "/job:worker/task:%d" % FLAGS.task_index
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
        step = tf.train.create_global_step()
        x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
        start = tf.placeholder(tf.float32, [4, 1])
        w = tf.get_variable("w", initializer=start, validate_shape=False)
        last_save = tf.get_variable("last_save", [], tf.int64, tf.zeros_initializer(), trainable=False)
        seen = tf.get_variable("seen", [], initializer=tf.zeros_initializer(), trainable=False,
                               collections=[tf.GraphKeys.LOCAL_VARIABLES])
        w.set_shape([4, 1])
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y), name="loss")
        with tf.control_dependencies([tf.assign_add(seen, 1.0)]):
            train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=step)
        tf.summary.scalar("loss", loss)
    listener = Listener()
    ready = tf.report_uninitialized_variables(tf.global_variables())
    calls = []
    scaffold = tf.train.Scaffold(
        init_op=tf.global_variables_initializer(), init_feed_dict={start: np.zeros([4, 1], np.float32)},
        init_fn=lambda _, session: calls.append(session.run(step)), ready_op=ready, ready_for_local_init_op=ready,
        local_init_op=tf.group(tf.local_variables_initializer(), tf.tables_initializer()),
        summary_op=tf.summary.merge_all(), saver=tf.train.Saver(max_to_keep=3))
    config = tf.ConfigProto(device_filters=["/job:ps", worker])
    hooks = [tf.train.FeedFnHook(lambda: {x: xs, y: ys}), tf.train.StopAtStepHook(last_step=100),
             tf.train.LoggingTensorHook(["loss:0"], every_n_secs=1),
             tf.train.NanTensorHook(loss, fail_on_nan_loss=False),
             tf.train.GlobalStepWaiterHook(0 if is_chief else 3)]
    if is_chief:
        hooks += [tf.train.CheckpointSaverHook(folder, save_steps=40, scaffold=scaffold, listeners=[listener]),
                  tf.train.SummarySaverHook(save_secs=1, output_dir=folder, scaffold=scaffold),
                  tf.train.StepCounterHook(every_n_steps=25, output_dir=folder),
                  tf.train.ProfilerHook(save_steps=50, output_dir=folder)]
        creator = tf.train.ChiefSessionCreator(scaffold, master=server.target, config=config, checkpoint_dir=folder)
    else:
        creator = tf.train.WorkerSessionCreator(scaffold, master=server.target, config=config, max_wait_secs=120)
    with tf.train.MonitoredSession(creator, hooks=hooks) as session:
        session.run_step_fn(lambda step_context: step_context.session.run(step))
        while not session.should_stop():
            value, _, steps = session.run([loss, train, seen])
    if is_chief:  # the other may come when the training is almost over
        assert steps > 0
        assert calls == [0], calls
        assert listener.saves >= 3, listener.saves
        assert any(name.startswith("timeline-") for name in os.listdir(folder)), os.listdir(folder)
        assert tf.train.load_variable(folder, "last_save") >= 80
    print("RESULT loss=%.4f" % value, flush=True)


if __name__ == "__main__":
    tf.app.run()
