# SPDX-License-Identifier: Apache-2.0
"""The training of counting_task.cc as a TensorFlow 1 program: asynchronous, with tf.train.MonitoredTrainingSession."""

import argparse
import json
import os
import time

try:
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
except ImportError:
    import tensorflow as tf

STEPS_PER_WORKER = 4096

parser = argparse.ArgumentParser()
parser.add_argument("--dir", required=True)
parser.add_argument("--steps", type=int, default=150)
options = parser.parse_args()
config = json.loads(os.environ["TF_CONFIG"])
cluster = tf.train.ClusterSpec(config["cluster"])
job, index = config["task"]["type"], int(config["task"]["index"])
workers = len(config["cluster"]["worker"])
server = tf.train.Server(cluster, job_name=job, task_index=index)
if job == "ps":
    server.join()

history = os.open(os.path.join(options.dir, "history"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) if hasattr(time, "clock_gettime_ns") else int(
        time.monotonic() * 1e9)


def record(event, rest):
    os.write(history, ("%s %d %s\n" % (event, now(), rest)).encode())


class RecordRestores(tf.train.SessionRunHook):
    def after_create_session(self, session, coord):
        if index == 0:
            record("E", "")


class RecordingSaver(tf.train.Saver):
    def restore(self, session, prefix):
        record("R", prefix)
        super(RecordingSaver, self).restore(session, prefix)


# A worker that was killed continues with a number that it has not used.
step = 0
with open(os.path.join(options.dir, "history")) as lines:
    for line in lines:
        fields = line.split()
        if fields[0] == "B" and int(fields[2]) == index:
            step = max(step, int(fields[3]) + 1)

with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % index)):
    size = workers * STEPS_PER_WORKER
    element = tf.placeholder(tf.int32, [])
    tables = [tf.get_variable("table_%d" % i, [size], initializer=tf.zeros_initializer()) for i in range(2)]
    global_step = tf.train.get_or_create_global_step()
    one = tf.one_hot(element, size)
    updates = [tf.assign_add(table, one) for table in tables]
    with tf.control_dependencies(updates):
        train_op = tf.assign_add(global_step, 1)

done = lambda worker: os.path.join(options.dir, "done.%d" % worker)
scaffold = tf.train.Scaffold(saver=RecordingSaver(max_to_keep=1000))
if index == 0 and tf.train.latest_checkpoint(options.dir) is None:
    record("R", "")
with tf.train.MonitoredTrainingSession(
        master=server.target, is_chief=index == 0, checkpoint_dir=options.dir, scaffold=scaffold,
        hooks=[RecordRestores()], save_checkpoint_steps=20, save_checkpoint_secs=None, save_summaries_steps=0,
        log_step_count_steps=0) as session:
    at = 0
    while True:
        if index == 0 and at >= options.steps and all(os.path.exists(done(w)) for w in range(1, workers)):
            break
        if index != 0 and at >= options.steps:
            break
        record("B", "%d %d" % (index, step))
        at = session.run(train_op, {element: index * STEPS_PER_WORKER + step})
        record("A", "%d %d" % (index, step))
        step += 1
        time.sleep(0.02)
open(done(index), "w").close()
