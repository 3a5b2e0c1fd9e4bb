# SPDX-License-Identifier: Apache-2.0
"""Cases of compare_test.py: arithmetic, arrays, strings, random numbers, variables and control flow."""

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from cases.case_builder import (COMPLEX, FLOATS, INTEGERS, TYPES, array, floats, index, ints, kernel_types, nonzero,
                                numbers, resource_variable, updated, variable)

# The interesting part of the domain of each function.
UNARY = {
    "Abs": (-4, 4), "Acos": (-.9, .9), "Acosh": (1.1, 5), "Asin": (-.9, .9), "Asinh": (-4, 4), "Atan": (-4, 4),
    "Atanh": (-.9, .9), "Ceil": (-4, 4), "Conj": (-4, 4), "Cos": (-4, 4), "Cosh": (-3, 3), "DeepCopy": (-4, 4),
    "Digamma": (.5, 5), "Elu": (-4, 4), "Erf": (-3, 3), "Erfc": (-2, 2), "Erfinv": (-.9, .9), "Exp": (-3, 3),
    "Expm1": (-2, 2), "Floor": (-4, 4), "GuaranteeConst": (-4, 4), "Identity": (-4, 4), "Inv": (.5, 4), "Invert": (-9,
                                                                                                                   9),
    "IsFinite": (-4, 4), "IsInf": (-4, 4), "IsNan": (-4, 4), "L2Loss": (-2, 2), "LeakyRelu": (-4, 4), "Lgamma": (.5, 5),
    "Log": (.1, 5), "Log1p": (-.5, 5), "LogSoftmax": (-3, 3), "Ndtri": (.1, .9), "Neg": (-4, 4), "OnesLike": (-4, 4),
    "PopulationCount": (0, 100), "PreventGradient": (-4, 4), "Rank": (-4, 4), "Reciprocal": (.5, 4), "Relu": (-4, 4),
    "Relu6": (-4, 9), "Rint": (-4, 4), "Round": (-4, 4), "Rsqrt": (.1, 5), "Selu": (-4, 4), "Shape": (-4, 4),
    "Sigmoid": (-5, 5), "Sign": (-4, 4), "Sin": (-4, 4), "Sinh": (-3, 3), "Size": (-4, 4), "Snapshot": (-4, 4),
    "Softmax": (-3, 3), "Softplus": (-5, 5), "Softsign": (-4, 4), "Sqrt": (.1, 5), "Square": (-4, 4),
    "StopGradient": (-4, 4), "Tan": (-1, 1), "Tanh": (-3, 3), "ZerosLike": (-4, 4),
}
# Looser where TensorFlow itself computes with an approximation.
UNARY_TOLERANCE = {"Digamma": 1e-4, "Lgamma": 1e-4, "Ndtri": 1e-4, "Erfinv": 1e-4, "Tan": 1e-2}
SPECIAL_VALUES = ("Abs", "Ceil", "Floor", "IsFinite", "IsInf", "IsNan", "Neg", "Relu", "Rint", "Round", "Sigmoid",
                  "Sign",
                  "Sqrt", "Square", "Tanh", "Exp", "Log", "Rsqrt", "Erf", "Elu", "Selu", "Softplus")


def unary(c):
    for op, (low, high) in UNARY.items():
        (argument,) = [a.name for a in op_def_registry.get(op).input_arg]
        limit = UNARY_TOLERANCE.get(op)
        c.each(op, lambda t: {argument: numbers(t, (3, 4), low, high)},
               tolerance=limit, without=() if limit is None else ("float64", "float16", "bfloat16") + COMPLEX)
    for op in SPECIAL_VALUES:
        (argument,) = [a.name for a in op_def_registry.get(op).input_arg]
        values = [np.nan, np.inf, -np.inf, -0.0, 0.0, .5, 1.5, 2.5, -.5, -1.5, 88.8, 100, -100]
        c.each(op, lambda t: {argument: array(t, values)}, label="special", only=("float32", "float64"))
    for size in (1, 7, 8, 15, 33, 1000):  # ends of vector loops
        for op in ("Exp", "Tanh", "Sigmoid", "Log", "Sqrt", "Relu", "Neg"):
            (argument,) = [a.name for a in op_def_registry.get(op).input_arg]
            c.case(op, f"of {size}", **{argument: floats((size,), .1, 3)})
    for op in ("Real", "Imag", "Angle", "ComplexAbs"):
        c.each(op, lambda t: {op_def_registry.get(op).input_arg[0].name: numbers(t),
                              "Tout": tf.float32 if t == "complex64" else tf.float64})
    c.case("LogicalNot", x=numbers("bool"))
    c.each("CheckNumerics", lambda t: dict(tensor=numbers(t), message="m"))
    c.each("CheckNumericsV2", lambda t: dict(tensor=numbers(t), message="m"))
    c.error("CheckNumerics", "of nan", tensor=array("float32", [1, np.nan]), message="oops")


