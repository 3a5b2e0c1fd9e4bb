# SPDX-License-Identifier: Apache-2.0
"""Images, LIBSVM lines, slices, zeros and trees of TensorFlow 1's tf.contrib, on a server. Prints the results."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib.framework.python.ops import variables
from tensorflow.contrib.image.python.ops import distort_image_ops, image_ops
from tensorflow.contrib.input_pipeline.python.ops import input_pipeline_ops
from tensorflow.contrib.libsvm.python.ops import libsvm_ops
from tensorflow.contrib.reduce_slice_ops.python.ops import reduce_slice_ops
from tensorflow.core.kernels.boosted_trees import boosted_trees_pb2
from tensorflow.python.ops import gen_tensor_forest_ops as forest

tf.logging.set_verbosity(tf.logging.ERROR)
server = tf.train.Server.create_local_server()
random = np.random.RandomState(0)
session = tf.Session(server.target)


def show(name, *tensors):
    """Prints what each tensor gives, or the type of its error."""
    for i, tensor in enumerate(tensors):
        try:
            value = np.asarray(session.run(tensor))
            text = (value.astype(np.float64).round(3) + 0.0 if value.dtype.kind == "f" else value).tolist()
        except tf.errors.OpError as error:
            text = type(error).__name__
        print("RESULT %s %d %s" % (name, i, text), flush=True)


def images():
    pixels = random.uniform(0, 1, (2, 3, 4, 3)).astype(np.float32)
    show("hsv", *(distort_image_ops.adjust_hsv_in_yiq(pixels, *by) for by in ((0.5, 1.2, 0.8), (-2.0, 0.0, 1.0))),
         distort_image_ops.adjust_hsv_in_yiq(tf.ones([2, 2, 4]), 0.1, 1.0, 1.0))
    distances = random.uniform(0, 1, (4, 3)).astype(np.float32)
    for rows, top_k in ((-1, -1), (2, -1), (4, 2), (9, -1)):
        show("match %d %d" % (rows, top_k), *tf.contrib.image.bipartite_match(distances, rows, top_k))
    marks = (random.uniform(0, 1, (2, 9, 11)) < 0.5).astype(np.int32) * random.randint(1, 3, (2, 9, 11))
    show("components", *(tf.contrib.image.connected_components(part) for part in (
        marks.astype(np.int32), marks[0] > 0, marks.astype(np.float64), tf.as_string(marks[0]), np.zeros((2, 0, 3)))))
    transform = [[1.0, 0.2, -1.0, 0.1, 1.0, 0.5, 0.01, 0.0]]
    for interpolation in ("NEAREST", "BILINEAR"):
        show("transform " + interpolation, image_ops.gen_image_ops.image_projective_transform(
            pixels, transform, interpolation=interpolation))


def lines():
    text = ["1 1:3.4 2:0.5 4:0.231", "0 2:2.5 3:1e3 5:0.503", "  -1\t0:1  "]
    for content in (text, [[text[0]], [text[1]]]):
        for dtype in (tf.float32, tf.float64):
            features, labels = libsvm_ops.decode_libsvm(content, num_features=6, dtype=dtype,
                                                               label_dtype=tf.int32)
            show("libsvm", labels, features.indices, features.values, features.dense_shape,
                 tf.sparse.to_dense(features))
    for bad in ("", "x 1:2", "1 2", "1 a:2", "1 -1:2", "1 1:b"):
        show("libsvm %r" % bad, libsvm_ops.decode_libsvm([bad], num_features=6)[1])


def slices():
    for dtype in (np.float32, np.int64):
        data = random.randint(-9, 9, (4, 5, 2)).astype(dtype)
        for indices in ([[0, 2], [1, 4], [3, 3], [2, 9]], [0, 1, 1, 4], np.zeros([0], np.int32)):
            for axis in range(np.ndim(indices)):  # the shape function refuses others
                show("slices", *(reduce(data, np.int32(indices), axis) for reduce in (
                    reduce_slice_ops.reduce_slice_sum, reduce_slice_ops.reduce_slice_prod,
                    reduce_slice_ops.reduce_slice_max, reduce_slice_ops.reduce_slice_min)))


def zeros():
    ref = tf.Variable(tf.ones([2, 3]), use_resource=False)
    resource = tf.Variable(tf.ones([2], tf.int32), use_resource=True)
    first, again = (variables.zero_initializer(v) for v in (ref, resource)), variables.zero_initializer(ref)
    show("uninitialized", ref)
    for made in first:
        session.run(made.op)
    show("zeros", ref, resource)
    show("twice", again)
    counter = tf.Variable(tf.constant(-1, tf.int64), use_resource=False)
    session.run(counter.initializer)
    following = input_pipeline_ops.obtain_next(["a", "b", "c"], counter)
    show("next", *[following] * 5, counter)


def trees():
    tree = boosted_trees_pb2.Tree()
    tree.nodes.add().dense_split.MergeFrom(boosted_trees_pb2.DenseSplit(feature_id=1, threshold=0.5, left_id=1,
                                                                        right_id=2))
    for values in ([1.0, 2.0], [3.0, 4.0]):
        tree.nodes.add().leaf.vector.value.extend(values)
    handle = forest.tensor_forest_tree_resource_handle_op(shared_name="tree")
    known = forest.tensor_forest_tree_is_initialized_op(handle)
    show("tree", known, forest.tensor_forest_tree_size(handle))
    session.run(forest.tensor_forest_create_tree_variable(handle, tree.SerializeToString()))
    features = np.float32([[9, 0.5], [0, 0.6], [0, -1]])
    show("tree", known, forest.tensor_forest_tree_size(handle), forest.tensor_forest_tree_serialize(handle),
         forest.tensor_forest_tree_predict(handle, features, 2), forest.tensor_forest_tree_predict(handle, features, 1))
    session.run(forest.tensor_forest_tree_deserialize(handle, boosted_trees_pb2.Tree().SerializeToString()))
    show("no nodes", forest.tensor_forest_tree_size(handle), forest.tensor_forest_tree_predict(handle, features, 2))


for part in (images, lines, slices, zeros, trees):
    part()
print("RESULT end", flush=True)
