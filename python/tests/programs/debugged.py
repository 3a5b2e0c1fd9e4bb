# SPDX-License-Identifier: Apache-2.0
"""Runs watched steps on a parameter server and a worker, and prints what tfdbg reads of them."""

import argparse
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import debug as tf_debug

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == "ps":
    server.join()

with tf.device(tf.train.replica_device_setter(cluster=cluster)):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    w = tf.get_variable("w", initializer=np.arange(6, dtype=np.float32).reshape(3, 2), use_resource=False)
    r = tf.get_variable("r", initializer=np.ones(2, np.float32), use_resource=True)
    hidden = tf.matmul(x, w, name="hidden")
    logs = tf.log(hidden + r, name="logs")
    texts = tf.as_string(tf.shape(x), name="texts")
    loss = tf.reduce_mean(tf.square(hidden), name="loss")
    chosen = tf.cond(loss > 0, lambda: tf.negative(loss, name="minus"), lambda: tf.identity(loss, name="plus"))
    count = tf.while_loop(lambda i: i < 3, lambda i: tf.add(i, 1, name="next"), [tf.constant(0, name="start")])
    train_op = tf.train.GradientDescentOptimizer(0.5).minimize(loss, name="train")
fetches = [train_op, loss, logs, texts, chosen, count]
names = "(w|r/Read.*|hidden|logs|texts|loss|.*/minus|.*/plus|.*/next|train/update_w/ApplyGradientDescent)$"


def show(dump):
    """One line per watched tensor; values that are seen several times, in a loop, in their order."""
    for watch in sorted({datum.watch_key for datum in dump.dumped_tensor_data}):
        node, slot, op = watch.rsplit(":", 2)
        for value in dump.get_tensors(node, int(slot), op):
            print("WATCHED", watch, np.asarray(value).tolist(), flush=True)


with tf.Session(server.target) as session:
    session.run(tf.global_variables_initializer())
    feeds = {x: np.array([[0, 0, 0], [1, 2, 3], [-1, -1, -9], [4, 5, 6]], np.float32)}
    wrappers = []  # the end of one closes the session
    for ops in (["DebugIdentity"], ["DebugNanCount", "DebugNumericSummary(lower_bound=-10)"]):
        folder = tempfile.mkdtemp()
        watched = tf_debug.DumpingDebugWrapperSession(
            session, folder, watch_fn=lambda fetches, feeds: tf_debug.WatchOptions(
                ops, names, None, None, True))
        wrappers.append(watched)
        watched.run(fetches, feeds)
        run, = tf.gfile.ListDirectory(folder)
        dump = tf_debug.DebugDumpDir(folder + "/" + run.strip("/"))
        print("DEVICES", sorted(dump.devices()), flush=True)
        print("METADATA", dump.core_metadata.input_names, sorted(dump.core_metadata.output_names), flush=True)
        if ops == ["DebugIdentity"]:
            print("INPUTS of logs:", dump.node_inputs("logs"), flush=True)
        show(dump)
    # A step that is not watched works as before.
    print("LOSS %.3f" % session.run(loss, feeds), flush=True)
print("done", flush=True)
