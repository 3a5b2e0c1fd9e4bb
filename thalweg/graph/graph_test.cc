// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/graph.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "thalweg/graph/attr.h"
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

// One line per node, op name(inputs): "Identity b(a, ^c)".
GraphDef Lines(const std::vector<std::string>& lines, DType dtype = kFloat) {
  GraphDef def;
  for (const std::string& line : lines) {
    NodeDef* node = def.add_node();
    const size_t space = line.find(' '), open = line.find('('), close = line.find(')');
    node->set_op(line.substr(0, space));
    node->set_name(line.substr(space + 1, open - space - 1));
    for (size_t at = open + 1; at < close;) {
      const size_t end = std::min(line.find(", ", at), close);
      node->add_input(line.substr(at, end - at));
      at = end + 2;
    }
    if (node->op() == "Placeholder" || node->op() == "VariableV2") SetAttr(*node, "dtype", dtype);
    if (node->op() == "VariableV2") SetAttr(*node, "shape", Shape({2}));
    for (const char* op :
         {"Identity", "Mul", "Merge", "Switch", "Enter", "Exit", "NextIteration", "Assign", "TwoOutputs"}) {
      if (node->op() == op) SetAttr(*node, "T", dtype);
    }
    if (node->op() == "Merge") SetAttr(*node, "N", 2);
    if (node->op() == "Enter") SetAttr(*node, "frame_name", "loop");
  }
  return def;
}

std::vector<std::string> Names(const std::vector<Node*>& nodes) {
  std::vector<std::string> names;
  for (const Node* node : nodes) names.push_back(node->name());
  return names;
}

class GraphTest : public testing::Test {
 protected:
  GraphTest() { RegisterTestOps(); }
  absl::Status Import(const std::vector<std::string>& lines) { return graph_.Import(Lines(lines)); }
  Graph graph_;
};

class GraphAddNode : public GraphTest {};
class GraphImport : public GraphTest {};
class GraphExport : public GraphTest {};
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

TEST_F(GraphImport, NodesComeInAnyOrder) {
  ASSERT_THAT(Import({"Identity c(b)", "Mul b(a, a)", "Placeholder a()"}), IsOk());
  EXPECT_EQ(Expression(graph_.FindNode("c")), "Identity(Mul(a, a))");
  EXPECT_THAT(Names(*TopologicalOrder(graph_)), ElementsAre("a", "b", "c"));
}

TEST_F(GraphImport, ShapesAreInferredInOrderOfTheEdges) {
  GraphDef def = Lines({"Identity b(a)", "Placeholder a()"});
  SetAttr(*def.mutable_node(1), "shape", PartialShape({3}));
  ASSERT_THAT(graph_.Import(def), IsOk());
  EXPECT_EQ(graph_.FindNode("b")->output_shape(0), PartialShape({3}));
}

TEST_F(GraphImport, InputsNameOutputs) {
  ASSERT_THAT(Import({"Placeholder a()", "TwoOutputs t(a)", "Mul m(t, t:1)", "Mul n(t:0, t:1)"}), IsOk());
  EXPECT_EQ(graph_.FindNode("m")->input(1), Output(graph_.FindNode("t"), 1));
  EXPECT_EQ(graph_.FindNode("m")->inputs(), graph_.FindNode("n")->inputs());
}

TEST_F(GraphImport, ControlEdgesAreKeptApart) {
  ASSERT_THAT(Import({"Placeholder a()", "NoOp n(^a)", "Identity b(a, ^n, ^a, ^n)"}), IsOk());
  const Node* b = graph_.FindNode("b");
  EXPECT_EQ(b->num_inputs(), 1);
  EXPECT_THAT(Names(b->control_inputs()), ElementsAre("n", "a"));
  EXPECT_EQ(b->def().input_size(), 0);
}

