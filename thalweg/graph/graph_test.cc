// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/graph.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph_lines_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class GraphAddNode : public GraphTest {};
class GraphNames : public GraphTest {};

TEST_F(GraphAddNode, CompletesAttrsAndInfersShapes) {
  NodeDef def = Lines({"Placeholder a()"}).node(0);
  const absl::StatusOr<Node*> a = graph_.AddNode(def, {}, {});
  ASSERT_THAT(a, IsOk());
  EXPECT_EQ(*GetAttr<PartialShape>((*a)->def(), "shape"), PartialShape());
  def.set_name("b");
  SetAttr(def, "shape", PartialShape({2, -1}));
  const absl::StatusOr<Node*> b = graph_.AddNode(def, {}, {*a, *a});
  ASSERT_THAT(b, IsOk());
  EXPECT_EQ((*b)->output_shape(0), PartialShape({2, -1}));
  EXPECT_EQ((*b)->output_type(0), kFloat);
  EXPECT_THAT((*b)->control_inputs(), ElementsAre(*a)) << "once, not twice";
  EXPECT_EQ((*b)->id(), 1);
  EXPECT_EQ(graph_.FindNode("b"), *b);
  EXPECT_EQ((*b)->out().name(), "b:0");
}

TEST_F(GraphAddNode, RefusesWhatDoesNotFitAndAddsNothing) {
  ASSERT_THAT(Import({"Placeholder a()"}), IsOk());
  const Output a = graph_.FindNode("a");
  const NodeDef identity = Lines({"Identity i()"}).node(0);
  const auto add = [&](const std::string& op, const std::string& name, std::vector<Output> inputs) {
    NodeDef def = identity;
    def.set_op(op);
    def.set_name(name);
    return graph_.AddNode(def, std::move(inputs), {});
  };
  EXPECT_THAT(add("Identity", "a", {a}), Fails(StatusCode::kInvalidArgument, "Node 'a' is not unique"));
  EXPECT_THAT(add("Identity", "i", {}), Fails(StatusCode::kInvalidArgument, "has 0 inputs, expected 1"));
  EXPECT_THAT(add("Identity", "i", {Output()}), Fails(StatusCode::kInvalidArgument, "Input 0 of node 'i' is missing"));
  EXPECT_THAT(add("Identity", "i", {Output(a.node, 1)}),
              Fails(StatusCode::kInvalidArgument, "invalid output 1 of source node a"));
  EXPECT_THAT(add("Nothing", "i", {a}), Fails(StatusCode::kNotFound, "Op type not registered 'Nothing'; node 'i'"));
  for (const char* name : {"", "a b", "^a", "a:0", "/a", "-a"}) {
    EXPECT_THAT(add("Identity", name, {a}), Fails(StatusCode::kInvalidArgument, "is not valid"));
  }
  EXPECT_EQ(graph_.num_nodes(), 1);
}

TEST_F(GraphAddNode, ShapesThatContradictAreErrors) {
  const Scope s = graph_.root();
  const auto placeholder = [&](const PartialShape& shape) {
    return s.Add("Placeholder", {}, {{"dtype", kFloat}, {"shape", shape}});
  };
  const Output two = placeholder({2}), three = placeholder({3});
  EXPECT_THAT(graph_.AddNode(Lines({"Mul m()"}).node(0), {two, three}, {}),
              Fails(StatusCode::kInvalidArgument, "shapes of node 'm' (Mul)"));
  EXPECT_EQ(graph_.num_nodes(), 2);
}

TEST_F(GraphNames, FindOutputTakesNodesAndTensors) {
  ASSERT_THAT(Import({"Placeholder a()", "TwoOutputs t(a)"}), IsOk());
  EXPECT_EQ(*graph_.FindOutput("t"), Output(graph_.FindNode("t"), 0));
  EXPECT_EQ(*graph_.FindOutput("t:1"), Output(graph_.FindNode("t"), 1));
  EXPECT_THAT(graph_.FindOutput("t:2"), Fails(StatusCode::kInvalidArgument, "output index too large, must be < 2"));
  EXPECT_THAT(graph_.FindOutput("u:0"), Fails(StatusCode::kNotFound, "'u:0'"));
  EXPECT_THAT(graph_.FindOutput("^t"), Fails(StatusCode::kNotFound, "'^t'"));
  EXPECT_THAT(graph_.FindOutput(""), Fails(StatusCode::kNotFound, "''"));
}

