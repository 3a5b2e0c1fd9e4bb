// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/string_ops.h"

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

Tensor Text(std::string text) { return Tensor::Scalar<std::string>(std::move(text)); }

TEST(RegexTest, Values) {
  Graph graph;
  const Scope s = graph.root();
  const Output words = Const(s, {"abc", "ab", "xyz"});
  const auto v = Values(s, {RegexFullMatch(s, words, "a.c"), RegexFullMatch(s, words, Const(s, "ab?")),
                            RegexReplace(s, words, "[ab]", "<\\0>"),
                            RegexReplace(s, words, Const(s, "[ab]"), Const(s, "-"), {.replace_global = false})});
  ExpectTensor(v[0], Tensor::Vector<bool>({true, false, false}));
  ExpectTensor(v[1], Tensor::Vector<bool>({false, true, false}));
  ExpectTensor(v[2], Strings({"<a><b>c", "<a><b>", "xyz"}));
  ExpectTensor(v[3], Strings({"-bc", "-b", "xyz"}));
  ExpectTensor(Result("RegexReplace", {Strings({"a"}), Text("(a)"), Text("\\5")}), Strings({"a"}));
  ExpectInvalid(KernelError("RegexFullMatch", {Strings({"a"}), Text("([")}), "Invalid pattern: ([, error: missing ]");
  ExpectInvalid(KernelError("StaticRegexFullMatch", {Strings({"a"})}, {{"pattern", "(["}}), "Invalid pattern: ([");
  ExpectInvalid(KernelError("RegexFullMatch", {Strings({"a"}), Strings({"a"})}),
                "Pattern must be scalar, but received [1]");
}

TEST(StringHashTest, Values) {
  Graph graph;
  const Scope s = graph.root();
  const Output words = Const(s, {"a", "b", "a", ""});
  for (const Output& buckets : {StringToHashBucketFast(s, words, 10), StringToHashBucketStrong(s, words, 10, {1, 2}),
                                Output(s.Add("StringToHashBucket", {words}, {{"num_buckets", 10}}))}) {
    const Tensor values = Values(s, {buckets})[0];
    const int64_t* const b = values.data<int64_t>();
    EXPECT_EQ(b[0], b[2]);
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(b[i] >= 0 && b[i] < 10);
  }
  ExpectInvalid(
      KernelError("StringToHashBucketStrong", {Strings({"a"})}, {{"num_buckets", 1}, {"key", std::vector<int64_t>{1}}}),
      "Key must have 2 elements");
}

TEST(StringSplitTest, Values) {
  Graph graph;
  const Scope s = graph.root();
  const StringSplitResult split = StringSplit(s, Const(s, {"a b", "", " c  d e"}), Const(s, ""));
  const auto v = Values(s, {split.indices, split.values, split.shape});
  ExpectTensor(v[0], Tensor::Of<int64_t>({5, 2}, {0, 0, 0, 1, 2, 0, 2, 1, 2, 2}));
  ExpectTensor(v[1], Strings({"a", "b", "c", "d", "e"}));
  ExpectTensor(v[2], Longs({3, 3}));
  ExpectTensor(Result("StringSplit", {Strings({"abc"}), Text("")}, {}, 1), Strings({"a", "b", "c"}));
  ExpectTensor(Result("StringSplit", {Strings({"a,;c"}), Text(",;")}, {{"skip_empty", false}}, 1),
               Strings({"a", "", "c"}));
  ExpectInvalid(KernelError("StringSplitV2", {Text("a"), Text("")}), "input must be a vector, got shape: []");
}

TEST(SubstrTest, Values) {
  ExpectTensor(Result("Substr", {Strings({"hello", "world"}), Int(-3), Int(2)}), Strings({"ll", "rl"}));
  ExpectTensor(Result("Substr", {Strings({"\xc3\xa9t\xc3\xa9"}), Int(1), Int(5)}, {{"unit", "UTF8_CHAR"}}),
               Strings({"t\xc3\xa9"}));
  ExpectTensor(Result("Substr", {Tensor::Of<std::string>({2, 1}, {"abc", "def"}), Ints({0, 1}), Ints({1, 2})}),
               Tensor::Of<std::string>({2, 2}, {"a", "bc", "d", "ef"}));
  ExpectInvalid(KernelError("Substr", {Strings({"abc"}), Int(4), Int(1)}),
                "pos 4 out of range for string b'abc' at index 0");
  ExpectInvalid(KernelError("Substr", {Strings({"abc"}), Int(INT32_MIN), Int(1)}, {{"unit", "UTF8_CHAR"}}),
                "pos -2147483648 out of range for string at index 0");
  ExpectInvalid(KernelError("Substr", {Strings({"a", "b"}), Ints({1, 1, 1}), Ints({1, 1, 1})}),
                "Incompatible shapes: [2] vs. [3]");
  ExpectTensor(Result("StringLength", {Strings({"\xe2\x82\xac", ""})}), Ints({3, 0}));
  ExpectTensor(Result("StringLength", {Strings({"\xe2\x82\xac", ""})}, {{"unit", "UTF8_CHAR"}}), Ints({1, 0}));
}

