# SPDX-License-Identifier: Apache-2.0
"""Grows boosted trees with the second version of the ops: features of several dimensions, missing values, equality.

Prints all that the server makes of them. TensorFlow 1.15 has the ops.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.kernels.boosted_trees import boosted_trees_pb2
from tensorflow.python.ops import gen_boosted_trees_ops as ops

parser = argparse.ArgumentParser()
parser.add_argument("--pruning_mode", type=int, default=0)
parser.add_argument("--bad_input", action="store_true", help="for a server that refuses it; TensorFlow's crashes")
FLAGS = parser.parse_args()

EXAMPLES, BUCKETS, DEPTH, SPLITS = 300, 6, 3, 16
random = np.random.RandomState(3)


def show(name, *arrays):
    print(name, *[" ".join(x.decode() if isinstance(x, bytes) else "%.4g" % x for x in np.ravel(a)) for a in arrays])


# Buckets; -1 is a missing value. The third feature is categorical, and the last is the second as a sparse tensor.
columns = [random.randint(-1, BUCKETS, size=[EXAMPLES, width]).astype(np.int32) for width in (1, 2, 1)]
labels = ((columns[0][:, 0] > 2) ^ (columns[2][:, 0] == 3) ^ (columns[1][:, 1] < 1)).astype(np.float32)
there = np.argwhere(columns[1] >= 0).astype(np.int32)
sparse_values = columns[1][columns[1] >= 0]

server = tf.train.Server.create_local_server()
nodes = tf.placeholder(tf.int32, [None])
gradients, hessians = (tf.placeholder(tf.float32, [None, None]) for _ in range(2))
features = [tf.placeholder(tf.int32, [None, None]) for _ in columns]
indices, values, shape = tf.placeholder(tf.int32), tf.placeholder(tf.int32), tf.placeholder(tf.int32)
node_range = tf.placeholder(tf.int32, [2])
limits = dict(l1=.1, l2=.5, tree_complexity=.2, min_node_weight=1., logits_dimension=1)

summaries = [ops.boosted_trees_aggregate_stats(nodes, gradients, hessians, feature, max_splits=SPLITS,
                                               num_buckets=BUCKETS) for feature in features]
sparse_summary = ops.boosted_trees_sparse_aggregate_stats(nodes, gradients, hessians, indices, values, shape,
                                                          max_splits=SPLITS, num_buckets=BUCKETS)
kinds = ["inequality", "inequality", "equality" if FLAGS.pruning_mode < 2 else "inequality"]  # or TensorFlow crashes
best = [ops.boosted_trees_calculate_best_feature_split(node_range, summary, split_type=kind, **limits)
        for summary, kind in zip(summaries, kinds)]
sparse_best = ops.boosted_trees_sparse_calculate_best_feature_split(node_range, *sparse_summary, **limits)
candidates = best[:1] + best[2:] + [sparse_best]
ensemble = ops.boosted_trees_ensemble_resource_handle_op(container="", shared_name="trees")
create = ops.boosted_trees_create_ensemble(ensemble, 0, "")


def columns_of(contributions):
    """TensorFlow infers another shape for the output of one op than it wants for the input of the other."""
    return [tf.reshape(values, [-1, 1]) for values in contributions]


def update(types, mode=FLAGS.pruning_mode):
    return ops.boosted_trees_update_ensemble_v2(
        ensemble, [0, 2, 3], [b.feature_dimensions for b in candidates], [b.node_ids for b in candidates],
        [b.gains for b in candidates], [b.thresholds for b in candidates], columns_of(b.left_node_contribs for b in candidates),
        columns_of(b.right_node_contribs for b in candidates), types, max_depth=DEPTH, learning_rate=.4, pruning_mode=mode)


split_types = [b.split_with_default_directions for b in candidates]
grow = update(split_types)
states = ops.boosted_trees_get_ensemble_states(ensemble)
serialize = ops.boosted_trees_serialize_ensemble(ensemble)

bad = {"a type": (update([tf.fill(tf.shape(t), "sideways") for t in split_types]), {}),
       "a mode": (update(split_types, mode=3), {}),
       "two logits": (ops.boosted_trees_calculate_best_feature_split(node_range, summaries[0],
                                                                     **dict(limits, logits_dimension=2)), {})}
for name, feed in (("nodes", {nodes: [0, SPLITS]}), ("buckets", {features[0]: [[0], [BUCKETS]]}),
                   ("examples", {gradients: [[0.]]})):
    bad[name] = (summaries[0], feed)
for name, feed in (("order", {indices: [[1, 0], [0, 0]]}), ("place", {indices: [[0, 0], [1, 9]]}),
                   ("sparse buckets", {values: [0, BUCKETS]}), ("dimensions", {shape: [2, -1]}),
                   ("huge", {shape: [2, 2 ** 31 - 1]}), ("values", {values: [0]})):
    bad[name] = (sparse_summary, feed)
for name, feed in (("range", {node_range: [0, SPLITS + 1]}), ("summary", {summaries[0]: np.zeros([SPLITS, BUCKETS, 3, 5])})):
    bad[name] = (best[0], feed)
for name, feed in (("node", {sparse_summary[0]: [[9, 0, 0, 0]], sparse_summary[1]: [1.]}),
                   ("dimension", {sparse_summary[0]: [[0, 7, 0, 0]], sparse_summary[1]: [1.]}),
                   ("sparse summary", {sparse_summary[2]: [16, 2, 7, 5]})):
    bad[name] = (sparse_best, feed)



def train(session):
    at, logits, span = np.zeros(EXAMPLES, np.int32), np.zeros(EXAMPLES), [0, 1]
    trees = boosted_trees_pb2.TreeEnsemble()
    for step in range(2 * DEPTH + 1):
        chance = 1 / (1 + np.exp(-logits))
        feeds = {nodes: at, gradients: (chance - labels)[:, None], hessians: (chance * (1 - chance))[:, None],
                 indices: there, values: sparse_values, shape: [EXAMPLES, 2], node_range: span}
        feeds.update(zip(features, columns))
        show("summaries", *session.run(summaries, feeds))
        show("sparse", *session.run(list(sparse_summary), feeds))
        for b in best + [sparse_best]:
            show("best", *session.run(list(b), feeds))
        session.run(grow, feeds)
        state = session.run(states)
        show("states", *state)
        span = state.last_layer_nodes_range
        trees = boosted_trees_pb2.TreeEnsemble.FromString(session.run(serialize)[1])
        # Where each example is now; the last tree is the one that grows.
        logits, at = np.zeros(EXAMPLES), np.zeros(EXAMPLES, np.int32)
        table = [columns[0], None, columns[2], columns[1]]
        for i in range(EXAMPLES):
            for tree in trees.trees:
                node = 0
                while tree.nodes[node].WhichOneof("node") != "leaf":
                    entry = tree.nodes[node]
                    categorical = entry.WhichOneof("node") == "categorical_split"
                    split = entry.categorical_split if categorical else entry.bucketized_split
                    bucket = table[split.feature_id][i, split.dimension_id]
                    if categorical:
                        left = bucket == split.value
                    elif bucket < 0:
                        left = split.default_direction == boosted_trees_pb2.DEFAULT_LEFT
                    else:
                        left = bucket <= split.threshold
                    node = split.left_id if left else split.right_id
                logits[i] += tree.nodes[node].leaf.scalar
                at[i] = node
        print("step", step, "loss %.4f" % -np.mean(np.where(labels > 0, np.log(1 / (1 + np.exp(-logits))),
                                                            np.log(1 - 1 / (1 + np.exp(-logits))))))
    print("ensemble", trees)


def refuse(session):
    small = {nodes: [0, 1], gradients: [[1.], [2.]], hessians: [[1.], [1.]], indices: [[0, 0], [1, 1]],
             values: [0, 1], shape: [2, 2], node_range: [0, 2], features[0]: [[0], [1]], features[1]: [[0, 1], [1, 0]],
             features[2]: [[0], [1]]}
    session.run(best + [sparse_best], small)
    for name, (fetches, feed) in sorted(bad.items()):
        try:
            session.run(fetches, {**small, **feed})
            print("accepted", name)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
            print("refused", name, "|", " ".join(error.message.split("\n")))


with tf.Session(server.target) as session:
    session.run(create)
    print("trees begin")
    refuse(session) if FLAGS.bad_input else train(session)
print("trees done")
