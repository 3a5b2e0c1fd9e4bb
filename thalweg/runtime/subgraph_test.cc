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
#include "thalweg/runtime/local_session.h"

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
  LocalSession session({});
  ASSERT_OK(session.Extend(graph.Export()));
  ASSERT_OK(session.Prepare({.fetches = {"a:0", "b:0"}}).status());
  EXPECT_THAT(session.Prepare({.fetches = {"a:0,b:0"}}), Fails(absl::StatusCode::kNotFound, "a:0,b:0"));
}

// What the runtime adds where values enter and leave: it relies on the indices.
class ArgumentsTest : public testing::Test {
 protected:
  static absl::StatusOr<std::vector<Tensor>> Run(const Graph& graph, const Signature& signature,
                                                 const std::vector<Tensor>& feeds = {}) {
    LocalSession session({});
    RETURN_IF_ERROR(session.Extend(graph.Export()));
    ASSIGN_OR_RETURN(const LocalSession::Callable callable, session.Prepare(signature));
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

}  // namespace
}  // namespace thalweg
