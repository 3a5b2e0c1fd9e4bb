// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "thalweg/kernel/evaluate.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

Tensor ReductionResult(absl::string_view op, const Tensor& x, std::vector<int32_t> axes, bool keep_dims = false) {
  absl::StatusOr<std::vector<Tensor>> y =
      RunOp(op, {x, Tensor::Vector<int32_t>(absl::MakeConstSpan(axes))}, {{"keep_dims", keep_dims}});
  EXPECT_TRUE(y.ok()) << op << ": " << y.status();
  return y.ok() ? (*y)[0] : Tensor();
}

TEST(ReductionTest, Axes) {
  const Tensor x = Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectTensor(ReductionResult("Sum", x, {0}), Tensor::Vector<float>({5, 7, 9}));
  ExpectTensor(ReductionResult("Sum", x, {1}), Tensor::Vector<float>({6, 15}));
  ExpectTensor(ReductionResult("Sum", x, {-1}), Tensor::Vector<float>({6, 15}));
  ExpectTensor(ReductionResult("Sum", x, {0, 1}), Tensor::Scalar<float>(21));
  ExpectTensor(ReductionResult("Sum", x, {}), x);
  ExpectTensor(ReductionResult("Sum", x, {1}, true), Tensor::Of<float>({2, 1}, {6, 15}));
  ExpectTensor(ReductionResult("Sum", x, {0, 1}, true), Tensor::Of<float>({1, 1}, {21}));
  ExpectTensor(ReductionResult("Mean", x, {0}), Tensor::Vector<float>({2.5, 3.5, 4.5}));
  ExpectTensor(ReductionResult("Prod", x, {1}), Tensor::Vector<float>({6, 120}));
  ExpectTensor(ReductionResult("Max", x, {0}), Tensor::Vector<float>({4, 5, 6}));
  ExpectTensor(ReductionResult("Min", x, {1}), Tensor::Vector<float>({1, 4}));
  ExpectTensor(ReductionResult("EuclideanNorm", x, {1}), Tensor::Vector<float>({std::sqrt(14.0f), std::sqrt(77.0f)}));
}

TEST(ReductionTest, AxesAsTheyAreWritten) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Const(s, Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const auto run = [&](Output y) {
    EXPECT_TRUE(s.ok()) << s.status();
    return (*Evaluate(graph, {}, {y}, TestDevice()))[0];
  };
  ExpectTensor(run(ReduceSum(s, x, 0)), Tensor::Vector<float>({5, 7, 9}));
  ExpectTensor(run(ReduceSum(s, x, -1, {.keep_dims = true})), Tensor::Of<float>({2, 1}, {6, 15}));
  ExpectTensor(run(ReduceSum(s, x, {1})), Tensor::Vector<float>({6, 15}));
  ExpectTensor(run(ReduceSum(s, x, {0, 1})), Tensor::Scalar<float>(21));
  ExpectTensor(run(ReduceSum(s, x, {})), Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  ExpectTensor(run(ReduceSum(s, x, std::vector<int32_t>{0})), Tensor::Vector<float>({5, 7, 9}));
  ExpectTensor(run(ReduceSum(s, x, Const(s, 0))), Tensor::Vector<float>({5, 7, 9}));
  ExpectTensor(run(ReduceMax(s, x)), Tensor::Scalar<float>(6));
  ExpectTensor(run(ReduceMin(s, x)), Tensor::Scalar<float>(1));
  ExpectTensor(run(ReduceProd(s, x)), Tensor::Scalar<float>(720));
  ExpectTensor(run(EuclideanNorm(s, x)), Tensor::Scalar<float>(std::sqrt(91.0f)));
  const Output large = Greater(s, x, Const(s, 5.f));
  ExpectTensor(run(ReduceAny(s, large)), Tensor::Scalar(true));
  ExpectTensor(run(ReduceAll(s, large)), Tensor::Scalar(false));
  ExpectTensor(run(ReduceAny(s, large, 1)), Tensor::Vector<bool>({false, true}));
  // The rank is known only when the step runs.
  const Output any = Placeholder(s, kFloat);
  const auto sum = Evaluate(graph, {{any, Tensor::Of<float>({2, 1}, {1, 2})}}, {ReduceSum(s, any)}, TestDevice());
  ASSERT_TRUE(sum.ok()) << sum.status();
  ExpectTensor((*sum)[0], Tensor::Scalar<float>(3));
}

TEST(ReductionTest, ScalarAxisAndInt64Axes) {
  const Tensor x = Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectTensor((*RunOp("Sum", {x, Tensor::Scalar<int64_t>(0)}))[0], Tensor::Vector<float>({5, 7, 9}));
}

// Every set of axes of a tensor of rank 4, against loops.
TEST(ReductionTest, AnySetOfAxes) {
  const Shape shape({2, 3, 4, 5});
  Tensor x(kInt64, shape);
  for (int64_t i = 0; i < x.num_elements(); ++i) x.flat<int64_t>()[i] = i * i % 97;
  for (int mask = 0; mask < 16; ++mask) {
    std::vector<int32_t> axes;
    Shape kept({1, 1, 1, 1});
    for (int d = 0; d < 4; ++d) {
      if (mask >> d & 1) {
        axes.push_back(d);
      } else {
        kept.set_dim(d, shape.dim(d));
      }
    }
    Tensor sum = Tensor::Zeros(kInt64, kept), max = Tensor::Zeros(kInt64, kept);
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      int64_t rest = i, at = 0, stride = 1;
      for (int d = 3; d >= 0; --d) {
        if (!(mask >> d & 1)) {
          at += rest % shape.dim(d) * stride;
          stride *= shape.dim(d);
        }
        rest /= shape.dim(d);
      }
      sum.flat<int64_t>()[at] += x.flat<int64_t>()[i];
      max.flat<int64_t>()[at] = std::max(max.flat<int64_t>()[at], x.flat<int64_t>()[i]);
    }
    SCOPED_TRACE(mask);
    ExpectTensor(ReductionResult("Sum", x, axes, true), sum);
    ExpectTensor(ReductionResult("Max", x, axes, true), max);
  }
}

