// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/functions.h"

#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/runtime/direct_session.h"

namespace thalweg {
namespace {

tensorflow::GraphDef Parse(const std::string& text) {
  tensorflow::GraphDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def));
  return def;
}

// Runs one step in a new session, and returns the fetched int32 scalars.
absl::StatusOr<std::vector<int32_t>> RunStep(const std::string& graph, const std::vector<std::string>& fetches,
                                             const std::vector<std::string>& targets = {}) {
  DirectSession session({});
  RETURN_IF_ERROR(session.Extend(Parse(graph)));
  ASSIGN_OR_RETURN(const DirectSession::Callable callable, session.Prepare({.fetches = fetches, .targets = targets}));
  std::vector<Tensor> results;
  RETURN_IF_ERROR(session.Run(callable, {}, {}, &results, nullptr));
  std::vector<int32_t> values;
  for (const Tensor& t : results) values.push_back(t.scalar<int32_t>());
  return values;
}

std::string Const(const std::string& name, int value) {
  return absl::StrCat("node { name: '", name, "' op: 'Const' attr { key: 'dtype' value { type: DT_INT32 } } ",
                      "attr { key: 'value' value { tensor { dtype: DT_INT32 tensor_shape {} int_val: ", value,
                      " } } } } ");
}

// A function of one int32 that calls `callee` on what it is given, twice, and
// adds the results.
std::string CallsTwice(const std::string& name, const std::string& callee) {
  return absl::StrCat("function { signature { name: '", name,
                      "' input_arg { name: 'x' type: DT_INT32 } output_arg { name: 'y' type: DT_INT32 } } ",
                      "node_def { name: 'a' op: '", callee, "' input: 'x' } ",  //
                      "node_def { name: 'b' op: '", callee, "' input: 'x' } ",
                      "node_def { name: 'sum' op: 'AddV2' input: 'a:y:0' input: 'b:y:0' ",
                      "attr { key: 'T' value { type: DT_INT32 } } } ret { key: 'y' value: 'sum:z:0' } } ");
}

TEST(Functions, TypesAndListsOfACall) {
  // The call's attributes say what x and the list of results are.
  const std::string graph = Const("one", 1) + Const("two", 2) + R"(
      node { name: 'call' op: 'Poly' input: 'one' input: 'two'
             attr { key: 'T' value { type: DT_INT32 } } attr { key: 'N' value { i: 2 } } }
      library { function {
        signature { name: 'Poly'
                    input_arg { name: 'x' type_attr: 'T' number_attr: 'N' }
                    output_arg { name: 'sum' type_attr: 'T' }
                    output_arg { name: 'all' type_attr: 'T' number_attr: 'N' }
                    attr { name: 'T' type: 'type' } attr { name: 'N' type: 'int' } }
        node_def { name: 'add' op: 'AddN' input: 'x:0' input: 'x:1' attr { key: 'T' value { placeholder: 'T' } }
                   attr { key: 'N' value { placeholder: 'N' } } }
        node_def { name: 'list' op: 'IdentityN' input: 'x' attr { key: 'T' value { list { type: DT_INT32
                   type: DT_INT32 } } } }
        ret { key: 'sum' value: 'add:sum:0' } ret { key: 'all' value: 'list:output' } } })";
  const auto values = RunStep(graph, {"call:0", "call:1", "call:2"}, {"call"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, (std::vector<int32_t>{3, 1, 2}));
}