TEST_F(GraphImport, LoopsPointBack) {
  GraphDef def = Lines({"Placeholder x()", "Enter e(x)", "Merge m(e, n)", "Placeholder cond()", "Switch s(m, cond)",
                        "Identity b(s:1)", "NextIteration n(b)", "Exit out(s)"});
  SetAttr(*def.mutable_node(3), "dtype", kBool);
  ASSERT_THAT(graph_.Import(def), IsOk());
  EXPECT_EQ(graph_.FindNode("m")->input(1).node, graph_.FindNode("n"));
  EXPECT_THAT(Names(*TopologicalOrder(graph_)), ElementsAre("x", "e", "m", "cond", "s", "b", "n", "out"));
}

TEST_F(GraphImport, OtherCyclesAreErrors) {
  EXPECT_THAT(Import({"Identity a(b)", "Identity b(a)", "Identity c(b)"}),
              Fails(StatusCode::kInvalidArgument, "cycle"));
  EXPECT_THAT(Import({"Identity a(a)"}), Fails(StatusCode::kInvalidArgument, "'a' (Identity)"));
  EXPECT_THAT(Import({"NoOp a(^b)", "NoOp b(^a)"}), Fails(StatusCode::kInvalidArgument, "cycle"));
  // Back to a Merge, but not from a NextIteration; and past a NextIteration, but not to a Merge.
  EXPECT_THAT(Import({"Placeholder x()", "Merge m(x, b)", "Identity b(m)"}),
              Fails(StatusCode::kInvalidArgument, "cycle"));
  EXPECT_THAT(Import({"NextIteration n(b)", "Identity b(n)"}), Fails(StatusCode::kInvalidArgument, "cycle"));
  EXPECT_EQ(graph_.num_nodes(), 0);
}

TEST_F(GraphImport, TheCycleIsNamedByANodeOnIt) {
  EXPECT_THAT(Import({"Identity after(b)", "Identity a(b)", "Identity b(a)"}),
              testing::AnyOf(Fails(StatusCode::kInvalidArgument, "'a' (Identity)"),
                             Fails(StatusCode::kInvalidArgument, "'b' (Identity)")));
}

TEST_F(GraphImport, InputsThatAreNowhereAreErrors) {
  EXPECT_THAT(Import({"Identity b(a)"}), Fails(StatusCode::kInvalidArgument, "Node 'b': Unknown input node 'a'"));
  EXPECT_THAT(Import({"NoOp b(^a)"}), Fails(StatusCode::kInvalidArgument, "Node 'b': Unknown input node '^a'"));
  EXPECT_THAT(Import({"Placeholder a()", "Identity b(a:x)"}), Fails(StatusCode::kInvalidArgument, "'a:x'"));
  EXPECT_THAT(Import({"Placeholder a()", "Identity b(a:-1)"}), Fails(StatusCode::kInvalidArgument, "'a:-1'"));
}

TEST_F(GraphImport, OutputsThatANodeDoesNotHaveAreErrors) {
  EXPECT_THAT(Import({"Placeholder a()", "Identity b(a:1)"}),
              Fails(StatusCode::kInvalidArgument,
                    "Node 'b': Connecting to invalid output 1 of source node a which has 1 outputs."));
  EXPECT_THAT(Import({"NoOp a()", "Identity b(a)"}), Fails(StatusCode::kInvalidArgument, "invalid output 0"));
}

TEST_F(GraphImport, NumbersOfInputsAreChecked) {
  EXPECT_THAT(Import({"Placeholder a()", "Mul b(a)"}),
              Fails(StatusCode::kInvalidArgument, "Node 'b' (Mul) has 1 inputs, expected 2"));
  EXPECT_THAT(Import({"Placeholder a()", "NoOp b(a)"}),
              Fails(StatusCode::kInvalidArgument, "has 1 inputs, expected 0"));
}

