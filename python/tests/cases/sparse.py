# SPDX-License-Identifier: Apache-2.0
"""Cases of compare_test.py: samplers, counting, searching and sparse tensors."""

import numpy as np
import tensorflow as tf

from cases.case_builder import (COMPLEX, array, floats, index, ints, kernel_types, longs, nonzero, numbers,
                                resource_variable, updated)


def samplers(c):
    truth = longs([1, 2], [0, 6], [3, 3])
    for op in ("LogUniformCandidateSampler", "UniformCandidateSampler", "LearnedUnigramCandidateSampler",
               "ThreadUnsafeUnigramCandidateSampler"):
        for unique in (True, False):
            for size, limit in ((5, 7), (20, 1000), (7, 8)):
                c.case(op, f"{unique} {size} of {limit}", true_classes=truth, num_true=2, num_sampled=size,
                       unique=unique, range_max=limit, seed=7, seed2=11)
        c.error(op, "range", true_classes=truth, num_true=2, num_sampled=5, unique=True, range_max=3)
        c.error(op, "columns", true_classes=truth, num_true=3, num_sampled=5, unique=True, range_max=9)
        c.error(op, "class", true_classes=truth, num_true=2, num_sampled=2, unique=True, range_max=5)
    c.case("AllCandidateSampler", true_classes=truth, num_true=2, num_sampled=7, unique=True, seed=1)
    for unique in (True, False):
        for distortion in (1., .75):
            c.case("FixedUnigramCandidateSampler", f"{unique} {distortion}", true_classes=truth, num_true=2,
                   num_sampled=4, unique=unique, range_max=7, unigrams=[1., 5., 2.5, .1, 7., 3., 1.5],
                   distortion=distortion, seed=5, seed2=9)
    c.case("FixedUnigramCandidateSampler", "reserved", true_classes=truth, num_true=2, num_sampled=4, unique=True,
           range_max=8, unigrams=[1., 5., 2.5, .1, 7., 3.], num_reserved_ids=2, seed=5, seed2=9)
    c.case("FixedUnigramCandidateSampler", "shard", true_classes=longs([1], [0]), num_true=1, num_sampled=2,
           unique=True, range_max=3, unigrams=[1., 5., 2.5, .1, 7., 3.], num_shards=2, shard=1, seed=5, seed2=9)
    c.case("ComputeAccidentalHits", true_classes=truth, sampled_candidates=longs(6, 2, 9, 3), num_true=2)
    c.error("ComputeAccidentalHits", "columns", true_classes=truth, sampled_candidates=longs(6), num_true=3)


def counts(c):
    values = ints(1, 0, 3, 3, 9, 1)
    c.each("Bincount", lambda t: dict(arr=values, size=index(5), weights=numbers(t, (6,))))
    c.case("Bincount", "unweighted", arr=values, size=index(4), weights=floats((0,)))
    c.error("Bincount", "negative", arr=-values, size=index(4), weights=floats((0,)))
    c.error("Bincount", "size", arr=values, size=index(-4), weights=floats((0,)))
    c.error("Bincount", "weights", arr=values, size=index(4), weights=floats((3,)))
    for binary in (False, True):
        c.each("DenseBincount", lambda t: dict(input=values.reshape(2, 3), size=index(5), weights=numbers(t, (2, 3)),
                                               binary_output=binary), label=f"{binary}")
        c.case("DenseBincount", f"vector {binary}", input=values.astype(np.int64), size=index(5, np.int64),
               weights=floats((0,)), binary_output=binary)
        places = longs([0, 0], [0, 2], [1, 0], [1, 1], [2, 0], [2, 2])
        c.each("SparseBincount", lambda t: dict(indices=places, values=values, dense_shape=longs(4, 3), size=index(4),
                                                weights=numbers(t, (6,)), binary_output=binary), label=f"{binary}")
        c.each("RaggedBincount", lambda t: dict(splits=longs(0, 2, 2, 6), values=values, size=index(4),
                                                weights=numbers(t, (6,)), binary_output=binary), label=f"{binary}")
    c.error("DenseBincount", "rank", input=values.reshape(1, 2, 3), size=index(5), weights=floats((0,)))
    c.error("SparseBincount", "place", indices=longs([4], [1]), values=values[:2], dense_shape=longs(3), size=index(4),
            weights=floats((0,)))
    c.error("RaggedBincount", "splits", splits=longs(0, 2, 5), values=values, size=index(4), weights=floats((0,)))
    c.each("HistogramFixedWidth", lambda t: dict(values=numbers(t, (40,), -9, 9), value_range=array(t, [-5, 5]),
                                                 nbins=index(7)))
    c.error("HistogramFixedWidth", "range", values=floats((4,)), value_range=floats((2,), 1, 1), nbins=index(3))
    c.error("HistogramFixedWidth", "bins", values=floats((4,)), value_range=array("float32", [0, 1]), nbins=index(0))
    c.each("Bucketize", lambda t: dict(input=numbers(t, (3, 4), -9, 9), boundaries=[-3., 0., 2., 2., 7.]))


