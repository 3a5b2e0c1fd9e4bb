# SPDX-License-Identifier: Apache-2.0
"""Cases of compare_test.py: quantization and fake quantization."""

import numpy as np
import tensorflow as tf

from cases.case_builder import array, floats, index, ints, numbers

STORAGE = {tf.qint8: tf.int8, tf.quint8: tf.uint8, tf.qint16: tf.int16, tf.quint16: tf.uint16, tf.qint32: tf.int32}
RANGES = ((-3, 5), (-6, 2), (0, 4), (-4, 0), (1, 3))


def fake(c):
    for low, high in ((-6., 6.), (-1., 3.), (0., 5.), (-4., -1.)):
        for extra in ({}, dict(num_bits=4), dict(narrow_range=True)):
            label = f"{low} {high} {extra}"
            c.case("FakeQuantWithMinMaxArgs", label, inputs=floats((3, 4), -8, 8), min=low, max=high, **extra)
            c.case("FakeQuantWithMinMaxArgsGradient", label, gradients=floats((3, 4), seed=2),
                   inputs=floats((3, 4), -8, 8), min=low, max=high, **extra)
            ends = dict(min=array("float32", low), max=array("float32", high))
            each = dict(min=array("float32", [low, -2, 0, 1]), max=array("float32", [high, 2, 0, 3]))
            for name, range_ in (("Vars", ends), ("VarsPerChannel", each)):
                c.case(f"FakeQuantWithMinMax{name}", label, inputs=floats((3, 4), -8, 8), **range_, **extra)
                c.case(f"FakeQuantWithMinMax{name}Gradient", label, gradients=floats((3, 4), seed=2),
                       inputs=floats((3, 4), -8, 8), **range_, **extra)
    nothing = dict(min=array("float32", 0), max=array("float32", 0))
    c.case("FakeQuantWithMinMaxVars", "nothing", inputs=floats(), **nothing)
    c.error("FakeQuantWithMinMaxArgs", "bits", inputs=floats(), num_bits=17)
    c.error("FakeQuantWithMinMaxArgs", "range", inputs=floats(), min=1., max=1.)
    c.error("FakeQuantWithMinMaxVarsPerChannel", "size", inputs=floats((3, 4)), min=floats((3,)), max=floats((3,)))


def back_and_forth(c):
    for version in ("V2", "V4"):
        op = f"QuantizeAndDequantize{version}"
        for signed in (True, False):
            for given in (True, False):
                for extra in ({}, dict(num_bits=4, narrow_range=True), dict(round_mode="HALF_UP")):
                    for low, high in RANGES:
                        c.each(op, lambda t: dict(input=numbers(t, (3, 4), -8, 8), input_min=array(t, low),
                                                  input_max=array(t, high), signed_input=signed, range_given=given,
                                                  **extra), label=f"{signed} {given} {extra} {low}")
        c.each(op, lambda t: dict(input=numbers(t, (2, 3, 4), -8, 8), input_min=array(t, [-2, -1, 0]),
                                  input_max=array(t, [2, 3, 5]), range_given=True, axis=1), label="axis")
        c.error(op, "bits", input=floats(), input_min=index(0, np.float32), input_max=index(1, np.float32), num_bits=64)
        c.error(op, "range", input=floats(), input_min=index(2, np.float32), input_max=index(1, np.float32),
                range_given=True)
    for given in (True, False):
        c.each("QuantizeAndDequantizeV3", lambda t: dict(
            input=numbers(t, (3, 4), -8, 8), input_min=array(t, -3), input_max=array(t, 4), num_bits=index(5),
            range_given=given), label=f"{given}")
    c.each("QuantizeAndDequantizeV4Grad", lambda t: dict(
        gradients=numbers(t, (3, 4), seed=2), input=numbers(t, (3, 4), -8, 8), input_min=array(t, -3),
        input_max=array(t, 4)))
    c.each("QuantizeAndDequantizeV4Grad", lambda t: dict(
        gradients=numbers(t, (3, 2), seed=2), input=numbers(t, (3, 2), -8, 8), input_min=array(t, [-3, -1]),
        input_max=array(t, [4, 2]), axis=1), label="axis")


