# SPDX-License-Identifier: Apache-2.0
"""Cases of compare_test.py: convolution, pooling and normalization."""

import numpy as np

from cases.case_builder import ints, kernel_types, numbers

HALVES = ("float16", "bfloat16")


def loose(dtype):
    """TensorFlow adds in half precision, Thalweg in float."""
    return 5e-2 if dtype in HALVES else 1e-4


def values(dtype, shape, seed=1):
    """Without cancellation in half precision."""
    return numbers(dtype, shape, .5 if dtype in HALVES else -4, 2 if dtype in HALVES else 4, seed)


def convolution(c):
    settings = [  # input, filter, strides, padding, others
        ((2, 7, 6, 3), (3, 3, 3, 4), [1, 1, 1, 1], "SAME", {}),
        ((2, 7, 6, 3), (3, 2, 3, 4), [1, 2, 2, 1], "VALID", {}),
        ((3, 8, 8, 8), (5, 5, 8, 16), [1, 1, 1, 1], "SAME", {}),
        ((1, 9, 9, 2), (3, 3, 2, 5), [1, 1, 1, 1], "EXPLICIT", dict(explicit_paddings=[0, 0, 1, 2, 0, 3, 0, 0])),
        ((2, 5, 5, 16), (1, 1, 16, 8), [1, 1, 1, 1], "VALID", {}),
        ((2, 6, 6, 3), (1, 1, 3, 2), [1, 3, 2, 1], "SAME", {}),
    ]
    for i, (input_shape, filter_shape, strides, padding, others) in enumerate(settings):
        for t in kernel_types("Conv2D", "T"):
            x, w = values(t, input_shape), values(t, filter_shape, seed=2)
            common = dict(strides=strides, padding=padding, tolerance=loose(t), **others)
            c.case("Conv2D", f"{t} {i}", input=x, filter=w, **common)
        shape = [int(d) for d in c.apply("Conv2D", input=numbers("float32", input_shape), filter=numbers(
            "float32", filter_shape), strides=strides, padding=padding, **others)[0].shape]
        for t in kernel_types("Conv2DBackpropInput", "T"):
            x, w, dy = values(t, input_shape), values(t, filter_shape, seed=2), values(t, shape, seed=3)
            common = dict(strides=strides, padding=padding, tolerance=loose(t), **others)
            c.case("Conv2DBackpropInput", f"{t} {i}", input_sizes=ints(*input_shape), filter=w, out_backprop=dy,
                   **common)
            if t in kernel_types("Conv2DBackpropFilter", "T"):
                c.case("Conv2DBackpropFilter", f"{t} {i}", input=x, filter_sizes=ints(*filter_shape), out_backprop=dy,
                       **common)
    f = lambda shape, seed=1: numbers("float32", shape, seed=seed)  # noqa: E731
    c.case("Conv2D", "dilated", input=f((2, 9, 9, 3)), filter=f((3, 3, 3, 4), 2), strides=[1, 1, 1, 1],
           padding="SAME", dilations=[1, 2, 3, 1], tolerance=1e-4)
    c.case("Conv2D", "dilated double", input=numbers("float64", (2, 9, 9, 3)), filter=numbers("float64", (3, 3, 3, 4)),
           strides=[1, 2, 1, 1], padding="VALID", dilations=[1, 2, 2, 1])
    c.case("Conv2D", "groups", input=f((2, 6, 6, 8)), filter=f((3, 3, 4, 6), 2), strides=[1, 1, 1, 1],
           padding="SAME", tolerance=1e-4)
    c.case("Conv2D", "groups double", input=numbers("float64", (2, 6, 6, 8)), filter=numbers("float64", (3, 3, 2, 8)),
           strides=[1, 1, 1, 1], padding="SAME")
    c.case("Conv2D", "empty", input=f((0, 6, 6, 8)), filter=f((3, 3, 8, 6), 2), strides=[1, 1, 1, 1], padding="SAME")
    c.case("Conv2DBackpropInput", "two sizes", input_sizes=ints(6, 6), filter=f((3, 3, 2, 3)),
           out_backprop=f((2, 6, 6, 3)), strides=[1, 1, 1, 1], padding="SAME", tolerance=1e-4)
    # TensorFlow gives all images of a batch the pixels of the first.
    one = [1, 1, 1, 1]
    pads = np.array([[0, 0], [2, 1], [0, 3], [0, 0]], np.int32)
    for mode in ("REFLECT", "SYMMETRIC"):
        for padding in ("SAME", "VALID"):
            for strides in (one, [1, 2, 3, 1], [1, 5, 4, 1]):
                common = dict(paddings=pads, filter=f((3, 2, 3, 4), 2), mode=mode, strides=strides, padding=padding,
                              tolerance=1e-4)
                c.case("FusedPadConv2D", f"{mode} {padding} {strides}", input=f((1, 7, 6, 3)), **common)
                for align in (False, True):
                    for height, width in ((9, 5), (4, 11)):
                        c.case("FusedResizeAndPadConv2D", f"{mode} {padding} {strides} {align} {height}",
                               input=f((1, 7, 6, 3)), size=ints(height, width), resize_align_corners=align, **common)
    for op, more in (("FusedPadConv2D", {}), ("FusedResizeAndPadConv2D", dict(size=ints(9, 8)))):
        for t in kernel_types(op, "T"):
            c.case(op, t, input=values(t, (1, 7, 6, 3)), paddings=pads, filter=values(t, (3, 3, 3, 4), seed=2),
                   mode="REFLECT", strides=one, padding="SAME", tolerance=loose(t), **more)
        good = dict(input=f((1, 7, 6, 3)), paddings=pads, filter=f((3, 2, 3, 4), 2), mode="REFLECT", strides=one,
                    padding="SAME") | more
        for label, bad in (("empty", dict(input=f((0, 7, 6, 3)))), ("depth", dict(filter=f((3, 2, 2, 4)))),
                           ("negative", dict(paddings=-pads)), ("far", dict(paddings=4 * pads)),
                           ("batches", dict(paddings=np.array([[0, 1], [0, 0], [0, 0], [0, 0]], np.int32))),
                           ("strides", dict(strides=[1, 1, 1, 2]))):
            c.error(op, label, shape_known=True, **(good | bad))  # TensorFlow wants to know the rank
    c.error("Conv2D", "depth", input=f((1, 4, 4, 3)), filter=f((2, 2, 2, 2)), strides=[1, 1, 1, 1], padding="SAME")
    c.error("Conv2D", "rank", input=f((4, 4, 3)), filter=f((2, 2, 3, 2)), strides=[1, 1, 1, 1], padding="SAME")
    c.error("Conv2D", "NCHW", input=f((1, 3, 4, 4)), filter=f((2, 2, 3, 2)), strides=[1, 1, 1, 1], padding="SAME",
            data_format="NCHW")
    c.error("Conv2D", "too large", input=f((1, 4, 4, 3)), filter=f((6, 6, 3, 2)), strides=[1, 1, 1, 1],
            padding="VALID")
    c.error("Conv2DBackpropFilter", "size", input=f((1, 4, 4, 3)), filter_sizes=ints(2, 2, 3, 2),
            out_backprop=f((1, 2, 2, 2)), strides=[1, 1, 1, 1], padding="SAME")
    c.error("Conv2DBackpropInput", "size", input_sizes=ints(1, 4, 4, 3), filter=f((2, 2, 3, 2)),
            out_backprop=f((1, 2, 2, 2)), strides=[1, 1, 1, 1], padding="SAME")

    for strides, padding in (([1, 1, 1, 1, 1], "SAME"), ([1, 2, 1, 2, 1], "VALID")):
        for t in kernel_types("Conv3D", "T"):
            x, w = values(t, (2, 4, 5, 6, 3)), values(t, (2, 3, 2, 3, 4), seed=2)
            common = dict(strides=strides, padding=padding, tolerance=loose(t))
            (y,) = c.apply("Conv3D", input=x, filter=w, strides=strides, padding=padding)
            dy = values(t, [int(d) for d in y.shape], seed=3)
            c.case("Conv3D", f"{t} {padding}", input=x, filter=w, **common)
            c.case("Conv3DBackpropInputV2", f"{t} {padding}", input_sizes=ints(*x.shape), filter=w, out_backprop=dy,
                   **common)
            c.case("Conv3DBackpropFilterV2", f"{t} {padding}", input=x, filter_sizes=ints(*w.shape), out_backprop=dy,
                   **common)

    for strides, padding, multiplier, others in (
            ([1, 1, 1, 1], "SAME", 1, {}), ([1, 2, 2, 1], "VALID", 2, {}),
            ([1, 1, 1, 1], "EXPLICIT", 1, dict(explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0]))):
        for t in kernel_types("DepthwiseConv2dNative", "T"):
            x, w = values(t, (2, 6, 5, 4)), values(t, (3, 2, 4, multiplier), seed=2)
            common = dict(strides=strides, padding=padding, **others)
            (y,) = c.apply("DepthwiseConv2dNative", input=x, filter=w, **common)
            dy = values(t, [int(d) for d in y.shape], seed=3)
            common["tolerance"] = loose(t)
            c.case("DepthwiseConv2dNative", f"{t} {padding}", input=x, filter=w, **common)
            c.case("DepthwiseConv2dNativeBackpropInput", f"{t} {padding}", input_sizes=ints(*x.shape), filter=w,
                   out_backprop=dy, **common)
            c.case("DepthwiseConv2dNativeBackpropFilter", f"{t} {padding}", input=x, filter_sizes=ints(*w.shape),
                   out_backprop=dy, **common)


