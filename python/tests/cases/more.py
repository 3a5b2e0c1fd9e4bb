# SPDX-License-Identifier: Apache-2.0
"""Cases of compare_test.py: patches, fractional pooling, sets and other array ops."""

import numpy as np
import tensorflow as tf

from cases.case_builder import floats, index, ints, kernel_types, longs, numbers
from cases.sparse import OTHERS, PLACES, SHAPE


def updates(c):
    for op in ("InplaceUpdate", "InplaceAdd", "InplaceSub"):
        for t in ("float32", "int32", "int64", "float64"):
            # TensorFlow changes x in place, so x must not be used elsewhere.
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


def einsum(c):
    shapes = {"i": 3, "j": 4, "k": 5, "b": 2, "n": 2}
    for equation in ("ij,jk->ik", "bij,bjk->bik", "ij,jk->ki", "ij->ji", "ij->", "ii->i", "ii->", "i,j->ij", "ij,ij->i",
                     "bijn,jk->bkin", "ij,k->ik", "iij,jk->ik", "bij,kj->bik", "i,i->"):
        operands = equation.split("->")[0].split(",")
        for t in ("float32", "float64", "complex64"):
            c.case("Einsum", f"{t} {equation}", equation=equation, tolerance=1e-4, inputs=[
                numbers(t, tuple(shapes[x] for x in operand), seed=i) for i, operand in enumerate(operands)])
    for equation, a, b in (("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)), ("i...,ij->j...", (3, 2, 2), (3, 4)),
                           ("...ij,jk->...ik", (2, 3, 4), (4, 2)), ("...i,...i->...", (2, 3), (3,))):
        c.case("Einsum", equation, equation=equation, inputs=[floats(a), floats(b, seed=2)], tolerance=1e-4)
    c.case("Einsum", "half", equation="ij,jk->ik", inputs=[numbers("float16", (3, 4), 0, 1), numbers(
        "float16", (4, 2), 0, 1)], tolerance=1e-2)
    c.case("Einsum", "ellipsis", equation="i...->...i", inputs=[floats((2, 3, 4))])
    c.error("Einsum", "sizes", equation="ij,jk->ik", inputs=[floats((2, 3)), floats((4, 2))])
    c.error("Einsum", "rank", equation="ij->ji", inputs=[floats((2, 3, 4))])


def convolution(c):
    for t in ("float32", "float64", "float16", "int32"):
        limit = 5e-2 if t == "float16" else 1e-4
        low, high = (.5, 1) if t == "float16" else (-4, 4)
        c.case("Conv", f"{t} images", input=numbers(t, (2, 6, 5, 3), low, high), strides=[1, 1, 2, 1], padding="SAME",
               filter=numbers(t, (3, 2, 3, 4), low, high, seed=2), tolerance=limit)
    c.case("Conv", "volumes", input=floats((2, 4, 5, 4, 2)), filter=floats((2, 2, 3, 2, 3)), strides=[1, 1, 1, 2, 1],
           padding="VALID", tolerance=1e-4)
    c.case("Conv", "batches", input=floats((2, 3, 5, 4, 2)), filter=floats((2, 3, 2, 3)), strides=[1, 1, 1, 1],
           padding="SAME", batch_dims=2, dilations=[1, 2, 1, 1], tolerance=1e-4)


def distributions(c):
    shapes = dict(shape=ints(2, 3))
    for t in ("float32", "float64", "float16"):
        alpha = np.array([.3, 1, 4.5], numbers(t, (1,)).dtype)
        rate = np.array([.5, 3, 40], alpha.dtype)
        limit = 1e-2 if t == "float16" else 1e-5
        c.case("RandomGamma", t, alpha=alpha, seed=3, seed2=5, tolerance=limit, **shapes)
        for target in (tf.int64, tf.float32, tf.int32):
            c.case("RandomPoissonV2", f"{t} {target.name}", rate=rate, seed=3, seed2=5, dtype=target, **shapes)
        c.case("StatelessRandomGammaV2", t, alpha=alpha, seed=ints(4, 9), shape=ints(2, 3), tolerance=limit)
        c.case("StatelessRandomPoisson", t, lam=rate, seed=ints(4, 9), dtype=tf.int64, shape=ints(2, 3))
    c.case("RandomPoissonV2", "integers", rate=ints(2, 30), seed=3, **shapes)
    c.error("StatelessRandomGammaV2", "shape", alpha=floats((4,), 1, 2), seed=ints(4, 9), shape=ints(2, 3))
    ranges = ((-1., 1.), (.5, 9.), (2., 2.2), (3., np.inf), (-np.inf, 1.), (-9., 9.), (-5., -4.5))
    for t in ("float32", "float64"):
        one = lambda x: np.array(x, t)  # noqa: E731
        for low, high in ranges:
            common = dict(means=one(.2), minvals=one(low), maxvals=one(high), tolerance=1e-5)
            c.case("ParameterizedTruncatedNormal", f"{t} {low} {high}", shape=ints(7), stdevs=one(1.1), seed=2, seed2=3,
                   **common)
            c.case("StatelessParameterizedTruncatedNormal", f"{t} {low} {high}", shape=ints(7), stddevs=one(1.1),
                   seed=ints(2, 3), **common)
        many = dict(means=one([0, 1]), minvals=one([-1, 0]), maxvals=one([1, 5]), tolerance=1e-5)
        c.case("ParameterizedTruncatedNormal", f"{t} rows", shape=ints(2, 9), stdevs=one([1, 2]), seed=2, seed2=3, **many)
        c.case("StatelessParameterizedTruncatedNormal", f"{t} columns", shape=ints(9, 2), stddevs=one([1]),
               seed=ints(2, 3), **many)
    for counts, probs in (([3, 9, 100], [.2, .9, .05]), ([50, 200, 1000], [.5, .3, .97]), ([0, -1, 5], [.5, .5, 0]),
                          ([4, 40, 7], [1, 2, -1]), ([1e6, 30, 12], [.4, .34, .01])):
        for t in ("float64", "float32"):
            c.case("StatelessRandomBinomial", f"{t} {counts}", counts=np.array(counts, t), probs=np.array(probs, t),
                   shape=ints(20, 3), seed=ints(4, 9), dtype=tf.int64)
    c.case("StatelessRandomBinomial", "broadcast", counts=np.array([[30.], [5.]]), probs=np.array([.1, .5, .9]),
           shape=ints(4, 2, 3), seed=ints(4, 9), dtype=tf.float32)
    c.error("StatelessRandomBinomial", "shape", counts=np.array([3., 4.]), probs=np.array(.5), shape=ints(3),
            seed=ints(1, 2))
    wrong = dict(means=np.float32([0]), stdevs=np.float32([1]), minvals=np.float32([2]), maxvals=np.float32([1]))
    c.error("ParameterizedTruncatedNormal", "limits", shape=ints(1), **wrong)


def rows(c):
    for t in ("float32", "int64", "string"):
        c.case("RaggedTensorToSparse", t, rt_nested_splits=[longs(0, 2, 2, 5)], rt_dense_values=numbers(t, (5,)))
        c.case("RaggedTensorToSparse", f"{t} nested", rt_dense_values=numbers(t, (5, 2)),
               rt_nested_splits=[longs(0, 1, 3), longs(0, 2, 2, 5)])
    c.error("RaggedTensorToSparse", "end", rt_nested_splits=[longs(0, 2, 4)], rt_dense_values=floats((5,)))
    c.error("RaggedTensorToSparse", "start", rt_nested_splits=[longs(1, 2, 5)], rt_dense_values=floats((5,)))
    for t in ("int32", "int64", "float32", "float64"):
        c.case("RaggedRange", t, starts=np.array([0, 5, 8, 9], t), limits=np.array([3, 5, 2, 20], t),
               deltas=np.array([1, 1, -2, 3], t))
        c.case("RaggedRange", f"{t} scalars", starts=np.array(2, t), limits=np.array([3, 7], t), deltas=np.array(2, t))
    c.error("RaggedRange", "delta", starts=ints(1), limits=ints(2), deltas=ints(0))
    text = np.array([b"a", b"b", b"c", b"d"], object)
    nested = [longs(0, 2, 2, 3), longs(0, 1, 4, 5)]
    for t in ("float32", "string", "int64"):
        for at in (ints(2, 0, 0), ints(), index([[1, 2], [0, 0]]), index(2)):
            c.case("RaggedGather", f"{t} {at.shape}", params_nested_splits=[longs(0, 2, 2, 5)], indices=at,
                   params_dense_values=numbers(t, (5, 2)), OUTPUT_RAGGED_RANK=at.ndim)
        c.case("RaggedGather", f"{t} nested", params_nested_splits=nested, indices=ints(2, 0),
               params_dense_values=numbers(t, (5,)), OUTPUT_RAGGED_RANK=2)
        for shape in (tf.constant(-1), ints(-1, -1), ints(2, 2), ints(4, 5)):
            for kind, parts in ((["ROW_SPLITS"], [longs(0, 2, 2, 5)]),
                                (["FIRST_DIM_SIZE", "VALUE_ROWIDS"], [index(3, np.int64), longs(0, 0, 2, 2, 2)])):
                label = f"{t} {shape if isinstance(shape, np.ndarray) else -1} {kind}"
                c.case("RaggedTensorToTensor", label, shape=shape, values=numbers(t, (5,)),
                       default_value=numbers(t, ()), row_partition_tensors=parts, row_partition_types=kind)
        c.case("RaggedTensorToTensor", f"{t} nested", shape=ints(-1, -1, 2, -1), values=numbers(t, (5, 2)),
               default_value=numbers(t, (2,)), row_partition_tensors=nested,
               row_partition_types=["ROW_SPLITS", "ROW_SPLITS"])
        c.case("RaggedFillEmptyRows", t, value_rowids=longs(1, 1, 3), values=numbers(t, (3,)),
               nrows=index(5, np.int64), default_value=numbers(t, ()))
        if {"RaggedTensorToVariant", "RaggedTensorFromVariant"} <= c.registered:
            for batched in (False, True):
                for splits, values in (([], numbers(t, (3, 2))), ([longs(0, 2, 2, 5)], numbers(t, (5,))),
                                       (nested, numbers(t, (5, 2)))):
                    (encoded,) = c.apply("RaggedTensorToVariant", rt_nested_splits=splits, rt_dense_values=values,
                                         batched_input=batched, **({} if splits else dict(Tsplits=tf.int64)))
                    back = dict(encoded_ragged=encoded, input_ragged_rank=-1, Tvalues=tf.as_dtype(values.dtype.name if
                                t != "string" else "string"), Tsplits=tf.int64)
                    rank = max(len(splits), int(batched))
                    c.add(f"RaggedTensorFromVariant {t} {batched} {len(splits)}",
                          c.apply("RaggedTensorFromVariant", output_ragged_rank=rank, **back))
                    if batched and splits:
                        pair = tf.stack([encoded, encoded])
                        c.add(f"RaggedTensorFromVariant {t} of matrices {len(splits)}",
                              c.apply("RaggedTensorFromVariant", output_ragged_rank=rank + 1, **back |
                                      dict(encoded_ragged=pair)))
    if {"RaggedTensorToVariant", "RaggedTensorToVariantGradient"} <= c.registered:
        for splits_type in (np.int64, np.int32):
            rows = ints(0, 2, 2, 5, dtype=splits_type)
            (encoded,) = c.apply("RaggedTensorToVariant", rt_nested_splits=[rows], rt_dense_values=floats((5, 2)),
                                 batched_input=True)
            c.add(f"RaggedTensorToVariantGradient {splits_type.__name__}",
                  c.apply("RaggedTensorToVariantGradient", encoded_ragged_grad=encoded, row_splits=rows,
                          dense_values_shape=ints(5, 2), Tvalues=tf.float32))
    c.case("RaggedFillEmptyRowsGrad", reverse_index_map=longs(1, 2, 4), grad_values=floats((6,)))
    c.error("RaggedGather", "index", params_nested_splits=[longs(0, 2, 5)], indices=ints(2),
            params_dense_values=floats((5,)), OUTPUT_RAGGED_RANK=1)
    c.error("RaggedTensorToTensor", "shape", shape=ints(2, 2, 2), values=floats((5,)), default_value=floats(()),
            row_partition_tensors=[longs(0, 2, 5)], row_partition_types=["ROW_SPLITS"])
    c.error("RaggedFillEmptyRows", "row", value_rowids=longs(1, 5), values=floats((2,)), nrows=index(5, np.int64),
            default_value=floats(()))
    c.case("SparseCrossV2", indices=[PLACES, OTHERS], values=[text, longs(1, 2, 3, 4, 5)], shapes=[SHAPE, SHAPE],
           dense_inputs=[numbers("string", (4, 2)), numbers("int64", (4, 1))], sep=np.array(b"_X_", object))
    c.case("SparseCrossV2", "sparse", indices=[PLACES, PLACES], values=[text, text], shapes=[SHAPE, SHAPE],
           dense_inputs=[], sep=np.array(b"", object))
    for name in ("Sum", "Mean", "SqrtN"):
        c.each(f"SparseSegment{name}GradV2", lambda t: dict(
            grad=numbers(t, (3, 2)), indices=ints(4, 1, 4, 0), segment_ids=ints(0, 0, 1, 2),
            dense_output_dim0=np.array(6, np.int32)), tolerance=1e-2)
        c.error(f"SparseSegment{name}GradV2", "index", grad=floats((3, 2)), indices=ints(9), segment_ids=ints(0),
                dense_output_dim0=np.array(6, np.int32))
    columns = dict(indices=[PLACES, OTHERS], values=[text, longs(1, 2, 3, 4, 5)], shapes=[SHAPE, SHAPE])
    for buckets in (0, 100):
        c.case("SparseCross", f"hashed {buckets}", dense_inputs=[text.reshape(-1, 1)], hashed_output=True,
               num_buckets=buckets, hash_key=956888297470, out_type=tf.int64, internal_type=tf.int64, **columns)
        c.case("SparseCrossHashed", f"{buckets}", dense_inputs=[text.reshape(-1, 1)],
               num_buckets=index(buckets, np.int64), strong_hash=np.array(False), salt=longs(1, 2), **columns)
        c.case("SparseCrossHashed", f"strong {buckets}", indices=[PLACES, PLACES], values=[text, text],
               shapes=[SHAPE, SHAPE], dense_inputs=[], num_buckets=index(buckets, np.int64),
               strong_hash=np.array(True), salt=longs(17, -3))
    for splits_type in (np.int32, np.int64):
        mixed = dict(ragged_values=[text, longs(1, -2, 3, 4, 5)],
                     ragged_row_splits=[ints(0, 2, 2, 4, len(text), dtype=splits_type),
                                        ints(0, 1, 1, 3, 5, dtype=splits_type)],
                     sparse_indices=[OTHERS], sparse_values=[longs(1, 2, 3, 4, 5)], sparse_shape=[SHAPE],
                     dense_inputs=[numbers("string", (4, 2)), numbers("int64", (4, 1))],
                     out_row_splits_type=tf.as_dtype(splits_type))
        for order in ("RRSDD", "DSRDR"):
            c.case("RaggedCross", f"{order} {splits_type.__name__}", input_order=order, hashed_output=False,
                   num_buckets=0, hash_key=0, out_values_type=tf.string, **mixed)
            for buckets in (0, 100):
                c.case("RaggedCross", f"{order} {splits_type.__name__} {buckets}", input_order=order,
                       hashed_output=True, num_buckets=buckets, hash_key=956888297470, out_values_type=tf.int64,
                       **mixed)
    ragged = dict(ragged_values=[text], ragged_row_splits=[longs(0, len(text))], sparse_indices=[], sparse_values=[],
                  sparse_shape=[], dense_inputs=[text[:2].reshape(1, 2)], input_order="RD", hashed_output=False,
                  num_buckets=0, hash_key=0, out_values_type=tf.string, out_row_splits_type=tf.int64)
    c.case("RaggedCross", "ragged", **ragged)
    for label, bad in (("rows", dict(dense_inputs=[text[:2].reshape(2, 1)])), ("order", dict(input_order="RR")),
                       ("length", dict(input_order="R")), ("rank", dict(dense_inputs=[text])),
                       ("splits", dict(ragged_row_splits=[longs(0, 9)])),
                       ("start", dict(ragged_row_splits=[longs(1, len(text))])),
                       ("descending", dict(ragged_row_splits=[longs(0, 3, 1, len(text))]))):
        c.error("RaggedCross", label, **{**ragged, **bad})
    both = dict(dense_inputs=[], hashed_output=False, num_buckets=0, hash_key=0, out_type=tf.string,
                internal_type=tf.string)
    c.case("SparseCross", "text", indices=[PLACES, PLACES], values=[text, text], shapes=[SHAPE, SHAPE], **both)
    c.error("SparseCross", "numbers", **columns, **both)
    c.error("SparseCrossHashed", "rows", dense_inputs=[text.reshape(-1, 2)], num_buckets=index(0, np.int64),
            strong_hash=np.array(False), salt=longs(1, 2), **columns)


def ctc(c):
    labels = dict(labels_indices=longs([0, 0], [0, 1], [1, 0], [2, 0], [2, 1], [2, 2]),
                  labels_values=ints(1, 1, 0, 2, 3, 0), sequence_length=ints(6, 2, 5))
    for t in ("float32", "float64"):
        x = numbers(t, (6, 3, 5))
        for collapse in (False, True):
            for merge in (False, True):
                c.case("CTCLoss", f"{t} {collapse} {merge}", inputs=x, preprocess_collapse_repeated=collapse,
                       ctc_merge_repeated=merge, tolerance=1e-4, **labels)
        c.case("CTCLoss", f"{t} longer", inputs=x, ignore_longer_outputs_than_inputs=True, tolerance=1e-4,
               **(labels | dict(sequence_length=ints(1, 2, 5))))
        for merge in (False, True):
            c.case("CTCGreedyDecoder", f"{t} {merge}", inputs=x, sequence_length=ints(6, 2, 5), merge_repeated=merge)
        c.case("CTCGreedyDecoder", f"{t} blank", inputs=x, sequence_length=ints(6, 2, 5), blank_index=1)
    c.error("CTCLoss", "short", inputs=x, **(labels | dict(sequence_length=ints(1, 2, 5))))
    c.error("CTCLoss", "length", inputs=x, **(labels | dict(sequence_length=ints(7, 2, 5))))
    for t in ("float32", "float64"):
        for shape, width, paths in (((6, 3, 4), 5, 1), ((6, 3, 4), 20, 3), ((12, 3, 5), 100, 4), ((4, 3, 2), 3, 2)):
            for merge in (False, True):
                c.case("CTCBeamSearchDecoder", f"{t} {shape} {width} {merge}", inputs=numbers(t, shape, -3, 3),
                       sequence_length=ints(shape[0], 2, 3), beam_width=width, top_paths=paths, merge_repeated=merge,
                       tolerance=1e-5)
    c.error("CTCBeamSearchDecoder", "paths", inputs=x, sequence_length=ints(6, 2, 5), beam_width=2, top_paths=3)
    c.error("CTCGreedyDecoder", "length", inputs=x, sequence_length=ints(7, 2, 5))


FAMILIES = (ctc, updates, patches, fractional, sets, einsum, convolution, distributions, rows)
