// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/evaluate.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

// Counts its own calls, and gives their number.
int calls = 0;
absl::Status Count(KernelContext& c) {
  c.set_output(0, Tensor::Scalar<float>(static_cast<float>(++calls)));
  return absl::OkStatus();
}

absl::Status Add(KernelContext& c) {
  c.set_output(0, Tensor::Scalar(c.input(0).scalar<float>() + c.input(1).scalar<float>()));
  return absl::OkStatus();
}

absl::Status DivideAndRest(KernelContext& c) {
  const int32_t a = c.input(0).scalar<int32_t>(), b = c.input(1).scalar<int32_t>();
  if (b == 0) return InvalidArgument("division by zero");
  c.set_output(0, Tensor::Scalar(a / b));
  c.set_output(1, Tensor::Scalar(a % b));
  return absl::OkStatus();
}

class NumberKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(value_, init.Attr<float>("value"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    c.set_output(0, Tensor::Scalar(value_));
    return absl::OkStatus();
  }

 private:
  float value_ = 0;
};

// A variable of the device, by the name of the node.
class CellKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const auto make = [&]() -> absl::StatusOr<std::shared_ptr<Variable>> {
      return std::make_shared<Variable>(c.node().name(), kFloat);
    };
    ASSIGN_OR_RETURN(cell_, c.device().resources().FindOrCreate<Variable>("", c.node().name(), make));
    c.set_variable(0, cell_.get());
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<Variable> cell_;
};

absl::Status Store(KernelContext& c) {
  c.variable(0).Assign(c.input(1));
  c.set_variable(0, &c.variable(0));
  return absl::OkStatus();
}

class LateKernel : public AsyncKernel {
 public:
  void ComputeAsync(KernelContext&, Done done) override { done(absl::OkStatus()); }
};

const OpRegistration kEvaluateTestOps[] = {
    Op("_Arg").Output("output: T").Attr("T: type").Attr("index: int >= 0"),
    Op("Count").Output("n: float").Compute(Count),
    Op("Number").Output("x: float").Attr("value: float").Kernel<NumberKernel>(),
    Op("Plus").Input("a: float").Input("b: float").Output("c: float").Compute(Add),
    Op("DivMod").Input("a: int32").Input("b: int32").Output("q: int32").Output("r: int32").Compute(DivideAndRest),
    Op("Cell").Output("ref: Ref(float)").Kernel<CellKernel>(),
    Op("Store").Input("ref: Ref(float)").Input("value: float").Output("out: Ref(float)").Compute(Store),
    Op("Late").Output("x: float").Kernel<LateKernel>(),
    Op("LoopCond").Input("input: bool").Output("output: bool"),
};

class EvaluateTest : public testing::Test {
 protected:
  ~EvaluateTest() override { TestDevice().resources().ClearAll(); }

  Output Number(float value) { return s_.Add("Number", {}, {{"value", value}}); }
  Output Plus(const Output& a, const Output& b) { return s_.Add("Plus", {a, b}); }
  absl::StatusOr<std::vector<Tensor>> Run(const std::vector<Output>& fetches,
                                          const absl::flat_hash_map<Output, Tensor>& feeds = {}) {
    EXPECT_TRUE(s_.ok()) << s_.status();
    return Evaluate(graph_, feeds, fetches, TestDevice());
  }

  Graph graph_;
  const Scope s_ = graph_.root();
};

TEST_F(EvaluateTest, RunsWhatTheFetchesNeed) {
  const Output a = Number(2), sum = Plus(Plus(a, a), Number(5));
  s_.Add("Late");  // not needed
  const absl::StatusOr<std::vector<Tensor>> out = Run({sum, a});
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ((*out)[0].scalar<float>(), 9);
  EXPECT_EQ((*out)[1].scalar<float>(), 2);
}

TEST_F(EvaluateTest, RunsEveryNodeOnce) {
  const Output n = s_.Add("Count");
  calls = 0;
  const absl::StatusOr<std::vector<Tensor>> out = Run({Plus(n, n), n});
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ((*out)[0].scalar<float>(), 2);
  EXPECT_EQ(calls, 1);
}

TEST_F(EvaluateTest, FeedsReplaceWhatComesBefore) {
  const Output late = s_.Add("Late"), sum = Plus(late, Number(1));
  const absl::StatusOr<std::vector<Tensor>> out = Run({sum, late}, {{late, Tensor::Scalar(4.0f)}});
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ((*out)[0].scalar<float>(), 5);
  EXPECT_EQ((*out)[1].scalar<float>(), 4);
}

