#include "thalweg/runtime/subgraph.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
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

}  // namespace
}  // namespace thalweg
