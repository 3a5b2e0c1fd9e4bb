// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/graph_testlib.h"

#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/gradient.h"
#include "thalweg/graph/gradient_context.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/graph/shape_context.h"

namespace thalweg {
namespace {

absl::Status ConstShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const Tensor value, c.Attr<Tensor>("value"));
  c.set_output(0, value.shape());
  return absl::OkStatus();
}

absl::Status ShapeFromInput(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status PassGradient(GradientContext& c) {
  c.set_dx(0, c.raw_dy(0));
  return absl::OkStatus();
}

absl::Status MulGradient(GradientContext& c) {
  c.set_dx(0, Output(c.scope().Add("Mul", {c.dy(), c.input(1)})));
  c.set_dx(1, Output(c.scope().Add("Mul", {c.dy(), c.input(0)})));
  return absl::OkStatus();
}

absl::Status SplitGradient(GradientContext& c) {
  c.set_dx(0, Output(c.scope().Add("Join", {c.dy(0), c.dy(1)})));
  return absl::OkStatus();
}

// Sparse: the rows that were taken get what came back for them.
absl::Status GatherGradient(GradientContext& c) {
  c.set_dx(0, Gradient(c.dy(), c.input(1), c.scope().Add("Shape", {c.input(0)})));
  return absl::OkStatus();
}

absl::Status FailingGradient(GradientContext&) { return Internal("no luck"); }

OpSchema& Differentiable(OpSchema& schema, GradientFn gradient) {
  schema.gradient = gradient;
  schema.differentiability = gradient == nullptr ? Differentiability::kNo : Differentiability::kYes;
  return schema;
}

void AddStateOps(OpRegistry& registry) {
  OpSchema variable("VariableV2");
  variable.Output("ref: Ref(dtype)").Attr("shape: shape").Attr("dtype: type").Attr("container: string = ''");
  variable.def.set_is_stateful(true);
  variable.shape = shapes::FromShapeAttr;
  registry.Add(variable);
  OpSchema assign("Assign");
  assign.Input("ref: Ref(T)").Input("value: T").Output("output_ref: Ref(T)").Attr("T: type");
  assign.def.set_allows_uninitialized_input(true);
  registry.Add(assign);
}

void AddControlFlowOps(OpRegistry& registry) {
  registry.Add(OpSchema("Switch")
                   .Input("data: T")
                   .Input("pred: bool")
                   .Output("output_false: T")
                   .Output("output_true: T")
                   .Attr("T: type"));
  registry.Add(OpSchema("Merge")
                   .Input("inputs: N * T")
                   .Output("output: T")
                   .Output("value_index: int32")
                   .Attr("T: type")
                   .Attr("N: int >= 1"));
  registry.Add(OpSchema("Enter")
                   .Input("data: T")
                   .Output("output: T")
                   .Attr("T: type")
                   .Attr("frame_name: string")
                   .Attr("is_constant: bool = false"));
  registry.Add(OpSchema("Exit").Input("data: T").Output("output: T").Attr("T: type"));
  registry.Add(OpSchema("NextIteration").Input("data: T").Output("output: T").Attr("T: type"));
  registry.Add(OpSchema("LoopCond").Input("input: bool").Output("output: bool"));
}

void AddArrayOps(OpRegistry& registry) {
  OpSchema constant("Const");
  constant.Output("output: dtype").Attr("value: tensor").Attr("dtype: type");
  constant.shape = ConstShape;
  registry.Add(constant);
  OpSchema placeholder("Placeholder");
  placeholder.Output("output: dtype").Attr("dtype: type").Attr("shape: shape = { unknown_rank: true }");
  placeholder.shape = shapes::FromShapeAttr;
  registry.Add(placeholder);
  OpSchema identity("Identity");
  identity.Input("input: T").Output("output: T").Attr("T: type");
  identity.shape = shapes::LikeInput0;
  registry.Add(Differentiable(identity, PassGradient));
  registry.Add(OpSchema("NoOp"));
  registry.Add(OpSchema("Shape")
                   .Input("input: T")
                   .Output("output: out_type")
                   .Attr("T: type")
                   .Attr("out_type: {int32, int64} = DT_INT32"));
  registry.Add(OpSchema("Pack").Input("values: N * T").Output("output: T").Attr("N: int >= 1").Attr("T: type"));
  registry.Add(OpSchema("ConcatV2")
                   .Input("values: N * T")
                   .Input("axis: Tidx")
                   .Output("output: T")
                   .Attr("N: int >= 2")
                   .Attr("T: type")
                   .Attr("Tidx: {int32, int64} = DT_INT32"));
  registry.Add(OpSchema("StridedSlice")
                   .Input("input: T")
                   .Input("begin: Index")
                   .Input("end: Index")
                   .Input("strides: Index")
                   .Output("output: T")
                   .Attr("T: type")
                   .Attr("Index: {int32, int64}")
                   .Attr("shrink_axis_mask: int = 0"));
  // Not of TensorFlow: its output has the shape that its input spells.
  OpSchema of_shape("OfShape");
  of_shape.Input("shape: T").Output("output: float").Attr("T: {int32, int64}");
  of_shape.shape = ShapeFromInput;
  registry.Add(of_shape);
}

void AddMathOps(OpRegistry& registry) {
  OpSchema mul("Mul");
  mul.Input("x: T").Input("y: T").Output("z: T").Attr("T: {float, double, int32}");
  mul.shape = shapes::Broadcast;
  registry.Add(Differentiable(mul, MulGradient));
  for (const char* name : {"OnesLike", "ZerosLike"}) {
    OpSchema like(name);
    like.Input("x: T").Output("y: T").Attr("T: type");
    like.shape = shapes::LikeInput0;
    registry.Add(like);
  }
  OpSchema add_n("AddN");
  add_n.Input("inputs: N * T").Output("sum: T").Attr("N: int >= 1").Attr("T: type");
  add_n.shape = shapes::MergeInputs;
  registry.Add(add_n);
  registry.Add(OpSchema("UnsortedSegmentSum")
                   .Input("data: T")
                   .Input("segment_ids: Tindices")
                   .Input("num_segments: Tnumsegments")
                   .Output("output: T")
                   .Attr("T: type")
                   .Attr("Tindices: type")
                   .Attr("Tnumsegments: type"));
  OpSchema gather("Gather");
  gather.Input("params: T").Input("indices: int32").Output("output: T").Attr("T: type");
  registry.Add(Differentiable(gather, GatherGradient));
}

// Ops that TensorFlow does not have.
void AddOddOps(OpRegistry& registry) {
  const auto unary = [](const char* name) {
    return OpSchema(name).Input("x: T").Output("y: T").Attr("T: {float, double}");
  };
  registry.Add(unary("NoGradient"));
  OpSchema stops = unary("Stops");
  registry.Add(Differentiable(stops, nullptr));
  OpSchema failing = unary("FailingGradient");
  registry.Add(Differentiable(failing, FailingGradient));
  OpSchema two = unary("TwoOutputs").Output("z: T");
  registry.Add(Differentiable(two, SplitGradient));
  registry.Add(OpSchema("Random").Output("y: float").Attr("seed: int = 0").Attr("seed2: int = 0"));
  registry.Add(OpSchema("Join").Input("x: T").Input("y: T").Output("z: T").Attr("T: type"));
  registry.Add(OpSchema("Lists")
                   .Input("a: N * T")
                   .Input("b: Tb")
                   .Output("c: N * float")
                   .Output("d: Tb")
                   .Attr("N: int >= 0")
                   .Attr("T: type")
                   .Attr("Tb: list(type) >= 0"));
}

}  // namespace

void RegisterTestOps() {
  [[maybe_unused]] static const bool once = [] {
    OpRegistry& registry = OpRegistry::Global();
    AddStateOps(registry);
    AddControlFlowOps(registry);
    AddArrayOps(registry);
    AddMathOps(registry);
    AddOddOps(registry);
    return true;
  }();
}

tensorflow::GraphDef ParseGraph(const std::string& text) {
  tensorflow::GraphDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def)) << text;
  return def;
}

std::string Expression(const Output& output) {
  if (output.node == nullptr) return "none";
  const std::string index = output.index == 0 ? "" : absl::StrCat(":", output.index);
  if (output.node->num_inputs() == 0) return absl::StrCat(output.node->name(), index);
  return absl::StrCat(output.node->op(), "(",
                      absl::StrJoin(output.node->inputs(), ", ",
                                    [](std::string* out, const Output& input) { out->append(Expression(input)); }),
                      ")", index);
}

Output Constant(const Scope& s, const Tensor& value) {
  return s.Add("Const", {}, {{"dtype", value.dtype()}, {"value", value}});
}

}  // namespace thalweg
