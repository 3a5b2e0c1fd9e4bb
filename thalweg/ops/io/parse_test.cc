// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"
#include "thalweg/proto/example.pb.h"

namespace thalweg {
namespace {

Tensor Text(std::string text) { return Tensor::Scalar<std::string>(std::move(text)); }

tensorflow::Feature Numbers(std::initializer_list<float> values) {
  tensorflow::Feature feature;
  for (const float v : values) feature.mutable_float_list()->add_value(v);
  return feature;
}

const std::vector<AttrArg> kExampleAttrs = {{"num_sparse", 1},
                                            {"sparse_types", std::vector<DType>{kFloat}},
                                            {"Tdense", std::vector<DType>{kFloat, kFloat}},
                                            {"ragged_value_types", std::vector<DType>{kFloat}},
                                            {"ragged_split_types", std::vector<DType>{kInt32}},
                                            {"dense_shapes", std::vector<PartialShape>{{2}, {-1}}}};
std::vector<OpArg> ExampleInputs(Tensor serialized) {
  return {std::move(serialized), Tensor(kString, {0}),
          Strings({"s"}),        Strings({"d", "v"}),
          Strings({"r"}),        std::vector<Tensor>{FloatVector({8, 9}), Tensor::Scalar<float>(-1)}};
}

TEST(ParseExampleTest, Batch) {
  tensorflow::Example one, two;
  auto& first = *one.mutable_features()->mutable_feature();
  first["d"] = Numbers({1, 2});
  first["s"] = first["r"] = first["v"] = Numbers({3, 4, 5});
  (*two.mutable_features()->mutable_feature())["r"] = Numbers({6});
  const auto y = RunOp("ParseExampleV2", ExampleInputs(Strings({one.SerializeAsString(), two.SerializeAsString()})),
                       kExampleAttrs);
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Tensor::Of<int64_t>({3, 2}, {0, 0, 0, 1, 0, 2}));
  ExpectTensor((*y)[1], FloatVector({3, 4, 5}));
  ExpectTensor((*y)[2], Longs({2, 3}));
  ExpectTensor((*y)[3], Tensor::Of<float>({2, 2}, {1, 2, 8, 9}));
  ExpectTensor((*y)[4], Tensor::Of<float>({2, 3}, {3, 4, 5, -1, -1, -1}));
  ExpectTensor((*y)[5], FloatVector({3, 4, 5, 6}));
  ExpectTensor((*y)[6], Ints({0, 3, 4}));
  ExpectInvalid(KernelError("ParseExampleV2", ExampleInputs(Strings({"garbage"})), kExampleAttrs),
                "Could not parse example input");
  (*two.mutable_features()->mutable_feature())["d"] = Numbers({1});
  ExpectInvalid(KernelError("ParseExampleV2", ExampleInputs(Strings({two.SerializeAsString()})), kExampleAttrs),
                "Name: <unknown>, Key: d, Index: 0.  Number of float values != expected.  Values size: 1");
}

TEST(ParseSequenceExampleTest, Single) {
  tensorflow::SequenceExample example;
  auto& list = (*example.mutable_feature_lists()->mutable_feature_list())["l"];
  *list.add_feature() = Numbers({1, 2});
  *list.add_feature() = Numbers({3, 4});
  const std::vector<AttrArg> attrs = {{"feature_list_dense_types", std::vector<DType>{kFloat}},
                                      {"feature_list_dense_shapes", std::vector<PartialShape>{{2}}}};
  const std::vector<Tensor> none;
  const auto inputs = [&](const tensorflow::SequenceExample& e) {
    return std::vector<OpArg>{Text(e.SerializeAsString()),
                              Tensor(kString, {0}),
                              none,
                              none,
                              none,
                              std::vector<Tensor>{Text("l")},
                              none,
                              Text("")};
  };
  ExpectTensor(Result("ParseSingleSequenceExample", inputs(example), attrs), Tensor::Of<float>({2, 2}, {1, 2, 3, 4}));
  *list.add_feature() = Numbers({3});
  ExpectInvalid(KernelError("ParseSingleSequenceExample", inputs(example), attrs),
                "Name: , Feature list: l, Index: 2.  Number of values != expected.  values size: 1");
  ExpectInvalid(KernelError("ParseSingleSequenceExample", inputs({}), attrs), "Name: , Feature list 'l' is required");
}

TEST(DecodeCsvTest, Values) {
  Graph graph;
  const Scope s = graph.root();
  const auto columns = DecodeCsv(s, Const(s, {"1,a", "2,\"b,\"\"c\"\"\"", ",d"}), {Const(s, {7}), Const(s, {"none"})});
  const auto v = Values(s, columns);
  ExpectTensor(v[0], Ints({1, 2, 7}));
  ExpectTensor(v[1], Strings({"a", "b,\"c\"", "d"}));
  const std::vector<Tensor> defaults = {Tensor(kInt32, {0})};
  ExpectInvalid(KernelError("DecodeCSV", {Strings({"x"}), defaults}), "Field 0 in record 0 is not a valid int32: x");
  ExpectInvalid(KernelError("DecodeCSV", {Strings({"1,2"}), defaults}), "Expect 1 fields but have 2 in record 0");
  ExpectInvalid(KernelError("DecodeCSV", {Strings({"\"1"}), defaults}), "Quoted field has to end with quote");
  ExpectInvalid(KernelError("DecodeCSV", {Strings({"\n"}), defaults}), "Expect 1 fields but have 0 in record 0");
}

TEST(DecodeRawTest, Values) {
  const std::string bytes("\1\0\2\0", 4);
  ExpectTensor(Result("DecodeRaw", {Text(bytes)}, {{"out_type", kInt16}}), Tensor::Vector<int16_t>({1, 2}));
  ExpectTensor(Result("DecodeRaw", {Text(bytes)}, {{"out_type", kInt16}, {"little_endian", false}}),
               Tensor::Vector<int16_t>({256, 512}));
  ExpectTensor(Result("DecodePaddedRaw", {Strings({"a", "bcd"}), Int(2)}, {{"out_type", kUint8}}),
               Tensor::Of<uint8_t>({2, 2}, {'a', 0, 'b', 'c'}));
  ExpectInvalid(KernelError("DecodeRaw", {Text("abc")}, {{"out_type", kInt16}}), "Input to DecodeRaw has length 3");
  ExpectInvalid(KernelError("DecodePaddedRaw", {Text("abc"), Int(-2)}, {{"out_type", kInt16}}), "fixed_length (-2)");
  EXPECT_EQ(KernelError("DecodeCompressed", {Text("garbage")}, {{"compression_type", "ZLIB"}}).code(),
            absl::StatusCode::kDataLoss);
}

TEST(ParseTensorTest, GoesBothWays) {
  Graph graph;
  const Scope s = graph.root();
  const Tensor value = Counting({2, 3});
  ExpectTensor(Values(s, {ParseTensor(s, SerializeTensor(s, Const(s, value)), kFloat)})[0], value);
  ExpectInvalid(KernelError("ParseTensor", {Text("garbage")}, {{"out_type", kFloat}}), "Could not parse `serialized`");
}

}  // namespace
}  // namespace thalweg
