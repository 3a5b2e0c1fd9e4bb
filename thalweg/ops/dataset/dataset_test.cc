// SPDX-License-Identifier: Apache-2.0
// Inputs that datasets refuse. python/tests/dataset_test.py compares their elements.
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/dataset/dataset_function.h"

namespace thalweg {
namespace {

const std::vector<AttrArg> kTypes{{"output_types", std::vector<DType>{kInt64}},
                                  {"output_shapes", std::vector<PartialShape>{PartialShape()}}};

Tensor Int(int64_t value) { return Tensor::Scalar(value); }

Tensor Numbers(int64_t start, int64_t stop, int64_t step = 1) {
  return RunOp("RangeDataset", {Int(start), Int(stop), Int(step)}, kTypes).value()[0];
}

absl::StatusCode CodeOf(absl::string_view op, std::vector<OpArg> inputs, std::vector<AttrArg> attrs = kTypes) {
  return RunOp(op, std::move(inputs), std::move(attrs)).status().code();
}

// A thread that makes elements in advance has no caller that could catch an exception.
TEST(DatasetTest, AnExceptionIsAnErrorOfTheElement) {
  Next next = [](Iteration&) -> NextElement { throw std::bad_alloc(); };
  IteratorContext context(TestDevice(), nullptr);
  Cancellation cancellation;
  Iteration it{context, cancellation};
  EXPECT_EQ(next(it).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(DatasetTest, RefusesBadArguments) {
  const Tensor ten = Numbers(0, 10), none = Tensor::Scalar(Variant()), yes = Tensor::Scalar(true);
  EXPECT_EQ(CodeOf("RangeDataset", {Int(0), Int(1), Int(0)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("TakeDataset", {none, Int(1)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("TakeDataset", {Tensor(kVariant, {2}), Int(1)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("TakeDataset", {ten, Tensor::Vector<int64_t>({1, 2})}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("BatchDatasetV2", {ten, Int(0), yes}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("ShuffleDataset", {ten, Int(-1), Int(1), Int(2)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("ShardDataset", {ten, Int(2), Int(2)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("WindowDataset", {ten, Int(int64_t{1} << 40), Int(1), Int(int64_t{1} << 40), yes}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("ShuffleAndRepeatDataset", {ten, Int(2), Int(1), Int(2), Int(-2)}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("PrefetchDataset", {ten, Int(-2)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("RebatchDataset", {ten, Int(0)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("RebatchDatasetV2", {ten, Tensor::Vector<int64_t>({0, 0}), yes}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("AutoShardDataset", {ten, Int(2), Int(2)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("SleepDataset", {ten, Int(-1)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("PrivateThreadPoolDataset", {ten, Int(-1)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("SlidingWindowDataset", {ten, Int(int64_t{1} << 40), Int(1), Int(int64_t{1} << 40)}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("DenseToSparseBatchDataset", {ten, Int(2), Tensor::Vector<int64_t>({-2})}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("OptimizeDataset", {none, Tensor::Vector<std::string>({})}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("TensorSliceDataset",
                   {std::vector<Tensor>{Tensor::Vector<float>({1, 2}), Tensor::Vector<float>({1, 2, 3})}},
                   {{"output_shapes", std::vector<PartialShape>(2)}}),
            absl::StatusCode::kInvalidArgument);
}

// The body comes with the graph of a client, who may have made it himself.
TEST(DatasetTest, ABodyWithTwoArgumentsOfOneNumber) {
  Graph body;
  const Scope s = body.root();
  const Output x = s.Add("_Arg", {}, {{"T", kInt64}, {"index", 0}});
  const Output y = s.Add("_Arg", {}, {{"T", kInt64}, {"index", 0}});
  const Output sum = s.Add("AddV2", {x, y});
  s.Add("_Retval", {sum}, {{"index", 0}});
  ASSERT_TRUE(s.ok()) << s.status();
  tensorflow::NodeDef node;
  SetAttr(node, "_graph_of_f", body.Export().SerializeAsString());
  const absl::Status status = CarriedFunction::Read(node, "f").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("two arguments have the number 0"));
}

TEST(DatasetTest, AFunctionWithoutItsBody) {
  tensorflow::AttrValue f;
  f.mutable_func()->set_name("F");
  std::vector<AttrArg> attrs = kTypes;
  attrs.emplace_back("f", f);
  EXPECT_EQ(CodeOf("MapDataset", {Numbers(0, 3), std::vector<Tensor>{}}, attrs), absl::StatusCode::kNotFound);
  attrs.emplace_back("_graph_of_f", "\xff nonsense");
  EXPECT_EQ(CodeOf("MapDataset", {Numbers(0, 3), std::vector<Tensor>{}}, attrs), absl::StatusCode::kInvalidArgument);
}

// A snapshot of one pipeline is found again by its fingerprint.
TEST(DatasetTest, FingerprintsOfPipelines) {
  const auto print = [](const Tensor& dataset) { return FingerprintOf(**DatasetIn(dataset)); };
  const auto take = [](const Tensor& dataset, int64_t n) {
    return RunOp("TakeDataset", {dataset, Int(n)}, kTypes).value()[0];
  };
  EXPECT_EQ(print(take(Numbers(0, 9), 3)), print(take(Numbers(0, 9), 3)));
  EXPECT_NE(print(take(Numbers(0, 9), 3)), print(take(Numbers(0, 9), 4)));
  EXPECT_NE(print(take(Numbers(0, 9), 3)), print(take(Numbers(0, 8), 3)));
  EXPECT_NE(print(take(Numbers(0, 9), 3)), print(Numbers(0, 9)));
  // Functions with the same nodes under other names are the same.
  const auto body = [](const char* op, const char* name) {
    Graph graph;
    const Scope s = graph.root();
    const Output x = s.WithOpName(absl::StrCat(name, "x")).Add("_Arg", {}, {{"T", kInt64}, {"index", 0}});
    s.WithOpName(absl::StrCat(name, "r")).Add("_Retval", {Output(s.WithOpName(name).Add(op, {x}))}, {{"index", 0}});
    EXPECT_TRUE(s.ok()) << s.status();
    return graph.Export().SerializeAsString();
  };
  const auto map = [&](const std::string& function, const std::string& graph) {
    tensorflow::AttrValue f;
    f.mutable_func()->set_name(function);
    std::vector<AttrArg> attrs = kTypes;
    attrs.emplace_back("f", f);
    attrs.emplace_back("_graph_of_f", graph);
    return RunOp("MapDataset", {Numbers(0, 3), std::vector<Tensor>{}}, attrs).value()[0];
  };
  EXPECT_EQ(print(map("F", body("Neg", "a"))), print(map("G", body("Neg", "b"))));
  EXPECT_NE(print(map("F", body("Neg", "a"))), print(map("F", body("Square", "a"))));
}

TEST(DatasetTest, RefusesBadSnapshots) {
  const Tensor path = Tensor::Scalar(std::string(testing::TempDir() + "/no_such_snapshot"));
  const auto with = [](std::vector<AttrArg> more) {
    more.insert(more.end(), kTypes.begin(), kTypes.end());
    return more;
  };
  const Tensor ten = Numbers(0, 10);
  EXPECT_EQ(CodeOf("SnapshotDataset", {ten, path}, with({{"mode", "sometimes"}})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("SnapshotDataset", {ten, path}, with({{"compression", "ZIP"}})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("SnapshotDataset", {ten, path}, with({{"pending_snapshot_expiry_seconds", 0}})),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("SnapshotDataset", {Tensor::Scalar(Variant()), path}), absl::StatusCode::kInvalidArgument);
}

TEST(DatasetTest, CardinalityAtTheEndsOfTheRange) {
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min(), kHigh = std::numeric_limits<int64_t>::max();
  EXPECT_EQ((*DatasetIn(Numbers(kLow, kHigh)))->cardinality(), kHigh);
  EXPECT_EQ((*DatasetIn(Numbers(kHigh, kLow, kLow)))->cardinality(), 2);
  EXPECT_EQ((*DatasetIn(Numbers(3, 3)))->cardinality(), 0);
}

}  // namespace
}  // namespace thalweg