TEST_F(GraphImport, TypesAreCheckedAlongEdges) {
  GraphDef def = Lines({"Placeholder a()", "Identity b(a)"});
  SetAttr(*def.mutable_node(0), "dtype", kInt32);
  EXPECT_THAT(graph_.Import(def),
              Fails(StatusCode::kInvalidArgument,
                    "Input 0 of node b was passed int32 from a:0 incompatible with expected float."));
}

TEST_F(GraphImport, AVariableIsAValueButAValueIsNoVariable) {
  EXPECT_THAT(Import({"VariableV2 v()", "Identity read(v)", "Assign w(v, read)", "Assign again(w, v)"}), IsOk());
  EXPECT_EQ(graph_.FindNode("v")->output_type(0), MakeRef(kFloat));
  EXPECT_EQ(graph_.FindNode("read")->output_type(0), kFloat);
  EXPECT_THAT(Import({"Assign bad(read, v)"}),
              Fails(StatusCode::kInvalidArgument,
                    "Input 0 of node bad was passed float from read:0 incompatible with "
                    "expected float_ref."));
}

TEST_F(GraphImport, NamesAreUnique) {
  EXPECT_THAT(Import({"NoOp a()", "NoOp a()"}), Fails(StatusCode::kInvalidArgument, "Node 'a' is not unique"));
  ASSERT_THAT(Import({"NoOp a()"}), IsOk());
  EXPECT_THAT(Import({"NoOp b()", "NoOp a()"}), Fails(StatusCode::kInvalidArgument, "Node 'a' is not unique"));
  EXPECT_THAT(Import({"NoOp x y()"}), Fails(StatusCode::kInvalidArgument, "'x y' is not valid"));
  EXPECT_EQ(graph_.num_nodes(), 1);
}

TEST_F(GraphImport, ControlInputsComeLast) {
  EXPECT_THAT(
      Import({"Placeholder a()", "NoOp n()", "Identity b(^n, a)"}),
      Fails(StatusCode::kInvalidArgument, "Node 'b': Control dependencies must come after regular dependencies"));
}

TEST_F(GraphImport, AttrsAreChecked) {
  GraphDef def = Lines({"Placeholder a()"});
  def.mutable_node(0)->clear_attr();
  EXPECT_THAT(graph_.Import(def), Fails(StatusCode::kInvalidArgument, "missing attr 'dtype'"));
}

TEST_F(GraphImport, UnknownOpsAreKept) {
  GraphDef def = Lines({"Placeholder a()", "Martian m(a, ^a)", "Identity b(m:3)", "Venusian v(m:1)"});
  SetAttr(*def.mutable_node(1), "whatever", 7);
  ASSERT_THAT(graph_.Import(def), IsOk());
  const Node* m = graph_.FindNode("m");
  EXPECT_EQ(m->schema(), nullptr);
  EXPECT_TRUE(m->is_stateful());
  EXPECT_EQ(m->num_outputs(), 4) << "as many as are used";
  EXPECT_EQ(m->num_inputs(), 1);
  EXPECT_EQ(*GetAttr<int64_t>(m->def(), "whatever"), 7);
  EXPECT_FALSE(graph_.FindNode("b")->output_shape(0).has_rank());
  EXPECT_EQ(graph_.Export().node(1).input(0), "a");
}

TEST_F(GraphImport, OutputsOfUnknownOpsMayBeNamedLater) {
  ASSERT_THAT(Import({"Martian m()"}), IsOk());
  const absl::StatusOr<Output> output = graph_.FindOutput("m:5");
  ASSERT_THAT(output, IsOk());
  EXPECT_EQ(output->dtype(), kInvalid);
  EXPECT_FALSE(output->shape().has_rank());
  EXPECT_THAT(Import({"Identity i(m:5)"}), IsOk());
  EXPECT_THAT(Import({"Identity j(m:2000000000)"}), Fails(StatusCode::kInvalidArgument, "output index 2000000000"));
}

