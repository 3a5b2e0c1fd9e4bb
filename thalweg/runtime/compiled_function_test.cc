// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/compiled_function.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/scope.h"
#include "thalweg/graph/while.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/local_devices.h"

namespace thalweg {
namespace {

class CompiledFunctionTest : public testing::Test {
 protected:
  Output Arg(DType type, int64_t index) { return s_.Add("_Arg", {}, {{"T", type}, {"index", index}}); }
  void Result(Output value, int64_t index) { s_.Add("_Retval", {value}, {{"index", index}}); }
  absl::StatusOr<std::unique_ptr<CompiledFunction>> Compile() {
    s_.WithOpName("_effects").Add("NoOp");
    if (!s_.ok()) return s_.status();
    return CompileBody(std::move(body_), *devices_.devices()[0]);
  }
  absl::StatusOr<std::vector<Tensor>> Call(CompiledFunction& function, std::vector<Tensor> args) {
    ResourceManager resources;
    Step step{.cancellation = &cancellation_, .pool = &devices_.pool(), .resources = &resources};
    return function.Call(step, args);
  }

  LocalDevices devices_{{}};
  Cancellation cancellation_;
  Graph body_;
  Scope s_ = body_.root();
};

TEST_F(CompiledFunctionTest, GivesItsResultsByNumber) {
  const Output x = Arg(kFloat, 0), y = Arg(kFloat, 1);
  Result(Sub(s_, x, y), 1);
  Result(Add(s_, x, y), 0);
  const auto function = Compile();
  ASSERT_TRUE(function.ok()) << function.status();
  for (int i = 0; i < 3; ++i) {
    const auto results = Call(**function, {Tensor::Scalar(5.0f), Tensor::Scalar(2.0f)});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ((*results)[0].scalar<float>(), 7);
    EXPECT_EQ((*results)[1].scalar<float>(), 3);
  }
  EXPECT_FALSE((*function)->has_waits());
}

TEST_F(CompiledFunctionTest, RefusesOtherArguments) {
  Result(Neg(s_, Arg(kFloat, 0)), 0);
  const auto function = Compile();
  ASSERT_TRUE(function.ok()) << function.status();
  EXPECT_EQ(Call(**function, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Call(**function, {Tensor::Scalar(1)}).status().code(), absl::StatusCode::kInvalidArgument);
}

// The body comes with the graph of a client, who may have made it by hand.
TEST_F(CompiledFunctionTest, RefusesAPieceOfALoop) {
  const Output piece = s_.Add("NextIteration", {Arg(kFloat, 0)});
  const Output merged = s_.Add("Merge", {std::vector<Output>{piece}});
  Result(Neg(s_, merged), 0);
  EXPECT_FALSE(Compile().ok());
}

TEST_F(CompiledFunctionTest, AWaitEndsWithTheStep) {
  const Output queue = s_.Add("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{kFloat}}});
  Result(s_.Add("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{kFloat}}}), 0);
  const auto function = Compile();
  ASSERT_TRUE(function.ok()) << function.status();
  EXPECT_TRUE((*function)->has_waits());
  cancellation_.Cancel(absl::DeadlineExceededError("too late"));
  EXPECT_EQ(Call(**function, {}).status().code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace thalweg
