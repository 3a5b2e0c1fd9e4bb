# SPDX-License-Identifier: Apache-2.0
"""Hooks of all kinds around a MonitoredTrainingSession, and a second training that goes on from the checkpoint."""

import argparse
import os
import tempfile

import tensorflow.compat.v1 as tf

from toy_data import linear

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


class CountingHook(tf.train.SessionRunHook):

    def begin(self):
        self.counts = {"create": 0, "before": 0, "after": 0, "end": 0}
        self.step = tf.train.get_global_step()

    def after_create_session(self, session, coord):
        self.counts["create"] += 1

    def before_run(self, run_context):
        self.counts["before"] += 1
        return tf.train.SessionRunArgs(self.step)

    def after_run(self, run_context, run_values):
        self.counts["after"] += 1
        if run_values.results >= 80:
            run_context.request_stop()

    def end(self, session):
        self.counts["end"] += 1


is_chief = FLAGS.task_index == 0
config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
folder = os.path.join(tempfile.gettempdir(), "hooks-" + FLAGS.worker_hosts.replace(":", "-").replace(",", "-"))
xs, ys = linear(128, seed=FLAGS.task_index)
for last in (40, 80):
    with tf.Graph().as_default():
        with tf.device(tf.train.replica_device_setter(cluster=cluster,
                                                      worker_device="/job:worker/task:%d" % FLAGS.task_index)):
            x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
            loss = tf.losses.mean_squared_error(y, tf.layers.dense(x, 1))
            tf.summary.scalar("loss", loss)
            step = tf.train.get_or_create_global_step()
            train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, step)
        counting = CountingHook()
        hooks = [counting, tf.train.StopAtStepHook(last_step=last), tf.train.NanTensorHook(loss),
                 tf.train.StepCounterHook(every_n_steps=20, output_dir=folder if is_chief else tempfile.mkdtemp()),
                 tf.train.GlobalStepWaiterHook(wait_until_step=0 if is_chief else 5),
                 tf.train.FinalOpsHook(tf.identity(step))]
        chief_hooks = [tf.train.CheckpointSaverHook(folder, save_steps=20),
                       tf.train.SummarySaverHook(save_steps=10, output_dir=folder, scaffold=tf.train.Scaffold())]
        with tf.train.MonitoredTrainingSession(server.target, is_chief, checkpoint_dir=folder, hooks=hooks,
                                               config=config, chief_only_hooks=chief_hooks, save_checkpoint_secs=None,
                                               save_summaries_steps=None) as sess:
            while not sess.should_stop():
                value = sess.run([loss, train], {x: xs, y: ys})[0]
        assert counting.counts["create"] == counting.counts["end"] == 1, counting.counts
        assert counting.counts["before"] == counting.counts["after"], counting.counts
print("RESULT step=%d loss=%.4f" % (hooks[-1].final_ops_values, value), flush=True)