def pooling(c):
    for label, ksize, strides, padding in (
            ("SAME", [1, 3, 3, 1], [1, 2, 2, 1], "SAME"), ("VALID", [1, 2, 3, 1], [1, 1, 2, 1], "VALID"),
            ("apart", [1, 1, 2, 1], [1, 3, 3, 1], "SAME")):
        common = dict(ksize=ksize, strides=strides, padding=padding)
        shape = [int(d) for d in c.apply("AvgPool", value=numbers("float32", (2, 7, 6, 5)), **common)[0].shape]
        for t in kernel_types("MaxPool", "T"):
            x = numbers(t, (2, 7, 6, 5), -9, 9)
            c.case("MaxPool", f"{t} {label}", input=x, **common)
            c.case("MaxPoolV2", f"{t} {label}", input=x, ksize=ints(*ksize), strides=ints(*strides), padding=padding)
        for t in kernel_types("MaxPoolGrad", "T"):
            x, dy, ddx = numbers(t, (2, 7, 6, 5), -9, 9), numbers(t, shape, seed=2), numbers(t, (2, 7, 6, 5), seed=3)
            (y,) = c.apply("MaxPool", input=x, **common) if t in kernel_types("MaxPool", "T") else (None,)
            if y is None:
                continue
            c.case("MaxPoolGrad", f"{t} {label}", orig_input=x, orig_output=y, grad=dy, tolerance=loose(t), **common)
            c.case("MaxPoolGradV2", f"{t} {label}", orig_input=x, orig_output=y, grad=dy, ksize=ints(*ksize),
                   strides=ints(*strides), padding=padding, tolerance=loose(t))
            c.case("MaxPoolGradGrad", f"{t} {label}", orig_input=x, orig_output=y, grad=ddx, **common)
            c.case("MaxPoolGradGradV2", f"{t} {label}", orig_input=x, orig_output=y, grad=ddx, ksize=ints(*ksize),
                   strides=ints(*strides), padding=padding)
        for batch in (False, True):
            c.each("MaxPoolWithArgmax", lambda t: dict(input=numbers(t, (2, 7, 6, 5), -9, 9),
                                                       include_batch_in_index=batch, **common), label=f"{label} {batch}")
            x = numbers("float32", (2, 7, 6, 5))
            _, where = c.apply("MaxPoolWithArgmax", input=x, include_batch_in_index=batch, **common)
            c.case("MaxPoolGradWithArgmax", f"{label} {batch}", input=x, grad=numbers("float32", shape, seed=2),
                   argmax=where, include_batch_in_index=batch, **common)
        for t in kernel_types("AvgPool", "T"):
            c.case("AvgPool", f"{t} {label}", value=numbers(t, (2, 7, 6, 5)), tolerance=loose(t), **common)
            c.case("AvgPoolGrad", f"{t} {label}", orig_input_shape=ints(2, 7, 6, 5), grad=numbers(t, shape),
                   tolerance=loose(t), **common)
    x = numbers("float32", (2, 7, 6, 6))
    c.case("MaxPool", "explicit", input=x, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="EXPLICIT",
           explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])
    c.case("MaxPool", "channels", input=x, ksize=[1, 1, 1, 3], strides=[1, 1, 1, 3], padding="SAME")
    c.case("MaxPool", "infinite", input=np.full((1, 2, 2, 1), -np.inf, np.float32), ksize=[1, 2, 2, 1],
           strides=[1, 1, 1, 1], padding="VALID")
    c.error("MaxPool", "NCHW", input=x, ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], padding="SAME", data_format="NCHW")
    c.error("AvgPool", "rank", value=x[0], ksize=[1, 2, 2, 1], strides=[1, 1, 2, 1], padding="SAME")
    c.error("MaxPoolGrad", "shape", orig_input=x, orig_output=x, grad=x, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1],
            padding="SAME")
    c.error("AvgPoolGrad", "sizes", orig_input_shape=ints(-2, 7, 6, 6), grad=x, ksize=[1, 1, 1, 1],
            strides=[1, 1, 1, 1], padding="SAME")
    for strides, padding in (([1, 1, 1, 1, 1], "SAME"), ([1, 2, 2, 1, 1], "VALID")):
        common = dict(ksize=[1, 2, 3, 2, 1], strides=strides, padding=padding)
        (y,) = c.apply("AvgPool3D", input=numbers("float32", (2, 4, 5, 4, 3)), **common)
        shape = [int(d) for d in y.shape]
        for t in kernel_types("MaxPool3D", "T"):
            x = numbers(t, (2, 4, 5, 4, 3), -9, 9)
            (y,) = c.apply("MaxPool3D", input=x, **common)
            c.case("MaxPool3D", f"{t} {padding}", input=x, **common)
            if t == "float32":  # for other types almost all values tie at TensorFlow's limit of 1e-5
                c.case("MaxPool3DGrad", f"{t} {padding}", orig_input=x, orig_output=y, grad=numbers(t, shape),
                       tolerance=1e-4, **common)
                c.case("MaxPool3DGradGrad", f"{t} {padding}", orig_input=x, orig_output=y, grad=numbers(
                    t, x.shape, seed=3), **common)
        for t in kernel_types("AvgPool3D", "T"):
            c.case("AvgPool3D", f"{t} {padding}", input=numbers(t, (2, 4, 5, 4, 3)), tolerance=loose(t), **common)
            c.case("AvgPool3DGrad", f"{t} {padding}", orig_input_shape=ints(2, 4, 5, 4, 3), grad=numbers(t, shape),
                   tolerance=loose(t), **common)


