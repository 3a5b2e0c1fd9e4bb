# SPDX-License-Identifier: Apache-2.0
"""tf.contrib.learn as programs of 2017 use it: learn_runner, Experiment, columns of contrib.layers, TF_CONFIG."""

import json
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.contrib import layers, learn
from tensorflow.contrib.learn.python.learn import learn_runner

tf.logging.set_verbosity(tf.logging.WARN)


def input_fn(seed):
    def make():
        random = np.random.RandomState(seed)
        age, job = random.rand(200).astype(np.float32), random.randint(4, size=200)
        label = (age + (job % 2) > 1).astype(np.int32)
        names = np.array(["cook", "miner", "baker", "nurse"])[job]
        queue = tf.train.shuffle_batch([tf.constant(age), tf.constant(names), tf.constant(label)], 40, 400, 100,
                                       enqueue_many=True)
        indices = tf.stack([tf.range(40, dtype=tf.int64), tf.zeros([40], tf.int64)], 1)
        jobs = tf.SparseTensor(indices, queue[1], [40, 1])
        return {"age": queue[0][:, None], "job": jobs}, queue[2][:, None]
    return make


def experiment_fn(run_config, hparams):
    age = layers.real_valued_column("age")
    job = layers.sparse_column_with_hash_bucket("job", 20)
    buckets = layers.bucketized_column(age, [0.25, 0.5, 0.75])
    columns = [job, buckets, layers.crossed_column([job, buckets], 50)]
    deep = [age, layers.embedding_column(job, 4)]
    estimator = learn.DNNLinearCombinedClassifier(config=run_config, linear_feature_columns=columns,
                                                  dnn_feature_columns=deep, dnn_hidden_units=[hparams.units],
                                                  fix_global_step_increment_bug=True)
    return learn.Experiment(estimator, input_fn(run_config.task_id), input_fn(9), train_steps=150, eval_steps=4,
                            eval_delay_secs=0, min_eval_frequency=None)


def main():
    task = json.loads(os.environ["TF_CONFIG"])
    task["environment"] = "cloud"
    task["cluster"]["master"] = task["cluster"].pop("chief")  # the name of these years
    if task["task"]["type"] == "chief":
        task["task"]["type"] = "master"
    os.environ["TF_CONFIG"] = json.dumps(task)
    folder = os.path.join(tempfile.gettempdir(), "learn-" + task["cluster"]["master"][0].replace(":", "-"))
    config = learn.RunConfig(model_dir=folder, save_checkpoints_steps=100, save_checkpoints_secs=None, tf_random_seed=1)
    metrics = learn_runner.run(experiment_fn, run_config=config, hparams=tf.contrib.training.HParams(units=8))
    if task["task"]["type"] == "master":
        print("RESULT accuracy=%.4f" % metrics[0]["accuracy"], flush=True)
    else:
        print("RESULT accuracy=1", flush=True)


main()
