// SPDX-License-Identifier: Apache-2.0
// Every gradient is compared with central differences: here, where the tests of
// its family do not. When all tests have run, none may be missing.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

using Sizes = std::vector<int64_t>;

// An argument of an op: differentiated if it is a floating one.
struct Arg {
  Arg(Tensor t) : value(std::move(t)), fixed(!IsFloating(value.dtype())) {}  // NOLINT
  Tensor value;
  bool fixed;
};
Arg Fixed(Tensor t) {
  Arg arg(std::move(t));
  arg.fixed = true;
  return arg;
}
Arg Ints(std::vector<int32_t> values) { return Tensor::Vector<int32_t>(absl::MakeConstSpan(values)); }
Tensor Values(const Shape& shape, int seed = 1, double low = -1, double high = 1) {
  return TestValues(kDouble, shape, low, high, seed);
}
Tensor Floats(const Shape& shape, int seed = 1) { return TestValues(kFloat, shape, -1, 1, seed); }

void Check(absl::string_view op, const std::vector<Arg>& args, std::vector<AttrArg> attrs = {}, int output = 0,
           double tolerance = 1e-5) {
  SCOPED_TRACE(op);
  std::vector<Tensor> xs;
  for (const Arg& arg : args) {
    if (!arg.fixed) xs.push_back(arg.value);
  }
  ExpectGradient(
      [&](const Scope& s, const std::vector<Output>& x) {
        std::vector<OpInput> inputs;
        size_t next = 0;
        for (const Arg& arg : args) inputs.emplace_back(arg.fixed ? Const(s, arg.value) : x[next++]);
        Node* const node = s.Add(op, std::move(inputs), attrs);
        return node == nullptr ? Output() : node->out(output);
      },
      xs, tolerance);
}

TEST(GradientsTest, Arithmetic) {
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Output(
            s.Add("AccumulateNV2", {std::vector<Output>{x[0], x[1], x[0]}}, {{"shape", PartialShape({2, 3})}}));
      },
      {Values({2, 3}), Values({2, 3}, 2)});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        const Output z = s.Add("Complex", {x[0], x[1]}, {{"Tout", kComplex128}});
        return Output(s.Add("Angle", {z}, {{"Tout", kDouble}}));
      },
      {Values({2, 3}), Values({2, 3}, 2)});
  Check("NextAfter", {Values({4}), Values({4}, 2)});
  Check("Sign", {Values({4})});
  Check("Polygamma", {Fixed(Tensor::Of<double>({2}, {1, 3})), Values({2}, 1, 0.5, 3)});
  Check("Zeta", {Fixed(Tensor::Of<double>({2}, {2.5, 4})), Values({2}, 1, 0.5, 3)});
  Check("CheckNumericsV2", {Values({4})}, {{"message", ""}});
  Check("DebugGradientIdentity", {Values({4})});
  Check("BiasAddV1", {Values({2, 2, 3}), Values({3})});
  Check("BatchMatMul", {Values({2, 2, 3}), Values({2, 4, 3}, 2)}, {{"adj_y", true}});
  Check("BatchMatMulV3", {Values({2, 2, 3}), Values({3, 4}, 2)}, {{"Tout", kDouble}});
}

TEST(GradientsTest, Diagonals) {
  Check("BatchMatrixBandPart", {Values({2, 3, 4}), Tensor::Scalar<int64_t>(1), Tensor::Scalar<int64_t>(0)});
  Check("BatchMatrixDiag", {Values({2, 3})});
  Check("BatchMatrixDiagPart", {Values({2, 3, 3})});
  Check("BatchMatrixSetDiag", {Values({2, 3, 3}), Values({2, 3}, 2)});
  const Arg band = Ints({-1, 1});
  Check("MatrixDiagPartV2", {Values({3, 4}), band, Fixed(Tensor::Scalar<double>(0))});
  Check("MatrixDiagV3", {Values({3, 3}), band, Tensor::Scalar<int32_t>(-1), Tensor::Scalar<int32_t>(-1),
                         Fixed(Tensor::Scalar<double>(0))});
  Check("MatrixSetDiagV2", {Values({3, 3}), Values({3, 3}, 2), band});
  Check("MatrixSetDiagV3", {Values({3, 3}), Values({3, 3}, 2), band}, {{"align", "LEFT_RIGHT"}});
}

