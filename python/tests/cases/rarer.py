# SPDX-License-Identifier: Apache-2.0
"""Cases of compare_test.py: families that few programs use."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import function

from cases.case_builder import array, floats, index, ints, numbers, resource_variable, variable

STATE = np.array([5, 7, 11], np.int64)
KEY = dict(key=np.array([123456789], np.uint64), counter=np.array([5, 9], np.uint64), alg=index(1))


def stateful_random(c):
    def draw(op, dtype, **extra):
        if op not in c.registered:
            return
        handle, assigned = resource_variable(c, STATE)
        with tf.control_dependencies([assigned]):
            outputs = c.apply(op, resource=handle, shape=np.array([3, 5], np.int64),
                              **({} if "minval" in extra else dict(dtype=dtype)), **extra)
        with tf.control_dependencies(outputs):
            c.add(f"{op} {dtype.name}", [*outputs, *c.apply("ReadVariableOp", resource=handle, dtype=tf.int64)])

    algorithm = dict(algorithm=index(1, np.int64))
    for dtype in (tf.float32, tf.float64, tf.float16):
        draw("StatefulUniform", dtype, **algorithm)
        draw("StatefulStandardNormalV2", dtype, **algorithm)
        draw("StatefulTruncatedNormal", dtype, **algorithm)
    for dtype in (tf.int32, tf.int64):
        draw("StatefulUniformFullInt", dtype, **algorithm)
        draw("StatefulUniformInt", dtype, minval=index(2, dtype.as_numpy_dtype), maxval=index(50, dtype.as_numpy_dtype),
             **algorithm)
    for op, alg, delta in (("RngSkip", "algorithm", np.int64), ("RngReadAndSkip", "alg", np.uint64)):
        if op not in c.registered:
            continue
        handle, assigned = resource_variable(c, STATE)
        with tf.control_dependencies([assigned]):
            outputs = c.apply(op, resource=handle, delta=index(7, delta),
                              **{alg: index(1, np.int64 if alg == "algorithm" else np.int32)})
        with tf.control_dependencies(outputs):
            read = c.apply("ReadVariableOp", resource=handle, dtype=tf.int64)
        c.add(op, [t for t in outputs if isinstance(t, tf.Tensor)] + read)
    if "StatefulRandomBinomial" in c.registered:
        # TensorFlow writes to the memory of the assigned value: assign a copy, not a feed that other steps use, too.
        (copy,) = c.apply("ReverseV2", tensor=STATE[::-1] + 1, axis=ints(0))
        handle, assigned = resource_variable(c, copy)
        with tf.control_dependencies([assigned]):
            outputs = c.apply("StatefulRandomBinomial", resource=handle, algorithm=index(1, np.int64),
                              shape=ints(4, 3), counts=array("float64", [5, 100, 1000]),
                              probs=array("float64", [.3, .5, .9]))
        c.add("StatefulRandomBinomial", outputs)
    if "NonDeterministicInts" in c.registered:
        c.add("NonDeterministicInts", [tf.shape(t) for t in c.apply("NonDeterministicInts", shape=ints(2, 3))])
    for bad, text in ((np.array([5, 7], np.int64), "short"), (np.array([[5, 7, 11]], np.int64), "rank")):
        handle, assigned = resource_variable(c, bad)
        with tf.control_dependencies([assigned]):
            c.error("StatefulUniform", text, resource=handle, algorithm=index(1, np.int64), shape=ints(3))
    for algorithm in (2, 9):
        handle, assigned = resource_variable(c, STATE)
        with tf.control_dependencies([assigned]):
            c.error("StatefulUniform", f"algorithm {algorithm}", resource=handle, algorithm=index(algorithm, np.int64),
                    shape=ints(3))


def stateless_random(c):
    c.each("StatelessRandomGammaV3", lambda t: dict(shape=ints(5, 2), alpha=array(t, [.5, 3]), **KEY), attr="dtype",
           without=("bfloat16",))
    c.each("StatelessShuffle", lambda t: dict(value=numbers(t, (6, 2)), **KEY))
    c.error("StatelessShuffle", "algorithm", value=floats(), **{**KEY, "alg": index(2)})
    for dtype in (np.int32, np.int64, np.uint32, np.uint64):
        for rounds in (4, 8):
            c.case("RandomIndexShuffle", f"{dtype.__name__} {rounds}", index=np.arange(20, dtype=dtype),
                   seed=np.array([1, 2, 3], np.int32), max_index=index(19, dtype), rounds=rounds)
    c.case("RandomIndexShuffle", "one", index=index(3), seed=ints(5, 6, 7), max_index=index(100000))
    c.case("RandomIndexShuffle", "many seeds", index=ints(3, 4), seed=ints(5, 6, 7, 8, 9, 10).reshape(2, 3),
           max_index=ints(10, 1 << 20))
    whole = np.array([-3, 0, 2, 1e9, -1e9, np.nan], np.float32)
    for to in (tf.int8, tf.int16, tf.int32):
        c.case("StochasticCastToInt", to.name, input=whole, Tout=to, **KEY)


def quantized(c):
    spread = dict(quint8=np.array([[0, 1, 100], [200, 254, 255]], np.uint8),
                  qint8=np.array([[-128, -1, 0], [1, 100, 127]], np.int8),
                  qint32=np.array([[-2**31, -70000, 0], [1, 500000, 2**31 - 1]], np.int32))
    ranges = ((-3., 5.), (0., 4.), (-1., 1.))

    def feed(name, values=None, shape_known=True):
        return tf.bitcast(c.feed(spread[name] if values is None else values, shape_known), getattr(tf, name))

    def add(label, op, **arguments):
        if op not in c.registered:
            return
        outputs = c.apply(op, **arguments)
        plain = {tf.quint8: tf.uint8, tf.qint8: tf.int8, tf.qint32: tf.int32}
        c.add(f"{op} {label}", [tf.bitcast(t, plain[t.dtype]) if t.dtype in plain else t for t in outputs])

    def ends(low, high, *names):
        return {name: array("float32", value) for name, value in zip(names, (low, high))}

    for low, high in ranges:
        x = ends(low, high, "min_x", "max_x")
        y = ends(-2., 3., "min_y", "max_y")
        for op in ("QuantizedAdd", "QuantizedMul"):
            add(f"{low}", op, x=feed("quint8"), y=feed("quint8"), Toutput=tf.qint32, **x, **y)
            add(f"{low} vector", op, x=feed("quint8"), y=feed("quint8", np.array([3, 4, 5], np.uint8)),
                Toutput=tf.qint32, **x, **y)
            add(f"{low} scalar", op, x=feed("quint8"), y=feed("quint8", np.array(7, np.uint8)), Toutput=tf.qint32, **x,
                **y)
        add(f"{low}", "QuantizedBiasAdd", input=feed("quint8"), bias=feed("quint8", np.array([3, 4, 5], np.uint8)),
            out_type=tf.qint32, **ends(low, high, "min_input", "max_input"), **ends(-2., 3., "min_bias", "max_bias"))
        add(f"{low}", "QuantizedMatMul", a=feed("quint8"), b=feed("quint8"), transpose_b=True, Toutput=tf.qint32,
            **ends(low, high, "min_a", "max_a"), **ends(-2., 3., "min_b", "max_b"))
        add(f"{low} transposed", "QuantizedMatMul", a=feed("quint8"), b=feed("quint8"), transpose_a=True,
            Toutput=tf.qint32, **ends(low, high, "min_a", "max_a"), **ends(-2., 3., "min_b", "max_b"))
        for op in ("QuantizedRelu", "QuantizedRelu6"):
            add(f"{low}", op, features=feed("quint8"), out_type=tf.quint8,
                **ends(low, high, "min_features", "max_features"))
        image = numbers("uint8", (2, 5, 4, 3), 0, 255)
        for op in ("QuantizedMaxPool", "QuantizedAvgPool"):
            for padding in ("SAME", "VALID"):
                add(f"{low} {padding}", op, input=feed("quint8", image), ksize=[1, 2, 3, 1], strides=[1, 2, 1, 1],
                    padding=padding, **ends(low, high, "min_input", "max_input"))
        for padding in ("SAME", "VALID"):
            for stride in (1, 2):
                add(f"{low} {padding} {stride}", "QuantizedConv2D", input=feed("quint8", image),
                    filter=feed("quint8", numbers("uint8", (3, 2, 3, 4), 0, 255, seed=3)), out_type=tf.qint32,
                    strides=[1, stride, stride, 1], padding=padding, **ends(low, high, "min_input", "max_input"),
                    **ends(-1., 2., "min_filter", "max_filter"))
        add(f"{low}", "QuantizedReshape", tensor=feed("quint8"), shape=ints(3, -1),
            **ends(low, high, "input_min", "input_max"))
        add(f"{low}", "QuantizedInstanceNorm", x=feed("quint8", image), output_range_given=True, given_y_min=-3.,
            given_y_max=3., **ends(low, high, "x_min", "x_max"))
        mins = [array("float32", low), array("float32", -2.)]
        maxes = [array("float32", high), array("float32", 3.)]
        add(f"{low}", "QuantizedConcat", concat_dim=index(1), values=[feed("quint8"), feed("quint8")], input_mins=mins,
            input_maxes=maxes)
        add(f"{low}", "RequantizationRange", input=feed("qint32"), **ends(low, high, "input_min", "input_max"))
        add(f"{low}", "Requantize", input=feed("qint32"), out_type=tf.quint8,
            **ends(low, high, "input_min", "input_max"),
            **ends(-1., 2., "requested_output_min", "requested_output_max"))
        add(f"{low}", "QuantizeDownAndShrinkRange", input=feed("qint32"), out_type=tf.quint8,
            **ends(low, high, "input_min", "input_max"))
    channels = np.random.RandomState(3).randint(-2**31, 2**31 - 1, (2, 3, 2, 3)).astype(np.int32)
    each = dict(input_min=array("float32", [-3, 0, -1]), input_max=array("float32", [2, 5, 1]))
    for values in (channels, np.abs(channels // 2)):
        for limit in (100., .75):
            add(f"{limit}", "RequantizationRangePerChannel", input=feed("qint32", values), clip_value_max=limit, **each)
        for to in (tf.qint8, tf.quint8):
            add(to.name, "RequantizePerChannel", input=feed("qint32", values), out_type=to, **each,
                **ends(-4., 5.5, "requested_output_min", "requested_output_max"))
    c.error("Requantize", "min", input=feed("qint32"), out_type=tf.quint8, **ends(0., 1., "input_min", "input_max"),
            **ends(1., 2., "requested_output_min", "requested_output_max"))
    c.error("QuantizedAdd", "rank", x=feed("quint8"), y=feed("quint8"), Toutput=tf.qint32,
            min_x=array("float32", [1.]), max_x=array("float32", 2.), **ends(-2., 3., "min_y", "max_y"))
    c.error("QuantizedMatMul", "size", a=feed("quint8", None, False), b=feed("quint8", None, False), Toutput=tf.qint32,
            **ends(0., 1., "min_a", "max_a"), **ends(-2., 3., "min_b", "max_b"))
    c.error("QuantizedConv2D", "depth", input=feed("quint8", numbers("uint8", (1, 3, 3, 2), 0, 9), False),
            filter=feed("quint8", numbers("uint8", (2, 2, 3, 1), 0, 9), False), out_type=tf.qint32, strides=[1, 1, 1, 1],
            padding="SAME", **ends(0., 1., "min_input", "max_input"), **ends(0., 1., "min_filter", "max_filter"))


def audio(c):
    sound = floats((100, 2), -1.2, 1.2)
    c.case("EncodeWav", audio=sound, sample_rate=index(8000))
    if "EncodeWav" in c.registered and "DecodeWav" in c.registered:
        (wav,) = c.apply("EncodeWav", audio=sound, sample_rate=index(8000))
        for extra in ({}, dict(desired_channels=1), dict(desired_channels=3), dict(desired_samples=50),
                      dict(desired_samples=150)):
            c.add(f"DecodeWav {extra}", c.apply("DecodeWav", contents=wav, **extra))
    for window, stride in ((16, 8), (20, 30), (64, 1), (200, 5)):
        for squared in (False, True):
            c.case("AudioSpectrogram", f"{window} {stride} {squared}", tolerance=2e-5, input=sound, window_size=window,
                   stride=stride, magnitude_squared=squared)
    c.case("Mfcc", tolerance=2e-5, spectrogram=floats((2, 5, 513), 0, 4), sample_rate=index(22050))
    c.case("Mfcc", "other", tolerance=2e-5, spectrogram=floats((1, 3, 129), 0, 4), sample_rate=index(8000),
           upper_frequency_limit=3500., lower_frequency_limit=100., filterbank_channel_count=20,
           dct_coefficient_count=20)
    c.error("DecodeWav", "not a file", contents=np.array(b"RIFX0000WAVE", object))
    c.error("DecodeWav", "short", contents=np.array(b"RIFF", object))
    c.error("EncodeWav", "rank", audio=floats((3,)), sample_rate=index(8000))
    c.error("Mfcc", "rank", spectrogram=floats((3, 4)), sample_rate=index(8000))


def images(c):
    image = floats((2, 6, 7, 3))
    inside = floats((2, 2), -.2, .2)
    for version in ("", "V2"):
        for normalized in (True, False):
            for centered in (True, False):
                offsets = inside if normalized else inside * 5
                c.case(f"ExtractGlimpse{version}", f"{normalized} {centered}", input=image, size=ints(3, 2),
                       offsets=offsets if centered else np.abs(offsets), normalized=normalized, centered=centered,
                       uniform_noise=False, noise="zero")
        c.case(f"ExtractGlimpse{version}", "outside", input=image, size=ints(4, 4), offsets=floats((2, 2), 2, 3),
               uniform_noise=False, noise="zero")
        c.error(f"ExtractGlimpse{version}", "offsets", input=image, size=ints(3, 2), offsets=floats((3, 2)))
    turn = array("float32", [[.9, -.3, 1.5, .3, .9, -1, .01, .02], [1, 0, 2, 0, 1, 3, 0, 0]])
    for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"):
        for way in ("NEAREST", "BILINEAR"):
            c.each("ImageProjectiveTransformV2", lambda t: dict(
                images=numbers(t, (2, 5, 4, 2), 0, 100), transforms=turn, output_shape=ints(6, 5), interpolation=way,
                fill_mode=mode), attr="dtype", label=f"{mode} {way}")
            c.case("ImageProjectiveTransformV3", f"{mode} {way}", images=image, transforms=turn[:1],
                   output_shape=ints(6, 5), fill_value=array("float32", 7), interpolation=way, fill_mode=mode)
    c.error("ImageProjectiveTransformV2", "transforms", images=image, transforms=floats((3, 8)), output_shape=ints(6, 5),
            interpolation="NEAREST")
    boxes = np.sort(floats((2, 9, 1, 4), 0, 1.1), -1)[..., [0, 1, 2, 3]]
    for extra in ({}, dict(pad_per_class=True), dict(clip_boxes=False)):
        c.case("CombinedNonMaxSuppression", f"{extra}", boxes=boxes, scores=floats((2, 9, 3), 0, 1, seed=5),
               max_output_size_per_class=index(3), max_total_size=index(6), iou_threshold=index(.4, np.float32),
               score_threshold=index(.2, np.float32), **extra)
    c.error("CombinedNonMaxSuppression", "threshold", boxes=boxes, scores=floats((2, 9, 3), 0, 1),
            max_output_size_per_class=index(3), max_total_size=index(6), iou_threshold=index(2, np.float32),
            score_threshold=index(.2, np.float32))


def counts(c):
    values = ints(3, 1, 3, 0, 7, 3)
    for extra in ({}, dict(minlength=10), dict(maxlength=4), dict(binary_output=True)):
        arguments = dict(binary_output=False) | extra
        c.case("DenseCountSparseOutput", f"{extra}", values=values, weights=np.zeros(0, np.int64), **arguments)
        c.case("DenseCountSparseOutput", f"matrix {extra}", values=values.reshape(2, 3),
               weights=floats((2, 3)), **arguments)
        c.case("SparseCountSparseOutput", f"{extra}", indices=ints(0, 0, 0, 2, 2, 1, dtype=np.int64).reshape(3, 2),
               values=ints(4, 4, 2), dense_shape=ints(3, 4, dtype=np.int64), weights=np.zeros(0, np.int64), **arguments)
        c.case("RaggedCountSparseOutput", f"{extra}", splits=ints(0, 2, 2, 6, dtype=np.int64), values=values,
               weights=floats((6,)), **arguments)
    c.error("DenseCountSparseOutput", "weights", values=values, weights=floats((4,)), binary_output=False)
    c.error("RaggedCountSparseOutput", "splits", splits=ints(0, 7, dtype=np.int64), values=values,
            weights=floats((0,)), binary_output=False)
    words = np.array([b"aa", b"b", b"c", b"dd", b"e"], object)
    for widths in ([1], [2], [2, 3], [5]):
        for pad in (-1, 0, 1):
            for short in (False, True):
                if short and pad < 0:
                    continue
                c.case("StringNGrams", f"{widths} {pad} {short}", data=words,
                       data_splits=ints(0, 3, 3, 5, dtype=np.int64), separator="|", ngram_widths=widths, left_pad="<",
                       right_pad=">", pad_width=pad, preserve_short_sequences=short)
    c.error("StringNGrams", "splits", data=words, data_splits=ints(0, 9, dtype=np.int64), separator="|",
            ngram_widths=[2], left_pad="", right_pad="", pad_width=0, preserve_short_sequences=False)


def debugging(c):
    x = array("float32", [[np.nan, -np.inf, -2], [0, 3, np.inf]])
    c.each("DebugIdentity", lambda t: dict(input=numbers(t), tensor_name="x:0"))
    c.case("DebugNanCount", input=x, tensor_name="x:0")
    for extra in ({}, dict(lower_bound=-1., upper_bound=2.)):
        c.case("DebugNumericSummary", f"{extra}", input=x, tensor_name="x:0", **extra)
    c.case("DebugNumericSummary", "int", input=ints(1, -2, 0), tensor_name="x:0")
    for mode in (2, 3, 4, 5, 8):
        c.case("DebugNumericSummaryV2", f"{mode}", input=x, tensor_debug_mode=mode, tensor_id=7,
               output_dtype=tf.float64)
    for op in ("Copy", "CopyHost", "DebugGradientIdentity"):
        c.case(op, input=x)


def maps(c):
    if "EmptyTensorMap" not in c.registered:
        return
    (empty,) = c.apply("EmptyTensorMap")
    (one,) = c.apply("TensorMapInsert", input_handle=empty, key=index(3), value=floats((2,)))
    (two,) = c.apply("TensorMapInsert", input_handle=one, key=index(5), value=floats((3,)))
    (less,) = c.apply("TensorMapErase", input_handle=two, key=index(3), value_dtype=tf.float32)
    (sum_of_maps,) = c.apply("AddN", inputs=[two, one, less])
    (zeros,) = c.apply("ZerosLike", x=two)
    (other,) = c.apply("TensorMapInsert", input_handle=empty, key=index(3), value=floats((4,)))
    (unequal,) = c.apply("AddN", inputs=[one, other])
    c.error("TensorMapSize", "AddN", input_handle=unequal)
    for key, name in ((3, "both"), (5, "one")):
        c.add(f"TensorMapLookup in {name}", c.apply("TensorMapLookup", input_handle=sum_of_maps, key=index(key),
                                                    value_dtype=tf.float32))
    for name, handle in (("empty", empty), ("one", one), ("two", two), ("less", less), ("sum", sum_of_maps),
                         ("zeros", zeros)):
        c.add(f"TensorMapSize {name}", c.apply("TensorMapSize", input_handle=handle))
        c.add(f"TensorMapHasKey {name}", c.apply("TensorMapHasKey", input_handle=handle, key=index(5)))
    c.add("TensorMapLookup", c.apply("TensorMapLookup", input_handle=two, key=index(5), value_dtype=tf.float32))
    c.add("TensorMapStackKeys", [tf.sort(t) for t in c.apply("TensorMapStackKeys", input_handle=two,
                                                             key_dtype=tf.int32)])
    c.error("TensorMapLookup", "key", input_handle=one, key=index(5), value_dtype=tf.float32)
    c.error("TensorMapErase", "key", input_handle=one, key=index(5), value_dtype=tf.float32)
    (encoded,) = c.apply("CompositeTensorVariantFromComponents", components=[floats((2,)), ints(1, 2)], metadata="")
    c.add("CompositeTensorVariantToComponents", c.apply(
        "CompositeTensorVariantToComponents", encoded=encoded, metadata="", Tcomponents=[tf.float32, tf.int32]))


def few_types(c):
    """The element types of 8 and 4 bits."""
    for name, cast in (("float8_e5m2", "float32"), ("float8_e4m3fn", "float32"), ("int4", "int32"), ("uint4", "int32")):
        dtype = tf.as_dtype(name)
        values = c.feed(array(cast, [[0, 1, -2, 7], [3, 5, -6, 100]] if name != "uint4" else [[0, 1, 2, 7], [15, 5, 6, 9]]))
        narrow = tf.cast(values, dtype)
        back = lambda t: tf.cast(t, getattr(tf, cast))
        c.add(f"Cast {name}", [back(narrow)])
        if name.startswith("float8"):
            wide = c.feed(array("float64", [1e-9, 1e-3, .0624, .3, 447, 449, 465, 6e4, 1e9, -np.inf, np.nan]))
            c.add(f"Cast {name} rounds", [back(tf.cast(wide, dtype))])
            c.add(f"Concat {name}", [back(tf.concat([narrow, narrow], 1)), back(tf.transpose(narrow)),
                                     back(tf.gather(narrow, [1, 0])), back(narrow[:, 1:3]), back(tf.stack([narrow] * 2)),
                                     back(tf.broadcast_to(narrow, (2, 2, 4)))])
        c.add(f"Split {name}", [back(t) for t in tf.split(narrow, 2)])
    for name in ("qint8", "quint8", "qint16", "quint16", "qint32"):
        dtype = getattr(tf, name)
        c.add(f"Cast {name}", [tf.cast(tf.bitcast(c.feed(array(name[1:], [1, 5, 100])), dtype), tf.int32)])


def runtime(c):
    if "MutexV2" in c.registered:
        (mutex,) = c.apply("MutexV2", shared_name="mutex")
        for i in range(3):  # one after the other
            (lock,) = c.apply("MutexLock", mutex=mutex)
            with tf.control_dependencies([lock]):
                held = tf.identity(c.feed(floats(seed=i)))
            with tf.control_dependencies([held]):
                consumed = c.apply("ConsumeMutexLock", mutex_lock=lock)
            with tf.control_dependencies(consumed):
                c.add(f"MutexLock {i}", [tf.identity(held)])
    c.case("IsTensorFloat32Enabled")
    if "MakeWeakResourceHandle" in c.registered:
        handle, assigned = resource_variable(c, floats())
        (weak,) = c.apply("MakeWeakResourceHandle", handle=handle)
        with tf.control_dependencies([assigned]):
            c.add("MakeWeakResourceHandle", c.apply("ReadVariableOp", resource=weak, dtype=tf.float32))
        c.add("IsResourceHandleRefCounting", c.apply("IsResourceHandleRefCounting", handle=handle))
    if "DebugGradientRefIdentity" in c.registered:
        c.add("DebugGradientRefIdentity", c.apply("DebugGradientRefIdentity", input=variable(c, floats())))
    if "MapDefun" in c.registered:
        @function.Defun(tf.float32, tf.float32)
        def scaled(x, factor):
            return x * factor, tf.reduce_sum(x)

        c.add("MapDefun", c.apply("MapDefun", arguments=[floats((5, 3))], captured_inputs=[array("float32", 3)],
                                  output_types=[tf.float32, tf.float32], output_shapes=[[3], []], f=scaled))


def compressed_rows(c):
    if "SparseTensorToCSRSparseMatrix" not in c.registered:
        return
    for dtype in ("float32", "float64", "complex64", "complex128"):
        places = ints(0, 1, 1, 0, 1, 2, dtype=np.int64).reshape(3, 2)
        (a,) = c.apply("SparseTensorToCSRSparseMatrix", indices=places, values=numbers(dtype, (3,)),
                       dense_shape=ints(2, 3, dtype=np.int64))
        (b,) = c.apply("DenseToCSRSparseMatrix", dense_input=numbers(dtype, (3, 4), seed=3),
                       indices=ints(0, 0, 0, 3, 2, 1, dtype=np.int64).reshape(3, 2))
        t = dict(type=tf.as_dtype(dtype))
        c.add(f"CSRSparseMatrixToDense {dtype}", c.apply("CSRSparseMatrixToDense", sparse_input=a, **t))
        c.add(f"CSRSparseMatrixToSparseTensor {dtype}", c.apply("CSRSparseMatrixToSparseTensor", sparse_matrix=b, **t))
        c.add(f"CSRSparseMatrixComponents {dtype}", c.apply("CSRSparseMatrixComponents", csr_sparse_matrix=b,
                                                            index=index(0), **t))
        c.add(f"SparseMatrixNNZ {dtype}", c.apply("SparseMatrixNNZ", sparse_matrix=a))
        for conjugate in (False, True):
            (turned,) = c.apply("SparseMatrixTranspose", input=a, conjugate=conjugate, **t)
            c.add(f"SparseMatrixTranspose {dtype} {conjugate}", c.apply("CSRSparseMatrixToDense", sparse_input=turned, **t))
        (product,) = c.apply("SparseMatrixSparseMatMul", a=a, b=b, **t)
        c.add(f"SparseMatrixSparseMatMul {dtype}", c.apply("CSRSparseMatrixToDense", sparse_input=product, **t))
        for extra in ({}, dict(transpose_output=True), dict(conjugate_output=True)):
            c.add(f"SparseMatrixMatMul {dtype} {extra}", c.apply("SparseMatrixMatMul", a=a,
                                                                 b=numbers(dtype, (3, 2), seed=4), **extra))
        c.add(f"SparseMatrixMatMul {dtype} adjoint", c.apply("SparseMatrixMatMul", a=a, b=numbers(dtype, (5, 2), seed=4),
                                                             adjoint_a=True, adjoint_b=True))


def fused_by_the_optimizer(c):
    """Ops that only TensorFlow's optimizer makes, so that `registered` does not list them."""
    def add(op, label, tolerance=None, **arguments):
        c.add(f"{op} {label}", c.apply(op, name=op[1:], **arguments), tolerance)

    norm = [floats((5,), seed=i + 3) for i in range(3)] + [floats((5,), 0.5, 2, seed=7)]
    epilogues = [["BiasAdd"], ["BiasAdd", "Relu"], ["BiasAdd", "Relu6"], ["BiasAdd", "Elu"], ["BiasAdd", "LeakyRelu"]]
    for ops in epilogues:
        add("_FusedMatMul", ",".join(ops), 1e-5, a=floats((3, 4)), b=floats((4, 5), seed=2), args=[norm[0]],
               fused_ops=ops)
    add("_FusedMatMul", "transposed", 1e-5, a=floats((4, 3)), b=floats((5, 4), seed=2), args=[norm[0]],
           transpose_a=True, transpose_b=True, fused_ops=["BiasAdd"])
    image, window = floats((2, 6, 7, 3)), floats((2, 3, 3, 5), -1, 1, seed=2)
    for ops in epilogues:
        add("_FusedConv2D", ",".join(ops), 1e-4, input=image, filter=window, args=[norm[0]], host_args=[], num_args=1,
               strides=[1, 2, 1, 1], padding="SAME", fused_ops=ops)
    for ops in (["FusedBatchNorm"], ["FusedBatchNorm", "Relu"]):
        add("_FusedConv2D", ",".join(ops), 1e-4, input=image, filter=window, args=norm, host_args=[], num_args=4,
               strides=[1, 1, 1, 1], padding="VALID", epsilon=0.01, fused_ops=ops)
    for dtype in ("float32", "float64", "float16"):
        for names in (["Neg", "Exp"], ["Abs", "Sqrt", "Log1p"], ["Square", "Rsqrt", "Tanh"], ["Relu6", "Sigmoid", "Inv"],
                      ["Cos", "Sin", "Tan"], ["Elu", "Selu"], ["Floor", "Ceil", "Round", "Rint"],
                      ["Sinh", "Asinh", "Atan"], ["Tanh", "Asin", "Expm1"], ["Relu"], ["Cosh", "Acosh"]):
            if dtype == "float16" and names[0] in ("Cos", "Cosh", "Elu", "Floor", "Sinh", "Tanh"):
                continue  # TensorFlow composes fewer functions of halves
            add("_UnaryOpsComposition", f"{dtype} {names}", 5e-3 if dtype == "float16" else 1e-5,
                   x=numbers(dtype, (3, 5), -2, 2), op_names=names)
    for dtype in ("int8", "int32", "int64"):
        add("_TensorToHashBucketFast", dtype, input=numbers(dtype, (4, 5), -100, 100), num_buckets=1000)


def approximate_top_k(c):
    # TensorFlow has kernels only for the largest elements of the last dimension.
    c.each("ApproxTopK", lambda t: dict(input=numbers(t, (4, 5), seed=5), k=3))


def mapped_file(c):
    if "ImmutableConst" not in c.registered:
        return
    name = os.path.join(tempfile.mkdtemp(), "region")
    np.arange(6, dtype=np.float32).tofile(name)
    c.case("ImmutableConst", dtype=tf.float32, shape=[2, 3], memory_region_name=name)


FAMILIES = [fused_by_the_optimizer, approximate_top_k, mapped_file, stateful_random, stateless_random, quantized, audio, images, counts, debugging, maps, compressed_rows,
            few_types, runtime]
