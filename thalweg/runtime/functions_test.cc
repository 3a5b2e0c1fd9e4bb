#include "thalweg/runtime/functions.h"

#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "thalweg/runtime/local_session.h"

namespace thalweg {
namespace {

tensorflow::GraphDef Parse(const std::string& text) {
  tensorflow::GraphDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def));
  return def;
}

// One step of a session of its own: the int32 scalars that were fetched.
absl::StatusOr<std::vector<int32_t>> RunStep(const std::string& graph, const std::vector<std::string>& fetches,
                                             const std::vector<std::string>& targets = {}) {
  LocalSession session({});
  RETURN_IF_ERROR(session.Extend(Parse(graph)));
  ASSIGN_OR_RETURN(const LocalSession::Callable callable, session.Prepare({.fetches = fetches, .targets = targets}));
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
  EXPECT_EQ(InlineFunctions(imported, &targets, 10'000).code(), absl::StatusCode::kResourceExhausted);
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

}  // namespace
}  // namespace thalweg
