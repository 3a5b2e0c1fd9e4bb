// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/embedded_functions.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/graph/scope.h"
#include "thalweg/graph/unusable_node.h"
#include "thalweg/runtime/compiled_function.h"
#include "thalweg/runtime/function_body.h"
#include "thalweg/runtime/functions.h"

namespace thalweg {
namespace {

using tensorflow::NameAttrList;

// A name and attributes, in an order that does not depend on the map.
std::string KeyOf(const NameAttrList& f) {
  std::string key;
  google::protobuf::io::StringOutputStream stream(&key);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  f.SerializeToCodedStream(&coded);
  coded.Trim();
  return key;
}

// A body runs on the device of the node that carries it, all of it: a call on
// another device is a call. (The iterator that feeds several devices sends such
// calls to the device of the source, where the body runs already.)
void StayHere(google::protobuf::RepeatedPtrField<tensorflow::NodeDef>* nodes) {
  for (tensorflow::NodeDef& node : *nodes) {
    if (node.op() != "RemoteCall" || node.input_size() == 0) continue;
    node.set_op("StatefulPartitionedCall");
    node.mutable_input()->DeleteSubrange(0, 1);  // the device
  }
}

class Attachment {
 public:
  explicit Attachment(int64_t max_bytes) : max_bytes_(max_bytes) {}

  absl::Status Attach(Graph& graph) {
    for (const auto& node : graph.nodes()) {
      if (node->schema() == nullptr) continue;
      for (const auto& attr : node->schema()->def.attr()) {
        const bool branches = node->op() == "ChooseFastestBranchDataset" && attr.type() == "list(func)";
        if (attr.type() != "func" && !branches) continue;
        if (HasAttr(node->def(), absl::StrCat("_graph_of_", attr.name()))) continue;
        NameAttrList f;
        if (branches) {  // all give the same elements: the first is carried
          const auto& list = node->def().attr().at(attr.name()).list();
          if (list.func_size() == 0) return InvalidArgument("node '", node->name(), "' has no branches");
          f = list.func(0);
        } else {
          ASSIGN_OR_RETURN(f, GetAttr<NameAttrList>(node->def(), attr.name()));
        }
        const absl::StatusOr<const std::string*> body = BodyOf(graph, f);
        if (!body.ok()) return Append(body.status(), absl::StrCat("; function of node '", node->name(), "'"));
        // A body contains the bodies of the functions in it, so nesting functions twice in each
        // level grows exponentially.
        bytes_ += static_cast<int64_t>((*body)->size());
        if (bytes_ > max_bytes_) {
          return ResourceExhausted("the functions that nodes carry have more than ", max_bytes_,
                                   " bytes, at that of node '", node->name(), "'");
        }
        SetAttr(node->mutable_def(), absl::StrCat("_graph_of_", attr.name()), **body);
      }
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int kMaxDepth = 32;  // each takes a copy of the library while it is read

  // The body of `f`, without calls.
  absl::StatusOr<const std::string*> BodyOf(const Graph& graph, const NameAttrList& f) {
    const std::string key = KeyOf(f);
    if (const auto it = bodies_.find(key); it != bodies_.end()) return it->second.get();
    if (std::count(callers_.begin(), callers_.end(), f.name()) > 0) {
      return Unimplemented("functions call each other in a circle: ", absl::StrJoin(callers_, " -> "), " -> ",
                           f.name());
    }
    if (callers_.size() == kMaxDepth) {
      return ResourceExhausted("functions that nodes carry are nested more than ", kMaxDepth, " deep, at '", f.name(),
                               "'");
    }
    callers_.push_back(f.name());
    ASSIGN_OR_RETURN(std::string body, MakeBody(graph, f));
    callers_.pop_back();
    return (bodies_[key] = std::make_unique<const std::string>(std::move(body))).get();
  }

  absl::StatusOr<std::string> MakeBody(const Graph& graph, const NameAttrList& f) {
    const auto& functions = graph.library().function();
    const auto it = std::find_if(functions.begin(), functions.end(),
                                 [&](const auto& known) { return known.signature().name() == f.name(); });
    if (it == functions.end()) return NotFound("Function ", f.name(), " is not defined.");
    ASSIGN_OR_RETURN(FunctionBody body, Instantiate(*it, f.attr(), graph, ""));
    StayHere(body.def.mutable_node());
    tensorflow::FunctionDefLibrary library = graph.library();
    for (auto& function : *library.mutable_function()) StayHere(function.mutable_node_def());
    Graph inner;
    RETURN_IF_ERROR(inner.AddFunctions(library));
    RETURN_IF_ERROR(inner.Import(body.def));
    RETURN_IF_ERROR(CheckShapes(inner));
    const Scope s = inner.root();
    for (size_t i = 0; i < body.results.size(); ++i) {
      ASSIGN_OR_RETURN(const Output result, inner.FindOutput(body.results[i]));
      s.Add("_Retval", {result}, {{"index", static_cast<int64_t>(i)}});
    }
    std::vector<Output> effects;
    for (const std::string& effect : body.effects) effects.push_back(Output(inner.FindNode(effect)));
    s.WithControlDependencies(effects).WithOpName("_effects").Add("NoOp");
    RETURN_IF_ERROR(s.status());
    std::vector<std::string> targets;
    RETURN_IF_ERROR(InlineCalls(inner, &targets));
    RETURN_IF_ERROR(Attach(inner));
    tensorflow::GraphDef def = inner.Export();
    def.clear_library();
    return def.SerializeAsString();
  }

  const int64_t max_bytes_;
  std::vector<std::string> callers_;
  absl::flat_hash_map<std::string, std::unique_ptr<const std::string>> bodies_;
  int64_t bytes_ = 0;  // total size of all embedded bodies
};

// Registered here and not in the file of CompileBody, which a linker could drop because
// nothing else refers to it.
[[maybe_unused]] const bool kRegistered = (SetFunctionCompiler(CompileBody), true);

}  // namespace

absl::Status EmbedFunctions(Graph& graph, int64_t max_bytes) { return Attachment(max_bytes).Attach(graph); }

}  // namespace thalweg