TEST(ReductionTest, LargeAndSharedBetweenThreads) {
  const Tensor x = TestValues(kFloat, {1000, 500});
  double all = 0;
  std::vector<double> rows(1000), columns(500);
  for (int r = 0; r < 1000; ++r) {
    for (int c = 0; c < 500; ++c) {
      const double v = x.data<float>()[r * 500 + c];
      all += v;
      rows[r] += v;
      columns[c] += v;
    }
  }
  EXPECT_NEAR(ReductionResult("Sum", x, {0, 1}).scalar<float>(), all, 0.05);
  const Tensor by_row = ReductionResult("Sum", x, {1}), by_column = ReductionResult("Sum", x, {0});
  for (int r = 0; r < 1000; ++r) ASSERT_NEAR(by_row.data<float>()[r], rows[r], 1e-3);
  for (int c = 0; c < 500; ++c) ASSERT_NEAR(by_column.data<float>()[c], columns[c], 1e-3);
}

TEST(ReductionTest, Integers) {
  const Tensor x = Tensor::Vector<int32_t>({-7, 2});
  ExpectTensor(ReductionResult("Mean", x, {0}), Tensor::Scalar<int32_t>(-2));
  ExpectTensor(ReductionResult("EuclideanNorm", Tensor::Vector<int32_t>({3, 5}), {0}), Tensor::Scalar<int32_t>(5));
  Tensor hundreds(kInt8, {300});
  for (int8_t& v : hundreds.flat<int8_t>()) v = 100;
  ExpectTensor(ReductionResult("Sum", hundreds, {0}), Tensor::Scalar<int8_t>(48));
  ExpectTensor(ReductionResult("Mean", hundreds, {0}), Tensor::Scalar<int8_t>(100));
}

TEST(ReductionTest, OtherTypes) {
  ExpectTensor(ReductionResult("Sum", Tensor::Vector<Half>({Half(1), Half(2)}), {0}), Tensor::Scalar<Half>(Half(3)));
  ExpectTensor(ReductionResult("Mean", Tensor::Vector<BFloat16>({BFloat16(1), BFloat16(2)}), {0}),
               Tensor::Scalar<BFloat16>(BFloat16(1.5)));
  using C = std::complex<float>;
  ExpectTensor(ReductionResult("Prod", Tensor::Vector<C>({{1, 2}, {3, 4}}), {0}), Tensor::Scalar<C>({-5, 10}));
  ExpectTensor(ReductionResult("EuclideanNorm", Tensor::Vector<C>({{3, 4}, {0, 0}}), {0}), Tensor::Scalar<C>({5, 0}));
}

