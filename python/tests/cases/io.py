# SPDX-License-Identifier: Apache-2.0
"""Cases of ops on strings, files and formats; see case_builder.py."""

import gzip
import zlib

import numpy as np
import tensorflow as tf
from tensorflow.core.example import example_pb2, feature_pb2
from tensorflow.core.framework import summary_pb2


def texts(*values):
    return np.array(list(values), object)


def scalar(text):
    return np.array(text, object)


WORDS = texts(b"hello world", b"", b"a,b,,c", b"  x  y ", b"\xc3\xa9t\xc3\xa9 \xe2\x82\xac", b"abcabcabc")


def regular_expressions(c):
    for pattern in ("a.*", ".*[ ]w.*", "", "(abc)+"):
        c.case("StaticRegexFullMatch", pattern, input=WORDS, pattern=pattern)
        c.case("RegexFullMatch", pattern, input=WORDS, pattern=scalar(pattern.encode()))
    for pattern, rewrite in (("[abc]", "<\\0>"), ("(\\w)(\\w)", "\\2\\1"), ("x", ""), ("(a)", "\\3")):
        for everywhere in (True, False):
            c.case("StaticRegexReplace", f"{pattern} {everywhere}", input=WORDS, pattern=pattern, rewrite=rewrite,
                   replace_global=everywhere)
            c.case("RegexReplace", f"{pattern} {everywhere}", input=WORDS, pattern=scalar(pattern.encode()),
                   rewrite=scalar(rewrite.encode()), replace_global=everywhere)
    c.error("RegexFullMatch", "bad pattern", input=WORDS, pattern=scalar(b"(["))
    c.error("StaticRegexFullMatch", "bad pattern", input=WORDS, pattern="([")
    c.error("RegexReplace", "two patterns", input=WORDS, pattern=texts(b"a", b"b"), rewrite=scalar(b""))


def hashes(c):
    long = texts(*(bytes(range(n)) for n in range(70)), b"x" * 1000)
    for buckets in (1, 10, (1 << 40) + 7):
        c.case("StringToHashBucketFast", str(buckets), input=long, num_buckets=buckets)
        c.case("StringToHashBucket", str(buckets), string_tensor=long, num_buckets=buckets)
        c.case("StringToHashBucketStrong", str(buckets), input=long, num_buckets=buckets, key=[98765, 132])
    c.error("StringToHashBucketStrong", "short key", input=long, num_buckets=3, key=[1])


def splits(c):
    for sep in (b",", b"", b"ab", b" "):
        for limit in (-1, 0, 1, 2):
            c.case("StringSplitV2", f"{sep} {limit}", input=WORDS, sep=scalar(sep), maxsplit=limit)
        for skip in (True, False):
            c.case("StringSplit", f"{sep} {skip}", input=WORDS, delimiter=scalar(sep), skip_empty=skip)
    c.error("StringSplitV2", "matrix", input=WORDS.reshape(2, 3), sep=scalar(b","))


def parts(c):
    for dtype in (np.int32, np.int64):
        words = texts(b"hello", b"world", b"four")
        for pos, size in ((1, 2), (-3, 2), (0, 100), (4, 1), (1, -1), (-2, 0)):
            c.case("Substr", f"{pos} {size}", input=words, pos=np.array(pos, dtype), len=np.array(size, dtype))
        c.case("Substr", "each", input=words, pos=np.array([0, 1, 2], dtype), len=np.array([3, 2, 1], dtype))
        c.case("Substr", "broadcast", input=words.reshape(3, 1), pos=np.array([[0, 1]], dtype),
               len=np.array([[3, 2]], dtype))
    letters = texts(b"\xc3\xa9t\xc3\xa9\xe2\x82\xac", b"\xf0\x9f\x98\x80abcd")
    for pos, size in ((0, 2), (1, 2), (-3, 2), (-4, 10), (3, 5)):
        c.case("Substr", f"characters {pos} {size}", input=letters, pos=np.int32(pos), len=np.int32(size),
               unit="UTF8_CHAR")
    c.error("Substr", "far", input=WORDS, pos=np.int32(20), len=np.int32(1))
    c.error("Substr", "far back", input=WORDS, pos=np.int32(-20), len=np.int32(1))
    c.error("Substr", "characters", input=WORDS, pos=np.int32(20), len=np.int32(1), unit="UTF8_CHAR")
    c.error("Substr", "shapes", input=WORDS, pos=np.zeros(4, np.int32), len=np.zeros(4, np.int32))
    for unit in ("BYTE", "UTF8_CHAR"):
        c.case("StringLength", unit, input=WORDS, unit=unit)
    c.case("StringStrip", input=WORDS)
    for op in ("StringLower", "StringUpper"):
        mixed = texts(b"aBc \xc3\x89t\xc3\xa9 1", b"", "ΣΩж Ж".encode())
        c.case(op, input=mixed)
        c.case(op, "utf-8", input=mixed, encoding="utf-8")
        c.error(op, "encoding", input=mixed, encoding="latin1")