TEST(StringCaseTest, Values) {
  ExpectTensor(Result("StringLower", {Strings({"AbC\xc3\x89"})}), Strings({"abc\xc3\x89"}));
  ExpectTensor(Result("StringLower", {Strings({"AbC\xc3\x89"})}, {{"encoding", "utf-8"}}), Strings({"abc\xc3\xa9"}));
  ExpectTensor(Result("StringUpper", {Strings({"abc\xff"})}, {{"encoding", "utf-8"}}), Strings({"ABC\xef\xbf\xbd"}));
  ExpectTensor(Result("StringStrip", {Strings({" a b\n", ""})}), Strings({"a b", ""}));
  ExpectInvalid(KernelError("StringUpper", {Strings({"a"})}, {{"encoding", "x"}}), "only utf-8 or ''");
}

TEST(JoinTest, Values) {
  const Tensor square = Tensor::Of<std::string>({2, 2}, {"a", "b", "c", "d"});
  ExpectTensor(Result("ReduceJoin", {square, Ints({0})}, {{"separator", "-"}}), Strings({"a-c", "b-d"}));
  ExpectTensor(Result("ReduceJoin", {square, Ints({1, 0})}, {{"keep_dims", true}}),
               Tensor::Of<std::string>({1, 1}, {"abcd"}));
  EXPECT_EQ(KernelError("ReduceJoin", {square, Ints({2})}).code(), absl::StatusCode::kOutOfRange);
  ExpectInvalid(KernelError("ReduceJoin", {square, Ints({0, -2})}), "Duplicate reduction dimension -2");
  ExpectTensor(Result("UnsortedSegmentJoin", {square, Ints({1, 1}), Int(2)}, {{"separator", ","}}),
               Tensor::Of<std::string>({2, 2}, {"", "", "a,c", "b,d"}));
  ExpectInvalid(KernelError("UnsortedSegmentJoin", {square, Ints({1, 2}), Int(2)}), "segment_ids are not allowed");
  ExpectInvalid(KernelError("UnsortedSegmentJoin", {square, Ints({1, 2, 3}), Int(2)}), "Segment dimension is 3");
}

TEST(Base64Test, GoesBothWays) {
  std::string bytes;
  for (int n = 0; n < 10; ++n) {
    bytes.push_back(static_cast<char>(n * 37));
    for (const bool pad : {false, true}) {
      const Tensor encoded = Result("EncodeBase64", {Text(bytes)}, {{"pad", pad}});
      ExpectTensor(Result("DecodeBase64", {encoded}), Text(bytes));
    }
  }
  ExpectInvalid(KernelError("DecodeBase64", {Text("a+bc")}), "Invalid character found in base64.");
  ExpectInvalid(KernelError("DecodeBase64", {Text("abcde")}), "Base64 string length cannot be 1 modulo 4.");
}

TEST(UnicodeScriptTest, Values) {
  // Latin, Greek, Han, common, none, and a number that is not a code point.
  ExpectTensor(Result("UnicodeScript", {Ints({'a', 0x3b1, 0x4e00, '1', 0x10ffff, -1, 0x110000})}),
               Ints({25, 14, 17, 0, 103, -1, -1}));
}

TEST(UnicodeTest, Values) {
  const std::vector<AttrArg> utf8 = {{"input_encoding", "UTF-8"}};
  const Tensor text = Strings({"a\xe2\x82\xac", "\xff"});
  ExpectTensor(Result("UnicodeDecode", {text}, utf8, 0), Longs({0, 2, 3}));
  ExpectTensor(Result("UnicodeDecode", {text}, utf8, 1), Ints({'a', 0x20ac, 0xfffd}));
  ExpectTensor(Result("UnicodeDecodeWithOffsets", {text}, utf8, 2), Longs({0, 1, 0}));
  ExpectTensor(
      Result("UnicodeEncode", {Ints({'a', 0x1f600, -1}), Longs({0, 2, 3})}, {{"output_encoding", "UTF-16-BE"}}),
      Strings({std::string("\0a\xd8\x3d\xde\x00", 6), "\xff\xfd"}));
  ExpectInvalid(KernelError("UnicodeEncode", {Ints({1, 2}), Longs({0, 9, 2})}, {{"output_encoding", "UTF-8"}}),
                "Values in input_splits must be");
  ExpectInvalid(KernelError("UnicodeDecode", {text}, {{"input_encoding", "UTF-8"}, {"errors", "strict"}}),
                "Invalid formatting on input string");
}

}  // namespace
}  // namespace thalweg