TEST(ReductionTest, NanIsPassedOn) {
  Tensor x = Tensor::Zeros(kFloat, {200});
  x.flat<float>()[77] = kNan;
  for (const char* op : {"Max", "Min", "Sum", "Mean", "Prod"})
    ExpectTensor(ReductionResult(op, x, {0}), Tensor::Scalar<float>(kNan));
}

TEST(ReductionTest, Empty) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x(kFloat, {2, 0});
  ExpectTensor(ReductionResult("Sum", x, {1}), Tensor::Vector<float>({0, 0}));
  ExpectTensor(ReductionResult("Prod", x, {1}), Tensor::Vector<float>({1, 1}));
  ExpectTensor(ReductionResult("Max", x, {1}), Tensor::Vector<float>({-inf, -inf}));
  ExpectTensor(ReductionResult("Min", x, {1}), Tensor::Vector<float>({inf, inf}));
  ExpectTensor(ReductionResult("Mean", x, {1}), Tensor::Vector<float>({kNan, kNan}));
  ExpectTensor(ReductionResult("Sum", x, {0}), Tensor(kFloat, {0}));
  ExpectTensor(ReductionResult("Mean", Tensor(kInt32, {0}), {0}), Tensor::Scalar<int32_t>(0));
  ExpectTensor(ReductionResult("Min", Tensor(kInt32, {0}), {0}),
               Tensor::Scalar<int32_t>(std::numeric_limits<int32_t>::max()));
}

TEST(ReductionTest, AllAndAny) {
  const Tensor x = Tensor::Of<bool>({2, 2}, {true, false, true, true});
  ExpectTensor(ReductionResult("All", x, {1}), Tensor::Vector<bool>({false, true}));
  ExpectTensor(ReductionResult("Any", x, {0}), Tensor::Vector<bool>({true, true}));
  ExpectTensor(ReductionResult("All", Tensor(kBool, {0}), {0}), Tensor::Scalar<bool>(true));
  ExpectTensor(ReductionResult("Any", Tensor(kBool, {0}), {0}), Tensor::Scalar<bool>(false));
}

TEST(ReductionTest, BadAxes) {
  const Tensor x = Tensor::Zeros(kFloat, {2, 2});
  absl::Status status = RunOp("Sum", {x, Tensor::Vector<int32_t>({5})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("Invalid reduction dimension (5 for input with 2 dimension(s)"));
  status = RunOp("Max", {x, Tensor::Vector<int32_t>({0, -2})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("duplicate"));
}

TEST(ReductionTest, Shapes) {
  EXPECT_EQ(*InferShape("Sum", {{kFloat, {2, 3}}, {kInt32, {1}}}), "<unknown>");
  EXPECT_EQ(*InferShape("Sum", {{kFloat, {2, 3}}, {kInt32, {1}}}, {{"keep_dims", true}}), "[?,?]");
  Graph graph;
  const Scope s = graph.root();
  const Output x = s.Add("Placeholder", {}, {{"dtype", kFloat}, {"shape", PartialShape({-1, 3})}});
  EXPECT_EQ(ReduceSum(s, x, {1}).shape().ToString(), "[?]");
  EXPECT_EQ(ReduceSum(s, x, {0}, {.keep_dims = true}).shape().ToString(), "[1,3]");
  EXPECT_EQ(ReduceMean(s, x).shape().ToString(), "[]");
  ASSERT_TRUE(s.ok()) << s.status();
}

TEST(ReductionTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 3, 2}, 0.5, 1.5);
  for (const char* op : {"Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm"}) {
    for (const std::vector<int32_t>& axes : std::vector<std::vector<int32_t>>{{0}, {1}, {-1}, {0, 2}, {0, 1, 2}, {}}) {
      for (const bool keep_dims : {false, true}) {
        SCOPED_TRACE(absl::StrCat(op, " ", axes.size(), " axes ", keep_dims));
        const Tensor indices = Tensor::Vector<int32_t>(absl::MakeConstSpan(axes));
        ExpectGradient(
            [&](const Scope& s, const std::vector<Output>& in) {
              const Output constant = s.Add("Const", {}, {{"dtype", kInt32}, {"value", indices}});
              return Output(s.Add(op, {in[0], constant}, {{"keep_dims", keep_dims}}));
            },
            {x});
      }
    }
  }
}