def joins(c):
    cube = texts(*(b"%d" % i for i in range(24))).reshape(2, 3, 4)
    for axes in ([0], [1], [-1], [0, 2], [2, 0], [0, 1, 2], []):
        for keep in (False, True):
            c.case("ReduceJoin", f"{axes} {keep}", inputs=cube, reduction_indices=np.array(axes, np.int32),
                   keep_dims=keep, separator="-")
    c.case("ReduceJoin", "nothing", inputs=cube[:, :0], reduction_indices=np.array(1, np.int32))
    c.error("ReduceJoin", "axis", inputs=cube, reduction_indices=np.array(3, np.int32))
    c.error("ReduceJoin", "twice", inputs=cube, reduction_indices=np.array([1, -2], np.int32))
    for ids in (np.int32, np.int64):
        for count in (np.int32, np.int64):
            c.case("UnsortedSegmentJoin", f"{ids.__name__} {count.__name__}", inputs=cube,
                   segment_ids=np.array([2, 0], ids), num_segments=count(3), separator=",")
    c.case("UnsortedSegmentJoin", "matrix", inputs=cube, segment_ids=np.array([[0, 1, 0], [1, 1, 0]], np.int32),
           num_segments=np.int32(2), separator=",")
    c.error("UnsortedSegmentJoin", "id", inputs=cube, segment_ids=np.array([2, 0], np.int32), num_segments=np.int32(2))
    c.error("UnsortedSegmentJoin", "negative", inputs=cube, segment_ids=np.array([1, 0], np.int32),
            num_segments=np.int32(-2))


