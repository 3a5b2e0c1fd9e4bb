# SPDX-License-Identifier: Apache-2.0
"""Checks that every op that Thalweg knows has the signature that TensorFlow gives it."""

import unittest

from google.protobuf import json_format
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.framework import op_def_registry
from tensorflow_testlib import registered_ops

# Fields that are not part of a signature, or do not matter to a client.
IGNORED = ("summary", "description", "deprecation", "is_distributed_communication")
IGNORED_OF_PARTS = ("description", "experimental_full_type", "handle_data")


def signature(op):
    """A copy of an OpDef with only the fields that are compared."""
    op = op_def_pb2.OpDef.FromString(op.SerializeToString())
    for field in IGNORED:
        op.ClearField(field)
    for part in [*op.input_arg, *op.output_arg, *op.attr]:
        for field in IGNORED_OF_PARTS:
            if field in part.DESCRIPTOR.fields_by_name:
                part.ClearField(field)
    return json_format.MessageToDict(op, preserving_proto_field_name=True)


def differences(ours, theirs, path):
    """The differences of two nested values, one line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs) and \
            all(isinstance(item, dict) for item in ours + theirs):
        for index, (a, b) in enumerate(zip(ours, theirs)):
            yield from differences(a, b, f"{path}[{b.get('name', index)}]")
    elif isinstance(ours, list) and isinstance(theirs, list):
        ours, theirs = ([item.get("name", item) if isinstance(item, dict) else item for item in side]
                        for side in (ours, theirs))
        if ours != theirs:
            yield f"{path}: ours {ours}, TensorFlow's {theirs}"
    elif ours != theirs:
        yield f"{path}: ours {ours}, TensorFlow's {theirs}"


class RegistryTest(unittest.TestCase):
    maxDiff = None

    def test_signatures_are_those_of_tensorflow(self):
        ops = registered_ops()
        self.assertGreater(len(ops), 100)
        problems = []
        for name, op in ops.items():
            if name.startswith("Thalweg"):  # our own
                continue
            known = op_def_registry.get(name)
            if known is None:
                problems.append(f"{name}: TensorFlow has no such op")
            else:
                problems += differences(signature(op), signature(known), name)
        self.assertFalse(problems, f"{len(problems)} differences:\n" + "\n".join(problems))


class DifferencesTest(unittest.TestCase):
    """The comparison itself."""

    def setUp(self):
        self.op = op_def_pb2.OpDef(name="Op")
        self.op.input_arg.add(name="a", type_attr="T", description="text")
        self.op.attr.add(name="T", type="type")

    def changed(self, change):
        other = op_def_pb2.OpDef.FromString(self.op.SerializeToString())
        change(other)
        return list(differences(signature(other), signature(self.op), "Op"))

    def test_same(self):
        self.assertEqual(self.changed(lambda op: None), [])
        self.assertEqual(self.changed(lambda op: op.input_arg[0].ClearField("description")), [])

    def test_names_order_and_values_count(self):
        self.assertEqual(self.changed(lambda op: setattr(op, "is_stateful", True)),
                         ["Op.is_stateful: ours True, TensorFlow's None"])
        self.assertEqual(self.changed(lambda op: setattr(op.input_arg[0], "name", "b")),
                         ["Op.input_arg[a].name: ours b, TensorFlow's a"])
        self.assertEqual(self.changed(lambda op: op.attr.add(name="N")),
                         ["Op.attr: ours ['T', 'N'], TensorFlow's ['T']"])
        self.assertEqual(self.changed(lambda op: setattr(op.attr[0].default_value, "type", 1)),
                         ["Op.attr[T].default_value: ours {'type': 'DT_FLOAT'}, TensorFlow's None"])


if __name__ == "__main__":
    unittest.main()