def real(c):
    for quantized, integer in STORAGE.items():
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
            for low, high in RANGES:
                for extra in ({}, dict(round_mode="HALF_TO_EVEN", narrow_range=True)) if mode == "SCALED" else ({},):
                    if quantized == tf.qint32 and mode != "MIN_FIRST":
                        continue  # TensorFlow's results lie beyond the type
                    if "QuantizeV2" not in c.registered:
                        continue
                    values, *ends = c.apply("QuantizeV2", input=floats((4, 5), -8, 8), T=quantized, mode=mode,
                                            min_range=index(low, np.float32), max_range=index(high, np.float32),
                                            **extra)
                    label = f"{quantized.name} {mode} {low} {high} {extra}"
                    c.add(f"QuantizeV2 {label}", [tf.bitcast(values, integer), *ends])
            integers = numbers(integer.name, (4, 5), max(integer.min, -2**20), min(integer.max, 2**20))
            if "Dequantize" in c.registered:
                for low, high in RANGES:
                    for dtype in (tf.float32, tf.bfloat16):
                        if dtype == tf.bfloat16 and mode != "MIN_COMBINED":
                            continue
                        out = c.apply("Dequantize", input=tf.bitcast(c.feed(integers), quantized), mode=mode,
                                      min_range=index(low, np.float32), max_range=index(high, np.float32), dtype=dtype)
                        c.add(f"Dequantize {quantized.name} {mode} {low} {high} {dtype.name}", out, 1e-5)
    if "QuantizeV2" in c.registered:
        values, *ends = c.apply("QuantizeV2", input=floats((2, 3, 4), -8, 8), T=tf.qint8, mode="SCALED", axis=1,
                                min_range=array("float32", [-3, -2, -1]), max_range=array("float32", [1, 2, 3]))
        c.add("QuantizeV2 axis", [tf.bitcast(values, tf.int8), *ends])
    c.error("QuantizeV2", "range", input=floats(), T=tf.qint8, min_range=index(3, np.float32),
            max_range=index(1, np.float32))


def images(c):
    def quantized(values, dtype):
        return tf.bitcast(c.feed(values), dtype)

    ends = dict(min=index(-2, np.float32), max=index(6, np.float32))
    pixels = numbers("uint8", (2, 4, 5, 3), 0, 255)
    wide = numbers("int32", (1, 4, 5, 2), -2**28, 2**28)
    for mode in ({}, dict(align_corners=True), dict(half_pixel_centers=True)):
        for size in ((7, 9), (2, 3), (8, 16)):
            if "QuantizedResizeBilinear" not in c.registered:
                return
            label = f"{mode} {size}"
            c.case("QuantizedResizeBilinear", f"float {label}", 1e-5, images=floats((1, 4, 5, 2)), size=ints(*size),
                   **ends, **mode)
            for values, dtype, integer in ((pixels, tf.quint8, tf.uint8), (wide, tf.qint32, tf.int32)):
                out = c.apply("QuantizedResizeBilinear", images=quantized(values, dtype), size=ints(*size), **ends,
                              **mode)
                c.add(f"QuantizedResizeBilinear {dtype.name} {label}", [tf.bitcast(out[0], integer), *out[1:]],
                      1e-5)  # qint32 may differ by one
    for scale in (True, False):
        arguments = {}
        for i, name in enumerate(("m", "v", "beta", "gamma")):
            arguments[name] = quantized(numbers("uint8", (3,), 100, 255, seed=i), tf.quint8)
        ranges = dict(t=(-3, 5), m=(-1, 2), v=(0, 4), beta=(-2, 2), gamma=(-1, 3))
        for name, (low, high) in ranges.items():
            arguments |= {f"{name}_min": index(low, np.float32), f"{name}_max": index(high, np.float32)}
        out = c.apply("QuantizedBatchNormWithGlobalNormalization", t=quantized(pixels, tf.quint8), out_type=tf.qint32,
                      variance_epsilon=0.01, scale_after_normalization=scale, **arguments)
        c.add(f"QuantizedBatchNormWithGlobalNormalization {scale}", [tf.bitcast(out[0], tf.int32), *out[1:]])


FAMILIES = (fake, back_and_forth, real, images)