def encodings(c):
    binary = texts(*(bytes(range(200, 200 + n)) for n in range(8)), b"hello world")
    for pad in (False, True):
        c.case("EncodeBase64", str(pad), input=binary, pad=pad)
    c.case("DecodeBase64", input=texts(b"", b"aGVsbG8", b"aGVsbG8=", b"-_-_", b"aA==", b"aA"))
    for bad in (b"a", b"a+b/", b"aa=a", b"aGVsb"):
        c.error("DecodeBase64", str(bad), input=texts(bad))
    good = texts(b"", b"abc", "été €😀".encode())
    bad = texts(b"a\xffb", b"\xc3", b"\xe2\x82x", b"\xed\xa0\x80", b"\xf5\x80", b"a\x01b", b"\xf0\x9f\x98", b"\xc0\x80")
    for op in ("UnicodeDecode", "UnicodeDecodeWithOffsets"):
        for splits in (tf.int32, tf.int64) if op == "UnicodeDecode" else (tf.int64,):
            c.case(op, str(splits), input=good, input_encoding="UTF-8", Tsplits=splits)
        for errors in ("replace", "ignore"):
            c.case(op, errors, input=bad, input_encoding="UTF-8", errors=errors)
            c.case(op, errors + " control", input=bad, input_encoding="UTF-8", errors=errors, replacement_char=63,
                   replace_control_characters=True)
        c.error(op, "strict", input=bad, input_encoding="UTF-8", errors="strict")
        c.error(op, "encoding", input=bad, input_encoding="nonsense")
        for encoding in ("UTF-16-BE", "UTF-32-BE", "UTF-16-LE", "UTF-16", "ISO-8859-1", "US-ASCII"):
            c.case(op, encoding, input=texts("ab é😀".encode("utf-16-be"), b"\x00\x01\x00", b"\xd8\x00\x00a"),
                   input_encoding=encoding)
    for encoding in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
        for splits in (np.int32, np.int64):
            c.case("UnicodeEncode", f"{encoding} {splits.__name__}",
                   input_values=np.array([72, 233, 0x20ac, 0x1f600, 0x110000, 65], np.int32),
                   input_splits=np.array([0, 2, 2, 6], splits), output_encoding=encoding, replacement_char=63)
        for errors in ("replace", "ignore"):
            c.case("UnicodeTranscode", f"{encoding} {errors}", input=bad, input_encoding="UTF-8", errors=errors,
                   output_encoding=encoding)
    c.case("UnicodeScript", "all", input=np.arange(-3, 0x110003, dtype=np.int32))
    c.case("UnicodeScript", "shape", input=np.array([[65, 0x3b1], [0x4e00, 2**31 - 1]], np.int32))
    values = np.array([72, 0x110000], np.int32)
    c.error("UnicodeEncode", "strict", input_values=values, input_splits=np.array([0, 2]), output_encoding="UTF-8",
            errors="strict")
    for splits in ([0, 1], [1, 2], [0, 3, 2], []):
        c.error("UnicodeEncode", str(splits), input_values=values, input_splits=np.array(splits, np.int64),
                output_encoding="UTF-8")
    c.error("UnicodeTranscode", "strict", input=bad, input_encoding="UTF-8", errors="strict", output_encoding="UTF-8")


def file_names(c):
    c.case("ShardedFilename", basename=scalar(b"/tmp/x"), shard=np.int32(3), num_shards=np.int32(100000))
    c.case("ShardedFilespec", basename=scalar(b"/tmp/x"), num_shards=np.int32(7))
    c.error("ShardedFilename", "vector", basename=texts(b"/tmp/x"), shard=np.int32(3), num_shards=np.int32(7))


def summaries(c):
    for dtype in ("float32", "float64", "int32", "uint8", "int64", "float16", "bfloat16"):
        kind = tf.as_dtype(dtype).as_numpy_dtype
        c.case("ScalarSummary", dtype, tags=texts(b"a", b"b"), values=np.array([1, 3], kind))
        c.case("HistogramSummary", dtype, tag=scalar(b"h"), values=np.array([0, 1, 1, 7, 100], kind))
    c.case("ScalarSummary", "scalar", tags=scalar(b"a"), values=np.float32(2.5))
    c.error("ScalarSummary", "shapes", tags=texts(b"a", b"b"), values=np.zeros(3, np.float32))
    spread = np.random.RandomState(1).normal(0, 3, 1000).astype(np.float32)
    c.case("HistogramSummary", "spread", tag=scalar(b"h"), values=spread)
    c.case("HistogramSummary", "wide", tag=scalar(b"h"), values=np.array([1e30, -1e30, 1e-20, -0.]))
    c.case("HistogramSummary", "nothing", tag=scalar(b"h"), values=spread[:0])
    c.error("HistogramSummary", "nan", tag=scalar(b"h"), values=np.array([1, np.nan]))
    c.error("HistogramSummary", "tags", tag=texts(b"h", b"i"), values=spread)
    metadata = summary_pb2.SummaryMetadata(display_name="d", plugin_data={"plugin_name": "p", "content": b"c"})
    for value in (spread[:4], texts(b"x", b"y"), np.int32(1)):
        c.case("TensorSummary", str(value.dtype), tensor=value)
        c.case("TensorSummaryV2", str(value.dtype), tag=scalar(b"t"), tensor=value,
               serialized_summary_metadata=scalar(metadata.SerializeToString()))
    one, two, same = [scalar(summary_pb2.Summary(value=[{"tag": tag, "simple_value": 1}]).SerializeToString())
                      for tag in ("a", "b", "a")]
    c.case("MergeSummary", inputs=[one, two])
    c.error("MergeSummary", "duplicate", inputs=[one, two, same])
    c.error("MergeSummary", "garbage", inputs=[one, scalar(b"\xff\xff")])
    sound = np.random.RandomState(2).uniform(-1.5, 1.5, (5, 20, 2)).astype(np.float32)
    for shape in ((5, 20, 2), (5, 40)):
        for count in (1, 3):
            c.case("AudioSummaryV2", f"{shape} {count}", tag=scalar(b"s"), tensor=sound.reshape(shape),
                   sample_rate=np.float32(8000), max_outputs=count)
    c.error("AudioSummaryV2", "rate", tag=scalar(b"s"), tensor=sound, sample_rate=np.float32(0))
    c.error("AudioSummaryV2", "rank", tag=scalar(b"s"), tensor=sound[0, 0], sample_rate=np.float32(1))
    c.error("ImageSummary", "depth", tag=scalar(b"i"), tensor=np.zeros((1, 2, 2, 2), np.float32))
    c.error("ImageSummary", "empty", tag=scalar(b"i"), tensor=np.zeros((1, 0, 2, 3), np.float32))