TEST_F(GraphNames, UniqueNamesAvoidNodesAndScopes) {
  EXPECT_EQ(graph_.UniqueName("a"), "a");
  ASSERT_THAT(Import({"NoOp a()", "NoOp a_1()"}), IsOk());
  EXPECT_EQ(graph_.UniqueName("a"), "a_2");
  EXPECT_EQ(graph_.ReserveName("s"), "s");
  EXPECT_EQ(graph_.ReserveName("s"), "s_1");
  EXPECT_EQ(graph_.UniqueName("s"), "s_2");
}

TEST_F(GraphTest, TopologicalOrderKeepsTheOrderOfCreationWhereItIsOne) {
  ASSERT_THAT(
      Import({"Placeholder z()", "Placeholder y()", "Identity d(c)", "Placeholder c()", "Mul b(z, y)", "NoOp a(^d)"}),
      IsOk());
  EXPECT_THAT(NamesOf(*TopologicalOrder(graph_)), ElementsAre("z", "y", "c", "d", "b", "a"));
}

TEST_F(GraphTest, ConsumersAreByDataOrControl) {
  ASSERT_THAT(Import({"Placeholder a()", "Mul b(a, a)", "NoOp c(^a, ^b)"}), IsOk());
  const std::vector<std::vector<Node*>> consumers = Consumers(graph_);
  EXPECT_THAT(NamesOf(consumers[0]), UnorderedElementsAre("b", "c"));
  EXPECT_THAT(NamesOf(consumers[1]), UnorderedElementsAre("c"));
  EXPECT_THAT(consumers[2], IsEmpty());
}

TEST_F(GraphTest, ACloneIsAnother) {
  GraphDef def = Lines({"Placeholder a()", "Identity b(a, ^a)"});
  *def.mutable_library()->add_function() = Function("f");
  def.mutable_versions()->set_producer(7);
  ASSERT_THAT(graph_.Import(def), IsOk());
  const std::string before = graph_.Export().DebugString();
  Graph clone = graph_.Clone();
  EXPECT_EQ(clone.Export().DebugString(), before);
  EXPECT_NE(clone.FindSchema("f"), nullptr);
  EXPECT_EQ(clone.node(1)->input(0).node, clone.node(0));
  EXPECT_THAT(clone.node(1)->control_inputs(), ElementsAre(clone.node(0)));
  clone.FindNode("b")->set_device("/cpu:0");
  EXPECT_THAT(clone.Import(Lines({"NoOp c()"})), IsOk());
  EXPECT_EQ(graph_.Export().DebugString(), before);
}

TEST_F(GraphTest, RetainNumbersAnew) {
  ASSERT_THAT(Import({"Placeholder a()", "Placeholder b()", "Identity c(b)"}), IsOk());
  graph_.Retain({false, true, true});
  EXPECT_EQ(graph_.FindNode("a"), nullptr);
  EXPECT_EQ(graph_.FindNode("b")->id(), 0);
  EXPECT_EQ(graph_.node(1)->name(), "c");
  EXPECT_EQ(Expression(graph_.node(1)), "Identity(b)");
  EXPECT_THAT(Import({"NoOp a()"}), IsOk()) << "the name is free again";
}

TEST_F(GraphTest, ACopyOfANodeKeepsWhatItWas) {
  ASSERT_THAT(Import({"Placeholder a()", "Identity b(a)"}), IsOk());
  Graph other;
  Node* a = other.AddCopy(*graph_.FindNode("a"));
  Node* b = other.AddCopy(*graph_.FindNode("b"));
  EXPECT_EQ(b->input(0).node, graph_.FindNode("a"));
  b->set_input(0, a);
  EXPECT_EQ(b->id(), 1);
  EXPECT_EQ(other.FindNode("b"), b);
  EXPECT_EQ(Expression(b), "Identity(a)");
  EXPECT_EQ(b->output_type(0), kFloat);
}