TEST_F(GraphImport, ExtendsWhatIsThere) {
  ASSERT_THAT(Import({"Placeholder a()"}), IsOk());
  Node* const a = graph_.FindNode("a");
  ASSERT_THAT(Import({"Mul c(b, a)", "Identity b(a, ^a)"}), IsOk());
  ASSERT_THAT(Import({"NoOp done(^c)"}), IsOk());
  EXPECT_EQ(graph_.FindNode("a"), a);
  EXPECT_EQ(Expression(graph_.FindNode("c")), "Mul(Identity(a), a)");
  EXPECT_EQ(graph_.num_nodes(), 4);
  EXPECT_EQ(graph_.FindNode("done")->id(), 3);
}

tensorflow::FunctionDef Function(const std::string& name, const std::string& body_op = "Identity") {
  tensorflow::FunctionDef function;
  function.mutable_signature()->set_name(name);
  tensorflow::OpDef::ArgDef* x = function.mutable_signature()->add_input_arg();
  x->set_name("x");
  x->set_type(tensorflow::DT_FLOAT);
  *function.mutable_signature()->add_output_arg() = *x;
  NodeDef* node = function.add_node_def();
  node->set_name("body");
  node->set_op(body_op);
  return function;
}

TEST_F(GraphImport, FailsAsAWhole) {
  ASSERT_THAT(Import({"Placeholder a()"}), IsOk());
  const GraphDef before = graph_.Export();
  GraphDef def = Lines({"Identity b(a)", "Identity c(nowhere)"});
  *def.mutable_library()->add_function() = Function("f");
  auto* gradient = def.mutable_library()->add_gradient();
  gradient->set_function_name("f");
  def.mutable_library()->add_registered_gradients()->set_gradient_func("f");
  def.mutable_versions()->set_producer(99);
  EXPECT_FALSE(graph_.Import(def).ok());
  EXPECT_EQ(graph_.Export().DebugString(), before.DebugString());
  EXPECT_EQ(graph_.FindNode("b"), nullptr);
  EXPECT_EQ(graph_.FindSchema("f"), nullptr);
  def.mutable_node(1)->set_input(0, "b");
  EXPECT_THAT(graph_.Import(def), IsOk()) << "nothing is left in the way";
}

TEST_F(GraphImport, FunctionsAreOps) {
  GraphDef def = Lines({"Placeholder a()", "f b(a)"});
  *def.mutable_library()->add_function() = Function("f");
  ASSERT_THAT(graph_.Import(def), IsOk());
  EXPECT_NE(graph_.FindSchema("f"), nullptr);
  EXPECT_EQ(graph_.FindNode("b")->output_type(0), kFloat);
  EXPECT_TRUE(graph_.FindNode("b")->is_stateful());
}

TEST_F(GraphImport, TheLibraryIsKeptAndGrows) {
  GraphDef def;
  *def.mutable_library()->add_function() = Function("f");
  def.mutable_library()->add_gradient()->set_function_name("f");
  def.mutable_library()->add_registered_gradients()->set_gradient_func("df");
  ASSERT_THAT(graph_.Import(def), IsOk());
  ASSERT_THAT(graph_.Import(def), IsOk()) << "clients send all of it every time";
  *def.mutable_library()->add_function() = Function("g");
  ASSERT_THAT(graph_.Import(def), IsOk());
  EXPECT_EQ(graph_.Export().library().DebugString(), def.library().DebugString());
}

TEST_F(GraphImport, FunctionsDoNotChange) {
  GraphDef def;
  *def.mutable_library()->add_function() = Function("f");
  ASSERT_THAT(graph_.Import(def), IsOk());
  GraphDef other;
  *other.mutable_library()->add_function() = Function("g");
  *other.mutable_library()->add_function() = Function("f", "Mul");
  EXPECT_THAT(graph_.Import(other), Fails(StatusCode::kInvalidArgument, "a different function with the same name"));
  EXPECT_EQ(graph_.FindSchema("g"), nullptr);
  GraphDef taken;
  *taken.mutable_library()->add_function() = Function("Mul");
  EXPECT_THAT(graph_.Import(taken), Fails(StatusCode::kInvalidArgument, "'Mul' because an op with the same name"));
}

