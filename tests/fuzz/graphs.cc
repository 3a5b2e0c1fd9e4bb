// SPDX-License-Identifier: Apache-2.0
// Graphs of clients: import, and the preparation of a step (prune, inline functions, place, optimize). The text format
// of protobuf, so that a mutation of a name or number is still a graph. The step fetches the last node.
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include "fuzz_target.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/logging.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/runtime/local_devices.h"
#include "thalweg/runtime/prepare.h"

namespace thalweg::fuzz {
namespace {

constexpr const char* kDevices[] = {"/job:worker/replica:0/task:0/device:CPU:0",
                                    "/job:ps/replica:0/task:0/device:CPU:0"};

// Ignores errors of the text: half a graph is a graph, too.
tensorflow::GraphDef ParseGraph(absl::string_view input) {
  class Silent : public google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string&) override {}
  };
  Silent silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  parser.AllowPartialMessage(true);
  parser.SetRecursionLimit(100);  // that of messages
  tensorflow::GraphDef def;
  parser.ParseFromString(std::string(input.data(), input.size()), &def);
  return def;
}

}  // namespace

void TestOneInput(absl::string_view input) {
  static auto& devices = *new LocalDevices({});
  static const auto& options = *[] {
    auto* made = new PrepareOptions;
    for (const char* name : kDevices) made->placer.devices.push_back({*DeviceName::Parse(name)});
    made->folding_device = devices.devices()[0].get();
    return made;
  }();
  const tensorflow::GraphDef def = ParseGraph(input);
  SessionGraph session;
  if (!session.Import(def).ok() || def.node_size() == 0) return;
  const std::string& last = def.node(def.node_size() - 1).name();
  Cancellation cancellation;
  for (const Signature& signature : {Signature{.fetches = {last + ":0"}}, Signature{.targets = {last}},
                                     Signature{.feeds = {def.node(0).name() + ":0"}, .fetches = {last + ":0"}}}) {
    session.Prepare(signature, options, cancellation).status().IgnoreError();
  }
}

std::vector<std::string> Seeds() {
  const std::string constant =
      R"(node { name: "k" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { )"
      R"(tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: 1 float_val: 2 } } } })";
  const std::string type = R"(attr { key: "T" value { type: DT_FLOAT } })";
  const auto node = [&](const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                        const std::string& rest = "") {
    std::string text = "node { name: \"" + name + "\" op: \"" + op + "\"";
    for (const std::string& input : inputs) text += " input: \"" + input + "\"";
    return text + " " + type + " " + rest + " }";
  };
  const std::string frame = R"(attr { key: "frame_name" value { s: "f" } })";
  return {
      constant + node("a", "Add", {"k", "k"}) + node("b", "Identity", {"a", "^k"}, "device: \"/job:ps/task:0\""),
      R"(node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value {)"
      R"( shape { dim { size: 2 } } } } })" +
          constant + node("w", "Assign", {"v", "k"}, R"(attr { key: "_class" value { list { s: "loc:@v" } } })"),
      constant + node("e", "Enter", {"k"}, frame) +
          node("m", "Merge", {"e", "n"}, R"(attr { key: "N" value { i: 2 } })") +
          R"(node { name: "t" op: "Const" attr { key: "dtype" value { type: DT_BOOL } } attr { key: "value" value {)"
          R"( tensor { dtype: DT_BOOL tensor_shape {} bool_val: true } } } } node { name: "c" op: "Enter" input: "t")"
          R"( attr { key: "T" value { type: DT_BOOL } } )" +
          frame + R"( } node { name: "l" op: "LoopCond" input: "c" })" + node("s", "Switch", {"m", "l"}) +
          node("n", "NextIteration", {"s:1"}) + node("x", "Exit", {"s"}),
      R"(library { function { signature { name: "f" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type:)"
      R"( DT_FLOAT } } node_def { name: "g" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } } ret { key:)"
      R"( "y" value: "g:y:0" } } })" +
          constant +
          R"(node { name: "call" op: "f" input: "k" } node { name: "p" op: "PartitionedCall" input: "call")"
          R"( attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type:)"
          R"( DT_FLOAT } } } attr { key: "f" value { func { name: "f" } } } })",
      constant +
          R"(node { name: "d" op: "Const" attr { key: "dtype" value { type: DT_INT32 } } attr { key: "value" )"
          R"(value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 1 } } } })" +
          node("r", "Reshape", {"k", "d"}, R"(attr { key: "Tshape" value { type: DT_INT32 } })") +
          node("z", "ConcatV2", {"k", "k", "d"},
               R"(attr { key: "N" value { i: 2 } } attr { key: "Tidx" value { type: DT_INT32 } })"),
  };
}

}  // namespace thalweg::fuzz
