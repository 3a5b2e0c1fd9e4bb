// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

std::vector<Tensor> Results(absl::string_view op, std::vector<OpArg> inputs, std::vector<AttrArg> attrs = {}) {
  absl::StatusOr<std::vector<Tensor>> y = RunOp(op, std::move(inputs), std::move(attrs));
  EXPECT_TRUE(y.ok()) << op << ": " << y.status();
  return y.ok() ? *y : std::vector<Tensor>(4);
}

const Tensor kPlaces = Tensor::Of<int64_t>({3, 2}, {0, 1, 1, 0, 1, 2});
const Tensor kValues = Tensor::Vector<float>({1, 2, 3});
const Tensor kShape = Tensor::Vector<int64_t>({2, 3});
const Tensor kOutside = Tensor::Of<int64_t>({3, 2}, {0, 1, 1, 0, 1, 3});

TEST(SparseTest, Moves) {
  const std::vector<Tensor> sorted =
      Results("SparseReorder", {Tensor::Of<int64_t>({3, 2}, {1, 2, 0, 1, 1, 0}), kValues, kShape});
  ExpectTensor(sorted[0], kPlaces);
  ExpectTensor(sorted[1], Tensor::Vector<float>({2, 3, 1}));
  const std::vector<Tensor> flat = Results("SparseReshape", {kPlaces, kShape, Tensor::Vector<int64_t>({-1})});
  ExpectTensor(flat[0], Tensor::Of<int64_t>({3, 1}, {1, 3, 5}));
  ExpectTensor(flat[1], Tensor::Vector<int64_t>({6}));
  const std::vector<Tensor> part = Results(
      "SparseSlice", {kPlaces, kValues, kShape, Tensor::Vector<int64_t>({1, 1}), Tensor::Vector<int64_t>({9, 9})});
  ExpectTensor(part[0], Tensor::Of<int64_t>({1, 2}, {0, 1}));
  ExpectTensor(part[2], Tensor::Vector<int64_t>({1, 2}));
  // From before the first element: with what is not there, and overflow of nothing.
  const std::vector<Tensor> early = Results(
      "SparseSlice",
      {kPlaces, kValues, kShape, Tensor::Vector<int64_t>({-1, INT64_MIN}), Tensor::Vector<int64_t>({2, INT64_MAX})});
  EXPECT_EQ(early[0].shape(), Shape({0, 2}));
  const std::vector<Tensor> before = Results(
      "SparseSlice", {kPlaces, kValues, kShape, Tensor::Vector<int64_t>({-1, 0}), Tensor::Vector<int64_t>({2, 3})});
  ExpectTensor(before[0], Tensor::Of<int64_t>({1, 2}, {1, 1}));
  ExpectTensor(before[2], Tensor::Vector<int64_t>({2, 3}));
  const std::vector<Tensor> filled =
      Results("SparseFillEmptyRows", {kPlaces, kValues, Tensor::Vector<int64_t>({3, 3}), Tensor::Scalar(9.0f)});
  ExpectTensor(filled[1], Tensor::Vector<float>({1, 2, 3, 9}));
  ExpectTensor(filled[2], Tensor::Vector<bool>({false, false, true}));
}

TEST(SparseTest, Arithmetic) {
  const Tensor zero = Tensor::Scalar(0.0f);
  const std::vector<Tensor> sum = Results("SparseAdd", {kPlaces, kValues, kShape, kPlaces, kValues, kShape, zero});
  ExpectTensor(sum[1], Tensor::Vector<float>({2, 4, 6}));
  ExpectTensor(
      Results("SparseTensorDenseMatMul", {kPlaces, kValues, kShape, Tensor::Of<float>({3, 1}, {1, 10, 100})})[0],
      Tensor::Of<float>({2, 1}, {10, 302}));
  ExpectTensor(Results("SparseReduceSum", {kPlaces, kValues, kShape, Tensor::Vector<int32_t>({1})})[0],
               Tensor::Vector<float>({1, 5}));
  ExpectTensor(Results("SparseReduceMax", {kPlaces, kValues, kShape, Tensor::Vector<int32_t>({0})})[0],
               Tensor::Vector<float>({2, 1, 3}));
  ExpectTensor(Results("SparseDenseCwiseMul", {kPlaces, kValues, kShape, Tensor::Vector<float>({1, 10, 100})})[0],
               Tensor::Vector<float>({10, 2, 300}));
}

TEST(SparseTest, Serialized) {
  const Tensor bytes = Results("SerializeManySparse", {kPlaces, kValues, kShape})[0];
  EXPECT_EQ(bytes.shape(), Shape({2, 3}));
  const std::vector<Tensor> back = Results("DeserializeSparse", {bytes}, {{"dtype", kFloat}});
  ExpectTensor(back[0], kPlaces);
  ExpectTensor(back[1], kValues);
  ExpectTensor(back[2], kShape);
  EXPECT_FALSE(RunOp("DeserializeSparse", {bytes}, {{"dtype", kInt32}}).ok());
  EXPECT_FALSE(RunOp("DeserializeSparse", {Tensor::Vector<std::string>({"x", "y", "z"})}, {{"dtype", kFloat}}).ok());
  EXPECT_FALSE(RunOp("DeserializeSparse", {Tensor(kString, {0, 3})}, {{"dtype", kFloat}}).ok());
}