BINARY = {
    "Add": ((-4, 4), (-4, 4)), "AddV2": ((-4, 4), (-4, 4)), "ApproximateEqual": ((0, 1), (0, 1)),
    "Atan2": ((-4, 4), (-4, 4)), "BitwiseAnd": ((0, 99), (0, 99)), "BitwiseOr": ((0, 99), (0, 99)),
    "BitwiseXor": ((-9, 99), (0, 99)), "Div": ((-9, 9), (1, 4)), "DivNoNan": ((-4, 4), (-1, 1)), "Equal": ((0, 2),
                                                                                                           (0, 2)),
    "FloorDiv": ((-9, 9), (1, 4)), "FloorMod": ((-9, 9), (1, 4)), "Greater": ((0, 2), (0, 2)),
    "GreaterEqual": ((0, 2), (0, 2)), "LeftShift": ((0, 9), (0, 3)), "RightShift": ((-99, 99), (0, 3)),
    "Less": ((0, 2), (0, 2)), "LessEqual": ((0, 2), (0, 2)), "Maximum": ((-4, 4), (-4, 4)), "Minimum": ((-4, 4),
                                                                                                        (-4, 4)),
    "Mod": ((-9, 9), (1, 4)), "Mul": ((-4, 4), (-4, 4)), "MulNoNan": ((-4, 4), (-1, 1)), "NextAfter": ((-4, 4),
                                                                                                       (-4, 4)),
    "NotEqual": ((0, 2), (0, 2)), "Pow": ((.5, 3), (0, 3)), "RealDiv": ((-9, 9), (1, 4)),
    "SquaredDifference": ((-4, 4), (-4, 4)), "Sub": ((-4, 4), (-4, 4)), "TruncateDiv": ((-9, 9), (1, 4)),
    "TruncateMod": ((-9, 9), (1, 4)), "Xdivy": ((-1, 1), (1, 4)), "Xlog1py": ((0, 2), (0, 4)), "Xlogy": ((0, 2),
                                                                                                         (.1, 4)),
    "Zeta": ((1.5, 5), (.5, 5)), "Polygamma": ((1, 3), (.5, 5)),
}
SAME_SHAPE = {
    "EluGrad": ("gradients", "outputs"), "InvGrad": ("y", "dy"), "LeakyReluGrad": ("gradients", "features"),
    "ReciprocalGrad": ("y", "dy"), "Relu6Grad": ("gradients", "features"), "ReluGrad": ("gradients", "features"),
    "RsqrtGrad": ("y", "dy"), "SeluGrad": ("gradients", "outputs"), "SigmoidGrad": ("y", "dy"),
    "SoftplusGrad": ("gradients", "features"), "SoftsignGrad": ("gradients", "features"), "SqrtGrad": ("y", "dy"),
    "TanhGrad": ("y", "dy"),
}
BROADCASTS = [((), ()), ((), (2, 3)), ((2, 3), ()), ((4,), (3, 4)), ((3, 1), (1, 4)), ((3, 1), (4,)),
              ((2, 1, 3), (1, 5, 1)),
              ((2, 3, 4, 5), (3, 1, 5)), ((0, 3), (3,)), ((1,), (0,)), ((2, 1, 1, 2, 1, 3),
                                                                        (1, 2, 1, 2, 1, 3)), ((100,), (100,))]


def binary(c):
    for op, (left, right) in BINARY.items():
        second = nonzero if right[0] == 1 else numbers
        limit = 1e-4 if op in ("Zeta", "Polygamma") else None
        if op == "Polygamma":
            c.case(op, tolerance=limit, a=array("float32", [0, 1, 2, 3]), x=array("float32", [.7, 1.5, 2.5, 4]))
            continue
        x, y = [a.name for a in op_def_registry.get(op).input_arg]
        shapes = ((3, 4), (3, 4)) if op in ("ApproximateEqual",) else ((3, 4), (4,))
        c.each(op, lambda t: {x: numbers(t, shapes[0], *left), y: second(t, shapes[1], *right, seed=2)},
               tolerance=limit)
    for op in ("Sub", "Mul", "RealDiv", "Less", "Maximum", "Pow"):
        for a, b in BROADCASTS:
            c.case(op, f"{a} {b}", x=floats(a, 1, 4), y=floats(b, 1, 4, seed=2))
    for a, b in BROADCASTS[1:6]:
        c.case("LogicalAnd", f"{a} {b}", x=numbers("bool", a), y=numbers("bool", b, seed=2))
        c.case("LogicalOr", f"{a} {b}", x=numbers("bool", a), y=numbers("bool", b, seed=2))
    for op in ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Mod", "Div"):
        for t in ("int32", "int64", "float32"):
            if t in kernel_types(op, "T"):
                c.case(op, f"{t} signs", x=array(t, [7, -7, 7, -7, 0, 6]), y=array(t, [2, 2, -2, -2, 5, -3]))
    for op in ("FloorDiv", "FloorMod", "Div", "Mod", "TruncateDiv", "TruncateMod"):
        c.error(op, "by zero", x=ints(1, 2), y=ints(1, 0))
    c.error("Pow", "negative exponent", x=ints(2), y=ints(-1))
    c.error("Add", "shapes", x=floats((2,)), y=floats((3,)))
    c.case("Equal", "incompatible", x=floats((2,)), y=floats((3,)), incompatible_shape_error=False)
    for op, names in SAME_SHAPE.items():
        c.each(op, lambda t: {names[0]: numbers(t, (3, 4), .2, .9), names[1]: numbers(t, (3, 4), -.9, .9, seed=2)})
    c.each("Complex", lambda t: dict(real=numbers(t), imag=numbers(t, seed=2),
                                     Tout=tf.complex64 if t == "float32" else tf.complex128))
    c.each("AddN", lambda t: dict(inputs=[numbers(t), numbers(t, seed=2), numbers(t, seed=3)]),
           without=("string", "bool"))
    c.case("AddN", "of one", inputs=[floats()])
    c.case("AddN", "of many", inputs=[floats(seed=i) for i in range(11)])
    c.error("AddN", "shapes", inputs=[floats((2,)), floats((3,))])
    c.each("ClipByValue", lambda t: dict(t=numbers(t), clip_value_min=array(t, 1), clip_value_max=array(t, 3)))
    # Only the client knows AccumulateNV2: TensorFlow rewrites it before it runs.


def casts(c):
    for source in FLOATS + INTEGERS + COMPLEX + ("bool",):
        for target in FLOATS + INTEGERS + COMPLEX + ("bool",):
            low = 0 if target.startswith("u") else -4
            c.case("Cast", f"{source} to {target}", x=numbers(source, (9,), low, 4), DstT=tf.as_dtype(target))
    c.case("Cast", "truncated", x=array("float32", [1.9, -1.9, 2.5]), DstT=tf.int32)
    for source, target in (("float32", "int32"), ("int32", "float32"), ("float64", "int32"), ("int64", "uint8"),
                           ("uint8", "uint32")):
        c.case("Bitcast", f"{source} to {target}", input=numbers(source, (2, 4)), type=tf.as_dtype(target))


