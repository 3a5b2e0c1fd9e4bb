// SPDX-License-Identifier: Apache-2.0
// What each kernel of a conditional or a loop does with its values. runtime/control_flow_test.cc runs whole
// conditionals and loops.
#include <string>
#include <vector>

#include "thalweg/graph/graph_testlib.h"
#include "thalweg/kernel/kernel_call_testlib.h"
#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

using absl::StatusCode;

Tensor Number(float x) { return Tensor::Scalar(x); }

// The error of one call.
absl::Status CallError(absl::string_view op, const std::vector<CallArg>& inputs, std::vector<AttrArg> attrs = {}) {
  return KernelCall(op, inputs, std::move(attrs)).Run();
}

// The shape of output 0 of `op` on a list of inputs of these shapes.
std::string ShapeOfList(absl::string_view op, const std::vector<PartialShape>& shapes) {
  Graph graph;
  const Scope s = graph.root();
  std::vector<Output> inputs;
  for (const PartialShape& shape : shapes) {
    inputs.push_back(s.Add("_Arg", {}, {{"T", kFloat}, {"index", static_cast<int64_t>(inputs.size())}}));
    inputs.back().node->set_output_shape(0, shape);
  }
  Node* const node = s.Add(op, {OpInput(inputs)});
  return node == nullptr ? std::string(s.status().message()) : node->output_shape(0).ToString();
}

TEST(SwitchTest, ThePredicateChoosesTheOutputAndTheOtherIsDead) {
  for (const bool predicate : {false, true}) {
    KernelCall call("Switch", {Number(3), Tensor::Scalar(predicate)});
    ASSERT_OK(call.Run());
    const int taken = predicate ? 1 : 0;
    EXPECT_FALSE(call.output(taken).dead);
    ExpectTensor(call.output(taken).tensor, Number(3));
    EXPECT_TRUE(call.output(1 - taken).dead);
    EXPECT_FALSE(call.output(1 - taken).tensor.has_value());
  }
}

TEST(SwitchTest, PassesAVariableAndNotItsValue) {
  Variable v("v", kFloat);  // without a value
  KernelCall call("RefSwitch", {&v, Tensor::Scalar(true)});
  ASSERT_OK(call.Run());
  EXPECT_TRUE(call.output(0).dead);
  EXPECT_EQ(call.output(1).variable, &v);
}

TEST(SwitchTest, ThePredicateMustBeAScalar) {
  const std::string message = "The second input must be a scalar, but it has shape ";
  EXPECT_THAT(CallError("Switch", {Number(3), Tensor::Vector<bool>({true, false})}),
              Fails(StatusCode::kInvalidArgument, message + "[2]"));
  EXPECT_THAT(CallError("Switch", {Number(3), Tensor::Vector<bool>({true})}),
              Fails(StatusCode::kInvalidArgument, message + "[1]"));
  EXPECT_THAT(CallError("Switch", {Number(3), Tensor::Zeros(kBool, {0})}),
              Fails(StatusCode::kInvalidArgument, message + "[0]"));
  EXPECT_FALSE(InferShape("Switch", {{kFloat, PartialShape()}, {kBool, PartialShape({2})}}).ok());
}

TEST(SwitchNTest, AnIndexOutOfRangeChoosesTheLastOutput) {
  for (const auto& [index, taken] : std::vector<std::pair<int32_t, int>>{{0, 0}, {1, 1}, {2, 2}, {3, 2}, {-1, 2}}) {
    KernelCall call("_SwitchN", {Number(3), Tensor::Scalar(index)}, {{"num_outs", 3}});
    ASSERT_OK(call.Run());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(call.output(i).dead, i != taken) << "output " << i << " of index " << index;
    ExpectTensor(call.output(taken).tensor, Number(3));
  }
}

TEST(SwitchNTest, TheIndexMustBeAScalar) {
  EXPECT_THAT(CallError("_SwitchN", {Number(3), Tensor::Vector<int32_t>({0, 1})}, {{"num_outs", 3}}),
              Fails(StatusCode::kInvalidArgument, "must be a scalar, but it has shape [2]"));
}

TEST(MergeTest, PassesTheFirstInputThatIsNotDeadAndItsNumber) {
  const CallArg dead = CallArg::Dead(Number(0));
  for (int alive = 0; alive < 3; ++alive) {
    std::vector<CallArg> inputs(3, dead);
    inputs[alive] = Number(7);
    KernelCall call("Merge", {CallArg::List(inputs)});
    ASSERT_OK(call.Run());
    ExpectTensor(call.output(0).tensor, Number(7));
    ExpectTensor(call.output(1).tensor, Tensor::Scalar<int32_t>(alive));
  }
  KernelCall call("Merge", {CallArg::List({dead, Number(1), Number(2)})});
  ASSERT_OK(call.Run());
  ExpectTensor(call.output(0).tensor, Number(1));
}