TEST(SparseTest, TensorsMap) {
  const std::vector<AttrArg> name{{"shared_name", "m"}};
  const std::vector<AttrArg> take{{"shared_name", "m"}, {"dtype", kFloat}};
  const Tensor handle = Results("AddSparseToTensorsMap", {kPlaces, kValues, kShape}, name)[0];
  const Tensor handles = Tensor::Vector<int64_t>({handle.scalar<int64_t>()});
  ExpectTensor(Results("TakeManySparseFromTensorsMap", {handles}, take)[1], kValues);
  // It is gone.
  EXPECT_THAT(RunOp("TakeManySparseFromTensorsMap", {handles}, take).status().message(), HasSubstr("Unable to find"));
  EXPECT_FALSE(RunOp("TakeManySparseFromTensorsMap", {handles}, {{"dtype", kFloat}}).ok());
}

TEST(SparseTest, Ragged) {
  const std::vector<Tensor> y =
      Results("RaggedTensorToSparse", {OpArg(std::vector<Tensor>{Tensor::Vector<int64_t>({0, 1, 1, 3})}), kValues});
  ExpectTensor(y[0], Tensor::Of<int64_t>({3, 2}, {0, 0, 2, 0, 2, 1}));
  ExpectTensor(y[2], Tensor::Vector<int64_t>({3, 2}));
  for (const Tensor& bad :
       {Tensor::Vector<int64_t>({0, 9, 3}), Tensor(kInt64, {0}), Tensor::Vector<int64_t>({-1, 3})}) {
    EXPECT_FALSE(RunOp("RaggedTensorToSparse", {OpArg(std::vector<Tensor>{bad}), kValues}).ok());
  }
  const auto range = [](int64_t start, int64_t limit, int64_t delta) {
    return RunOp("RaggedRange", {Tensor::Scalar(start), Tensor::Scalar(limit), Tensor::Scalar(delta)});
  };
  ExpectTensor((*range(5, 0, -2))[1], Tensor::Vector<int64_t>({5, 3, 1}));
  EXPECT_FALSE(range(0, 1, 0).ok());
  EXPECT_FALSE(range(INT64_MIN, INT64_MAX, 1).ok());
  EXPECT_EQ((*range(INT64_MIN, INT64_MAX, INT64_MAX))[1].num_elements(), 3);
}

TEST(SparseTest, SegmentGrads) {
  const Tensor rows = Tensor::Scalar<int32_t>(3);
  const std::vector<Tensor> y = Results(
      "SparseSegmentMeanGradV2",
      {Tensor::Vector<float>({2, 4}), Tensor::Vector<int32_t>({2, 0, 2}), Tensor::Vector<int32_t>({0, 0, 1}), rows});
  ExpectTensor(y[0], Tensor::Vector<float>({1, 5}));
  ExpectTensor(y[1], Tensor::Vector<int32_t>({0, 2}));
  EXPECT_FALSE(RunOp("SparseSegmentSumGradV2",
                     {Tensor::Vector<float>({2}), Tensor::Vector<int32_t>({0}), Tensor::Vector<int32_t>({1}), rows})
                   .ok());
}

TEST(SparseTest, BadInput) {
  const Tensor dense = TestValues(kFloat, {2, 3}), axis = Tensor::Vector<int32_t>({0}), zero = Tensor::Scalar(0.0f);
  const Tensor huge = Tensor::Vector<int64_t>({int64_t{1} << 62, int64_t{1} << 62});
  EXPECT_FALSE(RunOp("SparseReorder", {kOutside, kValues, kShape}).ok());
  EXPECT_FALSE(RunOp("SparseReshape", {kPlaces, huge, Tensor::Vector<int64_t>({-1})}).ok());
  EXPECT_FALSE(RunOp("SparseReshape", {kPlaces, kShape, Tensor::Vector<int64_t>({-1, 0})}).ok());
  EXPECT_FALSE(RunOp("SparseAdd", {kOutside, kValues, kShape, kPlaces, kValues, kShape, zero}).ok());
  EXPECT_FALSE(RunOp("SparseTensorDenseAdd", {kOutside, kValues, kShape, dense}).ok());
  EXPECT_FALSE(RunOp("SparseTensorDenseMatMul", {kOutside, kValues, kShape, TestValues(kFloat, {3, 2})}).ok());
  EXPECT_FALSE(RunOp("SparseReduceSum", {kPlaces, kValues, huge, Tensor(kInt32, {0})}).ok());
  EXPECT_FALSE(RunOp("SparseReduceSum", {kPlaces, kValues, kShape, Tensor::Vector<int32_t>({5})}).ok());
  EXPECT_FALSE(RunOp("SparseFillEmptyRows", {kPlaces, kValues, huge, zero}).ok());
  EXPECT_FALSE(RunOp("SerializeManySparse", {kPlaces, kValues, huge}).ok());
  EXPECT_FALSE(RunOp("SparseSoftmax", {kPlaces, kValues, Tensor::Vector<int64_t>({2})}).ok());
  EXPECT_FALSE(RunOp("SparseSlice", {kPlaces, kValues, kShape, Tensor::Vector<int64_t>({1}), kShape}).ok());
  const Tensor start = Tensor::Vector<int64_t>({0, 0}), size = Tensor::Vector<int64_t>({-1, 2});
  EXPECT_FALSE(RunOp("SparseSlice", {kPlaces, kValues, kShape, start, size}).ok());
  EXPECT_FALSE(
      RunOp("SparseDenseCwiseDiv", {kPlaces, Tensor::Vector<int32_t>({1, 2, 3}), kShape, Tensor::Zeros(kInt32, {2, 3})})
          .ok());
}

