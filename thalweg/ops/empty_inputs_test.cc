// SPDX-License-Identifier: Apache-2.0
// Tensors without elements, and huge dimensions beside the one that is 0: what
// fuzz_test.cc found, each by itself.
#include <limits>
#include <optional>

#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/support/fuzz_guard_testlib.h"

namespace thalweg {
namespace {

using Code = absl::StatusCode;

struct Case {
  const char* op;
  std::vector<OpArg> inputs;
  std::vector<AttrArg> attrs = {};
  std::optional<Code> code = {};  // none: that of most
};

void ExpectCodes(absl::Span<const Case> cases, Code most) {
  for (const Case& c : cases) {
    FuzzCase() = c.op;
    const absl::Status status = RunOp(c.op, c.inputs, c.attrs).status();
    EXPECT_EQ(status.code(), c.code.value_or(most)) << c.op << ": " << status;
  }
}

// Tensors without elements may have any number of rows: no kernel may count or
// keep something for each.
TEST(EmptyInputsTest, RowsOfNothing) {
  constexpr int64_t kMany = int64_t{1} << 60;
  const Tensor rows = Tensor::Zeros(kFloat, {kMany, 0}), zero = Tensor::Vector<int32_t>({0});
  const Tensor last = Tensor::Vector<int64_t>({std::numeric_limits<int64_t>::max()}), one = TestValues(kFloat, {1, 1});
  const auto code = [](absl::string_view op, std::vector<OpArg> inputs, std::vector<AttrArg> attrs = {}) {
    return RunOp(op, std::move(inputs), std::move(attrs)).status().code();
  };
  EXPECT_EQ(code("TensorListFromTensor", {rows, zero}), Code::kResourceExhausted);
  EXPECT_EQ(code("UniqueV2", {rows, Tensor::Vector<int64_t>({0})}), Code::kResourceExhausted);
  EXPECT_EQ(code("SparseSegmentMeanGrad", {rows, zero, zero, Tensor::Scalar<int32_t>(1)}), Code::kOk);
  EXPECT_EQ(code("SparseSegmentSumGradV2", {rows, zero, zero, Tensor::Scalar<int32_t>(1)}), Code::kOk);
  EXPECT_EQ(code("BatchMatMulV2", {Tensor::Zeros(kFloat, {kMany, 0, 2}), TestValues(kFloat, {1, 2, 3})}), Code::kOk);
  EXPECT_EQ(code("SegmentSum", {one, last}), Code::kInvalidArgument);
  EXPECT_EQ(code("SparseSegmentSum", {one, zero, last}), Code::kInvalidArgument);
}

// The same for all sorts of inputs: each of these took for ever, or all memory,
// or ended the process.
TEST(EmptyInputsTest, OfAllSorts) {
  constexpr int64_t kMany = int64_t{1} << 56;
  const auto floats = [](Shape shape) { return Tensor::Zeros(kFloat, std::move(shape)); };
  const auto ints = [](std::initializer_list<int32_t> v) { return Tensor::Vector<int32_t>(v); };
  const Tensor rows = floats({kMany, 0}), matrices = floats({kMany, 0, 0}), images = floats({kMany, 2, 4, 0});
  const Tensor volumes = floats({kMany, 2, 2, 2, 0}), places = Tensor::Zeros(kInt64, {kMany, 0});
  const Tensor no_longs = Tensor::Zeros(kInt64, {0}), zero = Tensor::Scalar<int64_t>(0);
  const Tensor pads = Tensor::Zeros(kInt32, {2, 2}), axes = ints({1, 3});
  const std::vector<int64_t> ones4(4, 1), ones5(5, 1);
  const std::vector<AttrArg> pool = {{"ksize", ones4}, {"strides", ones4}, {"padding", "SAME"}};
  const std::vector<AttrArg> pool3d = {{"ksize", ones5}, {"strides", ones5}, {"padding", "SAME"}};
  const AttrArg reflect("mode", "REFLECT"), nchw("data_format", "NCHW");
  const Case cases[] = {
      {"Cholesky", {matrices}},
      {"CholeskyGrad", {matrices, matrices}},
      {"Svd", {matrices}, {{"full_matrices", true}}},
      {"MatrixBandPart", {rows, zero, zero}},
      {"BatchMatrixBandPart", {rows, zero, zero}},
      {"Fingerprint",
       {floats({int64_t{1} << 60, 0}), Tensor::Scalar<std::string>("farmhash64")},
       {},
       Code::kInvalidArgument},
      {"MaxPool", {images}, pool},
      {"MaxPool3D", {volumes}, pool3d},
      {"MaxPoolGrad", {images, images, images}, pool},
      {"MaxPoolGradGrad", {images, images, images}, pool},
      {"MaxPool3DGrad", {volumes, volumes, volumes}, pool3d},
      {"MirrorPad", {rows, pads}, {reflect}, Code::kInvalidArgument},
      {"MirrorPad", {rows, pads}, {{"mode", "SYMMETRIC"}}},
      {"MirrorPadGrad", {rows, pads}, {{"mode", "SYMMETRIC"}}},
      {"QuantizeAndDequantizeV2",
       {floats({0, kMany}), Tensor::Scalar<float>(0), Tensor::Scalar<float>(1)},
       {{"axis", 1}, {"range_given", false}}},
      {"GatherNd", {floats({0, 3}), places}},
      {"GatherNd", {floats({3, 0}), Tensor::Zeros(kInt32, {kMany / 4, 0})}},
      {"TensorScatterUpdate", {floats({0}), places, floats({kMany, 0})}},
      {"SparseReshape", {places, no_longs, no_longs}},
      {"SparseToDense", {places, no_longs, Tensor::Scalar<float>(1), Tensor::Scalar<float>(2)}},
      {"ResizeBilinearGrad", {images, floats({1, 3, 3, 1})}},
      {"ResizeNearestNeighborGrad", {images, ints({3, 3})}},
      {"ScaleAndTranslate", {images, ints({2, 4}), Tensor::Vector<float>({1, 1}), Tensor::Vector<float>({0, 0})}},
      {"ResizeBicubicGrad", {images, floats({1, 3, 3, 1})}},
      {"AudioSummaryV2",
       {Tensor::Scalar<std::string>("tag"), rows, Tensor::Scalar<float>(8)},
       {{"max_outputs", 1 << 30}},
       Code::kInvalidArgument},
      {"SampleDistortedBoundingBoxV2",
       {ints({4, 4, 3}), floats({1, 1, 4}), Tensor::Scalar<float>(0.5f)},
       {{"max_attempts", std::numeric_limits<int32_t>::max()}}},
      {"BiasAdd", {rows, floats({0})}},
      {"DrawBoundingBoxes", {floats({kMany, 0, 4, 1}), floats({kMany, 0, 4})}},
      {"DrawBoundingBoxes", {floats({0, 1 << 30, 1 << 30, 4}), floats({0, 2, 4})}},
      {"BiasAddGrad", {floats({kMany, 1, 4, 0})}, {nchw}},
      {"StringFormat", {std::vector<Tensor>{rows}}, {{"template", "%s"}, {"summarize", -1}}},
      {"StringFormat",
       {std::vector<Tensor>{floats({1 << 30, 1 << 30, 0})}},
       {{"template", "%s"}, {"summarize", 1 << 30}}},
      {"Sum", {floats({2, int64_t{1} << 40, 3, 0}), axes}},
      {"FusedBatchNormGradV3",
       {floats({kMany, 0, 2, 2}), floats({kMany, 0, 2, 2}), floats({0}), floats({0}), floats({0}), floats({0})},
       {nchw}},
  };
  ExpectCodes(cases, Code::kOk);
  ExpectTensor((*RunOp("Sum", {floats({2, int64_t{1} << 40, 3, 0}), axes}))[0], floats({2, 3}));
  // Time steps without elements.
  const auto lstm = [&](int64_t batch, int64_t depth, int64_t units, bool gradient) {
    const Tensor state = floats({batch, units}), peephole = floats({units}), all = floats({kMany, batch, units});
    std::vector<OpArg> inputs = {Tensor::Scalar<int64_t>(kMany),
                                 floats({kMany, batch, depth}),
                                 state,
                                 state,
                                 floats({depth + units, 4 * units}),
                                 peephole,
                                 peephole,
                                 peephole,
                                 floats({4 * units})};
    if (gradient) inputs.insert(inputs.end(), 9, all);
    return RunOp(gradient ? "BlockLSTMGrad" : "BlockLSTM", inputs, {{"use_peephole", true}}).status();
  };
  for (const bool gradient : {false, true}) {
    EXPECT_TRUE(lstm(0, 3, 2, gradient).ok());
    EXPECT_TRUE(lstm(1, 0, 0, gradient).ok());
  }
  EXPECT_TRUE(RunOp("AvgPoolGrad", {ints({1 << 30, 2, 4, 0}), floats({1 << 30, 2, 4, 0})}, pool).ok());
}

class NoMemory : public Allocator {
  void* Allocate(size_t) override { return nullptr; }
  void Deallocate(void*, size_t) override {}
  AllocatorStats Stats() const override { return {}; }
};

// Ops that copy their input find no memory for the copy.
TEST(EmptyInputsTest, NoMemoryForACopy) {
  IntraOpPool intra_op_pool(0);
  NoMemory no_memory;
  Device device(*DeviceName::Parse("/job:localhost/replica:0/task:0/device:CPU:0"), &intra_op_pool, &no_memory);
  const Tensor x = TestValues(kFloat, {1, 2, 2, 1}), boxes = Tensor::Zeros(kFloat, {1, 1, 4});
  Graph graph;
  const Scope s = graph.root();
  const Output images = s.Add("_Arg", {}, {{"T", kFloat}, {"index", 0}});
  const Output places = s.Add("_Arg", {}, {{"T", kFloat}, {"index", 1}});
  const Output copy = s.Add("DeepCopy", {images}), drawn = s.Add("DrawBoundingBoxes", {images, places});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(RunNode(*copy.node, {x}, device).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(RunNode(*drawn.node, {x, boxes}, device).status().code(), Code::kResourceExhausted);
}

// A few numbers, or a product of small inputs, may ask for more than there is.
// Sanitizers need the address space that this takes away.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(EmptyInputsTest, ValuesThatAskForMemory) {
  FuzzGuard guard(int64_t{512} << 20);
  constexpr int64_t kMany = int64_t{1} << 26;
  const auto longs = [](std::initializer_list<int64_t> v) { return Tensor::Vector<int64_t>(v); };
  const Tensor place = Tensor::Of<int64_t>({1, 2}, {0, 0}), value = Tensor::Vector<float>({1});
  const Tensor half = Tensor::Zeros(kHalf, {1}), column = Tensor::Zeros(kHalf, {1 << 13, 1});
  const std::vector<std::string> splits = {"ROW_SPLITS"};
  const Case cases[] = {
      {"SparseFillEmptyRows", {place, value, longs({kMany, 1}), Tensor::Scalar<float>(0)}},
      {"SparseTensorDenseMatMul", {place, half, longs({2 * kMany, 1}), Tensor::Zeros(kHalf, {1, 1})}},
      {"FractionalAvgPoolGrad",
       {longs({1, kMany, 1, 1}), Tensor::Zeros(kFloat, {1, 1, 1, 1}), longs({0, 1}), longs({0, 1})}},
      {"StatelessRandomBinomial",
       {longs({1 << 13, 1 << 13}), longs({1, 2}), column, column.WithShape(Shape({1, 1 << 13}))},
       {{"dtype", kHalf}}},
      {"SerializeManySparse", {place, value, longs({kMany, 1})}},
      {"SparseCross",
       {std::vector<Tensor>{place}, std::vector<Tensor>{longs({1})}, std::vector<Tensor>{longs({kMany / 2, 1})},
        std::vector<Tensor>{}},
       {{"hashed_output", true}, {"num_buckets", 0}, {"hash_key", 1}, {"out_type", kInt64}, {"internal_type", kInt64}}},
      {"RaggedTensorToTensor",
       {Tensor::Scalar<int64_t>(-1), Tensor::Zeros(kFloat, {0, int64_t{1} << 40}), Tensor::Scalar<float>(0),
        std::vector<Tensor>{longs({0})}},
       {{"row_partition_types", splits}},
       Code::kOk},
  };
  ExpectCodes(cases, Code::kResourceExhausted);
}
#endif

}  // namespace
}  // namespace thalweg
