"""Cases of compare_test.py: patches, fractional pooling, sets and other array ops."""

import numpy as np
import tensorflow as tf
from op_cases import floats, ints, kernel_types, numbers
from op_cases_sparse import OTHERS, PLACES, SHAPE, longs


def updates(c):
    for op in ("InplaceUpdate", "InplaceAdd", "InplaceSub"):
        for t in ("float32", "int32", "int64", "float64"):
            # TensorFlow changes x itself: it must be nobody else's.
            x = tf.identity(c.feed(numbers(t, (5, 2)))) + numbers(t, (), 1, 1)
            c.case(op, t, x=x, i=ints(3, 0, 3), v=numbers(t, (3, 2), seed=2))
        c.error(op, "rows", x=floats((5, 2)), i=ints(3, 0), v=floats((3, 2)))
        c.error(op, "shape", x=floats((5, 2)), i=ints(3, 0), v=floats((2, 3)))
    c.case("Empty", shape=ints(2, 3), dtype=tf.float32, init=True)
    c.case("Empty", "strings", shape=ints(2), dtype=tf.string, init=True)
    c.error("Empty", "negative", shape=ints(-2), dtype=tf.float32)
    for t in ("float32", "int32", "string"):
        c.case("ParallelConcat", t, values=[numbers(t, (1, 3)), numbers(t, (1, 3), seed=2)], shape=[2, 3])
    c.each("DataFormatDimMap", lambda t: dict(x=numbers(t, (9,), -4, 3)))
    c.case("DataFormatDimMap", "volumes", x=ints(-5, 0, 1, 4), src_format="NDHWC", dst_format="NCDHW")
    for source, target in (("NHWC", "NCHW"), ("NCHW", "NHWC"), ("NHWC", "HWNC"), ("NDHWC", "NCDHW")):
        n = len(source)
        c.each("DataFormatVecPermute", lambda t: dict(x=numbers(t, (n,), 0, 99), src_format=source, dst_format=target),
               label=f"{source} {target}")
        c.case("DataFormatVecPermute", f"{source} {target} pairs", x=numbers("int32", (n, 2), 0, 99),
               src_format=source, dst_format=target)
    c.case("DataFormatVecPermute", "spatial", x=ints(7, 9), src_format="NHWC", dst_format="NCHW")
    c.error("DataFormatVecPermute", "size", x=ints(7, 9, 1))


def patches(c):
    for padding in ("SAME", "VALID"):
        c.each("ExtractImagePatches", lambda t: dict(
            images=numbers(t, (2, 6, 5, 2)), ksizes=[1, 3, 2, 1], strides=[1, 2, 1, 1], rates=[1, 1, 2, 1],
            padding=padding), label=padding)
        c.each("ExtractVolumePatches", lambda t: dict(
            input=numbers(t, (2, 4, 5, 4, 2)), ksizes=[1, 2, 3, 2, 1], strides=[1, 1, 2, 1, 1], padding=padding),
            label=padding)
        common = dict(strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding=padding)
        for t in kernel_types("Dilation2D", "T"):
            x, w = numbers(t, (2, 6, 5, 2), 0, 9), numbers(t, (2, 3, 2), 0, 4, seed=2)
            (y,) = c.apply("Dilation2D", input=x, filter=w, **common)
            dy = numbers(t, [int(d) for d in y.shape], 0, 4, seed=3)
            c.case("Dilation2D", f"{t} {padding}", input=x, filter=w, **common)
            limit = 5e-2 if t in ("float16", "bfloat16") else None
            c.case("Dilation2DBackpropInput", f"{t} {padding}", input=x, filter=w, out_backprop=dy, tolerance=limit,
                   **common)
            c.case("Dilation2DBackpropFilter", f"{t} {padding}", input=x, filter=w, out_backprop=dy, tolerance=limit,
                   **common)
    c.error("ExtractImagePatches", "rank", images=floats((6, 5, 2)), ksizes=[1, 3, 2, 1], strides=[1, 2, 1, 1],
            rates=[1, 1, 2, 1], padding="SAME")
    c.error("Dilation2D", "depth", input=floats((1, 3, 3, 2)), filter=floats((2, 2, 3)), strides=[1, 1, 1, 1],
            rates=[1, 1, 1, 1], padding="SAME")


def fractional(c):
    for pseudo in (False, True):
        for overlapping in (False, True):
            common = dict(pooling_ratio=[1., 1.5, 1.7, 1.], pseudo_random=pseudo, overlapping=overlapping,
                          deterministic=True, seed=3, seed2=8)
            for t in ("float32", "float64", "int32", "int64"):
                x = numbers(t, (2, 9, 11, 3), -9, 9)
                for name in ("Max", "Avg"):
                    label = f"{t} {pseudo} {overlapping}"
                    y, rows, columns = c.apply(f"Fractional{name}Pool", value=x, **common)
                    c.add(f"Fractional{name}Pool {label}", [y, rows, columns])
                    given = dict(orig_input=x, orig_output=y) if name == "Max" else dict(
                        orig_input_tensor_shape=longs(2, 9, 11, 3))
                    c.case(f"Fractional{name}PoolGrad", label, out_backprop=y, row_pooling_sequence=rows,
                           col_pooling_sequence=columns, overlapping=overlapping, **given)
    c.error("FractionalMaxPool", "ratio", value=floats((1, 2, 2, 1)), pooling_ratio=[1., 3., 1., 1.])


def sets(c):
    for t in ("int64", "string", "int32", "uint8"):
        a, b = numbers(t, (2, 3, 6), 0, 9), numbers(t, (2, 3, 4), 0, 9, seed=2)
        first = dict(set1_indices=OTHERS, set1_values=numbers(t, (5,), 0, 3), set1_shape=SHAPE)
        second = dict(set2_indices=PLACES, set2_values=numbers(t, (4,), 0, 3, seed=2), set2_shape=longs(4, 4))
        for operation in ("a-b", "b-a", "union", "intersection"):
            label = f"{t} {operation}"
            c.case("DenseToDenseSetOperation", label, set1=a, set2=b, set_operation=operation)
            c.case("DenseToSparseSetOperation", label, set1=numbers(t, (4, 3), 0, 3), set_operation=operation, **second)
            c.case("SparseToSparseSetOperation", label, set_operation=operation, **first, **second)
        c.case("SetSize", t, set_indices=OTHERS, set_values=numbers(t, (5,), 0, 1), set_shape=SHAPE)
    c.error("DenseToDenseSetOperation", "shapes", set1=ints([1, 2]), set2=ints([1], [2]), set_operation="union")
    c.error("DenseToDenseSetOperation", "operation", set1=ints([1, 2]), set2=ints([1, 2]), set_operation="times")


FAMILIES = (updates, patches, fractional, sets)