TEST(SparseTest, CrossWantsValuesForAllIndices) {
  const std::vector<Tensor> none;
  const auto cross = RunOp(
      "SparseCross", {OpArg(none), OpArg(std::vector<Tensor>{Tensor(kInt64, {2})}), OpArg(none), OpArg(none)},
      {{"hashed_output", true}, {"num_buckets", 0}, {"hash_key", 0}, {"out_type", kInt64}, {"internal_type", kInt64}});
  EXPECT_THAT(cross.status().message(), testing::HasSubstr("Expected values count 0"));
}

TEST(SparseTest, MatMulGradient) {
  for (const bool adjoint_a : {false, true}) {
    for (const bool adjoint_b : {false, true}) {
      ExpectGradient(
          [&](const Scope& s, const std::vector<Output>& x) {
            const auto integers = [&](const Tensor& t) {
              return Output(s.Add("Const", {}, {{"dtype", kInt64}, {"value", t}}));
            };
            const Output places = integers(Tensor::Of<int64_t>({3, 2}, {0, 1, 2, 0, 2, 2}));
            return Output(s.Add("SparseTensorDenseMatMul",
                                {places, x[0], integers(Tensor::Vector<int64_t>({3, 3})), x[1]},
                                {{"adjoint_a", adjoint_a}, {"adjoint_b", adjoint_b}}));
          },
          {TestValues(kDouble, {3}), TestValues(kDouble, adjoint_b ? Shape({2, 3}) : Shape({3, 2}), -1, 1, 2)});
    }
  }
}

TEST(SparseTest, TheGradientOfASumWantsMatrices) {
  const Tensor matrix(kInt64, {0, 2});
  const auto result = RunOp("SparseAddGrad", {Tensor(kFloat, {0}), matrix, matrix, Tensor(kInt64, Shape({0}))});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
}

TEST(SparseCrossTest, NoColumnsHaveNoCrosses) {
  const std::vector<Tensor> none;
  const auto y = RunOp("SparseCrossV2", {none, none, none, none, Tensor::Scalar<std::string>("_")}, {{"N", 0}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].shape(), Shape({0, 2}));
  ExpectTensor((*y)[2], Tensor::Vector<int64_t>({0, 0}));
}

// TensorFlow's own tests look for these words.
TEST(SparseCrossTest, ErrorsSayWhichInputIsWrong) {
  const Tensor words = Tensor::Of<std::string>({1, 1}, {"a"});
  const auto salted =
      RunOp("SparseCrossHashed",
            {std::vector<Tensor>{}, std::vector<Tensor>{}, std::vector<Tensor>{}, std::vector<Tensor>{words},
             Tensor::Scalar<int64_t>(5), Tensor::Scalar<bool>(false), Tensor::Vector<int64_t>({1, 2, 3})},
            {{"N", 0}});
  EXPECT_THAT(salted.status().message(), testing::HasSubstr("Input \"salt\" must have length 2 but has length 3"));
  const auto shaped = RunOp("SparseCrossV2", {std::vector<Tensor>{Tensor::Of<int64_t>({1, 2}, {0, 0})},
                                              std::vector<Tensor>{Tensor::Vector<std::string>({"a"})},
                                              std::vector<Tensor>{Tensor::Scalar<int64_t>(2)}, std::vector<Tensor>{},
                                              Tensor::Scalar<std::string>("_")});
  EXPECT_THAT(shaped.status().message(), testing::HasSubstr("Input shapes should be a vector but received shape []"));
  const auto ragged = RunOp(
      "RaggedCross",
      {std::vector<Tensor>{Tensor::Vector<std::string>({"a"})}, std::vector<Tensor>{Tensor::Vector<int64_t>({0, 2})},
       std::vector<Tensor>{}, std::vector<Tensor>{}, std::vector<Tensor>{}, std::vector<Tensor>{}},
      {{"Nsparse", 0},
       {"input_order", "R"},
       {"hashed_output", false},
       {"num_buckets", 0},
       {"hash_key", 0},
       {"out_values_type", kString},
       {"out_row_splits_type", kInt64}});
  EXPECT_THAT(ragged.status().message(), testing::HasSubstr("Invalid RaggedTensor: "));
}

}  // namespace
}  // namespace thalweg
