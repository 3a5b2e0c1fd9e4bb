# SPDX-License-Identifier: Apache-2.0
"""Cases of the ops that decode and encode protocol buffers; see case_builder.py."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

NUMBERS = {
    "double": (tf.float64,), "float": (tf.float32, tf.float64), "int64": (tf.int64,), "uint64": (tf.uint64,),
    "int32": (tf.int32, tf.int64), "fixed64": (tf.uint64,), "fixed32": (tf.uint32, tf.uint64), "bool": (tf.bool,),
    "uint32": (tf.uint32, tf.uint64), "sfixed32": (tf.int32, tf.int64), "sfixed64": (tf.int64,),
    "sint32": (tf.int32, tf.int64), "sint64": (tf.int64,), "enum": (tf.int32,)}
TEXTS = ("string", "bytes", "message")
DEFAULTS = {"bool": "true", "enum": "THREE", "string": "none", "bytes": "no bytes", "float": "1.5", "double": "-2.5"}


def descriptors(syntax="proto2"):
    """A set with test.All: fields o_..., r_... and p_... (optional, repeated, packed) of every type."""
    result = descriptor_pb2.FileDescriptorSet()
    file = result.file.add(name=f"{syntax}_all.proto", package="test", syntax=syntax)
    enum = file.enum_type.add(name="Number")
    for name, number in (("ZERO", 0), ("THREE", 3), ("MINUS", -1)):
        enum.value.add(name=name, number=number)
    message = file.message_type.add(name="All")
    for prefix, label in (("o", 1), ("r", 3), ("p", 3)):
        for kind in (*NUMBERS, *TEXTS):
            if prefix == "p" and kind in TEXTS:
                continue
            field = message.field.add(name=f"{prefix}_{kind}", number=len(message.field) + 1, label=label)
            field.type = getattr(field, f"TYPE_{kind.upper()}")
            if kind in ("enum", "message"):
                field.type_name = ".test.Number" if kind == "enum" else ".test.All"
            if prefix == "p":
                field.options.packed = True
            elif prefix == "r" and kind in NUMBERS and syntax == "proto2":
                field.options.packed = False
            if prefix == "o" and kind != "message" and syntax == "proto2":
                field.default_value = DEFAULTS.get(kind, "7")
    if syntax == "proto2":
        group = message.nested_type.add(name="Grouped")
        group.field.add(name="x", number=1, label=1, type=descriptor_pb2.FieldDescriptorProto.TYPE_INT32)
        message.field.add(name="grouped", number=90, label=3, type=descriptor_pb2.FieldDescriptorProto.TYPE_GROUP,
                          type_name=".test.All.Grouped")
        message.extension_range.add(start=100, end=200)
        file.extension.add(name="more", number=100, label=1, type=descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
                           extendee=".test.All")
        needy = file.message_type.add(name="Needy")
        needy.field.add(name="x", number=1, label=2, type=descriptor_pb2.FieldDescriptorProto.TYPE_INT32)
    return result


def message_class(descriptor_set):
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_set.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.All"))


def values(kind, dtype, shape, seed=1):
    random = np.random.RandomState(seed)
    if kind in TEXTS:
        choices = ["", "a", "text"] if kind != "message" else [b"", b"\x0a\x08abcdefgh", b"\x12\x03xyz"]
        return np.array(random.choice(np.array(choices, object), shape), object)
    if kind == "bool":
        return random.randint(0, 2, shape).astype(bool)
    if kind == "enum":
        return random.choice(np.array([0, 3, -1], np.int32), shape)
    if kind in ("float", "double"):
        return random.uniform(-4, 4, shape).astype(np.float32).astype(dtype.as_numpy_dtype)
    top = 1 << (31 if "32" in kind else 63)
    low = 0 if dtype.is_unsigned else -top
    ends = np.array([low, low // 2, 0, 1, 300, top - 1], dtype.as_numpy_dtype)
    return random.choice(ends, shape)


def sample(cls, count, seed, packed_negative=True):
    """A message with `count` values of each repeated field."""
    message = cls()
    for field in cls.DESCRIPTOR.fields:
        kind = field.name.split("_")[-1]
        if kind == "grouped":
            for i in range(count):
                message.grouped.add().x = i
        elif kind == "message":
            for i in range(count):
                item = message.r_message.add() if field.name[0] == "r" else message.o_message
                item.o_string = f"inner {i}"
        else:
            dtype = NUMBERS.get(kind, (tf.string,))[0]
            found = values(kind, dtype, (count,), seed + field.number)
            if kind == "bytes":
                found = [item.encode() for item in found]
            if field.name in ("r_int32", "p_int32") and not packed_negative:  # proto3 packs both
                found = np.abs(found // 2)
            if field.name[0] != "o":
                getattr(message, field.name).extend(x.item() if hasattr(x, "item") else x for x in found)
            elif count:
                setattr(message, field.name, found[-1].item() if hasattr(found[-1], "item") else found[-1])
    return message


def varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def as_text(message):
    return str(message).replace("grouped {", "Grouped {").encode()  # a group's name is its type's


def text(*items):
    return np.array(items, object)


def decode(c):
    if "DecodeProtoV2" not in c.registered:
        return
    for syntax in ("proto2", "proto3"):
        definition = descriptors(syntax)
        cls = message_class(definition)
        source = b"bytes://" + definition.SerializeToString()
        names = [field.name for field in cls.DESCRIPTOR.fields if field.name != "grouped"]
        for wide in (False, True):
            # TensorFlow takes negative packed numbers of int32 for positive ones if they are read as int64.
            messages = [sample(cls, count, 7 * count, packed_negative=not wide) for count in (2, 0, 1, 4)]
            types = [NUMBERS.get(name.split("_")[1], (tf.string,))[-1 if wide else 0] for name in names]
            common = dict(message_type="test.All", field_names=names, output_types=types, descriptor_source=source)
            binary = text(*(message.SerializeToString() for message in messages)).reshape(2, 2)
            for sanitize in (False, True):
                c.case("DecodeProtoV2", f"{syntax} all {wide} {sanitize}", bytes=binary, sanitize=sanitize, **common)
            c.case("DecodeProtoV2", f"{syntax} text {wide}", message_format="text",
                   bytes=text(*(as_text(message) for message in messages)), **common)
            c.case("DecodeProtoV2", f"{syntax} scalar {wide}", bytes=np.array(binary[1, 1], object), **common)
            # Two messages in one string are merged: of a single field, the last value counts.
            c.case("DecodeProtoV2", f"{syntax} twice {wide}",
                   bytes=text(binary[1, 1] + binary[0, 0], binary[0, 0] + binary[1, 1]), **common)


def decode_sources(c):
    if "DecodeProtoV2" not in c.registered:
        return
    definition = descriptors()
    cls = message_class(definition)
    source = b"bytes://" + definition.SerializeToString()
    c.folder = tempfile.TemporaryDirectory()
    path = os.path.join(c.folder.name, "all.pb")
    with open(path, "wb") as file:
        file.write(definition.SerializeToString())
    message = sample(cls, 3, 5)
    message.ParseFromString(message.SerializeToString() + b"\xa0\x06\x05")
    binary = text(message.SerializeToString())
    few = dict(message_type="test.All", field_names=["p_sint32", "o_enum"], output_types=[tf.int32, tf.int32])
    c.case("DecodeProtoV2", "file", bytes=binary, descriptor_source=path, **few)
    c.case("DecodeProtoV2", "groups and extensions", bytes=binary, descriptor_source=source,
           message_type="test.All", field_names=["grouped", "test.more"], output_types=[tf.string, tf.int32])
    tensor = text(tf.make_tensor_proto([1., 2.5]).SerializeToString(), tf.make_tensor_proto(3).SerializeToString())
    for local in ("", "local://"):
        c.case("DecodeProtoV2", f"local {local}", bytes=tensor, descriptor_source=local,
               message_type="tensorflow.TensorProto",
               field_names=["int_val", "tensor_content", "tensor_shape", "dtype"],
               output_types=[tf.int32, tf.string, tf.string, tf.int32])
    other = dict(message_type="test.All", descriptor_source=source)
    numbers = {field.name: field.number for field in cls.DESCRIPTOR.fields}

    def tag(name, wire):
        return varint(numbers[name] << 3 | wire)

    # Other wire types than the field's, unknown fields, unpacked values of packed fields, packed values of others.
    strange = text(tag("o_bool", 5) + b"abcd", tag("o_string", 0) + b"\x05", b"\xf8\x3f\x05", b"\xfa\x3f\x02xy",
                   tag("p_int64", 0) + b"\x05", tag("r_int64", 2) + b"\x04\x05\x06\x07\x08")
    c.case("DecodeProtoV2", "strange", bytes=strange, **other, field_names=["o_bool", "o_string", "p_int64", "r_int64"],
           output_types=[tf.bool, tf.string, tf.int64, tf.int64])
    packed = tag("o_int64", 2)
    single = text(packed + b"\x02\x05\x06", packed + b"\x00",
                  packed + b"\x02\x05\x06" + tag("o_int64", 0) + b"\x09")
    c.case("DecodeProtoV2", "packed single", bytes=single, field_names=["o_int64"], output_types=[tf.int64], **other)
    fields = dict(field_names=["o_int64", "o_string", "r_message", "p_fixed32"],
                  output_types=[tf.int64, tf.string, tf.string, tf.uint32])
    cut = message.SerializeToString()
    for label, bad in (("cut", cut[:-1]), ("tag only", tag("o_int64", 0)), ("varint", tag("o_int64", 0) + b"\xff"),
                       ("long varint", tag("o_int64", 0) + b"\xff" * 11), ("length", tag("o_string", 2) + b"\x05ab"),
                       ("2 GiB", tag("o_string", 2) + b"\xff\xff\xff\xff\x07"),
                       ("4 GiB", tag("o_string", 2) + b"\xff\xff\xff\xff\x0f"),
                       ("packed bytes", tag("p_fixed32", 2) + b"\x03abc"), ("end group", b"\x0c"),
                       ("wire type", b"\x0f"), ("zero", b"\x00")):
        for sanitize in (False, True):
            c.error("DecodeProtoV2", f"{label} {sanitize}", bytes=text(bad), sanitize=sanitize, **fields, **other)
    for bad in (b"o_int64: x", b"unknown: 1", b"o_int64", b"r_message {", b"\xff"):
        c.error("DecodeProtoV2", f"text {bad}", bytes=text(bad), message_format="text", **fields, **other)
    needy = dict(message_type="test.Needy", field_names=["x"], output_types=[tf.int32], descriptor_source=source)
    c.case("DecodeProtoV2", "required", bytes=text(b""), **needy)
    c.error("DecodeProtoV2", "required", bytes=text(b""), sanitize=True, **needy)
    c.error("DecodeProtoV2", "required text", bytes=text(b""), message_format="text", **needy)
    c.error("DecodeProtoV2", "nothing", bytes=np.zeros(0, object), **fields, **other)
    one = dict(bytes=text(b""), message_type="test.All", field_names=["o_int64"], output_types=[tf.int64],
               descriptor_source=source)
    for label, change in (("field", dict(field_names=["none"])), ("type", dict(output_types=[tf.int32])),
                          ("types", dict(output_types=[tf.int64, tf.int64])), ("message", dict(message_type="None")),
                          ("format", dict(message_format="json")), ("local", dict(descriptor_source="local://")),
                          ("bytes", dict(descriptor_source="bytes://garbage")),
                          ("no file", dict(descriptor_source=path + ".none")),
                          ("two types", dict(descriptor_source=source + descriptors("proto3").SerializeToString()))):
        c.error("DecodeProtoV2", label, **one | change)


def encode(c):
    if "EncodeProto" not in c.registered:
        return
    random = np.random.RandomState(3)
    for syntax in ("proto2", "proto3"):
        definition = descriptors(syntax)
        cls = message_class(definition)
        names = [field.name for field in cls.DESCRIPTOR.fields][::-1]
        common = dict(message_type="test.All", descriptor_source=b"bytes://" + definition.SerializeToString())
        for wide in (False, True):
            tensors = []
            for i, name in enumerate(names):
                kind = name.split("_")[-1] if name != "grouped" else "message"
                dtype = NUMBERS.get(kind, (tf.string,))[-1 if wide else 0]
                found = values(kind, dtype, (2, 2, 1 if name[0] == "o" else 3), i)
                tensors.append(np.array([x.encode() if isinstance(x, str) else x for x in found.flat],
                                        object).reshape(found.shape) if dtype == tf.string else found)
            sizes = random.randint(0, 4, (2, 2, len(names))).astype(np.int32)
            sizes = np.minimum(sizes, [t.shape[-1] for t in tensors]).astype(np.int32)
            c.case("EncodeProto", f"{syntax} all {wide}", sizes=sizes, values=tensors, field_names=names, **common)
        few = dict(field_names=["o_int64", "r_string"], **common)
        two = [np.array([[1]], np.int64), text(b"a", b"b").reshape(1, 2)]
        for label, sizes, tensors in (
                ("size", [[1, 3]], two), ("sizes", [[1]], two), ("vector", [1, 1], two),
                ("rank", [1, 1], [two[0][0], two[1][0]]),
                ("batch", [[1, 1]], [two[0], two[1].reshape(2, 1)]), ("type", [[1, 1]], [two[1], two[0]]),
                ("number", [[1]], two[:1])):
            c.error("EncodeProto", f"{syntax} {label}", sizes=np.array(sizes, np.int32), values=tensors, **few)
        c.error("EncodeProto", f"{syntax} field", sizes=np.ones((1, 1), np.int32), values=two[:1], field_names=["none"],
                **common)


FAMILIES = (decode, decode_sources, encode)
