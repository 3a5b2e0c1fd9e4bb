// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/subgraph.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/direct_session.h"

namespace thalweg {
namespace {

// Clients may ask for names that no node can have.
TEST(Signature, NoNameIsTakenForSeveral) {
  const std::vector<Signature> signatures = {
      {.fetches = {"a:0", "b:0"}},
      {.fetches = {"a:0,b:0"}},
      {.fetches = {"a:0", ",b:0"}},
      {.fetches = {"a:03:b:0"}},
      {.feeds = {"a:0"}, .fetches = {"b:0"}},
      {.feeds = {"a:0\nb:0"}},
      {.fetches = {"a:0"}, .targets = {"b:0"}},
      {.fetches = {"a:0\nb:0"}},
      {.feeds = {"a:0", "b:0"}, .fetches = {"c:0"}, .texts = {"x", "y"}},
      {.feeds = {"a:0", "b:0"}, .fetches = {"c:0"}, .texts = {"x\n1=1:y"}},
      {.feeds = {"a:0", "b:0"}, .fetches = {"c:0"}, .texts = {"x\n1=y"}},
      {.feeds = {"a:0", "b:0"}, .fetches = {"c:0"}, .targets = {"\n0=1:x"}},
  };
  std::set<std::string> keys;
  for (const Signature& signature : signatures) EXPECT_TRUE(keys.insert(signature.Key()).second) << signature.Key();
}

TEST(Signature, ASessionDoesNotTakeOneForAnother) {
  Graph graph;
  const Scope s = graph.root();
  Neg(s.WithOpName("a"), Const(s, 1.f));
  Neg(s.WithOpName("b"), Const(s, 2.f));
  DirectSession session({});
  ASSERT_OK(session.Extend(graph.Export()));
  ASSERT_OK(session.Prepare({.fetches = {"a:0", "b:0"}}).status());
  EXPECT_THAT(session.Prepare({.fetches = {"a:0,b:0"}}), Fails(absl::StatusCode::kNotFound, "a:0,b:0"));
}

// Shapes that do not fit fail the steps that need the node, as in TensorFlow.
TEST(Extract, ANodeThatCannotRunConcernsOnlyTheStepsThatNeedIt) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithOpName("x"), kFloat, PartialShape());
  Neg(s.WithOpName("after"), MatMul(s.WithOpName("product"), x, Const(s, Tensor(kFloat, Shape({4, 5})))));
  Neg(s.WithOpName("fine"), Const(s, 1.f));
  tensorflow::GraphDef def = graph.Export();
  for (tensorflow::NodeDef& node : *def.mutable_node()) {
    if (node.name() == "x") SetAttr(node, "shape", PartialShape({2, 3}));
  }
  DirectSession session({});
  ASSERT_OK(session.Extend(def));
  ASSERT_OK(session.Prepare({.fetches = {"fine:0"}}).status());
  EXPECT_THAT(session.Prepare({.feeds = {"x:0"}, .fetches = {"after:0"}}),
              Fails(absl::StatusCode::kInvalidArgument, "'product' (MatMul)"));
  ASSERT_OK(session.Prepare({.feeds = {"product:0"}, .fetches = {"after:0"}}).status());
}

// _Arg and _Retval nodes, which only the runtime may add because it relies on their indices.
class ArgumentsTest : public testing::Test {
 protected:
  static absl::StatusOr<std::vector<Tensor>> Run(const Graph& graph, const Signature& signature,
                                                 const std::vector<Tensor>& feeds = {}) {
    DirectSession session({});
    RETURN_IF_ERROR(session.Extend(graph.Export()));
    ASSIGN_OR_RETURN(const DirectSession::Callable callable, session.Prepare(signature));
    std::vector<Tensor> results;
    RETURN_IF_ERROR(session.Run(callable, {}, feeds, &results, nullptr));
    return results;
  }

  Graph graph_;
  const Scope s_ = graph_.root();
};

