# SPDX-License-Identifier: Apache-2.0
"""The chief exports what was trained as a SavedModel and loads it into a session of its own."""

import argparse
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

config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
setter = tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)
is_chief = FLAGS.task_index == 0

with tf.device(setter):
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    prediction = tf.layers.dense(x, 1, kernel_initializer=tf.zeros_initializer(), name="model")
    loss = tf.losses.mean_squared_error(y, prediction)
    step = tf.train.get_or_create_global_step()
    train = tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True).minimize(loss, step)
    saver = tf.train.Saver(sharded=True)

xs, ys = linear(128, seed=FLAGS.task_index)
folder = tempfile.mkdtemp()
with tf.Session(server.target, config=config) as sess:
    if is_chief:
        sess.run(tf.global_variables_initializer())
    while sess.run(tf.report_uninitialized_variables()).size:
        pass
    for _ in range(60):
        sess.run(train, {x: xs, y: ys})
    path = saver.save(sess, folder + "/model", global_step=step)
    mine = sess.run(prediction, {x: xs[:1]})[0, 0]

with tf.Graph().as_default(), tf.Session(server.target, config=config) as sess:
    restored = tf.train.import_meta_graph(path + ".meta", clear_devices=True)
    restored.restore(sess, path)
    graph = tf.get_default_graph()
    again = sess.run("model/BiasAdd:0", {"Placeholder:0": xs[:1]})[0, 0]
    builder = tf.saved_model.builder.SavedModelBuilder(folder + "/export")
    signature = tf.saved_model.predict_signature_def({"x": graph.get_tensor_by_name("Placeholder:0")},
                                                     {"y": graph.get_tensor_by_name("model/BiasAdd:0")})
    builder.add_meta_graph_and_variables(sess, [tf.saved_model.SERVING], {"predict": signature})
    builder.save()
with tf.Graph().as_default(), tf.Session(server.target, config=config) as sess:
    tf.saved_model.load(sess, [tf.saved_model.SERVING], folder + "/export")
    loaded = sess.run("model/BiasAdd:0", {"Placeholder:0": xs[:1]})[0, 0]
print("RESULT y=%.4f restored=%.5f loaded=%.5f" % (mine, again - mine, loaded - again), flush=True)