TEST(GradientsTest, Moves) {
  Check("BatchToSpace", {Values({4, 2, 2, 1}), Tensor::Of<int32_t>({2, 2}, {0, 1, 1, 0})}, {{"block_size", 2}});
  Check("Gather", {Values({3, 2}), Ints({2, 0, 2})});
  Check("Reverse", {Values({2, 3}), Tensor::Of<bool>({2}, {false, true})});
  const Tensor any = Tensor::Scalar<double>(0.5);
  Check("SparseToDense", {Tensor::Of<int32_t>({2, 2}, {0, 1, 1, 0}), Ints({2, 3}), Values({2}), any});
  Check("SparseToDense", {Ints({1, 3}), Ints({5}), any, any});
  Check("TopK", {Values({2, 5})}, {{"k", 2}});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        const std::vector<Output> indices{Const(s, {0, 3}), Const(s, {1, 2})};
        return Output(s.Add("ParallelDynamicStitch", {indices, std::vector<Output>{x[0], x[1]}}));
      },
      {Values({2, 3}), Values({2, 3}, 2)});
}

TEST(GradientsTest, Pools) {
  const Sizes window{1, 2, 2, 1}, volume{1, 2, 2, 2, 1};
  const std::vector<AttrArg> flat{{"ksize", window}, {"strides", window}, {"padding", "VALID"}};
  const std::vector<AttrArg> deep{{"ksize", volume}, {"strides", volume}, {"padding", "VALID"}};
  const Tensor image = Values({1, 4, 4, 2}, 1, -9, 9);
  Check("AvgPoolGrad", {Ints({1, 4, 4, 2}), Values({1, 2, 2, 2})}, flat);
  Check("AvgPool3DGrad", {Ints({1, 2, 4, 4, 1}), Values({1, 1, 2, 2, 1})}, deep);
  Check("MaxPoolV2", {image, Ints({1, 2, 2, 1}), Ints({1, 2, 2, 1})}, {{"padding", "VALID"}});
  Check("MaxPoolWithArgmax", {image}, flat);
  const Tensor cube = TestValues(kFloat, {1, 2, 4, 4, 1}, -9, 9);
  const auto pooled = RunOp("MaxPool3D", {cube}, deep);
  ASSERT_TRUE(pooled.ok()) << pooled.status();
  Check("MaxPool3DGrad", {Fixed(cube), Fixed((*pooled)[0]), Floats({1, 1, 2, 2, 1})}, deep, 0, 1e-2);
}

TEST(GradientsTest, Convolutions) {
  const std::vector<AttrArg> deep{{"strides", Sizes{1, 1, 1, 1, 1}}, {"padding", "VALID"}};
  Check("Conv3DBackpropFilterV2", {Values({1, 3, 3, 2, 2}), Ints({2, 2, 1, 2, 2}), Values({1, 2, 2, 2, 2}, 2)}, deep);
  Check("Conv3DBackpropInputV2", {Ints({1, 3, 3, 2, 2}), Values({2, 2, 1, 2, 2}), Values({1, 2, 2, 2, 2}, 2)}, deep);
  const std::vector<AttrArg> flat{{"strides", Sizes{1, 1, 1, 1}}, {"padding", "SAME"}};
  Check("DepthwiseConv2dNativeBackpropFilter", {Values({1, 3, 3, 2}), Ints({2, 2, 2, 2}), Values({1, 3, 3, 4}, 2)},
        flat);
  Check("DepthwiseConv2dNativeBackpropInput", {Ints({1, 3, 3, 2}), Values({2, 2, 2, 2}), Values({1, 3, 3, 4}, 2)},
        flat);
}

TEST(GradientsTest, Normalization) {
  for (const char* op : {"FusedBatchNorm", "FusedBatchNormV2"}) {
    const Tensor none(kFloat, {0});
    Check(op, {Floats({2, 2, 2, 3}), Floats({3}, 2), Floats({3}, 3), Fixed(none), Fixed(none)}, {{"is_training", true}},
          0, 2e-2);
  }
}

