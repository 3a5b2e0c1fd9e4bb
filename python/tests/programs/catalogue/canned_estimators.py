# SPDX-License-Identifier: Apache-2.0
"""Canned estimators with feature columns: chief, worker, ps and an evaluator that exports a SavedModel."""

import argparse
import json
import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.INFO)

parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=["dnn", "linear", "combined", "trees"], default="dnn")
FLAGS = parser.parse_args()
STEPS = 40 if FLAGS.model == "trees" else 200

TASK = json.loads(os.environ["TF_CONFIG"])
FOLDER = os.path.join(tempfile.gettempdir(), "%s-%s" % (FLAGS.model, TASK["cluster"]["chief"][0].replace(":", "-")))
JOBS = ["clerk", "cook", "pilot", "nurse"]

fc = tf.feature_column
age = fc.numeric_column("age")
hours = fc.numeric_column("hours")
ages = fc.bucketized_column(age, [25, 35, 45, 55])
hours_worked = fc.bucketized_column(hours, [20, 30, 40])
job = fc.categorical_column_with_vocabulary_list("job", JOBS)
town = fc.categorical_column_with_hash_bucket("town", 20)
wide = [ages, job, town, fc.crossed_column([ages, job], 50)]
deep = [fc.numeric_column("age", normalizer_fn=lambda x: x / 80), hours, fc.indicator_column(job),
        fc.embedding_column(town, 4)]


def people(seed, n=600):
    random = np.random.RandomState(seed)
    columns = {"age": random.uniform(18, 65, n).astype(np.float32), "hours": random.uniform(0, 1, n).astype(np.float32),
               "job": random.choice(JOBS, n), "town": random.choice(["t%d" % i for i in range(30)], n)}
    earns_well = (columns["age"] > 40) != (columns["job"] == "pilot")
    return columns, earns_well.astype(np.int64)


def input_fn(seed, training):
    def make():
        data = tf.data.Dataset.from_tensor_slices(people(seed))
        if training:
            data = data.shuffle(600).repeat()
        return data.batch(60)
    return make


def make_estimator(config):
    if FLAGS.model == "dnn":
        return tf.estimator.DNNClassifier([16, 8], deep, optimizer=tf.train.AdamOptimizer(0.02), config=config)
    if FLAGS.model == "linear":
        return tf.estimator.LinearClassifier(wide, optimizer=tf.train.FtrlOptimizer(0.5), config=config)
    if FLAGS.model == "combined":
        return tf.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[16, 8],
            dnn_optimizer=tf.train.AdagradOptimizer(0.1), config=config)
    return tf.estimator.BoostedTreesClassifier([ages, hours_worked, fc.indicator_column(job)], n_batches_per_layer=2,
                                               n_trees=8, max_depth=3, learning_rate=0.4, config=config)


def serving_input():
    return tf.estimator.export.build_parsing_serving_input_receiver_fn(
        fc.make_parse_example_spec([age, hours, job, town]))


def predictions_of_export(folder):
    """What the exported model says of a few people, who come as Examples."""
    columns, labels = people(9, 50)
    examples = []
    for i in range(50):
        feature = {name: tf.train.Feature(float_list=tf.train.FloatList(value=[columns[name][i]]))
                   for name in ("age", "hours")}
        feature.update({name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[columns[name][i].encode()]))
                        for name in ("job", "town")})
        examples.append(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    with tf.Session(graph=tf.Graph()) as session:
        model = tf.saved_model.loader.load(session, ["serve"], folder)
        signature = model.signature_def["predict"]
        classes = session.run(signature.outputs["class_ids"].name, {signature.inputs["examples"].name: examples})
    return np.mean(classes[:, 0] == labels)


def main():
    config = tf.estimator.RunConfig(model_dir=FOLDER, save_checkpoints_steps=50, log_step_count_steps=50,
                                    tf_random_seed=3)
    estimator = make_estimator(config)
    exporter = tf.estimator.FinalExporter("final", serving_input())
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(input_fn(config.task_id or 0, True), max_steps=STEPS),
        tf.estimator.EvalSpec(input_fn(5, False), steps=None, throttle_secs=0, start_delay_secs=0, exporters=exporter))
    if config.task_type == "evaluator":
        exports = os.path.join(FOLDER, "export", "final")
        print("RESULT accuracy=%.4f exported=%.4f" % (
            estimator.evaluate(input_fn(5, False))["accuracy"],
            predictions_of_export(os.path.join(exports, os.listdir(exports)[0]))), flush=True)
    else:
        print("RESULT done=1", flush=True)


main()