def feature(values):
    if not values:
        return feature_pb2.Feature()
    kind = {int: "int64_list", float: "float_list", bytes: "bytes_list"}[type(values[0])]
    return feature_pb2.Feature(**{kind: {"value": values}})


def example(**features):
    message = example_pb2.Example()
    for name, values in features.items():
        message.features.feature[name].MergeFrom(feature(values))
    return message.SerializeToString()


def sequence(context, lists):
    message = example_pb2.SequenceExample()
    for name, values in context.items():
        message.context.feature[name].MergeFrom(feature(values))
    for name, rows in lists.items():
        message.feature_lists.feature_list[name].SetInParent()
        for values in rows:
            message.feature_lists.feature_list[name].feature.add().MergeFrom(feature(values))
    return message.SerializeToString()


def examples(c):
    batch = [example(a=[1., 2.], b=[b"x"], s=[1, 2, 3], r=[b"p", b"q"], v=[1, 2, 3, 4]),
             example(a=[3., 4.], s=[], r=[], v=[5, 6], unknown=[1.]),
             example(b=[b"z"], a=[5., 6.], s=[7])]
    names = texts(b"one", b"two", b"three")
    shapes = [[2], [], [None, 2]]
    dense = [texts(), b"a", b"b", b"v"]
    defaults = [np.array([8, 9], np.float32), scalar(b"none"), np.int64(-1)]
    none = np.zeros([0], np.float32)
    def v1(label, serialized, names=texts(), shapes=shapes, defaults=defaults, add=c.case, sparse_types=(tf.int64,)):
        add("ParseExample", label, serialized=serialized, names=names, sparse_keys=[scalar(b"s")],
            dense_keys=[scalar(k) for k in dense[1:]], dense_defaults=list(defaults), sparse_types=list(sparse_types),
            dense_shapes=shapes)
    def v2(label, serialized, shapes=shapes, defaults=defaults, add=c.case, **other):
        add("ParseExampleV2", label, **dict(
            serialized=serialized, names=texts(), sparse_keys=texts(b"s"), dense_keys=texts(*dense[1:]),
            ragged_keys=texts(b"r", b"v2"), dense_defaults=list(defaults), num_sparse=1, sparse_types=[tf.int64],
            ragged_value_types=[tf.string, tf.float32], ragged_split_types=[tf.int32, tf.int64], dense_shapes=shapes)
            | other)
    def single(label, serialized, shapes=shapes, defaults=defaults, add=c.case, sparse_types=(tf.int64,)):
        add("ParseSingleExample", label, serialized=scalar(serialized), dense_defaults=list(defaults), num_sparse=1,
            sparse_keys=["s"], dense_keys=["a", "b", "v"], sparse_types=list(sparse_types), dense_shapes=shapes)
    v1("batch", texts(*batch))
    v1("names", texts(*batch), names)
    v2("batch", texts(*batch))
    v2("concatenated", texts(batch[0] + batch[2]))
    for i, record in enumerate(batch):
        v2(f"scalar {i}", scalar(record))
        single(str(i), record)
    single("empty", b"")
    v2("empty", texts(b"", b""))
    for run in (v1, v2):
        run("garbage", texts(b"garbage"), add=c.error)
        run("type", texts(example(a=[1, 2])), add=c.error)
        run("sparse type", texts(example(s=[b"x"])), add=c.error)
        run("size", texts(example(a=[1.])), add=c.error)
        run("stride", texts(example(v=[1, 2, 3])), add=c.error)
        run("missing", texts(example(b=[b"x"])), defaults=[none, *defaults[1:]], add=c.error)
        run("matrix", texts(*batch).reshape(3, 1), add=c.error)
    v1("name count", texts(*batch), names[:2], add=c.error)
    v2("keys", texts(*batch), add=c.error, sparse_keys=texts(b"s", b"t"))
    v2("padding", texts(*batch), defaults=[*defaults[:2], np.array([1, 2])], add=c.error)
    v2("default", texts(*batch), defaults=[np.zeros(3, np.float32), *defaults[1:]], add=c.error)
    single("garbage", b"garbage", add=c.error)
    single("missing", example(b=[b"x"]), defaults=[none, *defaults[1:]], add=c.error)
    single("size", example(a=[1.]), add=c.error)


