# SPDX-License-Identifier: Apache-2.0
"""Cases of ops on images; see case_builder.py."""

import struct

import numpy as np
import tensorflow as tf

FLOATS = ("float32", "float16", "float64", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "int64")


def scalar(data):
    return np.array(data, object)


def pixels(shape, dtype="float32", low=0, high=100, seed=1):
    return np.random.RandomState(seed).uniform(low, high, shape).astype(tf.as_dtype(dtype).as_numpy_dtype)


def size(*values):
    return np.array(values, np.int32)


def encoded(op, image, **attributes):
    """An image encoded by TensorFlow."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(getattr(tf.raw_ops, op)(image=image, **attributes))


def resizing(c):
    modes = (dict(), dict(align_corners=True), dict(half_pixel_centers=True))
    sizes = ((2, 2), (7, 5), (4, 6), (3, 11), (1, 1))
    for op in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea"):
        tolerance = 1e-4 if op == "ResizeBicubic" else None
        for mode in modes[:2] if op == "ResizeArea" else modes:
            for height, width in sizes:
                for channels in (1, 3):
                    c.case(op, f"{mode} {height} {width} {channels}", tolerance, size=size(height, width),
                           images=pixels((2, 4, 6, channels)), **mode)
        for dtype in FLOATS + INTEGERS:
            c.case(op, dtype, tolerance, images=pixels((1, 3, 5, 2), dtype), size=size(5, 4))
        c.error(op, "rank", images=pixels((3, 5, 2)), size=size(5, 4))
        c.error(op, "size", images=pixels((1, 3, 5, 2)), size=size(5, 0))
        c.error(op, "negative", images=pixels((1, 3, 5, 2)), size=size(-5, 3))
        c.error(op, "three", images=pixels((1, 3, 5, 2)), size=size(5, 3, 3))
        c.error(op, "empty", images=pixels((1, 0, 5, 2)), size=size(5, 3))
    for op in ("ResizeBilinear", "ResizeBicubic"):
        c.error(op, "both", images=pixels((1, 3, 5, 2)), size=size(5, 3), align_corners=True, half_pixel_centers=True)
    for mode in modes:
        for height, width in sizes:
            grads = pixels((2, height, width, 3), low=-1, high=1)
            for dtype in FLOATS:
                c.case("ResizeBilinearGrad", f"{mode} {height} {width} {dtype}", 1e-4 if dtype == "float64" else None,
                       grads=grads, original_image=pixels((2, 4, 6, 3), dtype), **mode)
            for dtype in ("float32", "float64"):
                c.case("ResizeBicubicGrad", f"{mode} {height} {width} {dtype}", 1e-4, grads=grads,
                       original_image=pixels((2, 4, 6, 3), dtype), **mode)
            for dtype in ("float32", "float64", "int32", "uint8", "int8", "float16"):
                c.case("ResizeNearestNeighborGrad", f"{mode} {height} {width} {dtype}",
                       grads=pixels((2, height, width, 3), dtype, high=9), size=size(4, 6), **mode)
    c.error("ResizeBilinearGrad", "rank", grads=pixels((2, 3, 3)), original_image=pixels((2, 4, 6, 3)))
    c.error("ResizeNearestNeighborGrad", "size", grads=pixels((2, 3, 3, 1)), size=size(0, 6))


def scaling(c):
    for kind in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"):
        for antialias in (False, True):
            for target, scale, move in (((9, 4), (1.8, .5), (0, 0)), ((3, 12), (.6, 1.5), (.5, -2)),
                                        ((5, 8), (1, 1), (1, 9))):
                place = dict(scale=np.array(scale, np.float32), translation=np.array(move, np.float32))
                mode = dict(kernel_type=kind, antialias=antialias, tolerance=1e-4)
                label = f"{kind} {antialias} {target}"
                c.case("ScaleAndTranslate", label, images=pixels((2, 5, 8, 3)), size=size(*target), **place, **mode)
                c.case("ScaleAndTranslateGrad", label, grads=pixels((2, *target, 3)), **place, **mode,
                       original_image=pixels((2, 5, 8, 3), seed=2))
    ones = dict(scale=np.ones(2, np.float32), translation=np.zeros(2, np.float32))
    for dtype in ("uint8", "int32", "float64", "float16"):
        c.case("ScaleAndTranslate", dtype, images=pixels((1, 5, 8, 1), dtype), size=size(7, 7), tolerance=1e-3, **ones)
    c.error("ScaleAndTranslate", "kernel", images=pixels((1, 5, 8, 1)), size=size(7, 7), kernel_type="none", **ones)
    c.error("ScaleAndTranslate", "size", images=pixels((1, 5, 8, 1)), size=size(7, 0), **ones)
    c.error("ScaleAndTranslate", "scale", images=pixels((1, 5, 8, 1)), size=size(7, 7),
            **ones | dict(scale=np.zeros(2, np.float32)))


def crops(c):
    boxes = np.array([[0, 0, 1, 1], [.1, .2, .7, .9], [.8, .9, .2, .1], [-.3, .1, .6, 1.4], [.5, .5, .5, .5]],
                     np.float32)
    index = np.array([0, 1, 1, 0, 0], np.int32)
    for method in ("bilinear", "nearest"):
        for height, width in ((3, 4), (1, 1), (7, 2)):
            for dtype in ("float32", "float16", "float64") + INTEGERS:
                c.case("CropAndResize", f"{method} {height} {width} {dtype}", image=pixels((2, 5, 6, 2), dtype),
                       boxes=boxes, box_ind=index, crop_size=size(height, width), method=method,
                       extrapolation_value=-7.)
            grads = pixels((5, height, width, 2), low=-1, high=1)
            for dtype in ("float32", "float16", "float64"):
                c.case("CropAndResizeGradImage", f"{method} {height} {width} {dtype}",
                       {"float32": 1e-4, "float64": 1e-5}.get(dtype, 2e-2), grads=grads, boxes=boxes, box_ind=index,
                       image_size=size(2, 5, 6, 2), T=tf.as_dtype(dtype), method=method)
            if method == "bilinear":
                c.case("CropAndResizeGradBoxes", f"{height} {width}", 1e-3, grads=grads, image=pixels((2, 5, 6, 2)),
                       boxes=boxes, box_ind=index)
    image = pixels((2, 5, 6, 2))
    c.error("CropAndResize", "index", image=image, boxes=boxes, box_ind=index + 1, crop_size=size(3, 3))
    c.error("CropAndResize", "size", image=image, boxes=boxes, box_ind=index, crop_size=size(3, 0))
    c.error("CropAndResize", "boxes", image=image, boxes=boxes[:, :3], box_ind=index, crop_size=size(3, 3))
    c.error("CropAndResize", "count", image=image, boxes=boxes, box_ind=index[:3], crop_size=size(3, 3))
    c.error("CropAndResize", "image", image=image[0], boxes=boxes, box_ind=index, crop_size=size(3, 3))
    c.error("CropAndResizeGradImage", "depth", grads=pixels((5, 3, 3, 1)), boxes=boxes, box_ind=index,
            image_size=size(2, 5, 6, 2), T=tf.float32)


def colors(c):
    for shape in ((2, 3, 4, 3), (5, 5, 3)):
        images = pixels(shape, high=1)
        for factor in (0., .5, 2.):
            c.case("AdjustContrastv2", f"{shape} {factor}", images=images, contrast_factor=np.float32(factor))
            c.case("AdjustSaturation", f"{shape} {factor}", images=images, scale=np.float32(factor))
        for delta in (0., .3, -.7, 2.25):
            c.case("AdjustHue", f"{shape} {delta}", 1e-4, images=images, delta=np.float32(delta))
    grey = np.ones((2, 2, 3), np.float32) * np.array([0, .5], np.float32)[:, None, None]
    c.case("AdjustHue", "grey", images=grey, delta=np.float32(.2))
    c.case("AdjustSaturation", "grey", images=grey, scale=np.float32(.2))
    c.case("AdjustContrastv2", "one channel", images=pixels((2, 3, 1)), contrast_factor=np.float32(.2))
    for op in ("RGBToHSV", "HSVToRGB"):
        for dtype in FLOATS:
            c.case(op, dtype, {"float16": 1e-2, "bfloat16": 6e-2}.get(dtype), images=pixels((4, 5, 3), dtype, high=1))
        c.case(op, "edges", images=np.array([[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [.5, .5, 0]]))
        c.error(op, "channels", images=pixels((4, 5, 2)))
    for op, argument in (("AdjustContrastv2", "contrast_factor"), ("AdjustHue", "delta"),
                         ("AdjustSaturation", "scale")):
        c.error(op, "rank", images=pixels((4, 3)), **{argument: np.array(1, np.float32)})
        c.error(op, "vector", images=pixels((4, 3, 3)), **{argument: np.array([1], np.float32)})
    c.error("AdjustHue", "channels", images=pixels((4, 3, 2)), delta=np.array(1, np.float32))


def boxes(c):
    for dtype in ("float32", "float16"):
        for depth in (1, 3, 4):
            images = pixels((2, 10, 12, depth), dtype, high=1)
            places = np.random.RandomState(3).uniform(-.3, 1.3, (2, 14, 4)).astype(np.float32)
            places[..., 2:] += places[..., :2]
            c.case("DrawBoundingBoxes", f"{dtype} {depth}", images=images, boxes=places)
            c.case("DrawBoundingBoxesV2", f"{dtype} {depth}", images=images, boxes=places,
                   colors=pixels((3, depth), high=1))
            c.case("DrawBoundingBoxesV2", f"{dtype} {depth} default", images=images, boxes=places,
                   colors=np.zeros((0, depth), np.float32))
    images, place = pixels((2, 10, 12, 3)), np.zeros((2, 1, 4), np.float32)
    c.error("DrawBoundingBoxes", "batch", images=images, boxes=place[:1])
    c.error("DrawBoundingBoxes", "box", images=images, boxes=place[..., :3])
    c.error("DrawBoundingBoxes", "depth", images=images[..., :2], boxes=place)
    c.error("DrawBoundingBoxesV2", "color", images=images, boxes=place, colors=np.zeros((1, 2), np.float32))
    found = np.random.RandomState(4).uniform(0, 1, (30, 4))
    found[:, 2:] = found[:, :2] + .4
    scores = np.random.RandomState(5).uniform(0, 1, 30)
    c.case("NonMaxSuppression", boxes=found.astype(np.float32), scores=scores.astype(np.float32),
           max_output_size=np.int32(8), iou_threshold=.3)
    for dtype in (np.float32, np.float16):
        common = dict(boxes=found.astype(dtype), scores=scores.astype(dtype))
        for count in (0, 3, 100):
            limits = dict(max_output_size=np.int32(count), iou_threshold=dtype(.4))
            c.case("NonMaxSuppressionV2", f"{dtype.__name__} {count}", **common, **limits)
            limits["score_threshold"] = dtype(.3)
            c.case("NonMaxSuppressionV3", f"{dtype.__name__} {count}", **common, **limits)
            for pad in (False, True):
                c.case("NonMaxSuppressionV4", f"{dtype.__name__} {count} {pad}", **common, **limits,
                       pad_to_max_output_size=pad)
                for sigma in (0., .5):
                    if dtype is np.float32 or sigma == 0:
                        c.case("NonMaxSuppressionV5", f"{dtype.__name__} {count} {pad} {sigma}", **common, **limits,
                               soft_nms_sigma=dtype(sigma), pad_to_max_output_size=pad)
    overlaps = np.random.RandomState(6).uniform(0, 1, (30, 30)).astype(np.float32)
    c.case("NonMaxSuppressionWithOverlaps", overlaps=overlaps, scores=scores.astype(np.float32),
           max_output_size=np.int32(9), overlap_threshold=np.float32(.8), score_threshold=np.float32(.1))
    good = dict(boxes=found.astype(np.float32), scores=scores.astype(np.float32), max_output_size=np.array(3, np.int32),
                iou_threshold=np.array(.5, np.float32))
    c.error("NonMaxSuppressionV2", "threshold", **good | dict(iou_threshold=np.array(2, np.float32)))
    c.error("NonMaxSuppressionV2", "count", **good | dict(max_output_size=np.array(-3, np.int32)))
    c.error("NonMaxSuppressionV2", "scores", **good | dict(scores=scores[:4].astype(np.float32)))
    c.error("NonMaxSuppressionV2", "boxes", **good | dict(boxes=found[:, :3].astype(np.float32)))


def samples(c):
    objects = np.array([[[.1, .2, .5, .6], [.4, .4, .9, .95]]], np.float32)
    for seed in range(1, 12):
        for dtype in ("int32", "int64", "int16"):
            common = dict(image_size=np.array([90, 120, 3], dtype), bounding_boxes=objects, seed=seed, seed2=seed * 7)
            c.case("SampleDistortedBoundingBox", f"{seed} {dtype}", **common)
            c.case("SampleDistortedBoundingBoxV2", f"{seed} {dtype}", min_object_covered=np.float32(.4), **common,
                   aspect_ratio_range=[.5, 2.], area_range=[.1, .6])
            common.pop("seed"), common.pop("seed2")
            c.case("StatelessSampleDistortedBoundingBox", f"{seed} {dtype}", min_object_covered=np.float32(.4),
                   aspect_ratio_range=[.5, 2.], area_range=[.1, .6], seed=np.array([seed, 5], np.int64), **common)
    image = np.array([64, 64, 3], np.int32)
    none = np.zeros((1, 0, 4), np.float32)
    c.case("SampleDistortedBoundingBox", "image", image_size=image, bounding_boxes=none, seed=3,
           use_image_if_no_bounding_boxes=True)
    c.case("SampleDistortedBoundingBox", "impossible", image_size=image, bounding_boxes=objects, seed=3,
           min_object_covered=1., area_range=[.01, .02])
    c.error("StatelessSampleDistortedBoundingBox", "seed", image_size=image, bounding_boxes=objects,
            min_object_covered=np.float32(.4), seed=np.arange(3, dtype=np.int32))
    c.error("SampleDistortedBoundingBox", "none", image_size=image, bounding_boxes=none, seed=3)
    c.error("SampleDistortedBoundingBox", "box", image_size=image, bounding_boxes=objects * 3, seed=3)
    c.error("SampleDistortedBoundingBox", "size", image_size=image[:2], bounding_boxes=objects, seed=3)
    c.error("SampleDistortedBoundingBox", "range", image_size=image, bounding_boxes=objects, area_range=[.1, 2.])
    c.error("SampleDistortedBoundingBox", "negative", image_size=-image, bounding_boxes=objects)


def bmp(height, width, channels, seed=0):
    row = (width * channels + 3) // 4 * 4
    body = np.random.RandomState(seed).bytes(row * abs(height))
    return b"BM" + struct.pack("<IHHIIiiHH", 54 + len(body), 0, 0, 54, 40, width, height, 1, channels * 8) + \
        bytes(24) + body


def lzw(data, bits):
    """GIF's: codes of growing width, the lowest bit first, in blocks of up to 255 bytes."""
    clear, stream, used = 1 << bits, 0, 0
    table, width = {bytes([i]): i for i in range(clear)}, bits + 1
    following = clear + 2

    def emit(code):
        nonlocal stream, used
        stream |= code << used
        used += width
    emit(clear)
    text = b""
    for byte in data:
        longer = text + bytes([byte])
        if longer in table:
            text = longer
            continue
        emit(table[text])
        if following < 4096:
            table[longer] = following
            following += 1
            width += following > 1 << width
        else:
            emit(clear)
            table, width, following = {bytes([i]): i for i in range(clear)}, bits + 1, clear + 2
        text = bytes([byte])
    emit(table[text])
    width += following + 1 > 1 << width and width < 12
    emit(clear + 1)
    packed = stream.to_bytes((used + 7) // 8, "little")
    return b"".join(bytes([len(packed[i:i + 255])]) + packed[i:i + 255] for i in range(0, len(packed), 255)) + b"\0"


def gif_colors(colors):
    """The flag and the bytes of a table of colours, which may be missing."""
    return (0x80 | len(colors).bit_length() - 2, colors.tobytes()) if colors is not None else (0, b"")


def gif_frame(image, left=0, top=0, bits=8, interlaced=False, transparent=None, disposal=0, colors=None):
    control = struct.pack("<BBBBHBB", 0x21, 0xf9, 4, disposal << 2 | (transparent is not None), 0, transparent or 0, 0)
    flag, table = gif_colors(colors)
    head = struct.pack("<BHHHHB", 0x2c, left, top, *image.shape[::-1], flag | 0x40 * interlaced)
    if interlaced:
        image = np.concatenate([image[0::8], image[4::8], image[2::4], image[1::2]])
    return control + head + table + bytes([bits]) + lzw(image.astype(np.uint8).tobytes(), bits)


def gif(frames, colors, end=b";"):
    flag, table = gif_colors(colors)
    return b"GIF89a" + struct.pack("<HHBBB", 31, 20, flag, 0, 0) + table + b"".join(frames) + end


def animations(c):
    random = np.random.RandomState(9)
    many, four = random.randint(0, 256, (256, 3)).astype(np.uint8), random.randint(0, 256, (4, 3)).astype(np.uint8)
    large, small = random.randint(0, 256, (20, 31)), random.randint(0, 256, (10, 12))
    two = gif([gif_frame(large), gif_frame(small, 3, 4, transparent=int(small[2, 2]))], many)
    first = len(gif([gif_frame(large)], many, b""))
    head = struct.pack("<BHHHHB", 0x2c, 0, 0, 31, 20, 0)
    short = head + b"\x08" + lzw(b"abc", 8)
    undefined = head + b"\x08\x04" + (256 | 300 << 9).to_bytes(4, "little") + b"\0"
    text = b"!\xfe\x05hello\0" + b"!\xf9\x02ab\x04\x01ab\0\0"
    good = {
        "one": gif([gif_frame(large)], many),
        "two": two,
        "interlaced": gif([gif_frame(large, interlaced=True), gif_frame(small[:3], interlaced=True)], many),
        "transparent first": gif([gif_frame(small, transparent=int(small[0, 0])), gif_frame(large)], many),
        "outside": gif([gif_frame(large, 5, 6), gif_frame(small, 40, 40)], many),
        "disposal": gif([gif_frame(small, i, i, disposal=i, transparent=7) for i in range(5)], many),
        "own colors": gif([gif_frame(small % 4, colors=four), gif_frame(small)], many),
        "only own colors": gif([gif_frame(small % 4, bits=2, colors=four)], None),
        "one bit": gif([gif_frame(small % 2, bits=1)], four),
        "long strings": gif([gif_frame(random.randint(0, 50, (150, 150)) // 49, bits=2)], four),
        "full table": gif([gif_frame(random.randint(0, 256, (150, 150)))], many),
        "extensions": gif([text, gif_frame(small), text], many),
        "rest of data": gif([gif_frame(small)[:-1] + b"\x02ab\0"], many),
        "other version": b"GIF8xx" + two[6:],
        "no end": two[:-1],
        "cut in the second": two[:-40],
        "cut before the second": two[:first],
        "unknown block": gif([gif_frame(large), b"x"], many),
        "second without pixels": gif([gif_frame(large), head.replace(b"\x1f", b"\0")], many),
        "second ends early": gif([gif_frame(small), short, gif_frame(small)], many),
        "second has wrong codes": gif([gif_frame(small), undefined], many),
    }
    for label, data in good.items():
        c.case("DecodeGif", label, contents=scalar(data))
        c.case("DecodeImage", f"gif {label}", contents=scalar(data))
        c.case("DecodeImage", f"gif first {label}", contents=scalar(data), expand_animations=False)
    for to in (tf.uint16, tf.float32):
        c.case("DecodeImage", f"gif {to.name}", contents=scalar(two), dtype=to, channels=3)
    for op in ("DecodePng", "DecodeJpeg"):
        c.case(op, "gif", contents=scalar(good["one"]))
        c.error(op, "animation", contents=scalar(two))
        c.error(op, "gif channels", contents=scalar(good["one"]), channels=1)
    for op in ("EncodePng", "EncodeJpeg"):
        c.case("DecodeGif", op, contents=scalar(encoded(op, large[..., None].astype(np.uint8))))
    c.error("DecodeGif", "bmp", contents=scalar(bmp(3, 5, 3)))
    c.error("DecodeBmp", "gif", contents=scalar(two))
    c.error("DecodeAndCropJpeg", "gif", contents=scalar(two), crop_window=size(0, 0, 1, 1))
    c.error("DecodeImage", "gif channels", contents=scalar(two), channels=4)
    for label, bad in (("empty", b""), ("garbage", b"garbage"), ("magic", b"GIF8"), ("head", two[:12]),
                       ("colors", two[:100]), ("cut", two[:first - 1]), ("cut more", two[:first // 2]),
                       ("no frames", gif([], many)), ("no colors", gif([gif_frame(large)], None)),
                       ("few colors", gif([gif_frame(large)], four)), ("no pixels", gif([head[:5] + bytes(5)], many)),
                       ("ends early", gif([short], many)), ("wrong codes", gif([undefined], many)),
                       ("wide pixels", gif([head + b"\x09" + lzw(bytes(620), 8)], many))):
        c.error("DecodeGif", label, contents=scalar(bad))


def files(c):
    ramp = np.add.outer(np.arange(40) * 3, np.arange(31) * 2)[..., None].astype(np.uint8)
    smooth = ramp + np.array([0, 9, 60], np.uint8)
    noise = np.random.RandomState(8).randint(0, 256, (13, 9, 4)).astype(np.uint8)
    for channels in (1, 2, 3, 4):
        for dtype in (np.uint8, np.uint16):
            image = noise[..., :channels].astype(dtype) * (1 if dtype is np.uint8 else 257)
            (png,) = c.apply("EncodePng", image=image)
            c.add(f"EncodePng {channels} {dtype.__name__}",
                  c.apply("DecodePng", contents=png, dtype=tf.as_dtype(dtype)))
            data = scalar(encoded("EncodePng", image))
            for wanted in (0, 1, 3, 4):
                for to in (tf.uint8, tf.uint16):
                    c.case("DecodePng", f"{channels} {dtype.__name__} {wanted} {to.name}", contents=data,
                           channels=wanted, dtype=to)
                c.case("DecodeImage", f"png {channels} {wanted}", contents=data, channels=wanted)
            c.case("DecodeImage", f"png {channels} float", contents=data, dtype=tf.float32)
    (pngs,) = c.apply("EncodePng", image=np.stack([noise, noise[::-1]]), compression=9)
    c.add("EncodePng batch", c.apply("DecodePng", contents=pngs[1]))
    for image, name in ((smooth, "rgb"), (smooth[..., :1], "grey")):
        for quality, extra in ((95, {}), (20, dict(progressive=True)), (80, dict(chroma_downsampling=False))):
            (jpeg,) = c.apply("EncodeJpeg", image=image, quality=quality, **extra)
            c.add(f"EncodeJpeg {name} {quality}", c.apply("DecodeJpeg", contents=jpeg))
            data = scalar(encoded("EncodeJpeg", image, quality=quality, **extra))
            for options in (dict(), dict(channels=1), dict(channels=3), dict(ratio=2),
                            dict(dct_method="INTEGER_ACCURATE"), dict(fancy_upscaling=False)):
                c.case("DecodeJpeg", f"{name} {quality} {options}", contents=data, **options)
            for to in (tf.uint8, tf.uint16, tf.float32):
                c.case("DecodeImage", f"{name} {quality} {to.name}", contents=data, dtype=to)
            c.case("DecodeAndCropJpeg", f"{name} {quality}", contents=data, crop_window=size(3, 5, 20, 11))
            for kind in (tf.int32, tf.int64):
                c.case("ExtractJpegShape", f"{name} {quality} {kind.name}", contents=data, output_type=kind)
    (jpeg,) = c.apply("EncodeJpegVariableQuality", images=smooth, quality=np.int32(70))
    c.add("EncodeJpegVariableQuality", c.apply("DecodeJpeg", contents=jpeg))
    data = encoded("EncodeJpeg", smooth)
    # The library chooses the values of missing lines.
    (cut,) = c.apply("DecodeJpeg", contents=scalar(data[:-40]), try_recover_truncated=True)
    c.add("DecodeJpeg cut", [tf.shape(cut), cut[:24]])
    for height, width, channels in ((3, 5, 3), (-4, 2, 3), (2, 3, 4), (2, 5, 1)):
        for wanted in (0, 3, 4):
            c.case("DecodeBmp", f"{height} {width} {channels} {wanted}", contents=scalar(bmp(height, width, channels)),
                   channels=wanted)
        c.case("DecodeImage", f"bmp {height} {width} {channels}", contents=scalar(bmp(height, width, channels)))
    png = encoded("EncodePng", noise)
    for op in ("DecodePng", "DecodeJpeg", "DecodeImage", "DecodeBmp"):
        for label, bad in (("empty", b""), ("garbage", b"garbage"), ("cut png", png[:len(png) // 2]),
                           ("cut jpeg", data[:len(data) // 2]), ("cut bmp", bmp(3, 5, 3)[:-1]), ("bmp head", b"BM"),
                           ("png head", png[:20]), ("jpeg head", data[:20]),
                           ("png damage", png[:60] + bytes(4) + png[64:])):
            c.error(op, label, contents=scalar(bad))
    c.error("DecodeJpeg", "ratio", contents=scalar(data), ratio=3)
    c.error("DecodeJpeg", "channels", contents=scalar(data), channels=4)
    c.error("DecodePng", "channels", contents=scalar(png), channels=2)
    good = bmp(3, 5, 3)
    c.error("DecodeBmp", "width", contents=scalar(good[:18] + struct.pack("<i", -5) + good[22:]))
    c.error("DecodeBmp", "huge", contents=scalar(good[:18] + struct.pack("<ii", 1 << 30, 1 << 30) + good[26:]))
    c.error("DecodeAndCropJpeg", "window", contents=scalar(data), crop_window=size(3, 5, 20, 110))
    c.error("DecodeAndCropJpeg", "png", contents=scalar(png), crop_window=size(3, 5, 2, 1))
    c.error("ExtractJpegShape", "garbage", contents=scalar(b"garbage"))
    c.error("EncodeJpeg", "channels", image=noise)
    c.error("EncodeJpeg", "format", image=smooth, format="grayscale")
    c.error("EncodeJpeg", "quality", image=smooth, quality=101)
    c.error("EncodePng", "channels", image=np.zeros((2, 2, 5), np.uint8))
    c.error("EncodePng", "rank", image=np.zeros((2, 2), np.uint8))


FAMILIES = (resizing, scaling, crops, colors, boxes, samples, files, animations)