def normalization(c):
    for label, attributes in (("", {}), ("cifar", dict(depth_radius=4, bias=1., alpha=.001 / 9, beta=.75)),
                              ("one", dict(depth_radius=1, bias=2., alpha=.5, beta=1.)),
                              ("wide", dict(depth_radius=20, bias=2., alpha=.5, beta=.3))):
        for t in kernel_types("LRN", "T"):
            x = numbers(t, (2, 3, 2, 11))
            (y,) = c.apply("LRN", input=x, **attributes)
            c.case("LRN", f"{t} {label}", input=x, tolerance=loose(t), **attributes)
            c.case("LRNGrad", f"{t} {label}", input_grads=numbers(t, x.shape, seed=2), input_image=x, output_image=y,
                   tolerance=loose(t) if t == "float32" else 1., **attributes)
    for version in ("", "V2", "V3"):
        op, grad = "FusedBatchNorm" + version, "FusedBatchNormGrad" + version
        formats = ("NHWC", "NCHW", "NDHWC") if version == "V3" else ("NHWC", "NCHW")
        for t in ("float32",) if version == "" else ("float32",) + HALVES:
            for data_format in formats:
                shape = {"NHWC": (3, 4, 5, 6), "NCHW": (3, 6, 4, 5), "NDHWC": (2, 3, 4, 5, 6)}[data_format]
                x, dy = numbers(t, shape), numbers(t, shape, seed=5)
                scale, offset, mean, variance = [numbers("float32", (6,), .5, 2, seed=i) for i in range(4)]
                vectors = dict(scale=scale, offset=offset, mean=mean, variance=variance)
                for training, factor in ((True, 1.), (True, .25), (False, 1.)):
                    attributes = dict(is_training=training, data_format=data_format)
                    outputs = c.apply(op, x=x, exponential_avg_factor=factor, **attributes, **vectors)
                    count = len(outputs) if training else 3  # else TensorFlow does not set the others
                    c.add(f"{op} {t} {data_format} {training} {factor}", outputs[:count], loose(t))
                    if factor != 1 or (not training and data_format == "NCHW"):  # for which TensorFlow has no kernel
                        continue
                    reserved = outputs[3:5] if training else [mean, variance]
                    last = dict(reserve_space_3=outputs[5]) if version == "V3" else {}
                    c.case(grad, f"{t} {data_format} {training}", y_backprop=dy, x=x, scale=scale,
                           reserve_space_1=reserved[0], reserve_space_2=reserved[1], tolerance=loose(t), **attributes,
                           **last)
    c.error("FusedBatchNormV3", "scale", x=numbers("float32", (1, 2, 2, 3)), scale=numbers("float32", (2,)),
            offset=numbers("float32", (3,)), mean=numbers("float32", (3,)), variance=numbers("float32", (3,)))