TEST_F(ArgumentsTest, OfAUserAreNamed) {
  const Output arg = s_.WithOpName("mine").Add("_Arg", {}, {{"T", kFloat}, {"index", 0}});
  Neg(s_.WithOpName("y"), arg);
  s_.WithOpName("result").Add("_Retval", {Const(s_, 1.f)}, {{"index", 3}});
  ASSERT_OK(s_.status());
  EXPECT_THAT(Run(graph_, {.fetches = {"y:0"}}), Fails(absl::StatusCode::kInvalidArgument, "'mine'"));
  EXPECT_THAT(Run(graph_, {.fetches = {"mine:0"}}), Fails(absl::StatusCode::kInvalidArgument, "'mine'"));
  EXPECT_THAT(Run(graph_, {.targets = {"result"}}), Fails(absl::StatusCode::kInvalidArgument, "'result'"));
  // One that is fed is not needed.
  ASSERT_OK_AND_ASSIGN(const auto out,
                       Run(graph_, {.feeds = {"mine:0"}, .fetches = {"y:0"}}, {Tensor::Scalar<float>(2)}));
  EXPECT_EQ(out[0].scalar<float>(), -2);
}

TEST_F(ArgumentsTest, InAFunctionAreNamed) {
  tensorflow::FunctionDefLibrary library;
  tensorflow::FunctionDef& function = *library.add_function();
  function.mutable_signature()->set_name("F");
  tensorflow::OpDef::ArgDef& y = *function.mutable_signature()->add_output_arg();
  y.set_name("y");
  y.set_type(tensorflow::DT_FLOAT);
  tensorflow::NodeDef& arg = *function.add_node_def();
  arg.set_name("mine");
  arg.set_op("_Arg");
  SetAttr(arg, "T", kFloat);
  SetAttr(arg, "index", int64_t{5});
  (*function.mutable_ret())["y"] = "mine:output:0";
  ASSERT_OK(graph_.AddFunctions(library));
  s_.WithOpName("call").Add("F");
  ASSERT_OK(s_.status());
  const auto out = Run(graph_, {.fetches = {"call:0"}});
  EXPECT_THAT(out, Fails(absl::StatusCode::kInvalidArgument, "'mine'"));
  EXPECT_THAT(out, Fails(absl::StatusCode::kInvalidArgument, "function 'F'"));
}

// A text becomes a constant of the step: it must be what the graph expects.
TEST_F(ArgumentsTest, ATextIsFedToStrings) {
  Neg(s_.WithOpName("y"), Placeholder(s_.WithOpName("x"), kFloat, {}));
  Identity(s_.WithOpName("z"), Placeholder(s_.WithOpName("text"), kString, {}));
  ASSERT_OK(s_.status());
  EXPECT_THAT(Extract(graph_, {.feeds = {"x:0"}, .fetches = {"y:0"}, .texts = {"a"}}),
              Fails(absl::StatusCode::kInvalidArgument, "'x:0' is of type string, expected float"));
  ASSERT_OK(Extract(graph_, {.feeds = {"text:0"}, .fetches = {"z:0"}, .texts = {"a"}}).status());
}

// A value is not a variable that could be changed.
TEST_F(ArgumentsTest, AVariableIsFedToWhatReadsIt) {
  const Output v = s_.WithOpName("v").Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  const Output assigned = s_.WithOpName("assign").Add("Assign", {v, Const(s_, 1.f)});
  Neg(s_.WithOpName("y"), v);
  s_.WithOpName("updates").WithControlDependencies({assigned}).Add("NoOp");
  ASSERT_OK(s_.status());
  const std::vector<Tensor> feeds = {Tensor::Scalar<float>(2)};
  for (const Signature& signature :
       {Signature{.feeds = {"v:0"}, .targets = {"assign"}}, Signature{.feeds = {"v:0"}, .fetches = {"assign:0"}},
        Signature{.feeds = {"v:0"}, .targets = {"updates"}}}) {
    EXPECT_THAT(
        Run(graph_, signature, feeds),
        Fails(absl::StatusCode::kInvalidArgument,
              "Input 0 of node assign was passed float from v:0, which is fed, incompatible with expected float_ref"));
  }
  ASSERT_OK_AND_ASSIGN(const auto out, Run(graph_, {.feeds = {"v:0"}, .fetches = {"y:0", "v:0"}}, feeds));
  EXPECT_EQ(out[0].scalar<float>(), -2);
  EXPECT_EQ(out[1].scalar<float>(), 2);
}