def sequences(c):
    batch = [sequence(dict(d=[1., 2.], s=[b"x", b"y"], r=[1]),
                      dict(ld=[[1, 2], [3, 4], [5, 6]], ls=[[1.], [], [2., 3.]], lr=[[b"a"], [b"b", b"c"]])),
             sequence(dict(d=[3., 4.]), dict(ld=[[7, 8]], ls=[], lr=[[]])),
             sequence(dict(d=[5., 6.], s=[b"z"], r=[2, 3]), dict(ld=[], opt=[[b"o"]]))]
    common = dict(context_sparse_types=[tf.string],
                  context_dense_shapes=[[2], []], feature_list_dense_types=[tf.int64, tf.string],
                  feature_list_sparse_types=[tf.float32], feature_list_dense_shapes=[[2], [1]])
    defaults = [np.zeros([0], np.float32), scalar(b"def")]
    def v1(label, serialized, add=c.case, missing=("opt",), **other):
        add("ParseSequenceExample", label, **dict(
            serialized=serialized, debug_name=texts(), context_dense_defaults=defaults,
            feature_list_dense_missing_assumed_empty=list(missing), context_sparse_keys=["s"],
            context_dense_keys=["d", "e"], feature_list_sparse_keys=["ls"], feature_list_dense_keys=["ld", "opt"],
            Ncontext_sparse=1, Ncontext_dense=2, Nfeature_list_sparse=1, Nfeature_list_dense=2) | common | other)
    def v2(label, serialized, add=c.case, missing=(False, True), **other):
        add("ParseSequenceExampleV2", label, **dict(
            serialized=serialized, debug_name=texts(), context_sparse_keys=texts(b"s"),
            context_dense_keys=texts(b"d", b"e"), context_ragged_keys=texts(b"r"),
            feature_list_sparse_keys=texts(b"ls"), feature_list_dense_keys=texts(b"ld", b"opt"),
            feature_list_ragged_keys=texts(b"lr"),
            feature_list_dense_missing_assumed_empty=np.array(missing), context_dense_defaults=defaults,
            Ncontext_sparse=1, context_ragged_value_types=[tf.int64], context_ragged_split_types=[tf.int32],
            Nfeature_list_sparse=1, Nfeature_list_dense=2, feature_list_ragged_value_types=[tf.string],
            feature_list_ragged_split_types=[tf.int64]) | common | other)
    def single(label, serialized, add=c.case, missing=(b"opt",), **other):
        add("ParseSingleSequenceExample", label, **dict(
            serialized=scalar(serialized), feature_list_dense_missing_assumed_empty=texts(*missing),
            context_sparse_keys=[scalar(b"s")], context_dense_keys=[scalar(b"d"), scalar(b"e")],
            feature_list_sparse_keys=[scalar(b"ls")], feature_list_dense_keys=[scalar(b"ld"), scalar(b"opt")],
            context_dense_defaults=defaults, debug_name=scalar(b"name")) | common | other)
    v1("batch", texts(*batch))
    v1("names", texts(*batch), debug_name=texts(b"one", b"two", b"three"))
    v2("batch", texts(*batch))
    for i, record in enumerate(batch):
        single(str(i), record)
    for run in (v1, v2):
        run("garbage", texts(b"garbage"), add=c.error)
        run("required list", texts(sequence(dict(d=[1., 2.]), {})), add=c.error)
        run("required feature", texts(sequence({}, dict(ld=[]))), add=c.error)
        run("type", texts(sequence(dict(d=[1., 2.]), dict(ld=[[1.]]))), add=c.error)
        run("size", texts(sequence(dict(d=[1., 2.]), dict(ld=[[1, 2, 3]]))), add=c.error)
        run("context size", texts(sequence(dict(d=[1.]), dict(ld=[]))), add=c.error)
    v2("keys", texts(*batch), add=c.error, context_sparse_keys=texts())
    single("garbage", b"garbage", add=c.error)
    single("required list", sequence(dict(d=[1., 2.]), {}), add=c.error)
    single("size", sequence(dict(d=[1., 2.]), dict(ld=[[1, 2, 3]])), add=c.error)