def searches(c):
    for op in ("LowerBound", "UpperBound"):
        c.each(op, lambda t: dict(sorted_inputs=np.sort(numbers(t, (3, 6), 0, 9), 1), values=numbers(
            t, (3, 5), 0, 9, seed=2)))
        c.case(op, "empty", sorted_inputs=floats((2, 0)), values=floats((2, 3)))
        c.error(op, "rows", sorted_inputs=floats((2, 4)), values=floats((3, 3)))
    for reverse in (False, True):
        c.each("NthElement", lambda t: dict(input=numbers(t, (3, 7), -9, 9), n=index(2), reverse=reverse),
               label=f"{reverse}")
    c.error("NthElement", "n", input=floats((3, 4)), n=index(4))
    c.each("ListDiff", lambda t: dict(x=numbers(t, (12,), 0, 9), y=numbers(t, (5,), 0, 9, seed=2)), without=COMPLEX +
           ("bool",))
    c.error("ListDiff", "rank", x=floats((2, 2)), y=floats((2,)))
    c.case("UnravelIndex", indices=ints(7, 0, 23), dims=ints(2, 3, 4))
    c.case("UnravelIndex", "scalar", indices=index(17, np.int64), dims=longs(5, 4))
    c.error("UnravelIndex", "bound", indices=ints(24), dims=ints(2, 3, 4))
    c.error("UnravelIndex", "zero", indices=ints(0), dims=ints(2, 0))
    for normalize in (False, True):
        for t in ("int64", "string", "int32"):
            c.case("EditDistance", f"{t} {normalize}", hypothesis_indices=longs([0, 0], [0, 1], [2, 0]),
                   hypothesis_values=numbers(t, (3,), 0, 4), hypothesis_shape=longs(3, 2),
                   truth_indices=longs([0, 0], [0, 1], [0, 2], [1, 0]), truth_values=numbers(t, (4,), 0, 4, seed=1),
                   truth_shape=longs(3, 3), normalize=normalize)


def dense(c):
    c.each("SparseToDense", lambda t: dict(sparse_indices=longs([0, 1], [1, 0], [2, 3]), output_shape=longs(3, 4),
                                           sparse_values=numbers(t, (3,)), default_value=numbers(t, (), seed=3)))
    c.case("SparseToDense", "vector", sparse_indices=ints(1, 3), output_shape=ints(5), sparse_values=floats(()),
           default_value=floats((), seed=2))
    c.case("SparseToDense", "scalar", sparse_indices=index(1), output_shape=ints(5), sparse_values=floats(()),
           default_value=floats((), seed=2))
    c.case("SparseToDense", "unordered", sparse_indices=ints(3, 1, 3), output_shape=ints(5), sparse_values=floats((3,)),
           default_value=floats(()), validate_indices=False)
    for label, places in (("order", ints(3, 1)), ("repeated", ints(1, 1)), ("bounds", ints(1, 5)),
                          ("negative", ints(-1, 2))):
        c.error("SparseToDense", label, sparse_indices=places, output_shape=ints(5), sparse_values=floats((2,)),
                default_value=floats(()))
    c.error("SparseToDense", "shape", sparse_indices=ints(0), output_shape=ints(-5), sparse_values=floats((1,)),
            default_value=floats(()))


