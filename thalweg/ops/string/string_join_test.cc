// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/string_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(StringJoinTest, Values) {
  ExpectTensor(Result("StringJoin",
                      {std::vector<Tensor>{Strings({"a", "b"}), Tensor::Scalar<std::string>("x"), Strings({"c", "d"})}},
                      {{"separator", "/"}}),
               Strings({"a/x/c", "b/x/d"}));
  ExpectInvalid(KernelError("StringJoin", {std::vector<Tensor>{Strings({"a", "b"}), Strings({"c"})}}),
                "Input shapes do not match: [2] vs. [1]");
  Graph graph;
  const Scope s = graph.root();
  EXPECT_EQ(StringJoin(s, {Const(s, "a"), Const(s, {"b", "c"})}).shape().ToString(), "[2]");
  EXPECT_EQ(StringJoin(s, {Const(s, "a"), Const(s, "b")}).shape().ToString(), "[]");
}

TEST(StringFormatTest, Values) {
  ExpectTensor(Result("StringFormat", {std::vector<Tensor>{Ints({1, 2}), Tensor::Scalar<float>(0.5)}},
                      {{"template", "a {} b {}"}, {"placeholder", "{}"}}),
               Tensor::Scalar<std::string>("a [1 2] b 0.5"));
  ExpectTensor(Result("StringFormat", {std::vector<Tensor>{Strings({"\xc3\xa9\n"})}}, {{"template", "%s"}}),
               Tensor::Scalar<std::string>("[\"\xc3\xa9\\n\"]"));
  ExpectInvalid(KernelError("StringFormat", {std::vector<Tensor>{Ints({1})}}, {{"template", "none"}}),
                "num placeholders in template and num inputs must match: 0 vs. 1");
}

TEST(AsStringTest, Values) {
  ExpectTensor(Result("AsString", {Ints({1, -2})}), Strings({"1", "-2"}));
  ExpectTensor(Result("AsString", {FloatVector({1.5})}), Strings({"1.500000"}));
  ExpectTensor(Result("AsString", {FloatVector({1.5})}, {{"precision", 2}, {"width", 6}, {"fill", "0"}}),
               Strings({"001.50"}));
  ExpectTensor(Result("AsString", {FloatVector({1.5})}, {{"shortest", true}}), Strings({"1.5"}));
  ExpectTensor(Result("AsString", {FloatVector({1500})}, {{"scientific", true}, {"precision", 1}}),
               Strings({"1.5e+03"}));
  ExpectTensor(Result("AsString", {Tensor::Vector<bool>({true})}), Strings({"true"}));
  ExpectTensor(Result("AsString", {Tensor::Vector<uint64_t>({UINT64_MAX})}), Strings({"18446744073709551615"}));
  ExpectInvalid(KernelError("AsString", {Ints({1})}, {{"precision", 2}}), "precision not supported for datatype int32");
  ExpectInvalid(KernelError("AsString", {FloatVector({1})}, {{"scientific", true}, {"shortest", true}}),
                "Cannot select both scientific and shortest notation");
  ExpectInvalid(KernelError("AsString", {Ints({1})}, {{"fill", "x"}}), "Fill argument not supported: \"x\"");
}

TEST(StringToNumberTest, Values) {
  ExpectTensor(Result("StringToNumber", {Strings({"1", " -2.5 "})}), FloatVector({1, -2.5}));
  ExpectTensor(Result("StringToNumber", {Strings({"42"})}, {{"out_type", kInt64}}), Longs({42}));
  ExpectInvalid(KernelError("StringToNumber", {Strings({"abc"})}),
                "StringToNumberOp could not correctly convert string: abc");
  ExpectInvalid(KernelError("StringToNumber", {Strings({"1.5"})}, {{"out_type", kInt32}}),
                "StringToNumberOp could not");
}

}  // namespace
}  // namespace thalweg
