# SPDX-License-Identifier: Apache-2.0
"""train_and_evaluate with a LatestExporter, whose models are loaded again; the cluster has a master or a chief."""

import json
import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.contrib.predictor import from_saved_model
from toy_data import Digits

tf.disable_v2_behavior()
TASK = json.loads(os.environ["TF_CONFIG"])
HEAD = "master" if "master" in TASK["cluster"] else "chief"
FOLDER = os.path.join(tempfile.gettempdir(), "latest-" + TASK["cluster"][HEAD][0].replace(":", "-"))


def input_fn(training):
    digits = Digits(300, seed=2 if training else 5)
    data = tf.data.Dataset.from_tensor_slices(({"image": digits.images}, digits.labels))
    if training:
        data = data.apply(tf.data.experimental.shuffle_and_repeat(300, seed=1))
    return data.batch(50).prefetch(1)


def model_fn(features, labels, mode):
    net = tf.layers.dropout(tf.layers.dense(features["image"], 32, tf.nn.relu), 0.1,
                            training=mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.layers.dense(net, 10)
    classes = tf.argmax(logits, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        output = tf.estimator.export.PredictOutput({"class": classes})
        return tf.estimator.EstimatorSpec(mode, {"class": classes}, export_outputs={"serving_default": output})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train = tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train,
                                      eval_metric_ops={"accuracy": tf.metrics.accuracy(labels, classes)})


def main():
    config = tf.estimator.RunConfig(model_dir=FOLDER, save_checkpoints_steps=50, tf_random_seed=1)
    estimator = tf.estimator.Estimator(model_fn, config=config)
    serving = tf.estimator.export.build_raw_serving_input_receiver_fn(
        {"image": tf.placeholder(tf.float32, [None, 144])})
    exporter = tf.estimator.LatestExporter("latest", serving, exports_to_keep=2)
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(lambda: input_fn(True), max_steps=200),
        tf.estimator.EvalSpec(lambda: input_fn(False), steps=None, exporters=[exporter], throttle_secs=0,
                              start_delay_secs=0))
    exports = os.path.join(FOLDER, "export", "latest")
    if TASK["task"]["type"] != ("evaluator" if HEAD == "chief" else "master"):
        print("RESULT done=1", flush=True)
        return
    names = sorted(name for name in os.listdir(exports) if name.isdigit())
    predict = from_saved_model(os.path.join(exports, names[-1]))
    digits = Digits(300, seed=5)
    accuracy = np.mean(predict({"image": digits.images})["class"] == digits.labels)
    print("RESULT accuracy=%.4f kept=%d" % (accuracy, 0 < len(names) <= 2), flush=True)


main()