def variable_slices(c):
    places = ints([3, 0], [0, 1], [3, 0])
    for name in ("Add", "Sub", "Max", "Min", "Update"):
        op = f"ScatterNd{name}"
        for t in kernel_types(op, "T"):
            if t not in ("bool", "string"):
                updated(c, op, t, dict(ref=numbers(t, (5, 2), 1, 4)), indices=places, updates=numbers(t, (3,), 1, 4))
        updated(c, op, "rows", dict(ref=floats((5, 2), 1, 4)), indices=ints([3], [0]), updates=floats((2, 2), 1, 4))
        op = f"ResourceScatterNd{name}"
        for t in ("float32", "int64", "float64"):
            updated(c, op, t, dict(ref=numbers(t, (5, 2), 1, 4)), indices=places, updates=numbers(t, (3,), 1, 4))
    sliced = dict(begin=ints(1, 0), end=ints(4, 2), strides=ints(2, 1))
    for t in ("float32", "int32", "string", "complex64"):
        updated(c, "StridedSliceAssign", t, dict(ref=numbers(t, (5, 2))), value=numbers(t, (2, 2), seed=3), **sliced)
        if t != "string":
            updated(c, "ResourceStridedSliceAssign", t, dict(ref=numbers(t, (5, 2))), value=numbers(t, (2, 2), seed=3),
                    **sliced)
    updated(c, "StridedSliceAssign", "masks", dict(ref=floats((5, 2))), begin=ints(1, 0), end=ints(4, 1),
            strides=ints(1, 1), value=floats((3,)), shrink_axis_mask=2)
    handle, assigned = resource_variable(c, floats((5, 2), 1, 4))
    with tf.control_dependencies([assigned]):
        c.case("ResourceGatherNd", resource=handle, indices=places, dtype=tf.float32)


PLACES = longs([0, 1], [1, 0], [1, 3], [3, 2])
OTHERS = longs([0, 0], [1, 0], [1, 3], [2, 3], [3, 3])
SHAPE = longs(4, 5)