TEST_F(GraphExport, RoundTripsWhatWasImported) {
  GraphDef def = ParseGraph(R"pb(
    node {
      name: "v"
      op: "VariableV2"
      device: "/job:ps/task:0"
      attr {
        key: "dtype"
        value { type: DT_FLOAT }
      }
      attr {
        key: "shape"
        value { shape { dim { size: 2 } } }
      }
      attr {
        key: "container"
        value { s: "box" }
      }
    }
    node {
      name: "x"
      op: "Placeholder"
      attr {
        key: "dtype"
        value { type: DT_FLOAT }
      }
      attr {
        key: "shape"
        value { shape { unknown_rank: true } }
      }
    }
    node {
      name: "t"
      op: "TwoOutputs"
      input: "x"
      input: "^v"
      attr {
        key: "T"
        value { type: DT_FLOAT }
      }
    }
    node {
      name: "m"
      op: "Mul"
      input: "t"
      input: "t:1"
      attr {
        key: "T"
        value { type: DT_FLOAT }
      }
      attr {
        key: "_class"
        value { list { s: "loc:@v" } }
      }
    }
    node {
      name: "alien"
      op: "Martian"
      input: "m"
      input: "t:1"
      input: "^x"
      attr {
        key: "k"
        value { i: 1 }
      }
    }
    library {
      function { signature { name: "f" } }
      gradient { function_name: "f" gradient_func: "g" }
    }
    versions { producer: 1395 min_consumer: 12 }
  )pb");
  ASSERT_THAT(graph_.Import(def), IsOk());
  const GraphDef out = graph_.Export();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(out, def)) << out.DebugString();
  Graph again;
  ASSERT_THAT(again.Import(out), IsOk());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(again.Export(), def));
}

TEST_F(GraphExport, StartsAtANode) {
  ASSERT_THAT(Import({"Placeholder a()", "Identity b(a)", "NoOp c(^b)"}), IsOk());
  const GraphDef tail = graph_.Export(1);
  ASSERT_EQ(tail.node_size(), 2);
  EXPECT_EQ(tail.node(0).name(), "b");
  EXPECT_EQ(tail.node(0).input(0), "a");
  EXPECT_EQ(tail.node(1).input(0), "^b");
  Graph other;
  ASSERT_THAT(other.Import(Lines({"Placeholder a()"})), IsOk());
  EXPECT_THAT(other.Import(tail), IsOk());
}

TEST_F(GraphExport, OfWhatAScopeBuilt) {
  const Scope s = graph_.root();
  const Output x = s.Add("Placeholder", {}, {{"dtype", kFloat}});
  s.Add("Mul", {x, x});
  ASSERT_TRUE(s.ok()) << s.status();
  Graph other;
  ASSERT_THAT(other.Import(graph_.Export()), IsOk());
  EXPECT_EQ(Expression(other.FindNode("Mul")), "Mul(Placeholder, Placeholder)");
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
  EXPECT_THAT(Names(*TopologicalOrder(graph_)), ElementsAre("z", "y", "c", "d", "b", "a"));
}