TEST_F(EvaluateTest, ControlInputsRunFirst) {
  const Output cell = s_.Add("Cell"), store = s_.Add("Store", {cell, Number(7)});
  const Output sum = s_.WithControlDependencies({store}).Add("Plus", {cell, Number(1)});
  const absl::StatusOr<std::vector<Tensor>> out = Run({sum});
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ((*out)[0].scalar<float>(), 8);
}

TEST_F(EvaluateTest, VariablesLiveInTheDevice) {
  const Output cell = s_.Add("Cell"), store = s_.Add("Store", {cell, Number(7)});
  EXPECT_THAT(Run({Plus(cell, cell)}),
              Fails(StatusCode::kFailedPrecondition, "Attempting to use uninitialized value Cell"));
  EXPECT_EQ((*Run({store}))[0].scalar<float>(), 7) << "what is fetched is the value";
  EXPECT_EQ((*Run({cell}))[0].scalar<float>(), 7);
}

TEST_F(EvaluateTest, ErrorsNameTheNode) {
  const Output a = s_.Add("_Arg", {}, {{"T", kInt32}, {"index", 0}});
  const Output q = s_.WithOpName("ratio").Add("DivMod", {a, a});
  EXPECT_THAT(Run({q}, {{a, Tensor::Scalar<int32_t>(0)}}),
              Fails(StatusCode::kInvalidArgument, "division by zero\n\t [[{{node ratio}}]]"));
  const Output cell = s_.Add("Cell"), sum = s_.WithOpName("reader").Add("Plus", {cell, cell});
  EXPECT_THAT(Run({sum}), Fails(StatusCode::kFailedPrecondition, "[[{{node reader}}]]"));
}

TEST_F(EvaluateTest, DoesNotWait) { EXPECT_THAT(Run({s_.Add("Late")}), Fails(StatusCode::kUnimplemented, "'Late'")); }

TEST_F(EvaluateTest, HasNoControlFlow) {
  const Output b = s_.Add("_Arg", {}, {{"T", kBool}, {"index", 0}});
  EXPECT_THAT(Run({s_.Add("LoopCond", {b})}, {{b, Tensor::Scalar(true)}}),
              Fails(StatusCode::kUnimplemented, "'LoopCond'"));
}

TEST_F(EvaluateTest, RunNodeIsOneCall) {
  const Output a = s_.Add("_Arg", {}, {{"T", kInt32}, {"index", 0}});
  const Node* div = s_.Add("DivMod", {a, a});
  const absl::StatusOr<std::vector<Tensor>> out =
      RunNode(*div, {Tensor::Scalar<int32_t>(17), Tensor::Scalar<int32_t>(5)}, TestDevice());
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ((*out)[0].scalar<int32_t>(), 3);
  EXPECT_EQ((*out)[1].scalar<int32_t>(), 2);
  EXPECT_THAT(RunNode(*s_.Add("Late"), {}, TestDevice()), Fails(StatusCode::kUnimplemented, "Late"));
}

TEST_F(EvaluateTest, RunOpFeedsAnOp) {
  const absl::StatusOr<std::vector<Tensor>> out = RunOp("Plus", {Tensor::Scalar(1.0f), Tensor::Scalar(2.0f)});
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ((*out)[0].scalar<float>(), 3);
}

TEST(NodeError, LeavesSuccessAlone) {
  Graph graph;
  const Node* node = graph.root().Add("Count");
  EXPECT_THAT(NodeError(absl::OkStatus(), *node), IsOk());
  EXPECT_EQ(NodeError(Aborted("x"), *node).message(), "x\n\t [[{{node Count}}]]");
}

TEST(NodeError, IsText) {
  Graph graph;
  const Node* node = graph.root().Add("Count");
  EXPECT_EQ(NodeError(InvalidArgument("got \xff\xfe!\n"), *node).message(), "got \\xff\\xfe!\n\n\t [[{{node Count}}]]");
  EXPECT_EQ(NodeError(InvalidArgument("got \xe4\xbd\xa0"), *node).message(), "got \xe4\xbd\xa0\n\t [[{{node Count}}]]");
}

}  // namespace
}  // namespace thalweg
