# SPDX-License-Identifier: Apache-2.0
"""Builds the graph of compare_test.py: ops and the inputs on which TensorFlow and Thalweg are compared.

An op with its keyword arguments is one case. Arrays among them are fed; other values are attributes. `each` makes a
case of every element type for which TensorFlow has a kernel.
"""

import dataclasses

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_library, op_def_registry

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
COMPLEX = ("complex64", "complex128")
TYPES = FLOATS + INTEGERS + COMPLEX + ("bool", "string")


def array(dtype, values):
    return np.array(values, tf.as_dtype(dtype).as_numpy_dtype)


def numbers(dtype, shape=(3, 4), low=-4, high=4, seed=1):
    """Values of any type from a fixed sequence; values of unsigned types are not negative."""
    random = np.random.RandomState(seed)
    if dtype == "bool":
        return random.randint(0, 2, shape).astype(bool)
    if dtype == "string":
        return np.array([b"s%d" % i for i in random.randint(0, 5, int(np.prod(shape)))], object).reshape(shape)
    if dtype in INTEGERS:
        floor = max(int(np.ceil(low)), 0) if dtype.startswith("u") else int(np.ceil(low))
        return array(dtype, random.randint(floor, max(floor, int(high)) + 1, shape))
    if dtype in COMPLEX:
        return array(dtype, random.uniform(low, high, shape) + 1j * random.uniform(low, high, shape))
    return array(dtype, random.uniform(low, high, shape))


def nonzero(dtype, shape, low=-4, high=4, seed=2):
    values = numbers(dtype, shape, low, high, seed)
    return np.where(values == 0, array(dtype, 3), values).astype(values.dtype)


def floats(shape=(3, 4), low=-4, high=4, seed=1):
    return numbers("float32", shape, low, high, seed)


def ints(*values, dtype=np.int32):
    return np.array(values, dtype)


def index(value, dtype=np.int32):
    return np.array(value, dtype)


def kernel_types(op, attr):
    """The types of TYPES that `attr` may have and for which TensorFlow has a kernel for the CPU."""
    (spec,) = [a for a in op_def_registry.get(op).attr if a.name == attr]
    allowed = {tf.as_dtype(t).name for t in spec.allowed_values.list.type} or set(TYPES)
    found = set()
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        if kernel.device_type != "CPU":
            continue
        limits = [limit.allowed_values.list.type for limit in kernel.constraint if limit.name == attr]
        found |= {tf.as_dtype(t).name for types in limits for t in types} if limits else allowed
    return [t for t in TYPES if t in found & allowed]


@dataclasses.dataclass
class Case:
    label: str
    fetches: list
    tolerance: float = None


class Cases:
    """Builds one graph that holds them all."""

    def __init__(self, registered):
        self.registered = registered
        self.graph = tf.Graph()
        self.feeds = {}  # the feeds of all cases, by placeholder name
        self.cases = []
        self.failing = []  # cases whose steps must fail like TensorFlow's
        self.placeholders = {}

    def count(self):
        return len(self.graph.get_operations())

    def feed(self, value, shape_known=True):
        value = np.asarray(value)
        key = (value.dtype.name, value.shape, repr(value.tolist()), shape_known)
        if key not in self.placeholders:
            dtype = tf.string if value.dtype == object else value.dtype
            with tf.control_dependencies(None):  # what is fed waits for nothing
                placeholder = tf.compat.v1.placeholder(dtype, value.shape if shape_known else None)
            self.placeholders[key] = placeholder
            self.feeds[placeholder.name] = value
        return self.placeholders[key]

    def apply(self, op, shape_known=True, **arguments):
        """Adds an op; returns its outputs as a list."""
        def convert(value):
            if isinstance(value, np.ndarray):
                return self.feed(value, shape_known)
            return [convert(item) for item in value] if isinstance(value, list) else value
        definition = op_def_registry.get(op)
        inferred = {name for a in definition.input_arg for name in (a.type_attr, a.number_attr, a.type_list_attr)}
        defaults = {a.name: None for a in definition.attr if a.name not in inferred and a.HasField("default_value")}
        outputs = op_def_library.apply_op(op, **defaults | {name: convert(value) for name, value in arguments.items()})
        if isinstance(outputs, tf.Operation):
            return [outputs]
        flat = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return [t for item in flat for t in (item if isinstance(item, list) else [item])]

    def add(self, label, outputs, tolerance=None):
        """A case of tensors that were built by hand."""
        names = [tf.identity(t).name if t.dtype._is_ref_dtype else t.name for t in outputs]
        self.cases.append(Case(label, names, tolerance))

    def case(self, op, label="", tolerance=None, **arguments):
        if op in self.registered:
            self.add(f"{op} {label}".strip(), self.apply(op, **arguments), tolerance)

    def each(self, op, build, attr="T", label="", tolerance=None, only=TYPES, without=()):
        """A case for every type; `build` returns its arguments."""
        for dtype in kernel_types(op, attr):
            if dtype in only and dtype not in without:
                self.case(op, f"{dtype} {label}".strip(), tolerance, **build(dtype))

    def error(self, op, label="", shape_known=False, **arguments):
        """A step that must fail with TensorFlow's code."""
        outputs = self.apply(op, shape_known, **arguments)
        self.failing.append(Case(f"{op} {label}".strip(), [t.name for t in outputs]))


def variable(c, value, op="VariableV2"):
    """A ref variable that holds `value`, independent of other cases."""
    (ref,) = c.apply(op, shape=tf.TensorShape(value.shape),
                     dtype=tf.as_dtype(value.dtype) if value.dtype != object else tf.string)
    (assigned,) = c.apply("Assign", ref=ref, value=value)
    return assigned


def resource_variable(c, value):
    """The handle of a resource variable, and the op that assigns `value` to it."""
    (handle,) = c.apply("VarHandleOp", dtype=tf.as_dtype(value.dtype), shape=tf.TensorShape(value.shape),
                        shared_name=f"v{len(c.cases)}_{c.count()}")
    return handle, c.apply("AssignVariableOp", resource=handle, value=value)[0]


def updated(c, op, label, slots, tolerance=None, **arguments):
    """A case of an op that updates variables (`slots`); compares their values afterwards."""
    if op_def_registry.get(op).input_arg[0].type != tf.resource.as_datatype_enum:
        refs = {name: variable(c, value) for name, value in slots.items()}
        with tf.control_dependencies(c.apply(op, **refs, **arguments)):
            c.add(f"{op} {label}", [tf.identity(ref) for ref in refs.values()], tolerance)
        return
    handles = {name: resource_variable(c, value) for name, value in slots.items()}
    with tf.control_dependencies([assigned for _, assigned in handles.values()]):
        outputs = c.apply(op, **{name: handle for name, (handle, _) in handles.items()}, **arguments)
    with tf.control_dependencies(outputs):
        reads = [c.apply("ReadVariableOp", resource=handle, dtype=tf.as_dtype(slots[name].dtype))[0]
                 for name, (handle, _) in handles.items()]
    c.add(f"{op} {label}", reads, tolerance)


def longs(*values):
    return np.array(values, np.int64)
