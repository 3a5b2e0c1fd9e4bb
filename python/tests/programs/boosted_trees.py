# SPDX-License-Identifier: Apache-2.0
"""Grows boosted trees op by op, and prints all that the server makes of them. TensorFlow 1.15 has the ops."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.kernels.boosted_trees import boosted_trees_pb2
from tensorflow.python.ops import gen_boosted_trees_ops as ops

parser = argparse.ArgumentParser()
parser.add_argument("--pruning_mode", type=int, default=0)
FLAGS = parser.parse_args()

FEATURES, EXAMPLES, BUCKETS, DEPTH = 3, 400, 12, 3
random = np.random.RandomState(1)
values = [np.round(random.normal(size=EXAMPLES) * 10 ** i, i + 1).astype(np.float32) for i in range(FEATURES)]
labels = (values[0] + .05 * values[1] * values[0] - .01 * values[2] + random.normal(size=EXAMPLES) > 0).astype(np.float32)


def show(name, *arrays):
    print(name, *[" ".join("%.4g" % x for x in np.ravel(a)) for a in arrays])


server = tf.train.Server.create_local_server()

# Boundaries of buckets, from summaries of several batches.
streams = ops.boosted_trees_quantile_stream_resource_handle_op(container="", shared_name="quantiles")
create_streams = ops.boosted_trees_create_quantile_stream_resource(streams, .02, FEATURES, max_elements=10000)
streams_made = ops.is_boosted_trees_quantile_stream_resource_initialized(streams)
batch = [tf.placeholder(tf.float32, [None]) for _ in range(FEATURES)]
weights = tf.placeholder(tf.float32, [None])
summaries = ops.boosted_trees_make_quantile_summaries(batch, weights, epsilon=.02)
add_summaries = ops.boosted_trees_quantile_stream_resource_add_summaries(streams, summaries)
flush = [ops.boosted_trees_quantile_stream_resource_flush(streams, BUCKETS, generate_quantiles=generate)
         for generate in (False, True)]
boundaries = ops.boosted_trees_quantile_stream_resource_get_bucket_boundaries(streams, num_features=FEATURES)
buckets = ops.boosted_trees_bucketize(batch, boundaries)

# The ensemble.
ensemble = ops.boosted_trees_ensemble_resource_handle_op(container="", shared_name="trees")
create_ensemble = ops.boosted_trees_create_ensemble(ensemble, 0, "")
states = ops.boosted_trees_get_ensemble_states(ensemble)
cached_trees, cached_nodes = (tf.placeholder(tf.int32, [None]) for _ in range(2))
features = [tf.placeholder(tf.int32, [None]) for _ in range(FEATURES)]
gradients, hessians = (tf.placeholder(tf.float32, [None, 1]) for _ in range(2))
training = ops.boosted_trees_training_predict(ensemble, cached_trees, cached_nodes, features, logits_dimension=1)
predict = ops.boosted_trees_predict(ensemble, features, logits_dimension=1)
explain = ops.boosted_trees_example_debug_outputs(ensemble, features, logits_dimension=1)
stats = ops.boosted_trees_make_stats_summary(cached_nodes, gradients, hessians, features, max_splits=1 << DEPTH + 1,
                                             num_buckets=BUCKETS + 1)
best = ops.boosted_trees_calculate_best_gains_per_feature(
    states.last_layer_nodes_range, tf.unstack(stats), l1=.1, l2=.5, tree_complexity=.3, min_node_weight=1.,
    max_splits=1 << DEPTH + 1)
grow = ops.boosted_trees_update_ensemble(
    ensemble, list(range(FEATURES)), best.node_ids_list, best.gains_list, best.thresholds_list,
    best.left_node_contribs_list, best.right_node_contribs_list, max_depth=DEPTH, learning_rate=.3,
    pruning_mode=FLAGS.pruning_mode)
center = ops.boosted_trees_center_bias(ensemble, [[tf.reduce_mean(gradients)]], [[tf.reduce_mean(hessians)]], .0, .1)
serialize = ops.boosted_trees_serialize_ensemble(ensemble)
text = tf.placeholder(tf.string, [])
deserialize = ops.boosted_trees_deserialize_ensemble(ensemble, 77, text)
made = ops.is_boosted_trees_ensemble_initialized(ensemble)

with tf.Session(server.target) as session:
    print("made", session.run([streams_made, made]))
    session.run([create_streams, create_ensemble])
    print("made", session.run([streams_made, made]))
    for generate in (0, 1):
        for begin in range(0, EXAMPLES, 100):
            feeds = {b: v[begin:begin + 100] for b, v in zip(batch, values)}
            feeds[weights] = np.linspace(.5, 2, 100)
            show("summary", *session.run([summaries, add_summaries], feeds)[0])
        session.run(flush[1 - generate])
        show("boundaries", *session.run(boundaries))
    buckets = session.run(buckets, dict(zip(batch, values)))
    show("buckets", *buckets)

    feeds = dict(zip(features, buckets))
    trees, nodes, logits = np.zeros(EXAMPLES, np.int32), np.full(EXAMPLES, -1, np.int32), np.zeros(EXAMPLES)
    for step in range(4 * DEPTH + 2):
        partial, trees, nodes = session.run(training, {**feeds, cached_trees: trees, cached_nodes: nodes})
        logits += partial[:, 0]
        chance = 1 / (1 + np.exp(-logits))
        loss = -np.mean(labels * np.log(chance) + (1 - labels) * np.log(1 - chance))
        print("step", step, "loss %.5f" % loss, [int(x) for x in np.bincount(nodes)], np.max(trees))
        more = {gradients: (chance - labels)[:, None], hessians: (chance * (1 - chance))[:, None], cached_nodes: nodes}
        if step < 2:
            print("centering", session.run(center, more))
        else:
            session.run(grow, {**feeds, **more})
        show("states", *session.run(list(states)))
    show("logits", session.run(predict, feeds)[:20])
    for line in session.run(explain, feeds)[:5]:
        print(boosted_trees_pb2.DebugOutput.FromString(line))
    stamp, serialized = session.run(serialize)
    print("ensemble", stamp, boosted_trees_pb2.TreeEnsemble.FromString(serialized))
    session.run(deserialize, {text: serialized})
    show("again", session.run(predict, feeds)[:20], *session.run(list(states)))
    try:
        session.run(deserialize, {text: b"x"})
    except tf.errors.InvalidArgumentError:
        print("refused")
print("trees done")
