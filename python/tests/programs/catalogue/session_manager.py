# SPDX-License-Identifier: Apache-2.0
"""SessionManager by hand: prepare_session on the chief, wait_for_session on the others, which poll a ready op."""

import argparse
import os
import tempfile
import time

import numpy as np
import tensorflow.compat.v1 as tf

from toy_data import Digits

tf.disable_eager_execution()
p = argparse.ArgumentParser()
p.add_argument("--ps_hosts")
p.add_argument("--worker_hosts")
p.add_argument("--job_name", choices=["ps", "worker"])
p.add_argument("--task_index", type=int)
args = p.parse_args()

cluster = tf.train.ClusterSpec({"ps": args.ps_hosts.split(","), "worker": args.worker_hosts.split(",")})
server = tf.train.Server(cluster.as_cluster_def(), job_name=args.job_name, task_index=args.task_index,
                         config=tf.ConfigProto(intra_op_parallelism_threads=1))
if args.job_name == "ps":
    server.join()
    raise SystemExit

chief = args.task_index == 0
folder = os.path.join(tempfile.gettempdir(), "manager-" + args.worker_hosts.replace(":", "_").replace(",", "_"))
with tf.device(tf.train.replica_device_setter(ps_tasks=cluster.num_tasks("ps"),
                                              worker_device="/job:worker/replica:0/task:%d/cpu:0" % args.task_index)):
    images = tf.placeholder_with_default(np.zeros([1, 144], np.float32), [None, 144])
    labels = tf.placeholder_with_default(np.zeros([1, 10], np.float32), [None, 10])
    step = tf.Variable(0, trainable=False, name="global_step", dtype=tf.int64)
    tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, step)
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE, initializer=tf.variance_scaling_initializer(seed=1)):
        hidden = tf.nn.softplus(tf.matmul(images, tf.get_variable("w1", [144, 32])) + tf.get_variable("b1", [32]))
        logits = tf.matmul(hidden, tf.get_variable("w2", [32, 10])) + tf.get_variable("b2", [10])
    loss = tf.losses.softmax_cross_entropy(labels, logits)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(labels, 1)), tf.float32))
    optimizer = tf.train.FtrlOptimizer(0.2)
    grads = [(tf.clip_by_norm(g, 2.0), v) for g, v in optimizer.compute_gradients(loss) if g is not None]
    train = optimizer.apply_gradients(grads, global_step=step)
with tf.device("/job:ps/task:0"):
    done = tf.FIFOQueue(cluster.num_tasks("worker"), [tf.int32], shapes=[[]], shared_name="done")
    finish, finished = done.enqueue(args.task_index), done.size()

saver = tf.train.Saver([v for v in tf.global_variables() if not v.op.name.startswith("unused")])
manager = tf.train.SessionManager(local_init_op=tf.local_variables_initializer(),
                                  ready_op=tf.report_uninitialized_variables(), graph=tf.get_default_graph(),
                                  recovery_wait_secs=1)
config = tf.ConfigProto(log_device_placement=False, allow_soft_placement=True, operation_timeout_in_ms=60000)
if chief:
    session = manager.prepare_session(server.target, init_op=tf.global_variables_initializer(), saver=saver,
                                      checkpoint_dir=folder, config=config)
    writer = tf.summary.FileWriterCache.get(folder)
else:
    session = manager.wait_for_session(server.target, config=config, max_wait_secs=120)

digits = Digits(seed=args.task_index)
while True:
    batch = digits.next_batch(50)
    _, at, value = session.run((train, step, accuracy), feed_dict={images: batch[0], labels: batch[1]})
    if chief and at % 20 == 0:
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="accuracy", simple_value=value)]), at)
    if at >= 150:
        break
session.run(finish)
if chief:
    while session.run(finished) < cluster.num_tasks("worker"):
        time.sleep(0.05)
    saved = saver.save(session, os.path.join(folder, "model"), global_step=step)
    writer.add_graph(session.graph)
    tf.summary.FileWriterCache.clear()
    recovered, was_loaded = manager.recover_session(server.target, saver=saver, checkpoint_filename_with_path=saved,
                                                    config=config)
    assert was_loaded and recovered.run(step) >= 150
    recovered.close()
session.close()
print("RESULT accuracy=%.4f" % value, flush=True)
