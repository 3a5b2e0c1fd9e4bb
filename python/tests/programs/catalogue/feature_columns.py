# SPDX-License-Identifier: Apache-2.0
"""Feature columns of all kinds, from Examples, into a linear model and a tower."""

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

config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
setter = tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)
is_chief = FLAGS.task_index == 0

CITIES = ["paris", "rome", "oslo"]

def example(random):
    city, age, likes = random.choice(CITIES), random.rand() * 80, list(random.choice(["a", "b", "c", "d"], size=2))
    label = float((city == "rome") != (age > 40))
    features = {"city": tf.train.Feature(bytes_list=tf.train.BytesList(value=[city.encode()])),
                "age": tf.train.Feature(float_list=tf.train.FloatList(value=[age])),
                "likes": tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode() for v in likes]))}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(), label

fc = tf.feature_column
city = fc.categorical_column_with_vocabulary_list("city", CITIES)
age = fc.numeric_column("age", normalizer_fn=lambda x: x / 80.0)
buckets = fc.bucketized_column(fc.numeric_column("age"), [20, 40, 60])
likes = fc.categorical_column_with_hash_bucket("likes", 10)
crossed = fc.crossed_column([city, buckets], 50)
with tf.device(setter):
    serialized, labels = tf.placeholder(tf.string, [None]), tf.placeholder(tf.float32, [None])
    deep = [age, fc.indicator_column(city), fc.embedding_column(likes, 3)]
    features = tf.parse_example(serialized, fc.make_parse_example_spec([city, age, likes]))
    tower = tf.layers.dense(fc.input_layer(features, deep), 8, tf.nn.relu)
    logits = tf.squeeze(fc.linear_model(features, [crossed, buckets]) + tf.layers.dense(tower, 1), 1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdagradOptimizer(0.3).minimize(loss, step)

random = np.random.RandomState(FLAGS.task_index)
with tf.train.MonitoredTrainingSession(server.target, is_chief, config=config) as sess:
    for _ in range(80):
        batch = [example(random) for _ in range(32)]
        _, value = sess.run([train, loss], {serialized: [b[0] for b in batch], labels: [b[1] for b in batch]})
print("RESULT loss=%.4f" % value, flush=True)