TEST(MergeTest, PassesAVariable) {
  Variable a("a", kFloat), b("b", kFloat);
  KernelCall call("RefMerge", {CallArg::List({&a, &b})});
  ASSERT_OK(call.Run());
  EXPECT_EQ(call.output(0).variable, &a);
  ExpectTensor(call.output(1).tensor, Tensor::Scalar<int32_t>(0));
}

TEST(MergeTest, DeadInputsOnlyAreAnError) {
  const CallArg dead = CallArg::Dead(Number(0));
  EXPECT_THAT(CallError("Merge", {CallArg::List({dead, dead})}), Fails(StatusCode::kInternal, "dead inputs only"));
}

TEST(MergeTest, KnowsTheDimensionsThatItsInputsAgreeOn) {
  EXPECT_EQ(ShapeOfList("Merge", {PartialShape({2, 3}), PartialShape({2, 3})}), "[2,3]");
  EXPECT_EQ(ShapeOfList("Merge", {PartialShape({2, 3}), PartialShape({4, 3})}), "[?,3]");
  EXPECT_EQ(ShapeOfList("Merge", {PartialShape({2, 3}), PartialShape({2, PartialShape::kUnknown})}), "[2,?]");
  const std::string unknown = PartialShape().ToString();
  EXPECT_EQ(ShapeOfList("Merge", {PartialShape({2, 3}), PartialShape({6})}), unknown);
  EXPECT_EQ(ShapeOfList("Merge", {PartialShape(), PartialShape({6})}), unknown);
}

TEST(RefSelectTest, TheIndexChoosesTheVariable) {
  Variable a("a", kFloat), b("b", kFloat);
  const CallArg variables = CallArg::List({&a, &b});
  for (int32_t i = 0; i < 2; ++i) {
    KernelCall call("RefSelect", {Tensor::Scalar(i), variables});
    ASSERT_OK(call.Run());
    EXPECT_EQ(call.output(0).variable, i == 0 ? &a : &b);
  }
  for (const int32_t i : {-1, 2}) {
    EXPECT_THAT(CallError("RefSelect", {Tensor::Scalar(i), variables}),
                Fails(StatusCode::kInvalidArgument, absl::StrCat("must be in the range [0, 2) but got ", i)));
  }
  EXPECT_THAT(CallError("RefSelect", {Tensor::Vector<int32_t>({0, 1}), variables}),
              Fails(StatusCode::kInvalidArgument, "Index must be a scalar, but it has shape [2]"));
}

TEST(LoopOpsTest, PassValuesAndVariablesOn) {
  const std::vector<AttrArg> frame{{"frame_name", "loop"}}, none;
  for (const char* op : {"Enter", "Exit", "NextIteration"}) {
    const std::vector<AttrArg>& attrs = op == std::string("Enter") ? frame : none;
    KernelCall value(op, {Number(5)}, attrs);
    ASSERT_OK(value.Run());
    ExpectTensor(value.output(0).tensor, Number(5));
    Variable v("v", kFloat);
    KernelCall reference(absl::StrCat("Ref", op), {&v}, attrs);
    ASSERT_OK(reference.Run());
    EXPECT_EQ(reference.output(0).variable, &v) << op;
    EXPECT_FALSE(reference.output(0).tensor.has_value()) << op;
  }
  Variable v("v", kFloat);
  KernelCall identity("RefIdentity", {&v});
  ASSERT_OK(identity.Run());
  EXPECT_EQ(identity.output(0).variable, &v);
  KernelCall condition("LoopCond", {Tensor::Scalar(false)});
  ASSERT_OK(condition.Run());
  ExpectTensor(condition.output(0).tensor, Tensor::Scalar(false));
}

TEST(LoopOpsTest, OnlyConstantsOfALoopKeepTheirShapes) {
  const auto shape = [](bool is_constant) {
    return *InferShape("Enter", {{kFloat, PartialShape({2})}}, {{"frame_name", "f"}, {"is_constant", is_constant}});
  };
  EXPECT_EQ(shape(true), "[2]");
  EXPECT_EQ(shape(false), PartialShape().ToString());
  EXPECT_EQ(*InferShape("LoopCond", {{kBool, PartialShape()}}), "[]");
  EXPECT_FALSE(InferShape("LoopCond", {{kBool, PartialShape({2})}}).ok());
}

TEST(AbortTest, FailsTheStepAndNotTheProcess) {
  EXPECT_THAT(CallError("Abort", {}, {{"error_msg", "no more"}}), Fails(StatusCode::kAborted, "no more"));
}

TEST(ControlTriggerTest, DoesNothing) {
  ASSERT_OK(CallError("ControlTrigger", {}));
  ASSERT_OK(CallError("NoOp", {}));
  ASSERT_OK(CallError("SyncDevice", {}));
}

}  // namespace
}  // namespace thalweg
