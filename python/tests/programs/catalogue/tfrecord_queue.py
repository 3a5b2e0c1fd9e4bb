# SPDX-License-Identifier: Apache-2.0
"""TFRecords of Examples, parsed in queue runners; MonitoredTrainingSession runs the queue runners."""

import argparse
import os
import tempfile

import tensorflow.compat.v1 as tf

from toy_data import Digits

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", default="")
parser.add_argument("--worker_hosts", default="")
parser.add_argument("--job_name", default="worker")
parser.add_argument("--task_index", type=int, default=0)
FLAGS = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)


def write_records(path):
    digits = Digits(300, seed=FLAGS.task_index)
    with tf.python_io.TFRecordWriter(path) as writer:
        for image, label in zip(digits.images, digits.labels):
            writer.write(tf.train.Example(features=tf.train.Features(feature={
                "image_raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)])),
            })).SerializeToString())


def read_and_decode(filename_queue):
    _, serialized = tf.TFRecordReader().read(filename_queue)
    features = tf.parse_single_example(serialized, features={
        "image_raw": tf.FixedLenFeature([], tf.string), "label": tf.FixedLenFeature([], tf.int64)})
    image = tf.decode_raw(features["image_raw"], tf.float32)
    image.set_shape([144])
    return image, tf.cast(features["label"], tf.int32)


def main():
    if FLAGS.job_name == "ps":
        server.join()
        return
    path = os.path.join(tempfile.mkdtemp(), "train.tfrecords")
    write_records(path)
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % FLAGS.task_index,
                                                  cluster=cluster)):
        with tf.name_scope("input"):
            image, label = read_and_decode(tf.train.string_input_producer([path], seed=1))
            images, labels = tf.train.batch([image, label], 25, capacity=500)
        logits = tf.layers.dense(tf.layers.dense(images, 32, tf.nn.relu), 10)
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        global_step = tf.train.get_or_create_global_step()
        train_op = tf.train.RMSPropOptimizer(0.003).minimize(loss, global_step)
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    with tf.train.MonitoredTrainingSession(
            server.target, FLAGS.task_index == 0, config=config,
            hooks=[tf.train.StopAtStepHook(last_step=200), tf.train.NanTensorHook(loss),
                   tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=50)]) as mon_sess:
        while not mon_sess.should_stop():
            _, value = mon_sess.run([train_op, loss])
    print("RESULT loss=%.4f" % value, flush=True)


main()