def reductions(c):
    for op in ("Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm"):
        c.each(op, lambda t: dict(input=numbers(t, (2, 3, 4), 0, 2), reduction_indices=ints(1)), tolerance=None)
        for axes in ((), (0,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2), (-1,)):
            for keep in (False, True):
                c.case(op, f"{axes} keep {keep}", input=floats((2, 3, 4)), reduction_indices=ints(*axes),
                       keep_dims=keep)
        c.case(op, "of nothing", input=floats((0, 3)), reduction_indices=ints(0))
        c.case(op, "int64 axes", input=floats((2, 3)), reduction_indices=ints(1, dtype=np.int64))
        c.error(op, "axis", input=floats((2, 3)), reduction_indices=ints(2))
        c.error(op, "axis twice", input=floats((2, 3)), reduction_indices=ints(1, 1))
    c.case("Sum", "large", input=floats((50, 60, 7), 0, 1), reduction_indices=ints(0, 1))
    c.case("Mean", "large", input=floats((5000, 3), 0, 1), reduction_indices=ints(0))
    for op in ("All", "Any"):
        for axes in ((), (0,), (1,), (0, 1)):
            c.case(op, f"{axes}", input=numbers("bool", (3, 4)), reduction_indices=ints(*axes))
    for op in ("ArgMax", "ArgMin"):
        c.each(op, lambda t: dict(input=numbers(t, (3, 4, 5)), dimension=index(1)), without=COMPLEX)
        for axis in (0, 2, -1):
            for output in (tf.int32, tf.int64):
                c.case(op, f"{axis} {output.name}", input=floats((3, 4, 5)), dimension=index(axis),
                       output_type=output)
        c.error(op, "axis", input=floats((3,)), dimension=index(1))
    for op in ("Cumsum", "Cumprod"):
        c.each(op, lambda t: dict(x=numbers(t, (3, 4), 0, 3), axis=index(1)))
        for exclusive in (False, True):
            for reverse in (False, True):
                for axis in (0, -1):
                    c.case(op, f"{exclusive} {reverse} {axis}", x=floats((3, 4)), axis=index(axis),
                           exclusive=exclusive, reverse=reverse)
    for exclusive in (False, True):
        for reverse in (False, True):
            c.each("CumulativeLogsumexp", lambda t: dict(x=numbers(t, (3, 4)), axis=index(1), exclusive=exclusive,
                                                         reverse=reverse), label=f"{exclusive} {reverse}")
    for op in ("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin"):
        c.each(op, lambda t: dict(data=numbers(t, (5, 2), 0, 3), segment_ids=ints(0, 0, 1, 3, 3)))
        c.error(op, "ids", data=floats((3, 2)), segment_ids=ints(0, 2, 1))
    for op in ("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin"):
        c.each(op, lambda t: dict(data=numbers(t, (5, 2), 0, 3), segment_ids=ints(3, 0, 3, -1, 1),
                                  num_segments=index(5)))
        c.error(op, "ids", data=floats((3, 2)), segment_ids=ints(0, 9, 1), num_segments=index(5))
    for kind in ("Sum", "Mean", "SqrtN"):
        inputs = dict(indices=ints(0, 4, 2, 2), segment_ids=ints(0, 0, 2, 2))
        c.each(f"SparseSegment{kind}", lambda t: dict(data=numbers(t, (5, 3)), **inputs))
        c.each(f"SparseSegment{kind}WithNumSegments",
               lambda t: dict(data=numbers(t, (5, 3)), num_segments=index(4), **inputs))
        c.each(f"SparseSegment{kind}Grad", lambda t: dict(grad=numbers(t, (3, 3)), output_dim0=index(5), **inputs))
        c.error(f"SparseSegment{kind}", "indices", data=floats((3, 2)), indices=ints(0, 7), segment_ids=ints(0, 1))