def sparse_rearrangements(c):
    shuffled = [2, 0, 3, 1]
    c.each("SparseReorder", lambda t: dict(input_indices=PLACES[shuffled], input_values=numbers(t, (4,)),
                                           input_shape=SHAPE))
    for shape in (longs(2, 10), longs(-1, 4), longs(5, -1, 2), longs(20)):
        c.case("SparseReshape", f"{shape}", input_indices=PLACES, input_shape=SHAPE, new_shape=shape)
    c.error("SparseReshape", "size", input_indices=PLACES, input_shape=SHAPE, new_shape=longs(3, 5))
    c.error("SparseReshape", "multiple", input_indices=PLACES, input_shape=SHAPE, new_shape=longs(3, -1))
    c.error("SparseReshape", "unknown", input_indices=PLACES, input_shape=SHAPE, new_shape=longs(-1, -1))
    for t in ("float32", "int64", "string"):
        for axis in (0, 1, -1):
            c.case("SparseConcat", f"{t} {axis}", indices=[PLACES, OTHERS], values=[numbers(t, (4,)), numbers(
                t, (5,), seed=2)], shapes=[SHAPE, SHAPE], concat_dim=axis)
        for axis in (0, 1):
            for n in (1, 2, 3):
                c.case("SparseSplit", f"{t} {axis} {n}", split_dim=index(axis, np.int64), indices=PLACES,
                       values=numbers(t, (4,)), shape=SHAPE, num_split=n)
        c.case("SparseSlice", t, indices=PLACES, values=numbers(t, (4,)), shape=SHAPE, start=longs(1, 0),
               size=longs(2, 9))
        c.case("SparseFillEmptyRows", t, indices=PLACES, values=numbers(t, (4,)), dense_shape=longs(6, 5),
               default_value=numbers(t, (), seed=3))
    c.error("SparseConcat", "shapes", indices=[PLACES, OTHERS], values=[floats((4,)), floats((5,))],
            shapes=[SHAPE, longs(4, 6)], concat_dim=0)
    c.error("SparseSplit", "number", split_dim=index(0, np.int64), indices=PLACES, values=floats((4,)), shape=SHAPE,
            num_split=5)
    for start, size in (((-1, 0), (3, 2)), ((-5, 1), (2, 9)), ((-2, -2), (20, 20)), ((9, -1), (1, 2))):
        c.case("SparseSlice", f"{start} {size}", indices=PLACES, values=floats((4,)), shape=SHAPE, start=longs(*start),
               size=longs(*size))
    c.error("SparseSlice", "size", indices=PLACES, values=floats((4,)), shape=SHAPE, start=longs(0, 0),
            size=longs(-1, 2))
    c.case("SparseSliceGrad", backprop_val_grad=floats((2,)), input_indices=PLACES, input_start=longs(1, 0),
           output_indices=longs([0, 0], [0, 3]))
    c.error("SparseFillEmptyRows", "row", indices=PLACES, values=floats((4,)), dense_shape=longs(2, 5),
            default_value=floats(()))
    c.each("SparseFillEmptyRowsGrad", lambda t: dict(reverse_index_map=longs(2, 0, 3), grad_values=numbers(t, (5,))),
           only=("float32", "float64", "int32", "int64"))
    c.error("SparseFillEmptyRowsGrad", "index", reverse_index_map=longs(2, 7), grad_values=floats((5,)))


def sparse_arithmetic(c):
    pair = lambda t: dict(a_indices=PLACES, a_values=numbers(t, (4,)), a_shape=SHAPE, b_indices=OTHERS,  # noqa: E731
                          b_values=numbers(t, (5,), seed=2), b_shape=SHAPE)
    for t in kernel_types("SparseAdd", "T"):
        real = {"complex64": "float32", "complex128": "float64"}.get(t, t)
        for limit in (0, 2):
            c.case("SparseAdd", f"{t} {limit}", thresh=array(real, limit), **pair(t))
    c.error("SparseAdd", "shapes", thresh=floats(()), **(pair("float32") | dict(b_shape=longs(4, 6))))
    c.case("SparseAddGrad", backprop_val_grad=floats((4,)), a_indices=PLACES, b_indices=OTHERS,
           sum_indices=longs([0, 0], [0, 1], [1, 3], [3, 3]))
    c.each("SparseSparseMaximum", pair)
    c.each("SparseSparseMinimum", pair, without=COMPLEX)
    sparse = lambda t: dict(sp_indices=PLACES, sp_values=numbers(t, (4,)), sp_shape=SHAPE)  # noqa: E731
    c.each("SparseTensorDenseAdd", lambda t: dict(a_indices=PLACES, a_values=numbers(t, (4,)), a_shape=SHAPE,
                                                  b=numbers(t, (4, 5), seed=2)))
    c.error("SparseTensorDenseAdd", "shape", a_indices=PLACES, a_values=floats((4,)), a_shape=SHAPE, b=floats((4, 4)))
    c.error("SparseTensorDenseAdd", "index", a_indices=PLACES + 3, a_values=floats((4,)), a_shape=SHAPE,
            b=floats((4, 5)))
    for op in ("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv"):
        for shape in ((4, 5), (5,), (), (4, 1)):
            c.each(op, lambda t: dict(dense=nonzero(t, shape), **sparse(t)), label=f"{shape}")
        c.error(op, "shape", dense=floats((4,)), **sparse("float32"))
    c.each("SparseSoftmax", sparse, tolerance=1e-3)
    for op in ("SparseReduceSum", "SparseReduceMax", "SparseReduceSumSparse", "SparseReduceMaxSparse"):
        for axes in ([0], [1], [-1, 0]):
            for keep in (False, True):
                c.each(op, lambda t: dict(input_indices=PLACES, input_values=numbers(t, (4,)), input_shape=SHAPE,
                                          reduction_axes=ints(*axes), keep_dims=keep), label=f"{axes} {keep}")
        c.error(op, "axis", input_indices=PLACES, input_values=floats((4,)), input_shape=SHAPE, reduction_axes=ints(2))
    for adjoint_a in (False, True):
        for adjoint_b in (False, True):
            inner = 4 if adjoint_a else 5
            for t in kernel_types("SparseTensorDenseMatMul", "T"):
                if t in ("float16", "bfloat16"):
                    continue
                c.case("SparseTensorDenseMatMul", f"{t} {adjoint_a} {adjoint_b}", a_indices=PLACES,
                       a_values=numbers(t, (4,)), a_shape=SHAPE, adjoint_a=adjoint_a, adjoint_b=adjoint_b,
                       b=numbers(t, (3, inner) if adjoint_b else (inner, 3), seed=2))
    c.error("SparseTensorDenseMatMul", "inner", a_indices=PLACES, a_values=floats((4,)), a_shape=SHAPE, b=floats((4, 3)))
    c.error("SparseTensorDenseMatMul", "index", a_indices=PLACES + 3, a_values=floats((4,)), a_shape=SHAPE,
            b=floats((5, 3)))


