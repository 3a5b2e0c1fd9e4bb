// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/debug_nodes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/kernel/debug_files.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {
namespace {

using tensorflow::DebugOptions;
using tensorflow::DebugTensorWatch;
using tensorflow::NodeDef;

bool IsEffective(const DebugTensorWatch& watch) { return watch.debug_ops_size() > 0 && watch.debug_urls_size() > 0; }

// "DebugNumericSummary(lower_bound=-1; mute_if_healthy=true)".
struct DebugOp {
  std::string type;
  std::vector<std::pair<std::string, std::string>> attributes;

  static absl::StatusOr<DebugOp> Parse(absl::string_view text);
  absl::Status SetAttributes(NodeDef& def) const;
};

absl::StatusOr<DebugOp> DebugOp::Parse(absl::string_view text) {
  const size_t open = text.find('(');
  DebugOp op{.type = std::string(text.substr(0, open)), .attributes = {}};
  if (op.type != "DebugIdentity" && op.type != "DebugNanCount" && op.type != "DebugNumericSummary") {
    return FailedPrecondition("Unknown debug op '", text,
                              "': expected DebugIdentity, DebugNanCount or DebugNumericSummary");
  }
  if (open == absl::string_view::npos) return op;
  absl::string_view arguments = text.substr(open + 1);
  if (!absl::ConsumeSuffix(&arguments, ")")) return FailedPrecondition("Malformed debug op name '", text, "'");
  for (const absl::string_view part : absl::StrSplit(arguments, ';', absl::SkipWhitespace())) {
    std::pair<std::string, std::string> attribute = absl::StrSplit(absl::StripAsciiWhitespace(part), '=');
    if (attribute.first.empty() || attribute.second.empty()) {
      return FailedPrecondition("Malformed attributes in debug op name '", text, "': expected name=value");
    }
    op.attributes.push_back(std::move(attribute));
  }
  return op;
}

absl::Status DebugOp::SetAttributes(NodeDef& def) const {
  for (const auto& [name, value] : attributes) {
    bool flag = false;
    float number = 0;
    if ((name == "gated_grpc" || (type == "DebugNumericSummary" && name == "mute_if_healthy")) &&
        absl::SimpleAtob(value, &flag)) {
      SetAttr(def, name, flag);
    } else if (type == "DebugNumericSummary" && (name == "lower_bound" || name == "upper_bound") &&
               absl::SimpleAtof(value, &number)) {
      SetAttr(def, name, number);
    } else {
      return FailedPrecondition("Invalid attribute of debug op ", type, ": ", name, "=", value);
    }
  }
  return absl::OkStatus();
}

// For each watched tensor: a CopyHost node, and one debug node per debug op, which reads the copy.
class Inserter {
 public:
  Inserter(const DebugOptions& options, Graph& graph) : graph_(graph), consumers_(Consumers(graph)) {
    for (const DebugTensorWatch& watch : options.debug_tensor_watch_opts()) {
      if (!IsEffective(watch)) continue;
      if (watch.node_name() == "*") {
        for_all_ = &watch;
      } else {
        watches_[absl::StrCat(watch.node_name(), ":", watch.output_slot())] = &watch;
      }
    }
  }

  absl::Status Run() {
    const int count = graph_.num_nodes();
    for (int id = 0; id < count; ++id) {
      Node& node = *graph_.node(id);
      for (int i = 0; i < node.num_outputs(); ++i) {
        const auto it = watches_.find(absl::StrCat(node.name(), ":", i));
        const DebugTensorWatch* const watch = it != watches_.end() ? it->second : for_all_;
        if (watch != nullptr) RETURN_IF_ERROR(Watch(node.out(i), *watch));
      }
    }
    return absl::OkStatus();
  }

 private:
  NodeDef NodeOn(const Node& source, std::string name, absl::string_view op) const {
    NodeDef def;
    def.set_name(std::move(name));
    def.set_op(std::string(op));
    def.set_device(source.device());
    return def;
  }