// The hidden states of two steps; only these and the cells have gradients.
TEST(GradientsTest, Lstm) {
  std::vector<Arg> args{Tensor::Scalar<int64_t>(2),
                        Floats({2, 2, 3}),
                        Floats({2, 2}, 2),
                        Floats({2, 2}, 3),
                        Floats({5, 8}, 4),
                        Floats({2}, 5),
                        Floats({2}, 6),
                        Floats({2}, 7),
                        Floats({8}, 8)};
  for (const int output : {1, 6}) Check("BlockLSTM", args, {{"use_peephole", true}}, output, 2e-2);
}

TEST(GradientsTest, FourierTransforms) {
  const auto check = [](const char* op, const Shape& shape, std::vector<int32_t> length) {
    SCOPED_TRACE(op);
    const bool to_real = absl::StartsWith(op, "IRFFT"), from_real = absl::StartsWith(op, "RFFT");
    std::vector<Tensor> xs{Values(shape)};
    if (!from_real) xs.push_back(Values(shape, 2));
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& x) {
          std::vector<OpInput> inputs{from_real ? x[0]
                                                : Output(s.Add("Complex", {x[0], x[1]}, {{"Tout", kComplex128}}))};
          std::vector<AttrArg> attrs;
          if (to_real || from_real) {
            inputs.emplace_back(Const(s, length));
            attrs = {{"Treal", kDouble}, {"Tcomplex", kComplex128}};
          }
          const Output y = s.Add(op, inputs, attrs);
          if (to_real) return y;
          const Output re = s.Add("Real", {y}, {{"Tout", kDouble}}), im = s.Add("Imag", {y}, {{"Tout", kDouble}});
          return Output(s.Add("Sub", {re, im}));
        },
        xs);
  };
  check("IFFT", {2, 3}, {});
  check("FFT2D", {2, 3}, {});
  check("FFT3D", {2, 2, 3}, {});
  check("IFFT3D", {2, 2, 3}, {});
  check("RFFT2D", {3, 4}, {3, 4});
  check("RFFT3D", {2, 3, 4}, {2, 3, 4});
  check("IRFFT3D", {2, 3, 3}, {2, 3, 4});
}

// Ops whose gradient is not their derivative, or that only a session runs: why,
// and the test that looks at the values of it instead.
constexpr const char* kOthers[] = {
    // Rounded values count as if they were not rounded: QuantizeTest.GradientsAreTensorFlows.
    "FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel", "QuantizeAndDequantize",
    "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4",
    // An error by intent: IdentityTest.NoGradients.
    "PreventGradient",
    // Gradients of branches: ControlFlow.TheGradientOfAConditionalFollowsTheBranch, in client/.
    "Switch", "Merge",
    // Branches that pass a variable on: ControlFlow.TheGradientOfAVariableThatGoesThroughABranch.
    "RefSwitch", "RefMerge", "RefIdentity",
    // Gradients of variables: ResourceVariableTest.Gradients.
    "ReadVariableOp", "ResourceGather"};

// Looks when all tests have run; when only some have, it cannot know.
class GradientCoverage : public testing::Environment {
 public:
  void TearDown() override {
    if (testing::GTEST_FLAG(filter) != "*") return;
    std::vector<std::string> missing;
    for (const OpSchema* schema : OpRegistry::Global().All()) {
      const std::string& op = schema->def.name();
      if (schema->differentiability != Differentiability::kYes || OpsOfCheckedGradients().contains(op)) continue;
      if (std::find(std::begin(kOthers), std::end(kOthers), op) == std::end(kOthers)) missing.push_back(op);
    }
    EXPECT_TRUE(missing.empty()) << "gradients that no ExpectGradient goes through: " << absl::StrJoin(missing, " ");
  }
};

const testing::Environment* const kGradientCoverage = testing::AddGlobalTestEnvironment(new GradientCoverage);

}  // namespace
}  // namespace thalweg