// A fed tensor is not computed, so its op may be unknown.
class UnknownOpTest : public ArgumentsTest {
 protected:
  void SetUp() override {
    tensorflow::GraphDef def;
    tensorflow::NodeDef& node = *def.add_node();
    node.set_name("unknown");
    node.set_op("NobodyKnowsThisOp");
    const auto add = [&](const char* name, const char* op, std::vector<std::string> inputs, DType type) {
      tensorflow::NodeDef& user = *def.add_node();
      user.set_name(name);
      user.set_op(op);
      for (std::string& input : inputs) user.add_input(std::move(input));
      if (type != kInvalid) SetAttr(user, "T", type);
    };
    add("y", "Neg", {"unknown:1"}, kFloat);
    add("z", "Neg", {"unknown:1"}, kInt32);
    add("after", "NoOp", {"^unknown"}, kInvalid);
    add("unknown2", "NobodyKnowsThisOp", {"unknown:2"}, kInvalid);
    ASSERT_OK(graph_.Import(def));
  }
};

TEST_F(UnknownOpTest, IsFed) {
  const std::vector<Tensor> feeds = {Tensor::Scalar<float>(2)};
  ASSERT_OK_AND_ASSIGN(const auto out, Run(graph_, {.feeds = {"unknown:1"}, .fetches = {"y:0"}}, feeds));
  EXPECT_EQ(out[0].scalar<float>(), -2);
  EXPECT_THAT(Run(graph_, {.feeds = {"unknown:1"}, .fetches = {"y:0"}}, {Tensor::Scalar<int32_t>(2)}),
              Fails(absl::StatusCode::kInvalidArgument, "'unknown:1' is of type int32, expected float"));
  EXPECT_THAT(Run(graph_, {.feeds = {"unknown:1"}, .fetches = {"y:0", "z:0"}}, feeds),
              Fails(absl::StatusCode::kInvalidArgument, "incompatible with expected int32"));
  ASSERT_OK(Run(graph_, {.feeds = {"unknown:1"}, .fetches = {"z:0"}}, {Tensor::Scalar<int32_t>(2)}).status());
  // Nobody says what it is, or needs to know.
  ASSERT_OK(Run(graph_, {.feeds = {"unknown:0"}, .targets = {"after"}}, feeds).status());
}

TEST_F(UnknownOpTest, IsNeeded) {
  for (const Signature& signature : {Signature{.fetches = {"y:0"}}, Signature{.targets = {"after"}},
                                     Signature{.fetches = {"unknown:1"}}, Signature{.targets = {"unknown"}}}) {
    EXPECT_THAT(Run(graph_, signature),
                Fails(absl::StatusCode::kNotFound, "Op type not registered 'NobodyKnowsThisOp'"));
  }
  EXPECT_THAT(Run(graph_, {.feeds = {"unknown:2"}, .targets = {"unknown2"}}, {Tensor::Scalar<float>(2)}),
              Fails(absl::StatusCode::kNotFound, "Op type not registered 'NobodyKnowsThisOp' (node 'unknown2')"));
  EXPECT_THAT(Run(graph_, {.feeds = {"unknown:1"}, .fetches = {"unknown:1"}}, {Tensor::Scalar<float>(2)}),
              Fails(absl::StatusCode::kNotFound, "Op type not registered 'NobodyKnowsThisOp'"));
}

TEST_F(UnknownOpTest, IsInAFunctionThatIsNotCalled) {
  tensorflow::FunctionDefLibrary library;
  tensorflow::FunctionDef& function = *library.add_function();
  function.mutable_signature()->set_name("F");
  tensorflow::NodeDef& node = *function.add_node_def();
  node.set_name("inside");
  node.set_op("NobodyKnowsThisOp");
  ASSERT_OK(graph_.AddFunctions(library));
  s_.WithOpName("call").Add("F");
  Neg(s_.WithOpName("other"), Const(s_, 1.f));
  ASSERT_OK(s_.status());
  ASSERT_OK(Run(graph_, {.fetches = {"other:0"}}).status());
  EXPECT_THAT(Run(graph_, {.targets = {"call"}}), Fails(absl::StatusCode::kNotFound, "function 'F'"));
}

}  // namespace
}  // namespace thalweg