TEST_F(GraphTest, AHandleToNothingHasNoTypeShapeOrName) {
  const Output none;
  EXPECT_EQ(none.dtype(), kInvalid);
  EXPECT_FALSE(none.shape().has_rank());
  EXPECT_EQ(none.name(), "");
}

TEST_F(GraphTest, ANumberIsNoHandle) {
  static_assert(!std::is_convertible_v<int, Output> && !std::is_convertible_v<bool, Output>);
  static_assert(!std::is_convertible_v<std::nullptr_t, Output> && !std::is_constructible_v<Output, int64_t>);
  static_assert(std::is_convertible_v<Node*, Output> && std::is_constructible_v<Output, Node*, int>);
}

TEST_F(GraphTest, KnowsItsOwnNodes) {
  ASSERT_THAT(Import({"Placeholder a()", "Placeholder b()"}), IsOk());
  Graph other = graph_.Clone();
  EXPECT_TRUE(graph_.Owns(*graph_.FindNode("b")));
  EXPECT_FALSE(graph_.Owns(*other.FindNode("b")));
  EXPECT_FALSE(Graph().Owns(*other.FindNode("b")));
  Graph moved = std::move(other);
  EXPECT_TRUE(moved.Owns(*moved.FindNode("b")));
}

TEST_F(GraphTest, TensorsOfAnotherGraphAreRefused) {
  ASSERT_THAT(Import({"Placeholder a()"}), IsOk());
  Graph other = graph_.Clone();
  NodeDef def;
  def.set_op("Identity");
  def.set_name("b");
  SetAttr(def, "T", kFloat);
  EXPECT_THAT(graph_.AddNode(def, {other.FindNode("a")}, {}),
              Fails(StatusCode::kInvalidArgument, "Node 'b': tensor 'a:0' belongs to another graph"));
  EXPECT_THAT(graph_.AddNode(def, {graph_.FindNode("a")}, {other.FindNode("a")}),
              Fails(StatusCode::kInvalidArgument, "Node 'b': control input 'a' belongs to another graph"));
  EXPECT_EQ(graph_.num_nodes(), 1);
}

TEST_F(GraphTest, AValueInPlaceOfAVariableIsHintedAt) {
  EXPECT_THAT(Import({"VariableV2 v()", "Identity read(v)", "Assign a(read, read)"}),
              Fails(StatusCode::kInvalidArgument,
                    "was passed float from read:0 incompatible with expected float_ref. The variable itself is "
                    "expected, not a value."));
}

TEST_F(GraphTest, AnUnknownOpTakesOnlyOutputsThatThereAre) {
  EXPECT_THAT(Import({"Placeholder a()", "Martian b(a:1)"}),
              Fails(StatusCode::kInvalidArgument,
                    "Node 'b': Connecting to invalid output 1 of source node a which has 1 outputs."));
}

TEST_F(GraphTest, HandlesSurviveAMove) {
  ASSERT_THAT(Import({"Placeholder a()"}), IsOk());
  Node* const a = graph_.FindNode("a");
  Graph moved = std::move(graph_);
  EXPECT_EQ(moved.FindNode("a"), a);
}

TEST_F(GraphTest, OpsOfControlFlowAreKnownByName) {
  // The Ref forms are not registered here: unknown ops need no inputs.
  ASSERT_THAT(
      Import({"RefSwitch s()", "RefMerge m()", "RefEnter e()", "RefExit x()", "RefNextIteration n()", "NoOp o()"}),
      IsOk());
  const auto node = [&](const char* name) -> const Node& { return *graph_.FindNode(name); };
  EXPECT_TRUE(IsSwitch(node("s")));
  EXPECT_TRUE(IsMerge(node("m")));
  EXPECT_TRUE(IsEnter(node("e")));
  EXPECT_TRUE(IsExit(node("x")));
  EXPECT_TRUE(IsNextIteration(node("n")));
  EXPECT_FALSE(IsSwitch(node("m")));
  for (const char* name : {"s", "m", "e", "x", "n"}) EXPECT_TRUE(IsControlFlow(node(name))) << name;
  EXPECT_FALSE(IsControlFlow(node("o")));
}

}  // namespace
}  // namespace thalweg