def matrices(c):
    for a, b in ((False, False), (True, False), (False, True), (True, True)):
        c.each("MatMul", lambda t: dict(a=numbers(t, (5, 3) if a else (3, 5), -2, 2), transpose_a=a,
                                        b=numbers(t, (4, 5) if b else (5, 4), -2, 2, seed=2), transpose_b=b),
               label=f"{a} {b}")
    for m, k, n in ((1, 1, 1), (32, 784, 10), (64, 64, 64), (1, 100, 3), (17, 33, 65), (0, 3, 2), (3, 0, 2)):
        c.case("MatMul", f"{m} {k} {n}", tolerance=1e-4, a=floats((m, k), -1, 1), b=floats((k, n), -1, 1, seed=2))
    c.error("MatMul", "shapes", a=floats((2, 3)), b=floats((4, 5)))
    for a, b in (("float32", "float32"), ("float32", "bfloat16"), ("bfloat16", "float32"), ("bfloat16", "bfloat16")):
        for turned in (False, True):
            x, y = numbers(a, (5, 3) if turned else (3, 5), -2, 2), numbers(b, (4, 5) if turned else (5, 4), -2, 2, 2)
            for sparse in (False, True):
                c.case("SparseMatMul", f"{a} {b} {turned} {sparse}", tolerance=1e-4, a=np.where(x > 0, x, x * 0), b=y,
                       transpose_a=turned, transpose_b=turned, a_is_sparse=sparse)
    c.error("SparseMatMul", "shapes", a=floats((2, 3)), b=floats((4, 5)), a_is_sparse=True)
    c.each("Cross", lambda t: dict(a=numbers(t, (2, 4, 3), 0, 4), b=numbers(t, (2, 4, 3), 0, 4, seed=2)))
    c.error("Cross", "shapes", a=floats((2, 3)), b=floats((3,)))
    c.error("Cross", "size", a=floats((2, 4)), b=floats((2, 4)))
    for op in ("BatchMatMul", "BatchMatMulV2"):
        for x, y in ((False, False), (True, False), (False, True), (True, True)):
            c.each(op, lambda t: dict(x=numbers(t, (2, 5, 3) if x else (2, 3, 5), -2, 2),
                                      y=numbers(t, (2, 4, 5) if y else (2, 5, 4), -2, 2,
                                                seed=2), adj_x=x, adj_y=y), label=f"{x} {y}")
    for a, b in (((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5))):
        c.case("BatchMatMulV2", f"{a} {b}", x=floats(a), y=floats(b, seed=2))
        c.case("BatchMatMulV3", f"{a} {b}", x=floats(a), y=floats(b, seed=2), Tout=tf.float32)
    c.each("Diag", lambda t: dict(diagonal=numbers(t, (3,))))
    c.case("Diag", "of rank 2", diagonal=floats((2, 3)))
    c.each("DiagPart", lambda t: dict(input=numbers(t, (3, 3))))
    c.case("DiagPart", "of rank 4", input=floats((2, 3, 2, 3)))
    for lower, upper in ((0, 0), (1, -1), (-1, 1), (2, 1)):
        c.case("MatrixBandPart", f"{lower} {upper}", input=floats((2, 4, 5)), num_lower=index(lower, np.int64),
               num_upper=index(upper, np.int64))
    c.each("MatrixBandPart", lambda t: dict(input=numbers(t, (3, 3)), num_lower=index(1, np.int64),
                                            num_upper=index(0, np.int64)), without=("string",))
    c.case("MatrixDiag", diagonal=floats((2, 3)))
    c.case("MatrixDiagPart", input=floats((2, 3, 4)))
    c.case("MatrixSetDiag", input=floats((2, 3, 4)), diagonal=floats((2, 3), seed=2))
    for version, aligns in (("V2", (None,)), ("V3", ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"))):
        for align in aligns:
            extra = {} if align is None else {"align": align}
            pad = np.array(9, np.float32)
            c.case(f"MatrixDiag{version}", f"{align}", diagonal=floats((2, 3, 4)), k=ints(-1, 1), num_rows=index(-1),
                   num_cols=index(-1), padding_value=pad, **extra)
            c.case(f"MatrixDiagPart{version}", f"{align}", input=floats((2, 4, 5)), k=ints(-2, 1), padding_value=pad,
                   **extra)
            c.case(f"MatrixSetDiag{version}", f"{align}", input=floats((2, 4, 4)), diagonal=floats((2, 3, 4), seed=2),
                   k=ints(-1, 1), **extra)


def neural(c):
    c.each("BiasAdd", lambda t: dict(value=numbers(t, (2, 3, 4)), bias=numbers(t, (4,), seed=2)))
    c.case("BiasAdd", "NCHW", value=floats((2, 4, 3, 5)), bias=floats((4,)), data_format="NCHW")
    c.each("BiasAddV1", lambda t: dict(value=numbers(t, (3, 4)), bias=numbers(t, (4,), seed=2)))
    c.each("BiasAddGrad", lambda t: dict(out_backprop=numbers(t, (2, 3, 4))))
    c.case("BiasAddGrad", "NCHW", out_backprop=floats((2, 4, 3, 5)), data_format="NCHW")
    c.error("BiasAdd", "shapes", value=floats((2, 3)), bias=floats((4,)))
    c.each("SoftmaxCrossEntropyWithLogits", lambda t: dict(features=numbers(t, (4, 5), -3, 3),
                                                           labels=numbers(t, (4, 5), 0, 1, seed=2)))
    c.case("SoftmaxCrossEntropyWithLogits", "broadcast", features=floats((4, 5)), labels=floats((1, 5), 0, 1))
    c.each("SparseSoftmaxCrossEntropyWithLogits", lambda t: dict(features=numbers(t, (4, 5), -3, 3),
                                                                 labels=ints(0, 4, 2, 1)))
    c.case("SparseSoftmaxCrossEntropyWithLogits", "int64", features=floats((2, 5)), labels=ints(0, 4, dtype=np.int64))
    c.error("SparseSoftmaxCrossEntropyWithLogits", "label", features=floats((2, 5)), labels=ints(0, 5))
    c.case("Softmax", "large", logits=floats((5, 1000), -50, 50))
    c.case("InTopK", predictions=floats((4, 6)), targets=ints(0, 5, 2, 3), k=2)
    c.case("InTopKV2", predictions=floats((4, 6)), targets=ints(0, 5, 2, 3), k=index(3))
    c.each("TopKV2", lambda t: dict(input=numbers(t, (2, 6), -99, 99), k=index(3)))
    c.error("TopKV2", "k", input=floats((2, 3)), k=index(5))
    for op in ("SpaceToDepth", "DepthToSpace"):
        c.each(op, lambda t: dict(input=numbers(t, (2, 4, 4, 4)), block_size=2), without=("string", "bool"))


def whole(dtype):
    return numbers(dtype, (3, 4, 5))


def shapes(c):
    c.each("Reshape", lambda t: dict(tensor=whole(t), shape=ints(5, -1)))
    c.error("Reshape", "size", tensor=whole("float32"), shape=ints(7, -1))
    c.error("Reshape", "two unknown", tensor=whole("float32"), shape=ints(-1, -1))
    c.each("ExpandDims", lambda t: dict(input=whole(t), dim=index(1)))
    for dim in (0, -1, 3):
        c.case("ExpandDims", f"{dim}", input=whole("float32"), dim=index(dim))
    c.error("ExpandDims", "dim", input=whole("float32"), dim=index(5))
    c.each("Squeeze", lambda t: dict(input=numbers(t, (1, 3, 1))))
    c.case("Squeeze", "one", input=floats((1, 3, 1)), squeeze_dims=[-1])
    c.error("Squeeze", "dim", input=floats((2, 3)), squeeze_dims=[0])
    c.each("Transpose", lambda t: dict(x=whole(t), perm=ints(2, 0, 1)))
    for perm in ((0, 1, 2), (1, 0, 2), (2, 1, 0), (0, 2, 1)):
        c.case("Transpose", f"{perm}", x=whole("float32"), perm=ints(*perm))
    c.case("Transpose", "rank 5", x=floats((2, 3, 2, 4, 2)), perm=ints(4, 2, 0, 3, 1))
    c.error("Transpose", "perm", x=whole("float32"), perm=ints(0, 0, 1))
    c.each("ConjugateTranspose", lambda t: dict(x=numbers(t, (3, 4)), perm=ints(1, 0)))


def slices(c):
    c.each("Slice", lambda t: dict(input=whole(t), begin=ints(1, 0, 2), size=ints(2, -1, 2)))
    c.error("Slice", "range", input=whole("float32"), begin=ints(1, 0, 2), size=ints(3, 1, 1))
    strided = [dict(begin=ints(0, 1, 0), end=ints(3, 4, 5), strides=ints(1, 2, 3)),
               dict(begin=ints(-1, 3, 4), end=ints(-4, 0, 0), strides=ints(-1, -1, -2)),
               dict(begin=ints(1), end=ints(2), strides=ints(1), shrink_axis_mask=1),
               dict(begin=ints(0, 1), end=ints(0, 3), strides=ints(1, 1), ellipsis_mask=1),
               dict(begin=ints(0, 0, 0), end=ints(0, 0, 0), strides=ints(1, 1, 1), begin_mask=5, end_mask=5,
                    new_axis_mask=2),
               dict(begin=ints(9), end=ints(1), strides=ints(1))]
    for i, arguments in enumerate(strided):
        c.case("StridedSlice", f"{i}", input=whole("float32"), **arguments)
    c.each("StridedSlice", lambda t: dict(input=whole(t), **strided[0]))
    c.error("StridedSlice", "index", input=whole("float32"), begin=ints(7), end=ints(8), strides=ints(1),
            shrink_axis_mask=1)
    c.error("StridedSlice", "stride", input=whole("float32"), begin=ints(0), end=ints(3), strides=ints(0))
    c.each("StridedSliceGrad", lambda t: dict(shape=ints(3, 4, 5), dy=numbers(t, (3, 2, 2)), **strided[0]))
    c.each("TensorStridedSliceUpdate", lambda t: dict(input=whole(t), value=numbers(t, (3, 2, 2), seed=2),
                                                      **strided[0]))


def joins(c):
    c.each("ConcatV2", lambda t: dict(values=[whole(t), whole(t), numbers(t, (3, 1, 5))], axis=index(1)))
    c.case("ConcatV2", "last", values=[floats((2, 3)), floats((2, 1))], axis=index(-1))
    c.case("ConcatV2", "with nothing", values=[floats((0, 3)), floats((2, 3))], axis=index(0))
    c.error("ConcatV2", "shapes", values=[floats((2, 3)), floats((3, 2))], axis=index(0))
    c.case("Concat", concat_dim=index(0), values=[floats((2, 3)), floats((1, 3))])
    c.case("ConcatOffset", concat_dim=index(1), shape=[ints(2, 3), ints(2, 5), ints(2, 1)])
    c.each("Pack", lambda t: dict(values=[numbers(t), numbers(t, seed=2)], axis=1))
    for axis in (0, 2, -1):
        c.case("Pack", f"{axis}", values=[floats(), floats(seed=2)], axis=axis)
    c.error("Pack", "shapes", values=[floats((2,)), floats((3,))])
    c.each("Unpack", lambda t: dict(value=whole(t), num=4, axis=1))
    c.each("Split", lambda t: dict(split_dim=index(1), value=whole(t), num_split=2))
    c.each("SplitV", lambda t: dict(value=whole(t), size_splits=ints(1, -1, 1), split_dim=index(2), num_split=3))
    c.error("Split", "size", split_dim=index(1), value=whole("float32"), num_split=3)


def fillers(c):
    c.each("Tile", lambda t: dict(input=numbers(t, (2, 3)), multiples=ints(3, 2)), without=("uint16",))
    c.case("Tile", "none", input=floats((2, 3)), multiples=ints(0, 2))
    c.each("Fill", lambda t: dict(dims=ints(2, 3), value=numbers(t, ())))
    c.case("Fill", "negative", dims=ints(0, 3), value=np.float32(1))
    c.each("Pad", lambda t: dict(input=numbers(t, (2, 3)), paddings=array("int32", [[1, 0], [0, 2]])),
           without=("string",))
    c.each("PadV2", lambda t: dict(input=numbers(t, (2, 3)), paddings=array("int32", [[1, 0], [0, 2]]),
                                   constant_values=numbers(t, ())), without=("string",))
    for mode in ("REFLECT", "SYMMETRIC"):
        c.each("MirrorPad", lambda t: dict(input=numbers(t, (3, 4)), paddings=array("int32", [[1, 2], [0, 3]]),
                                           mode=mode), label=mode)
        c.each("MirrorPadGrad", lambda t: dict(input=numbers(t, (6, 7)), paddings=array("int32", [[1, 2], [0, 3]]),
                                               mode=mode), label=mode, only=FLOATS)


def gathers(c):
    c.each("Gather", lambda t: dict(params=whole(t), indices=array("int32", [[2, 0], [1, 1]])), attr="Tparams")
    for axis, batch in ((0, 0), (1, 0), (2, 0), (-1, 0), (1, 1)):
        indices = array("int32", [[1, 0], [2, 2], [0, 1]])
        c.case("GatherV2", f"{axis} {batch}", params=whole("float32"), indices=indices, axis=index(axis),
               batch_dims=batch)
    c.each("GatherV2", lambda t: dict(params=whole(t), indices=ints(3, 0), axis=index(1)), attr="Tparams")
    c.error("Gather", "index", params=whole("float32"), indices=ints(0, 3))
    c.error("GatherV2", "index", params=whole("float32"), indices=ints(0, -1), axis=index(0))
    c.each("GatherNd", lambda t: dict(params=whole(t), indices=array("int32", [[0, 1], [2, 3]])), attr="Tparams")
    c.error("GatherNd", "index", params=whole("float32"), indices=array("int32", [[0, 4]]))
    c.each("ScatterNd", lambda t: dict(indices=array("int32", [[1], [3], [1]]), updates=numbers(t, (3, 2)),
                                       shape=ints(5, 2)), without=("string", "bool"))
    c.error("ScatterNd", "index", indices=array("int32", [[9]]), updates=floats((1, 2)), shape=ints(5, 2))
    for op in ("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMax", "TensorScatterMin"):
        c.each(op, lambda t: dict(tensor=numbers(t, (5, 2)), indices=array("int32", [[1], [3]]),
                                  updates=numbers(t, (2, 2), seed=2)))
    c.each("ScatterNdNonAliasingAdd", lambda t: dict(input=numbers(t, (5, 2)), indices=array("int32", [[1], [3], [1]]),
                                                     updates=numbers(t, (3, 2), seed=2)), without=("string", "bool"))
    c.each("OneHot", lambda t: dict(indices=array("int32", [[0, 2], [1, -1]]), depth=index(3),
                                    on_value=numbers(t, (), 2, 3), off_value=numbers(t, (), 0, 0)))
    for axis in (0, 1, -1):
        c.case("OneHot", f"{axis}", indices=ints(0, 2, 5), depth=index(4), on_value=np.float32(5),
               off_value=np.float32(-1), axis=axis)
    c.each("Range", lambda t: dict(start=array(t, 1), limit=array(t, 9), delta=array(t, 2)), attr="Tidx")
    c.case("Range", "down", start=index(5), limit=index(-3), delta=index(-2))
    c.error("Range", "delta", start=index(5), limit=index(6), delta=index(0))
    c.each("LinSpace", lambda t: dict(start=array(t, 0), stop=array(t, 1), num=index(7)))


def orders(c):
    c.each("Reverse", lambda t: dict(tensor=numbers(t, (2, 3)), dims=np.array([True, False])))
    c.each("ReverseV2", lambda t: dict(tensor=whole(t), axis=ints(0, -1)))
    c.each("Roll", lambda t: dict(input=whole(t), shift=ints(1, -2, 7), axis=ints(0, -1, 0)))
    c.case("Roll", "one axis", input=floats((7, 3)), shift=index(-9), axis=index(0, np.int64))
    c.case("Roll", "of nothing", input=floats((0, 3)), shift=index(2), axis=index(0))
    c.error("Roll", "axis", input=floats((7, 3)), shift=index(2), axis=index(2))
    c.error("Roll", "sizes", input=floats((7, 3)), shift=ints(2, 1), axis=ints(1))
    c.case("ReverseSequence", input=whole("float32"), seq_lengths=ints(1, 3, 4), seq_dim=1, batch_dim=0)
    c.each("Select", lambda t: dict(condition=numbers("bool", (3, 4)), t=numbers(t), e=numbers(t, seed=2)))
    c.case("Select", "by row", condition=numbers("bool", (3,)), t=floats(), e=floats(seed=2))
    c.each("SelectV2", lambda t: dict(condition=numbers("bool", (3, 1)), t=numbers(t, (4,)),
                                      e=numbers(t, (3, 4), seed=2)))
    c.each("Where", lambda t: dict(input=numbers(t, (3, 4), -1, 1)), without=("string", "float16"))
    for op in ("Unique", "UniqueWithCounts"):
        c.each(op, lambda t: dict(x=numbers(t, (9,), 0, 3)))
    for op in ("UniqueV2", "UniqueWithCountsV2"):
        c.case(op, x=array("int32", [[1, 2], [3, 4], [1, 2]]), axis=ints(0))
    c.case("InvertPermutation", x=ints(2, 0, 1, 3))
    c.error("InvertPermutation", "twice", x=ints(0, 0))
    c.each("BroadcastTo", lambda t: dict(input=numbers(t, (3, 1)), shape=ints(2, 3, 4)))
    c.case("BroadcastArgs", s0=ints(2, 1), s1=ints(3, 1, 4))
    for a, b in BROADCASTS[:8]:
        c.case("BroadcastGradientArgs", f"{a} {b}", s0=ints(*a), s1=ints(*b))
    c.each("DynamicPartition", lambda t: dict(data=numbers(t, (5, 2)), partitions=ints(0, 2, 0, 1, 2),
                                              num_partitions=3))
    for op in ("DynamicStitch", "ParallelDynamicStitch"):
        c.each(op, lambda t: dict(indices=[ints(0, 2), array("int32", [[3, 1]])],
                                  data=[numbers(t, (2, 3)), numbers(t, (1, 2, 3), seed=2)]))
    c.case("ShapeN", input=[whole("float32"), floats(())])
    c.case("Shape", "int64", input=whole("float32"), out_type=tf.int64)
    c.case("Size", "int64", input=whole("float32"), out_type=tf.int64)
    c.case("IdentityN", input=[whole("float32"), numbers("string", (2,)), ints(1)])
    c.case("EnsureShape", input=whole("float32"), shape=tf.TensorShape([3, None, 5]))
    c.error("EnsureShape", "other", input=whole("float32"), shape=tf.TensorShape([3, None, 6]))
    c.case("PlaceholderWithDefault", input=whole("float32"), shape=tf.TensorShape([3, 4, 5]))
    c.add("Const", [tf.constant(numbers(t), name=f"const_{t}") for t in TYPES])
    c.add("Const of nothing", [tf.compat.v1.constant(value, shape=[0]) for value in ("a", 1.5, 3)])


def blocks(c):
    paddings = dict(block_shape=ints(2, 2), paddings=array("int32", [[0, 1], [1, 0]]))
    c.each("SpaceToBatchND", lambda t: dict(input=numbers(t, (2, 3, 3, 2)), **paddings), without=("string", "bool"))
    c.each("BatchToSpaceND", lambda t: dict(input=numbers(t, (8, 2, 2, 2)), block_shape=ints(2, 2),
                                            crops=array("int32", [[0, 1], [1, 0]])), without=("string", "bool"))
    c.case("SpaceToBatch", input=floats((2, 4, 4, 2)), paddings=array("int32", [[0, 0], [0, 0]]), block_size=2)
    c.case("BatchToSpace", input=floats((8, 2, 2, 2)), crops=array("int32", [[0, 0], [1, 1]]), block_size=2)


def strings(c):
    c.case("StringJoin", inputs=[numbers("string", (2, 3)), np.array(b"x", object), numbers("string", (2, 3), seed=2)],
           separator="-")
    for t in (tf.float32, tf.float64, tf.int32, tf.int64):
        text = np.array([b"1", b"-20", b"3"], object) if t.is_integer else np.array([b"1.5", b"-2e3", b" 7 ", b"inf"],
                                                                                    object)
        c.case("StringToNumber", t.name, string_tensor=text, out_type=t)
    c.error("StringToNumber", "text", string_tensor=np.array([b"abc"], object), out_type=tf.float32)
    c.each("AsString", lambda t: dict(input=numbers(t, (4,))), without=("string",) + COMPLEX)
    for extra in (dict(precision=2), dict(precision=3, scientific=True), dict(shortest=True), dict(width=12, fill="0")):
        c.case("AsString", f"{extra}", input=array("float32", [1.5, -2.25, 1e10]), **extra)
    c.case("AsString", "width", input=ints(7, -12), width=6, fill=" ")
    c.case("StringFormat", inputs=[ints(1, 2, 3), numbers("string", (2,))], template="a %s b %s")
    c.case("StringFormat", "utf-8", inputs=[np.array(["é😀".encode(), b"\xff\n\"a"], object)], template="ü %s")
    c.case("StringFormat", "summarized", inputs=[np.arange(20, dtype=np.float32).reshape(4, 5)], template="%s",
           summarize=2)
    with tf.control_dependencies(c.apply("PrintV2", input=np.array(b"", object), output_stream="file:///dev/null")):
        c.add("PrintV2", [tf.identity(c.feed(ints(1)))])
    c.case("Print", input=ints(1, 2), data=[ints(3)], message="", first_n=0)
    with tf.control_dependencies(c.apply("Assert", condition=np.array(True), data=[ints(1)])):
        c.add("Assert", [tf.identity(c.feed(ints(2)))])
    c.error("Assert", "false", condition=np.array(False), data=[ints(1, 2), np.array(b"text", object)])


def randoms(c):
    shape = ints(3, 50)
    for op, attr in (("RandomUniform", "dtype"), ("RandomStandardNormal", "dtype"), ("TruncatedNormal", "dtype")):
        for t in kernel_types(op, attr):
            for seeds in (dict(seed=1, seed2=0), dict(seed=87654321, seed2=7)):
                c.case(op, f"{t} {seeds}", shape=shape, dtype=tf.as_dtype(t), **seeds)
        c.case(op, "large", shape=ints(20000), dtype=tf.float32, seed=5, seed2=6)
    c.each("RandomUniformInt", lambda t: dict(shape=shape, minval=array(t, -7), maxval=array(t, 1000), seed=3, seed2=4),
           attr="Tout")
    c.case("RandomShuffle", value=floats((20, 2)), seed=9, seed2=8)
    c.each("Multinomial", lambda t: dict(logits=numbers(t, (3, 5)), num_samples=index(40), seed=1, seed2=2),
           without=INTEGERS)
    c.each("StatelessMultinomial", lambda t: dict(logits=numbers(t, (3, 5)), num_samples=index(40), seed=ints(3, 4)),
           without=INTEGERS)
    seed = ints(11, -12)
    for op in ("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"):
        c.each(op, lambda t: dict(shape=shape, seed=seed, dtype=tf.as_dtype(t)), attr="dtype")
    c.each("StatelessRandomUniformInt", lambda t: dict(shape=shape, seed=seed, minval=array(t, 2), maxval=array(t, 99)),
           attr="dtype")
    c.each("StatelessRandomUniformFullInt", lambda t: dict(shape=shape, seed=seed, dtype=tf.as_dtype(t)), attr="dtype")
    c.case("StatelessRandomGetAlg")
    c.case("StatelessRandomGetKeyCounter", seed=seed)
    c.case("StatelessRandomGetKeyCounterAlg", seed=seed)
    key = dict(key=array("uint64", [77]), counter=array("uint64", [1, 2]), alg=index(1))
    for op in ("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2",
               "StatelessRandomUniformFullIntV2"):
        c.each(op, lambda t: dict(shape=shape, dtype=tf.as_dtype(t), **key), attr="dtype")
    c.each("StatelessRandomUniformIntV2", lambda t: dict(shape=shape, minval=array(t, 2), maxval=array(t, 99), **key),
           attr="dtype")


SLOTS = {"m", "v", "vhat", "accum", "accum_update", "mg", "ms", "mom", "linear", "gradient_accumulator",
         "gradient_squared_accumulator"}
SCALARS = dict(lr=.1, alpha=.1, beta1=.9, beta2=.99, beta1_power=.81, beta2_power=.9801, epsilon=1e-3, rho=.9,
               momentum=.8, l1=.01, l2=.02,
               lr_power=-.5, l2_shrinkage=.03, logbase=2., sign_decay=.5, beta=.9)


def states(c):
    for op in ("Assign", "AssignAdd", "AssignSub"):
        for t in kernel_types(op, "T"):
            if op == "Assign" or t not in ("bool", "string"):
                updated(c, op, t, dict(ref=numbers(t)), value=numbers(t, seed=2))
    c.add("Variable", [variable(c, floats(), "Variable")])
    for op in ("ScatterAdd", "ScatterSub", "ScatterMul", "ScatterDiv", "ScatterMax", "ScatterMin", "ScatterUpdate"):
        for t in kernel_types(op, "T"):
            if t not in ("bool", "string"):
                updated(c, op, t, dict(ref=numbers(t, (5, 2), 1, 4)), indices=ints(3, 0, 3),
                        updates=nonzero(t, (3, 2), 1, 4))
        updated(c, op, "scalar", dict(ref=floats((5, 2), 1, 4)), indices=ints(3, 0), updates=np.array(2, np.float32))
    initialized = variable(c, floats())
    c.case("IsVariableInitialized", ref=initialized)
    c.case("IsVariableInitialized", "not", ref=c.apply("VariableV2", shape=tf.TensorShape([2]), dtype=tf.float32)[0])
    never = c.apply("VariableV2", shape=tf.TensorShape([2]), dtype=tf.float32)[0]
    c.error("Identity", "uninitialized", input=never)
    counter = variable(c, index(4))
    with tf.control_dependencies(c.apply("CountUpTo", ref=counter, limit=9)):
        c.add("CountUpTo", [tf.identity(counter)])
    c.case("RefIdentity", input=variable(c, floats()))
    c.case("RefSelect", index=index(1), inputs=[variable(c, floats()), variable(c, floats(seed=2))])
    (temporary,) = c.apply("TemporaryVariable", shape=tf.TensorShape([3]), dtype=tf.float32, var_name="scratch")
    (filled,) = c.apply("Assign", ref=temporary, value=array("float32", [1, 2, 3]))
    c.case("DestroyTemporaryVariable", ref=filled, var_name="scratch")
    for op in sorted(c.registered):
        if "Apply" in op and "Accumulator" not in op:
            apply_case(c, op)


def resources(c):
    value = floats((5, 2), 1, 4)
    for op in ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"):
        for t in ("float32", "int32", "float64", "int64"):
            updated(c, op, t, dict(resource=numbers(t)), value=numbers(t, seed=2))
    for op in ("ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterMul", "ResourceScatterDiv",
               "ResourceScatterMax",
               "ResourceScatterMin", "ResourceScatterUpdate"):
        for t in kernel_types(op, "dtype"):
            if t not in ("bool", "string"):
                updated(c, op, t, dict(resource=numbers(t, (5, 2), 1, 4)), indices=ints(3, 0, 3),
                        updates=nonzero(t, (3, 2), 1, 4))
    handle, assigned = resource_variable(c, value)
    with tf.control_dependencies([assigned]):
        c.case("ReadVariableOp", resource=handle, dtype=tf.float32)
        c.case("VarIsInitializedOp", resource=handle)
        c.case("VariableShape", input=handle)
        c.case("ResourceGather", resource=handle, indices=ints(4, 0, 4), dtype=tf.float32)
        c.case("ResourceGatherNd", resource=handle, indices=array("int32", [[4, 1], [0, 0]]), dtype=tf.float32)
    counter, assigned = resource_variable(c, index(4))
    with tf.control_dependencies([assigned]):
        c.case("ResourceCountUpTo", resource=counter, limit=9, T=tf.int32)
    gone, assigned = resource_variable(c, value)
    with tf.control_dependencies([assigned]):
        destroyed = c.apply("DestroyResourceOp", resource=gone)
    with tf.control_dependencies(destroyed):
        c.case("VarIsInitializedOp", "destroyed", resource=gone)
    (never,) = c.apply("VarHandleOp", dtype=tf.float32, shape=tf.TensorShape([2]), shared_name="never")
    c.case("VarIsInitializedOp", "never", resource=never)
    c.error("ReadVariableOp", "never", resource=never, dtype=tf.float32)


def apply_case(c, op):
    """Updates of variables by gradients; arguments are given by name."""
    sparse = "SparseApply" in op
    for t in kernel_types(op, "T"):
        slots, arguments = {}, {}
        for i, argument in enumerate(op_def_registry.get(op).input_arg):
            if argument.name == "var" or argument.name in SLOTS:
                slots[argument.name] = numbers(t, (4, 3), .1, 1, seed=i + 1)
            elif argument.name in ("grad", "delta"):
                arguments[argument.name] = numbers(t, (2, 3) if sparse else (4, 3), -1, 1, seed=9)
            elif argument.name == "indices":
                arguments["indices"] = ints(3, 1)
            elif argument.name == "global_step":
                arguments["global_step"] = index(5, np.int64)
            else:
                arguments[argument.name] = array(t, SCALARS[argument.name])
        updated(c, op, t, slots, **arguments)
        for flag in ("use_nesterov", "update_slots", "multiply_linear_by_lr"):
            if t == "float32" and flag in [a.name for a in op_def_registry.get(op).attr]:
                updated(c, op, flag, slots, **arguments, **{flag: flag != "update_slots"})


def flow(c):
    x, yes = floats(), np.array(True)
    (no, taken) = c.apply("Switch", data=x, pred=yes)
    (merged, index) = c.apply("Merge", inputs=[no, taken * 2])
    c.add("Switch, Merge", [merged, index])
    (no, taken) = c.apply("RefSwitch", data=variable(c, x), pred=yes)
    (merged, index) = c.apply("RefMerge", inputs=[no, taken])
    c.add("RefSwitch, RefMerge", [merged, index])
    (entered,) = c.apply("RefEnter", data=variable(c, x), frame_name="ref_frame")
    (left,) = c.apply("RefExit", data=entered)
    c.add("RefEnter, RefExit", [left])
    with tf.control_dependencies([tf.no_op(), *c.apply("ControlTrigger")]):
        c.add("NoOp, ControlTrigger", [tf.identity(c.feed(x))])


def conditions(c):
    for t in ("float32", "int32", "int64", "bool", "string", "float64"):
        c.case("ToBool", t, input=array(t, "" if t == "string" else 0))
        c.case("ToBool", f"{t} that is", input=array(t, "x" if t == "string" else 1))
    c.case("ToBool", "empty", input=floats((0, 2)))
    c.case("ToBool", "of zeros", input=array("float32", [0, 0]))
    (some,) = c.apply("OptionalFromValue", components=[floats(), index(3)])
    (none,) = c.apply("OptionalNone")
    c.case("OptionalHasValue", "some", optional=some)
    c.case("OptionalHasValue", "none", optional=none)
    types, shapes = [tf.float32, tf.int32], [tf.TensorShape([3, None]), tf.TensorShape([])]
    c.case("OptionalGetValue", "some", optional=some, output_types=types, output_shapes=shapes)
    c.error("OptionalGetValue", "none", optional=none, output_types=types, output_shapes=shapes)
    c.error("OptionalGetValue", "another shape", optional=some, output_types=types, output_shapes=shapes[:1] * 2)


FAMILIES = (unary, binary, casts, reductions, matrices, neural, shapes, slices, joins, fillers, gathers, orders, blocks,
            strings, randoms, states, resources, flow, conditions)
