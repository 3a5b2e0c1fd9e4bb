"""Cases of ops on strings, files and formats; see op_cases.py."""

import numpy as np
import tensorflow as tf
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
            c.case("ReduceJoin", f"{axes} {keep}", inputs=cube, reduction_indices=np.array(axes, np.int32), keep_dims=keep,
                   separator="-")
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


FAMILIES = (regular_expressions, hashes, splits, parts, joins, encodings, file_names, summaries)
