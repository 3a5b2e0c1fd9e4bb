# SPDX-License-Identifier: Apache-2.0
"""The ops that tf.contrib of TensorFlow 1 brings in libraries of its own, on a server. Prints what they compute."""

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2
from tensorflow.contrib.layers.python.ops import sparse_feature_cross_op
from tensorflow.contrib.seq2seq.python.ops import beam_search_ops
from tensorflow.contrib.text.python.ops import skip_gram_ops

server = tf.train.Server.create_local_server()
random = np.random.RandomState(0)


def crosses():
    """All kinds of columns, with and without a key, as text and as numbers."""
    words = tf.SparseTensor([[0, 0], [1, 0], [1, 1], [3, 0]], ["a", "b", "c", "d"], [4, 2])
    numbers = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [3, 0]], tf.constant([1, -2, 2 ** 40, 7], tf.int64), [4, 2])
    dense = tf.constant([["x", "y"], ["z", "x"], ["u", "v"], ["", "w"]])
    dense_numbers = tf.constant([[5], [6], [-7], [8]], tf.int64)
    for inputs in ([words, dense], [words, numbers], [words, words, dense], [numbers, dense_numbers],
                   [dense, dense_numbers], [words, numbers, dense, dense_numbers]):
        yield sparse_feature_cross_op.sparse_feature_cross(inputs)
        for buckets in (0, 10, 1000):
            for key in (None, 956888297470, 1):
                yield sparse_feature_cross_op.sparse_feature_cross(inputs, hashed_output=True, num_buckets=buckets,
                                                                   hash_key=key)


def trees():
    for steps, batch, width in ((1, 1, 1), (4, 2, 3), (7, 3, 2)):
        tokens = random.randint(5, size=[steps, batch, width]).astype(np.int32)
        parents = random.randint(width, size=[steps, batch, width]).astype(np.int32)
        lengths = random.randint(steps + 2, size=[batch]).astype(np.int32)
        yield beam_search_ops.gather_tree(tokens, parents, lengths, end_token=3)


def pairs():
    for arguments in ({}, {"min_skips": 0, "max_skips": 3}, {"min_skips": 2, "max_skips": 2, "start": 2, "limit": 5},
                      {"emit_self_as_target": True, "min_skips": 0, "max_skips": 1}):
        for values in (np.arange(20), np.array(["to", "be", "or", "not", "to"])):
            yield skip_gram_ops.skip_gram_sample(tf.constant(values), seed=42, **arguments)


def protos():
    """Messages of a type that the server knows, and of one that the graph brings along."""
    tensors = [tf.make_tensor_proto(value).SerializeToString() for value in ([1.5, 2.5], 3, "text")]
    names, types = ["dtype", "int_val", "string_val", "tensor_shape"], [tf.int32, tf.int32, tf.string, tf.string]
    sizes, values = tf.contrib.proto.decode_proto(tensors, "tensorflow.TensorProto", names, types)
    yield sizes, values
    yield tf.contrib.proto.encode_proto(sizes, values, names, "tensorflow.TensorProto")
    files = descriptor_pb2.FileDescriptorSet()
    message = files.file.add(name="pair.proto").message_type.add(name="Pair")
    message.field.add(name="number", number=1, type=descriptor_pb2.FieldDescriptorProto.TYPE_SINT64, label=3)
    message.field.add(name="text", number=2, type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING, label=1)
    source = b"bytes://" + files.SerializeToString()
    for sanitize in (False, True):
        yield tf.contrib.proto.decode_proto(["number: [-5, 6] text: 'a'", ""], "Pair", ["text", "number"],
                                            [tf.string, tf.int64], source, "text", sanitize)
    yield tf.contrib.proto.encode_proto([[2, 1]], [tf.constant([[-5, 6]], tf.int64), [["a"]]], ["number", "text"],
                                        "Pair", source)


with tf.Session(server.target) as session:
    print("contrib begins")
    for results in (crosses(), trees(), pairs(), protos()):
        for result in results:
            for array in tf.contrib.framework.nest.flatten(session.run(result)):
                print(array.shape, array.flatten().tolist())
    for bad, name in ((beam_search_ops.gather_tree([[[1]], [[2]]], [[[0]], [[5]]], [2], 0), "invalid parent id"),
                      (skip_gram_ops.skip_gram_sample(tf.range(3), min_skips=4, max_skips=2), "min_skips must be <=")):
        try:
            session.run(bad)
            print("no error")
        except tf.errors.InvalidArgumentError as error:
            print(name in str(error))
    print("contrib ends")
