# SPDX-License-Identifier: Apache-2.0
"""A tf.keras model as an estimator (model_to_estimator), trained by chief, worker and ps."""

import json
import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

from toy_data import Digits

tf.disable_v2_behavior()

TASK = json.loads(os.environ["TF_CONFIG"])
FOLDER = os.path.join(tempfile.gettempdir(), "keras-" + TASK["cluster"]["chief"][0].replace(":", "-"))


def input_fn(seed, training):
    def make():
        digits = Digits(400, seed=seed)
        data = tf.data.Dataset.from_tensor_slices(
            (digits.images.astype(np.float32), np.reshape(digits.labels, [-1, 1]).astype(np.int32)))
        if training:
            data = data.shuffle(400).repeat()
        return data.batch(50)
    return make


def make_model():
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(32, activation="relu", input_shape=(144,)),
        tf.keras.layers.Dense(10, activation="softmax")])
    model.compile(tf.train.AdamOptimizer(0.005), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    config = tf.estimator.RunConfig(model_dir=FOLDER, save_checkpoints_steps=100, log_step_count_steps=100)
    estimator = tf.keras.estimator.model_to_estimator(make_model(), config=config)
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(input_fn(config.task_id or 0, True), max_steps=200),
        tf.estimator.EvalSpec(input_fn(5, False), steps=None, throttle_secs=0, start_delay_secs=0))
    if config.task_type == "chief":
        results = estimator.evaluate(input_fn(5, False))
        print("RESULT accuracy=%.4f" % results.get("accuracy", results.get("acc")), flush=True)
    else:
        print("RESULT accuracy=1", flush=True)


main()