def sparse_serialized(c):
    for t in ("float32", "int64", "string", "complex64"):
        parts = dict(sparse_indices=PLACES, sparse_values=numbers(t, (4,)), sparse_shape=SHAPE)
        dtype = tf.as_dtype(t)
        c.case("SerializeSparse", t, **parts)
        c.case("SerializeManySparse", t, **parts)
        (one,) = c.apply("SerializeSparse", **parts)
        (many,) = c.apply("SerializeManySparse", **parts)
        (other,) = c.apply("SerializeSparse", sparse_indices=OTHERS, sparse_values=numbers(t, (5,)),
                           sparse_shape=longs(5, 4))
        c.case("DeserializeSparse", t, serialized_sparse=one, dtype=dtype)
        c.case("DeserializeSparse", f"{t} many", serialized_sparse=tf.stack([[one, other]]), dtype=dtype)
        c.case("DeserializeManySparse", t, serialized_sparse=many, dtype=dtype)
        (variant,) = c.apply("SerializeSparse", out_type=tf.variant, **parts)
        c.case("DeserializeSparse", f"{t} variant", serialized_sparse=variant, dtype=dtype)
        name = f"map of {t}"
        (first,) = c.apply("AddSparseToTensorsMap", shared_name=name, **parts)
        (second,) = c.apply("AddSparseToTensorsMap", shared_name=name, sparse_indices=OTHERS,
                            sparse_values=numbers(t, (5,)), sparse_shape=longs(5, 4))
        c.case("TakeManySparseFromTensorsMap", t, sparse_handles=tf.stack([second, first]), dtype=dtype,
               shared_name=name)
        (handles,) = c.apply("AddManySparseToTensorsMap", shared_name=f"{name} rows", **parts)
        c.case("TakeManySparseFromTensorsMap", f"{t} rows", sparse_handles=handles, dtype=dtype,
               shared_name=f"{name} rows")
    c.error("DeserializeSparse", "bytes", serialized_sparse=np.array([b"a", b"b", b"c"], object), dtype=tf.float32)
    c.error("DeserializeManySparse", "rank", serialized_sparse=np.array([b"a", b"b", b"c"], object), dtype=tf.float32)
    c.error("TakeManySparseFromTensorsMap", "handle", sparse_handles=longs(77), dtype=tf.float32, shared_name="none")


FAMILIES = (samplers, counts, searches, dense, variable_slices, sparse_rearrangements, sparse_arithmetic, sparse_serialized)