TEST_F(GraphTest, ConsumersAreByDataOrControl) {
  ASSERT_THAT(Import({"Placeholder a()", "Mul b(a, a)", "NoOp c(^a, ^b)"}), IsOk());
  const std::vector<std::vector<Node*>> consumers = Consumers(graph_);
  EXPECT_THAT(Names(consumers[0]), UnorderedElementsAre("b", "c"));
  EXPECT_THAT(Names(consumers[1]), UnorderedElementsAre("c"));
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

TEST_F(GraphTest, VersionsSayWhoMayReadIt) {
  GraphDef def = Lines({"Placeholder a()"});
  def.mutable_versions()->set_min_consumer(99999);
  EXPECT_THAT(graph_.Import(def),
              Fails(StatusCode::kInvalidArgument, "GraphDef min consumer version 99999 above current version 1645"));
  def.mutable_versions()->set_min_consumer(12);
  def.mutable_versions()->add_bad_consumers(5);
  def.mutable_versions()->add_bad_consumers(1645);
  EXPECT_THAT(graph_.Import(def), Fails(StatusCode::kInvalidArgument, "GraphDef disallows consumer version 1645"));
  def.mutable_versions()->mutable_bad_consumers()->RemoveLast();
  def.mutable_versions()->set_producer(-1);
  EXPECT_THAT(graph_.Import(def), Fails(StatusCode::kInvalidArgument, "GraphDef producer version -1"));
  EXPECT_EQ(graph_.num_nodes(), 0);
  def.mutable_versions()->set_producer(99999);
  EXPECT_THAT(graph_.Import(def), IsOk());
}

// Old graphs could not express "any shape" and used the shape of a scalar instead.
TEST_F(GraphTest, APlaceholderOfAnOldGraphHasAnyShape) {
  GraphDef def = Lines({"Placeholder a()", "Placeholder b()"});
  SetAttr(*def.mutable_node(0), "shape", PartialShape(Shape()));
  SetAttr(*def.mutable_node(1), "shape", PartialShape({2}));
  for (const int producer : {0, 21, 22, 1645}) {
    SCOPED_TRACE(producer);
    def.mutable_versions()->set_producer(producer);
    Graph graph;
    ASSERT_THAT(graph.Import(def), IsOk());
    EXPECT_EQ(graph.FindNode("a")->output_shape(0).ToString(), producer <= 21 ? "<unknown>" : "[]");
    EXPECT_EQ(graph.FindNode("b")->output_shape(0).ToString(), "[2]");
    Graph again;
    ASSERT_THAT(again.Import(graph.Export()), IsOk());
    EXPECT_EQ(again.FindNode("a")->output_shape(0), graph.FindNode("a")->output_shape(0));
  }
}

TEST_F(GraphTest, VersionsOfSeveralImportsHoldTogether) {
  GraphDef a = Lines({"Placeholder a()"}), b = Lines({"Placeholder b()"});
  a.mutable_versions()->set_producer(1400);
  a.mutable_versions()->set_min_consumer(12);
  a.mutable_versions()->add_bad_consumers(5);
  b.mutable_versions()->set_producer(1500);
  b.mutable_versions()->add_bad_consumers(5);
  b.mutable_versions()->add_bad_consumers(6);
  ASSERT_THAT(graph_.Import(a), IsOk());
  ASSERT_THAT(graph_.Import(b), IsOk());
  EXPECT_EQ(graph_.versions().ShortDebugString(), "producer: 1400 min_consumer: 12 bad_consumers: 5 bad_consumers: 6");
}

TEST_F(GraphTest, AGraphOfOursIsOfTensorFlowsVersion) {
  graph_.root().Add("NoOp");
  EXPECT_EQ(graph_.Export().versions().producer(), 1645);
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

// Linear in the size of the message; the time of the test program is the limit.
TEST_F(GraphImport, ANodeMayHaveVeryManyControlInputs) {
  constexpr int kNodes = 500'000;
  tensorflow::GraphDef def;
  for (int i = 0; i <= kNodes; ++i) {
    tensorflow::NodeDef* node = def.add_node();
    node->set_name(absl::StrCat("n", i));
    node->set_op("NoOp");
  }
  for (int i = 0; i < 2 * kNodes; ++i) def.mutable_node(kNodes)->add_input(absl::StrCat("^n", i % kNodes));
  Graph graph;
  ASSERT_TRUE(graph.Import(def).ok());
  EXPECT_EQ(graph.FindNode(absl::StrCat("n", kNodes))->control_inputs().size(), kNodes);
}

}  // namespace
}  // namespace thalweg