TEST(ReductionTest, GradientsOfUnknownShapesAndAxes) {
  const Tensor x = TestValues(kDouble, {2, 3, 2}, 0.5, 1.5);
  for (const char* op : {"Sum", "Mean", "Max", "EuclideanNorm"}) {
    SCOPED_TRACE(op);
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& in) {
          const Output hidden = s.Add("PlaceholderWithDefault", {in[0]}, {{"shape", PartialShape()}});
          return Output(s.Add(op, {hidden, in[1]}));
        },
        {x, Tensor::Vector<int32_t>({0, -1})});
  }
}

TEST(ReductionTest, GradientOfProdWithZeros) {
  Tensor x = TestValues(kDouble, {2, 3}, 0.5, 1.5);
  x.flat<double>()[1] = 0;
  ExpectGradient([&](const Scope& s, const std::vector<Output>& in) { return ReduceProd(s, in[0], {1}); }, {x});
}

TEST(ArgMaxTest, Values) {
  const Tensor x = Tensor::Of<float>({2, 3}, {1, 5, 5, 4, 0, 2});
  ExpectTensor((*RunOp("ArgMax", {x, Tensor::Scalar<int32_t>(1)}))[0], Tensor::Vector<int64_t>({1, 0}));
  ExpectTensor((*RunOp("ArgMax", {x, Tensor::Scalar<int32_t>(0)}))[0], Tensor::Vector<int64_t>({1, 0, 0}));
  ExpectTensor((*RunOp("ArgMin", {x, Tensor::Scalar<int64_t>(-1)}, {{"output_type", kInt32}}))[0],
               Tensor::Vector<int32_t>({0, 1}));
  ExpectTensor((*RunOp("ArgMax", {Tensor::Vector<float>({kNan, 1, 2}), Tensor::Scalar<int32_t>(0)}))[0],
               Tensor::Scalar<int64_t>(2));
  ExpectTensor((*RunOp("ArgMax", {Tensor::Vector<bool>({false, true}), Tensor::Scalar<int32_t>(0)}))[0],
               Tensor::Scalar<int64_t>(1));
  ExpectTensor((*RunOp("ArgMin", {Tensor::Vector<Half>({Half(2), Half(1)}), Tensor::Scalar<int32_t>(0)}))[0],
               Tensor::Scalar<int64_t>(1));
}

TEST(ArgMaxTest, LongRows) {
  const Tensor x = TestValues(kFloat, {10, 1000});
  const Tensor y = (*RunOp("ArgMax", {x, Tensor::Scalar<int32_t>(1)}))[0];
  for (int r = 0; r < 10; ++r) {
    const float* row = x.data<float>() + r * 1000;
    EXPECT_EQ(y.data<int64_t>()[r], std::max_element(row, row + 1000) - row);
  }
}

TEST(ArgMaxTest, BadInput) {
  const Tensor x(kFloat, {2, 0});
  absl::Status status = RunOp("ArgMax", {x, Tensor::Scalar<int32_t>(1)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("Reduction axis 1 is empty in shape [2,0]"));
  status = RunOp("ArgMax", {x, Tensor::Scalar<int32_t>(4)}).status();
  EXPECT_THAT(status.message(), HasSubstr("Expected dimension in the range [-2, 2), but got 4"));
  EXPECT_FALSE(RunOp("ArgMax", {x, Tensor::Vector<int32_t>({0})}).ok());
  EXPECT_FALSE(RunOp("ArgMax", {Tensor::Scalar<float>(1), Tensor::Scalar<int32_t>(0)}).ok());
  ExpectTensor((*RunOp("ArgMax", {x, Tensor::Scalar<int32_t>(0)}))[0], Tensor(kInt64, {0}));
}

TEST(ArgMaxTest, Shapes) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = s.Add("Placeholder", {}, {{"dtype", kFloat}, {"shape", PartialShape({-1, 10})}});
  EXPECT_EQ(ArgMax(s, x, 1).shape().ToString(), "[?]");
  EXPECT_EQ(ArgMax(s, x, 0).shape().ToString(), "[10]");
}

}  // namespace
}  // namespace thalweg