  absl::Status Watch(Output tensor, const DebugTensorWatch& watch) {
    const std::string name = tensor.name();
    const std::vector<std::string> urls(watch.debug_urls().begin(), watch.debug_urls().end());
    NodeDef def = NodeOn(*tensor.node, absl::StrCat("__copy_", tensor.node->name(), "_", tensor.index), "CopyHost");
    SetAttr(def, "T", RemoveRef(tensor.dtype()));
    SetAttr(def, "tensor_name", name);
    ASSIGN_OR_RETURN(Node* const copy, graph_.AddNode(std::move(def), {tensor}, {}));
    std::vector<Node*> added;
    for (int i = 0; i < watch.debug_ops_size(); ++i) {
      absl::StatusOr<Node*> node = AddDebugNode(copy, name, i, watch.debug_ops(i), urls);
      if (node.ok()) {
        added.push_back(*node);
      } else if (watch.tolerate_debug_op_creation_failures()) {
        VLOG(1) << "Tensor " << name << " is not watched by " << watch.debug_ops(i) << ": " << node.status().message();
      } else {
        return FailedPrecondition("Failed to create debug node ", watch.debug_ops(i), " for tensor ", name,
                                  ", due to: ", node.status().message());
      }
    }
    if (IsRef(tensor.dtype())) OrderBeforeUsers(tensor, added);
    return absl::OkStatus();
  }

  absl::StatusOr<Node*> AddDebugNode(Node* copy, const std::string& tensor, int number, const std::string& text,
                                     const std::vector<std::string>& urls) {
    ASSIGN_OR_RETURN(const DebugOp op, DebugOp::Parse(text));
    const DType type = copy->output_type(0);
    if (op.type != "DebugIdentity" && (type == kString || type == kResource || type == kVariant || IsComplex(type))) {
      return InvalidArgument(op.type, " does not take ", ToString(type));
    }
    // The debugger expects the colon of the tensor in the name, which nodes of clients may not have.
    std::string name = absl::StrCat("__dbg_", tensor, "_", number, "_", op.type);
    NodeDef def = NodeOn(*copy, absl::StrReplaceAll(name, {{":", "_"}}), op.type);
    SetAttr(def, "T", type);
    SetAttr(def, "device_name", copy->device());
    SetAttr(def, "tensor_name", tensor);
    SetAttr(def, "debug_urls", urls);
    RETURN_IF_ERROR(op.SetAttributes(def));
    ASSIGN_OR_RETURN(Node* const node, graph_.AddNode(std::move(def), {copy->out()}, {}));
    node->mutable_def().set_name(std::move(name));
    return node;
  }

  void OrderBeforeUsers(const Output& tensor, const std::vector<Node*>& debug_nodes) {
    if (IsControlFlow(*tensor.node)) return;
    for (Node* const user : consumers_[tensor.node->id()]) {
      if (IsControlFlow(*user)) continue;
      if (std::find(user->inputs().begin(), user->inputs().end(), tensor) == user->inputs().end()) continue;
      for (Node* const node : debug_nodes) user->AddControlInput(node);
    }
  }

  Graph& graph_;
  const std::vector<std::vector<Node*>> consumers_;  // before nodes are added
  std::map<std::string, const DebugTensorWatch*> watches_;
  const DebugTensorWatch* for_all_ = nullptr;
};

absl::Status CheckWatches(const DebugOptions& options) {
  for (const DebugTensorWatch& watch : options.debug_tensor_watch_opts()) {
    if (!IsEffective(watch)) continue;
    if ((watch.node_name() == "*") != (watch.output_slot() == -1) || watch.output_slot() < -1) {
      return FailedPrecondition("A debug watch of node '", watch.node_name(), "' has output_slot ", watch.output_slot(),
                                ": expected -1 for \"*\", and 0 or more for a node");
    }
    const std::vector<std::string> urls(watch.debug_urls().begin(), watch.debug_urls().end());
    RETURN_IF_ERROR(CheckDebugUrls(urls));
  }
  return absl::OkStatus();
}

}  // namespace

bool WatchesTensors(const DebugOptions& options) {
  return std::any_of(options.debug_tensor_watch_opts().begin(), options.debug_tensor_watch_opts().end(), IsEffective);
}

absl::Status InsertDebugNodes(const DebugOptions& options, Graph& graph) {
  RETURN_IF_ERROR(CheckWatches(options));
  return WatchesTensors(options) ? Inserter(options, graph).Run() : absl::OkStatus();
}

}  // namespace thalweg
