# SPDX-License-Identifier: Apache-2.0
"""Checks that every message, field and enum value of our .proto files is the one that TensorFlow has."""

import glob
import unittest

import tensorflow.core.example.example_pb2  # noqa: F401  these fill the pool
import tensorflow.core.framework.cost_graph_pb2  # noqa: F401
import tensorflow.core.framework.device_attributes_pb2  # noqa: F401
import tensorflow.core.framework.graph_pb2  # noqa: F401
import tensorflow.core.framework.step_stats_pb2  # noqa: F401
import tensorflow.core.framework.summary_pb2  # noqa: F401
import tensorflow.core.protobuf.config_pb2  # noqa: F401
import tensorflow.core.protobuf.meta_graph_pb2  # noqa: F401
import tensorflow.core.protobuf.saver_pb2  # noqa: F401
import tensorflow.core.protobuf.snapshot_pb2  # noqa: F401
import tensorflow.core.protobuf.tensor_bundle_pb2  # noqa: F401
import tensorflow.core.protobuf.tensorflow_server_pb2  # noqa: F401
import tensorflow.core.util.event_pb2  # noqa: F401
import tensorflow.core.util.saved_tensor_slice_pb2  # noqa: F401
import tensorflow.python.training.checkpoint_state_pb2  # noqa: F401
from google.protobuf import descriptor_pb2, descriptor_pool
from tensorflow_testlib import ROOT, load_descriptors

THEIRS = descriptor_pool.Default()
# TensorFlow's Python package does not have them; cluster_programs_test.py speaks them with its clients and servers.
NOT_IN_PYTHON = ("thalweg/proto/master.proto", "thalweg/proto/worker.proto")
# Fields that Thalweg's tasks add to TensorFlow's messages, under numbers that TensorFlow does not use.
OURS = {"tensorflow.RunOptions.thalweg": 1000, "tensorflow.ThalwegStep": None}


def packed(field, options):
    """True if a repeated number is written packed: the default of proto3."""
    number = field.label == field.LABEL_REPEATED and field.type not in (
        field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_MESSAGE, field.TYPE_GROUP)
    return number and (options.packed if options.HasField("packed") else True)


class Comparison:
    """Collects the differences, and counts the compared fields."""

    def __init__(self):
        self.fields = 0
        self.problems = []

    def expect(self, what, ours, theirs):
        if ours != theirs:
            self.problems.append(f"{what}: ours {ours}, TensorFlow's {theirs}")

    def enum(self, name, ours):
        theirs = THEIRS.FindEnumTypeByName(name)
        for value in ours.value:
            known = theirs.values_by_name.get(value.name)
            self.expect(f"{name}.{value.name}", value.number, known.number if known else None)

    def field(self, name, field, oneof, known):
        self.fields += 1
        if known is None and OURS.get(name) == field.number:
            return
        if known is None:
            self.problems.append(f"{name}: TensorFlow has no such field")
            return
        self.expect(f"{name}: number", field.number, known.number)
        self.expect(f"{name}: type", field.type, known.type)
        self.expect(f"{name}: label", field.label, known.label)
        self.expect(f"{name}: packed", packed(field, field.options), packed(field, known.GetOptions()))
        target = known.message_type or known.enum_type
        self.expect(f"{name}: type name", field.type_name.lstrip("."), target.full_name if target else "")
        self.expect(f"{name}: oneof", oneof, known.containing_oneof.name if known.containing_oneof else None)

    def message(self, name, ours):
        try:
            theirs = THEIRS.FindMessageTypeByName(name)
        except KeyError:
            if name in OURS:
                return
            self.problems.append(f"{name}: TensorFlow has no such message")
            return
        self.expect(f"{name}: map entry", ours.options.map_entry, theirs.GetOptions().map_entry)
        for field in ours.field:
            oneof = ours.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None
            self.field(f"{name}.{field.name}", field, oneof, theirs.fields_by_name.get(field.name))
        for nested in ours.nested_type:
            self.message(f"{name}.{nested.name}", nested)
        for enum in ours.enum_type:
            self.enum(f"{name}.{enum.name}", enum)

    def file(self, file):
        self.expect(f"{file.name}: syntax", file.syntax, "proto3")
        for message in file.message_type:
            self.message(f"{file.package}.{message.name}", message)
        for enum in file.enum_type:
            self.enum(f"{file.package}.{enum.name}", enum)


class ProtoTest(unittest.TestCase):
    maxDiff = None

    def test_messages_are_those_of_tensorflow(self):
        comparison = Comparison()
        for file in load_descriptors(sorted(glob.glob("thalweg/proto/*.proto", root_dir=ROOT))):
            if file.package == "tensorflow" and file.name not in NOT_IN_PYTHON:  # what is of the package thalweg is only ours
                comparison.file(file)
        self.assertGreater(comparison.fields, 200)
        self.assertEqual(comparison.problems, [])

    def test_differences_are_found(self):
        def problems(text):
            comparison = Comparison()
            file = descriptor_pb2.FileDescriptorProto(name="f", package="tensorflow", syntax="proto3")
            file.message_type.add(name="VersionDef").field.add(
                name=text[0], number=text[1], type=text[2], label=text[3])
            comparison.file(file)
            return comparison.problems
        kinds = descriptor_pb2.FieldDescriptorProto
        good = ("producer", 1, kinds.TYPE_INT32, kinds.LABEL_OPTIONAL)
        self.assertEqual(problems(good), [])
        self.assertEqual(problems(("maker",) + good[1:]), ["tensorflow.VersionDef.maker: TensorFlow has no such field"])
        self.assertEqual(problems((good[0], 2) + good[2:]),
                         ["tensorflow.VersionDef.producer: number: ours 2, TensorFlow's 1"])
        self.assertEqual(len(problems(good[:2] + (kinds.TYPE_INT64, good[3]))), 1)
        self.assertEqual(len(problems(good[:3] + (kinds.LABEL_REPEATED,))), 1)


if __name__ == "__main__":
    unittest.main()