def formats(c):
    lines = texts(b"1,2.5,x", b"3,,\"a \"\"q\"\" b\"", b"-7,1e3,", b",0,y\r\n"[:-2])
    types = [np.array([9], np.int32), np.array([-1], np.float32), texts(b"none")]
    c.case("DecodeCSV", records=lines, record_defaults=types)
    c.case("DecodeCSV", "matrix", records=lines.reshape(2, 2), record_defaults=types)
    c.case("DecodeCSV", "columns", records=lines, record_defaults=[types[0], types[2]], select_cols=[0, 2])
    c.case("DecodeCSV", "first", records=lines, record_defaults=[np.array([1], np.int64)], select_cols=[0])
    c.case("DecodeCSV", "tabs", records=texts(b"1\t\"x", b"na\ty"), record_defaults=[np.array([2.]), texts()],
           field_delim="\t", use_quote_delim=False, na_value="na")
    c.case("DecodeCSV", "ends", records=texts(b"\n\r1,2,", b"1,2,\n3"), record_defaults=[np.array([5], np.int64)] * 3)
    c.case("DecodeCSV", "scalars", records=texts(b","), record_defaults=[np.int32(5), np.float64(6)])
    for bad in (b"1,2", b"1,2,3,4", b"x,1,2", b"1,1,a\"b", b"1,1,\"a\"b\"", b"1,1,\"a", b"1.5,1,x", b"1,1,\""):
        c.error("DecodeCSV", str(bad), records=texts(bad), record_defaults=types)
    c.error("DecodeCSV", "required", records=texts(b",1,x"), record_defaults=[np.zeros(0, np.int32), *types[1:]])
    c.error("DecodeCSV", "delimiter", records=lines, record_defaults=types, field_delim="::")
    c.error("DecodeCSV", "order", records=lines, record_defaults=types, select_cols=[0, 2, 1])
    binary = texts(bytes(range(16)), bytes(range(100, 116)))
    for name in ("float16", "float32", "float64", "int32", "uint16", "uint8", "int16", "int8", "int64", "bfloat16",
                 "complex64", "complex128"):
        for little in (True, False):
            c.case("DecodeRaw", f"{name} {little}", bytes=binary, out_type=tf.as_dtype(name), little_endian=little)
            if not name.startswith("complex") and name != "float16":
                c.case("DecodePaddedRaw", f"{name} {little}", input_bytes=texts(b"", b"abcdefg", bytes(range(30))),
                       fixed_length=np.int32(16), out_type=tf.as_dtype(name), little_endian=little)
    c.case("DecodeRaw", "nothing", bytes=texts(b"", b""), out_type=tf.int32)
    c.case("DecodeRaw", "scalar", bytes=scalar(b"abcd"), out_type=tf.int32)
    c.error("DecodeRaw", "sizes", bytes=texts(b"ab", b"a"), out_type=tf.int8)
    c.error("DecodeRaw", "multiple", bytes=texts(b"abc"), out_type=tf.int16)
    c.error("DecodePaddedRaw", "multiple", input_bytes=texts(b"abc"), fixed_length=np.array(5, np.int32),
            out_type=tf.int16)
    c.error("DecodePaddedRaw", "zero", input_bytes=texts(b"abc"), fixed_length=np.array(0, np.int32), out_type=tf.int16)
    text = b"hello " * 1000
    c.case("DecodeCompressed", "none", bytes=texts(text))
    c.case("DecodeCompressed", "zlib", bytes=texts(zlib.compress(text), zlib.compress(b"")), compression_type="ZLIB")
    c.case("DecodeCompressed", "gzip", bytes=texts(gzip.compress(text, mtime=0)), compression_type="GZIP")
    c.case("DecodeCompressed", "cut", bytes=texts(zlib.compress(text)[:20]), compression_type="ZLIB")
    c.error("DecodeCompressed", "garbage", bytes=texts(b"garbage"), compression_type="ZLIB")
    c.error("DecodeCompressed", "type", bytes=texts(b"garbage"), compression_type="LZ4")
    for value in (np.arange(6, dtype=np.float32).reshape(2, 3), texts(b"a", b"bc"), np.int32(7), np.zeros([0, 2])):
        c.case("ParseTensor", str(value.dtype), serialized=scalar(tf.make_tensor_proto(value).SerializeToString()),
               out_type=tf.string if value.dtype == object else value.dtype)
        (serialized,) = c.apply("SerializeTensor", tensor=value)
        c.add("SerializeTensor", c.apply("ParseTensor", serialized=serialized,
                                         out_type=tf.string if value.dtype == object else value.dtype))
    c.case("SerializeTensor", "bytes", tensor=np.arange(6, dtype=np.float32).reshape(2, 3))
    c.error("ParseTensor", "garbage", serialized=scalar(b"garbage"), out_type=tf.float32)
    c.error("ParseTensor", "type", serialized=scalar(tf.make_tensor_proto(1.).SerializeToString()), out_type=tf.int32)
    json = b'{"features": {"feature": {"a": {"int64List": {"value": ["1", "2"]}}}}}'
    if "DecodeJSONExample" in c.registered:  # TensorFlow does not pack numbers: only what is in it is the same
        (binary,) = c.apply("DecodeJSONExample", json_examples=texts(json, b"{}"))
        parsed = tf.io.parse_example(binary, {"a": tf.io.FixedLenFeature([2], tf.int64, [7, 8])})
        c.add("DecodeJSONExample numbers", [parsed["a"]])
    c.case("DecodeJSONExample", "bytes", json_examples=scalar(
        b'{"features": {"feature": {"b": {"bytesList": {"value": ["eHl6"]}}}}}'))
    for bad in (b"", b"{", b"[1]", b'{"other": 1}', json.replace(b"1", b"x")):
        c.error("DecodeJSONExample", str(bad), json_examples=scalar(bad))
    c.error("ParseTensor", "vector", serialized=texts(b""), out_type=tf.int32)


def fingerprints(c):
    for value in (np.arange(12, dtype=np.float32).reshape(3, 4), texts(b"a", b"bc"),
                  texts(b"a", b"b", b"c", b"d").reshape(2, 2), np.arange(24, dtype=np.int16).reshape(2, 3, 4),
                  np.zeros((0, 3), np.int32)):
        c.case("Fingerprint", f"{value.dtype} {value.shape}", data=value, method=scalar(b"farmhash64"))
    c.error("Fingerprint", "method", data=np.zeros(3), method=scalar(b"md5"))
    c.error("Fingerprint", "scalar", data=np.array(1.), method=scalar(b"farmhash64"))


FAMILIES = (regular_expressions, hashes, splits, parts, joins, encodings, file_names, summaries, examples,
            sequences, formats, fingerprints)