def block_lstm(c):
    time, batch, depth, units = 3, 2, 4, 5

    def arguments(t):
        inputs = dict(seq_len_max=np.array(time, np.int64), x=numbers(t, (time, batch, depth), -1, 1),
                      cs_prev=numbers(t, (batch, units), -1, 1, 2), h_prev=numbers(t, (batch, units), -1, 1, 3),
                      w=numbers(t, (depth + units, 4 * units), -1, 1, 4), b=numbers(t, (4 * units,), -1, 1, 5))
        return inputs | {name: numbers(t, (units,), -1, 1, 6 + i) for i, name in enumerate(("wci", "wcf", "wco"))}

    for t in kernel_types("BlockLSTM", "T"):
        inputs, limit = arguments(t), loose(t)
        for label, attributes in (("", {}), ("bias", dict(forget_bias=0., cell_clip=-1.)), ("clip", dict(cell_clip=.2)),
                                  ("peephole", dict(use_peephole=True))):
            c.case("BlockLSTM", f"{t} {label}", tolerance=limit, **inputs, **attributes)
            results = dict(zip(("i", "cs", "f", "o", "ci", "co", "h"), c.apply("BlockLSTM", **inputs, **attributes)))
            peephole = dict(use_peephole=attributes.get("use_peephole", False))
            c.case("BlockLSTMGrad", f"{t} {label}", tolerance=limit, cs_grad=numbers(t, (time, batch, units), -1, 1, 9),
                   h_grad=numbers(t, (time, batch, units), -1, 1, 10), **peephole, **inputs, **results)
            cell = {name: value for name, value in inputs.items() if name != "seq_len_max"}
            cell["x"] = numbers(t, (batch, depth), -1, 1)
            c.case("LSTMBlockCell", f"{t} {label}", tolerance=limit, **cell, **attributes)
            results = dict(zip(("i", "cs", "f", "o", "ci", "co"), c.apply("LSTMBlockCell", **cell, **attributes)))
            c.case("LSTMBlockCellGrad", f"{t} {label}", tolerance=limit, cs_grad=numbers(t, (batch, units), -1, 1, 9),
                   h_grad=numbers(t, (batch, units), -1, 1, 10), **peephole, **cell, **results)
        for label, attributes in (("", {}), ("clip", dict(cell_clip=.2)), ("peephole", dict(use_peephole=True))):
            c.case("BlockLSTMV2", f"{t} {label}", tolerance=limit, **inputs, **attributes)
            results = dict(zip(("i", "cs", "f", "o", "ci", "co", "h"), c.apply("BlockLSTMV2", **inputs, **attributes)))
            c.case("BlockLSTMGradV2", f"{t} {label}", tolerance=limit,
                   use_peephole=attributes.get("use_peephole", False),
                   cs_grad=numbers(t, (time, batch, units), -1, 1, 9),
                   h_grad=numbers(t, (time, batch, units), -1, 1, 10), **inputs, **results)
    inputs = arguments("float32")
    for label, change in (("w", dict(w=numbers("float32", (depth, 4 * units)))),
                          ("b", dict(b=numbers("float32", (units,)))),
                          ("x", dict(x=numbers("float32", (batch, depth)))),
                          ("cs_prev", dict(cs_prev=numbers("float32", (batch, units + 1))))):
        c.error("BlockLSTM", label, **(inputs | change))


def gru(c):
    batch, depth, units = 2, 4, 5
    inputs = dict(x=numbers("float32", (batch, depth), -1, 1), h_prev=numbers("float32", (batch, units), -1, 1, 2),
                  w_ru=numbers("float32", (depth + units, 2 * units), -1, 1, 3),
                  w_c=numbers("float32", (depth + units, units), -1, 1, 4),
                  b_ru=numbers("float32", (2 * units,), -1, 1, 5), b_c=numbers("float32", (units,), -1, 1, 6))
    c.case("GRUBlockCell", tolerance=1e-4, **inputs)
    results = dict(zip("ruc", c.apply("GRUBlockCell", **inputs)))
    c.case("GRUBlockCellGrad", tolerance=1e-4, d_h=numbers("float32", (batch, units), -1, 1, 7), **inputs, **results)
    c.error("GRUBlockCell", "w_c", **(inputs | dict(w_c=numbers("float32", (depth, units)))))


FAMILIES = (block_lstm, gru, convolution, pooling, normalization)