TEST(Functions, CirclesAreNamed) {
  const std::string graph = absl::StrCat(Const("one", 1), "node { name: 'call' op: 'F' input: 'one' } library { ",
                                         CallsTwice("F", "G"), CallsTwice("G", "F"), "}");
  const auto values = RunStep(graph, {"call:0"});
  EXPECT_EQ(values.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(values.status().message().find("F -> G -> F"), std::string::npos) << values.status();
}

TEST(Functions, GrowthHasALimit) {
  std::string functions =
      "function { signature { name: 'F0' input_arg { name: 'x' type: DT_INT32 } "
      "output_arg { name: 'y' type: DT_INT32 } } ret { key: 'y' value: 'x' } } ";
  for (int i = 1; i < 40; ++i) functions += CallsTwice(absl::StrCat("F", i), absl::StrCat("F", i - 1));
  const std::string graph =
      absl::StrCat(Const("one", 1), "node { name: 'call' op: 'F39' input: 'one' } library { ", functions, "}");
  Graph imported;
  ASSERT_TRUE(imported.Import(Parse(graph)).ok());
  std::vector<std::string> targets;
  EXPECT_EQ(InlineFunctions(imported, &targets, {.max_nodes = 10'000}).code(), absl::StatusCode::kResourceExhausted);
}

TEST(Functions, BadCallsAreErrors) {
  const std::string one = Const("one", 1);
  const std::string library = "library { " + CallsTwice("F", "H") + R"(
      function { signature { name: 'H' input_arg { name: 'x' type: DT_INT32 } output_arg { name: 'y' type: DT_INT32 } }
                 ret { key: 'y' value: 'nowhere:y:0' } } })";
  const auto call = [&](const std::string& f, const std::string& in, const std::string& out) {
    return absl::StrCat(one, "node { name: 'call' op: 'PartitionedCall' input: 'one' ",
                        "attr { key: 'f' value { func { name: '", f, "' } } } ",
                        "attr { key: 'Tin' value { list { type: ", in, " } } } ", "attr { key: 'Tout' value { list { ",
                        out, " } } } } ", library);
  };
  EXPECT_EQ(RunStep(call("Nobody", "DT_INT32", "type: DT_INT32"), {"call:0"}).status().code(),
            absl::StatusCode::kNotFound);
  for (const std::string& bad : {call("F", "DT_INT32", "type: DT_INT32"), call("F", "DT_INT32", "type: DT_FLOAT"),
                                 call("F", "DT_INT32", "type: DT_INT32 type: DT_INT32")}) {
    EXPECT_EQ(RunStep(bad, {"call:0"}).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// while (x < limit) x = x + x; the limit goes in and out as it is.
constexpr char kLoop[] = R"(
    node { name: 'loop' op: 'While' input: 'one' input: 'limit'
           attr { key: 'T' value { list { type: DT_INT32 type: DT_INT32 } } }
           attr { key: 'cond' value { func { name: 'Cond' } } } attr { key: 'body' value { func { name: 'Body' } } } }
    library {
      function { signature { name: 'Cond' input_arg { name: 'x' type: DT_INT32 }
                             input_arg { name: 'limit' type: DT_INT32 } output_arg { name: 'y' type: DT_BOOL } }
                 node_def { name: 'less' op: 'Less' input: 'x' input: 'limit' attr { key: 'T' value { type: DT_INT32 } }
                          }
                 ret { key: 'y' value: 'less:z:0' } }
      function { signature { name: 'Body' input_arg { name: 'x' type: DT_INT32 }
                             input_arg { name: 'limit' type: DT_INT32 } output_arg { name: 'y' type: DT_INT32 }
                             output_arg { name: 'same' type: DT_INT32 } }
                 node_def { name: 'add' op: 'AddV2' input: 'x' input: 'x' attr { key: 'T' value { type: DT_INT32 } } }
                 ret { key: 'y' value: 'add:z:0' } ret { key: 'same' value: 'limit' } } })";

TEST(Functions, LoopVariablesThatDoNotChange) {
  const auto values = RunStep(Const("one", 1) + Const("limit", 10) + kLoop, {"loop:0", "loop:1"}, {"loop"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, (std::vector<int32_t>{16, 10}));
}

TEST(Functions, AnOuterNodeMayHaveTheNameOfAnInnerOne) {
  const auto values =
      RunStep(Const("one", 1) + Const("limit", 10) + Const("loop/add", 5) + kLoop, {"loop:0", "loop/add:0"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, (std::vector<int32_t>{16, 5}));
}

// f(x) = x + x; custom(x, dy) = dy, which the library may name as its gradient.
std::string Doubling(const std::string& type, const std::string& gradient = "") {
  const std::string text = absl::StrCat(R"(library {
      function { signature { name: 'Inner' input_arg { name: 'x' type: TYPE }
                             output_arg { name: 'y' type: TYPE } }
                 node_def { name: 'add' op: 'AddV2' input: 'x' input: 'x' attr { key: 'T' value { type: TYPE } } }
                 ret { key: 'y' value: 'add:z:0' } }
      function { signature { name: 'F' input_arg { name: 'x' type: TYPE } input_arg { name: 'other' type: TYPE }
                             output_arg { name: 'y' type: TYPE } }
                 node_def { name: 'inner' op: 'Inner' input: 'x' } ret { key: 'y' value: 'inner:y:0' } }
      function { signature { name: 'Custom' input_arg { name: 'x' type: TYPE }
                             input_arg { name: 'other' type: TYPE } input_arg { name: 'dy' type: TYPE }
                             output_arg { name: 'dx' type: TYPE } output_arg { name: 'd_other' type: TYPE } }
                 ret { key: 'dx' value: 'dy' } ret { key: 'd_other' value: 'dy' } } )",
                                        gradient, "}");
  return absl::StrReplaceAll(text, {{"TYPE", type}});
}

std::string Cast(const std::string& name, const std::string& x, bool to_int) {
  return absl::StrCat("node { name: '", name, "' op: 'Cast' input: '", x,
                      "' attr { key: 'SrcT' value { type: ", to_int ? "DT_FLOAT" : "DT_INT32",
                      " } } attr { key: 'DstT' value { type: ", to_int ? "DT_INT32" : "DT_FLOAT", " } } } ");
}

TEST(Functions, GradientOfAFunction) {
  const std::string graph = Const("x", 3) + Const("other", 4) + Const("dy", 5) + Cast("fx", "x", false) +
                            Cast("fother", "other", false) + Cast("fdy", "dy", false) + Cast("dx", "grad:0", true) +
                            Cast("dother", "grad:1", true) + R"(
      node { name: 'grad' op: 'SymbolicGradient' input: 'fx' input: 'fother' input: 'fdy'
             attr { key: 'Tin' value { list { type: DT_FLOAT type: DT_FLOAT type: DT_FLOAT } } }
             attr { key: 'Tout' value { list { type: DT_FLOAT type: DT_FLOAT } } }
             attr { key: 'f' value { func { name: 'F' } } } })";
  auto values = RunStep(graph + Doubling("DT_FLOAT"), {"dx:0", "dother:0"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, (std::vector<int32_t>{10, 0}));
  values = RunStep(graph + Doubling("DT_FLOAT", "gradient { function_name: 'F' gradient_func: 'Custom' }"),
                   {"dx:0", "dother:0"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, (std::vector<int32_t>{5, 5}));
}

// A function of one float whose result is the gradient of another.
std::string GradientOf(const std::string& name, const std::string& f) {
  return absl::StrCat("function { signature { name: '", name,
                      "' input_arg { name: 'x' type: DT_FLOAT } output_arg { name: 'y' type: DT_FLOAT } } ",
                      "node_def { name: 'grad' op: 'SymbolicGradient' input: 'x' input: 'x' ",
                      "attr { key: 'Tin' value { list { type: DT_FLOAT type: DT_FLOAT } } } ",
                      "attr { key: 'Tout' value { list { type: DT_FLOAT } } } ",
                      "attr { key: 'f' value { func { name: '", f, "' } } } } ",
                      "ret { key: 'y' value: 'grad:output:0' } } ");
}

TEST(Functions, CirclesOfGradientsAreNamed) {
  const auto run = [](const std::string& function, const std::string& library) {
    return RunStep(absl::StrCat(Const("one", 1), Cast("x", "one", false), Cast("out", "call", true),
                                "node { name: 'call' op: '", function, "' input: 'x' } library { ", library, "}"),
                   {"out:0"})
        .status();
  };
  EXPECT_THAT(run("F", GradientOf("F", "F")), Fails(absl::StatusCode::kUnimplemented, "F -> F"));
  EXPECT_THAT(run("F", GradientOf("F", "G") + GradientOf("G", "F")),
              Fails(absl::StatusCode::kUnimplemented, "F -> G -> F"));
  EXPECT_THAT(run("H", GradientOf("H", "F") + GradientOf("F", "G") + GradientOf("G", "F")),
              Fails(absl::StatusCode::kUnimplemented, "F -> G -> F"));
  std::string chain = GradientOf("F999", "F0");
  for (int i = 0; i < 999; ++i) chain += GradientOf(absl::StrCat("F", i), absl::StrCat("F", i + 1));
  EXPECT_THAT(run("F0", chain), Fails(absl::StatusCode::kResourceExhausted, "gradients"));
}

TEST(Functions, CallsMayNotBeNestedWithoutEnd) {
  std::string functions;
  for (int i = 0; i < 10'000; ++i) {
    functions += absl::StrCat("function { signature { name: 'F", i, "' input_arg { name: 'x' type: DT_INT32 } ",
                              "output_arg { name: 'y' type: DT_INT32 } } node_def { name: 'a' op: 'F", i + 1,
                              "' input: 'x' } ret { key: 'y' value: 'a:y:0' } } ");
  }
  functions +=
      "function { signature { name: 'F10000' input_arg { name: 'x' type: DT_INT32 } "
      "output_arg { name: 'y' type: DT_INT32 } } ret { key: 'y' value: 'x' } } ";
  const auto run = [&](const std::string& first) {
    return RunStep(absl::StrCat(Const("one", 1), "node { name: 'call' op: '", first, "' input: 'one' } library { ",
                                functions, "}"),
                   {"call:0"});
  };
  EXPECT_THAT(run("F0").status(), Fails(absl::StatusCode::kResourceExhausted, "nested"));
  EXPECT_EQ(run("F9500").value(), std::vector<int32_t>{1});
}

// Bodies with few nodes may still be large.
TEST(Functions, GrowthInBytesHasALimit) {
  const std::string text(100'000, 'x');
  std::string functions =
      absl::StrCat("function { signature { name: 'F0' input_arg { name: 'x' type: DT_INT32 } ",
                   "output_arg { name: 'y' type: DT_INT32 } } node_def { name: 'same' op: 'Identity' input: 'x' ",
                   "attr { key: 'T' value { type: DT_INT32 } } attr { key: '_note' value { s: '", text, "' } } } ",
                   "ret { key: 'y' value: 'same:output:0' } } ");
  for (int i = 1; i < 8; ++i) functions += CallsTwice(absl::StrCat("F", i), absl::StrCat("F", i - 1));
  Graph graph;
  ASSERT_OK(graph.Import(
      Parse(absl::StrCat(Const("one", 1), "node { name: 'call' op: 'F7' input: 'one' } library { ", functions, "}"))));
  std::vector<std::string> targets;
  EXPECT_THAT(InlineFunctions(graph, &targets, {.max_bytes = 10 << 20}),
              Fails(absl::StatusCode::kResourceExhausted, "bytes"));
}

// A function of a dataset's elements that maps `callee` over two datasets.
std::string MapsTwice(const std::string& name, const std::string& callee) {
  std::string nodes;
  for (const char* map : {"a", "b"}) {
    absl::StrAppend(&nodes, "node_def { name: '", map, "' op: 'MapDataset' input: 'source:handle:0' ",
                    "attr { key: 'f' value { func { name: '", callee, "' } } } ",
                    "attr { key: 'Targuments' value { list {} } } ",
                    "attr { key: 'output_types' value { list { type: DT_INT64 } } } ",
                    "attr { key: 'output_shapes' value { list { shape {} } } } } ");
  }
  return absl::StrCat("function { signature { name: '", name,
                      "' input_arg { name: 'x' type: DT_INT64 } output_arg { name: 'y' type: DT_INT64 } ",
                      "control_output: 'a' control_output: 'b' } ",
                      "node_def { name: 'source' op: 'RangeDataset' input: 'x' input: 'x' input: 'x' ",
                      "attr { key: 'output_types' value { list { type: DT_INT64 } } } ",
                      "attr { key: 'output_shapes' value { list { shape {} } } } } ", nodes,
                      "ret { key: 'y' value: 'x' } control_ret { key: 'a' value: 'a' } ",
                      "control_ret { key: 'b' value: 'b' } } ");
}

TEST(Functions, WhatNodesCarryHasALimit) {
  std::string functions =
      "function { signature { name: 'F0' input_arg { name: 'x' type: DT_INT64 } "
      "output_arg { name: 'y' type: DT_INT64 } } ret { key: 'y' value: 'x' } } ";
  for (int i = 1; i < 41; ++i) functions += MapsTwice(absl::StrCat("F", i), absl::StrCat("F", i - 1));
  const auto attach = [&](const std::string& first) {
    Graph graph;
    EXPECT_TRUE(
        graph
            .Import(Parse(absl::StrCat(
                "node { name: 'n' op: 'Const' attr { key: 'dtype' value { type: DT_INT64 } } attr { key: ",
                "'value' value { tensor { dtype: DT_INT64 tensor_shape {} int64_val: 3 } } } } ",
                "node { name: 'source' op: 'RangeDataset' input: 'n' input: 'n' input: 'n' ",
                "attr { key: 'output_types' value { list { type: DT_INT64 } } } ",
                "attr { key: 'output_shapes' value { list { shape {} } } } } ",
                "node { name: 'map' op: 'MapDataset' input: 'source' ", "attr { key: 'f' value { func { name: '", first,
                "' } } } attr { key: 'Targuments' value { list {} } } ",
                "attr { key: 'output_types' value { list { type: DT_INT64 } } } ",
                "attr { key: 'output_shapes' value { list { shape {} } } } } library { ", functions, "}")))
            .ok());
    std::vector<std::string> targets;
    return InlineFunctions(graph, &targets, {.max_carried_bytes = 10 << 20});
  };
  EXPECT_TRUE(attach("F5").ok());
  EXPECT_THAT(attach("F20"), Fails(absl::StatusCode::kResourceExhausted, "bytes"));
  EXPECT_THAT(attach("F40"), Fails(absl::StatusCode::kResourceExhausted, "nested"));
}

TEST(Functions, ForCountsUpAndDown) {
  const auto run = [](int start, int limit, int delta) {
    return RunStep(Const("start", start) + Const("limit", limit) + Const("delta", delta) + Const("x", 1) + R"(
        node { name: 'loop' op: 'For' input: 'start' input: 'limit' input: 'delta' input: 'x'
               attr { key: 'T' value { list { type: DT_INT32 } } }
               attr { key: 'body' value { func { name: 'Body' } } } }
        library { function { signature { name: 'Body' input_arg { name: 'i' type: DT_INT32 }
                                         input_arg { name: 'x' type: DT_INT32 }
                                         output_arg { name: 'y' type: DT_INT32 } }
            node_def { name: 'double' op: 'AddV2' input: 'x' input: 'x' attr { key: 'T' value { type: DT_INT32 } } }
            node_def { name: 'add' op: 'AddV2' input: 'double:z:0' input: 'i'
                       attr { key: 'T' value { type: DT_INT32 } } }
            ret { key: 'y' value: 'add:z:0' } } })",
                   {"loop:0"}, {"loop"});
  };
  EXPECT_EQ(run(0, 3, 1).value(), std::vector<int32_t>{12});
  EXPECT_EQ(run(5, 0, -2).value(), std::vector<int32_t>{35});
  EXPECT_EQ(run(2, 2, 1).value(), std::vector<int32_t>{1});
  EXPECT_EQ(run(0, 3, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

// Values of constants are read while calls are expanded and constants folded.
TEST(Functions, AConstantIsOfTheTypeThatItSays) {
  const std::string bad = R"( { name: 'bad' op: 'Const' attr { key: 'dtype' value { type: DT_INT32 } }
      attr { key: 'value' value { tensor { dtype: DT_INT8 tensor_shape {} int_val: 1 } } } } )";
  const std::string neg = R"( { name: 'neg' op: 'Neg' input: 'INPUT' attr { key: 'T' value { type: DT_INT32 } } } )";
  const auto expect_error = [](const std::string& graph, const std::string& fetch) {
    const auto values = RunStep(graph, {fetch});
    EXPECT_EQ(values.status().code(), absl::StatusCode::kInvalidArgument) << values.status();
    EXPECT_NE(values.status().message().find("value (int8) and dtype (int32)"), std::string::npos) << values.status();
    EXPECT_NE(values.status().message().find("bad'"), std::string::npos) << values.status();
  };
  expect_error("node" + bad + "node" + absl::StrReplaceAll(neg, {{"INPUT", "bad"}}), "neg:0");
  expect_error(
      absl::StrCat("node { name: 'call' op: 'F' } library { function { signature { name: 'F' ",
                   "output_arg { name: 'y' type: DT_INT32 } } node_def", bad, "node_def",
                   absl::StrReplaceAll(neg, {{"INPUT", "bad:output:0"}}), "ret { key: 'y' value: 'neg:y:0' } } }"),
      "call:0");
}

TEST(Functions, ARemoteCallNeedsAConstantTarget) {
  const std::string call = Const("x", 3) + R"(
      node { name: 'call' op: 'RemoteCall' input: 'target' input: 'x'
             attr { key: 'Tin' value { list { type: DT_INT32 } } } attr { key: 'Tout' value { list { type: DT_INT32 } } }
             attr { key: 'f' value { func { name: 'Inner' } } } })" +
                           Doubling("DT_INT32");
  const std::string target = R"(
      node { name: 'target' op: 'Const' attr { key: 'dtype' value { type: DT_STRING } }
             attr { key: 'value' value { tensor { dtype: DT_STRING tensor_shape {} string_val: 'TEXT' } } } })";
  const auto with = [&](const std::string& device) {
    return RunStep(absl::StrReplaceAll(target, {{"TEXT", device}}) + call, {"call:0"});
  };
  EXPECT_EQ(with("/cpu:0").value(), std::vector<int32_t>{6});
  EXPECT_EQ(with("/cpu:7").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(with("nowhere").status().code(), absl::StatusCode::kInvalidArgument);
  const std::string made = R"(
      node { name: 'target' op: 'AsString' input: 'x' attr { key: 'T' value { type: DT_INT32 } } })";
  EXPECT_EQ(RunStep(made + call, {"call:0"}).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace thalweg
