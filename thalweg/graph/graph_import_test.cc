// SPDX-License-Identifier: Apache-2.0
// Graphs from and to GraphDefs.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph.h"
#include "thalweg/graph/graph_lines_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using testing::ElementsAre;

class GraphImport : public GraphTest {};
class GraphExport : public GraphTest {};

TEST_F(GraphImport, NodesComeInAnyOrder) {
  ASSERT_THAT(Import({"Identity c(b)", "Mul b(a, a)", "Placeholder a()"}), IsOk());
  EXPECT_EQ(Expression(graph_.FindNode("c")), "Identity(Mul(a, a))");
  EXPECT_THAT(NamesOf(*TopologicalOrder(graph_)), ElementsAre("a", "b", "c"));
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
  EXPECT_THAT(NamesOf(b->control_inputs()), ElementsAre("n", "a"));
  EXPECT_EQ(b->def().input_size(), 0);
}

TEST_F(GraphImport, LoopsPointBack) {
  GraphDef def = Lines({"Placeholder x()", "Enter e(x)", "Merge m(e, n)", "Placeholder cond()", "Switch s(m, cond)",
                        "Identity b(s:1)", "NextIteration n(b)", "Exit out(s)"});
  SetAttr(*def.mutable_node(3), "dtype", kBool);
  ASSERT_THAT(graph_.Import(def), IsOk());
  EXPECT_EQ(graph_.FindNode("m")->input(1).node, graph_.FindNode("n"));
  EXPECT_THAT(NamesOf(*TopologicalOrder(graph_)), ElementsAre("x", "e", "m", "cond", "s", "b", "n", "out"));
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
