// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/subgraph.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/unusable_node.h"

namespace thalweg {
namespace {

using tensorflow::NodeDef;

absl::StatusOr<std::vector<Output>> FindFeeds(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<Output> feeds;
  for (const std::string& name : names) {
    const absl::StatusOr<Output> output = graph.FindOutput(name);
    if (absl::IsNotFound(output.status())) return NotFound("FeedInputs: unable to find feed output ", name);
    if (!output.ok())
      return InvalidArgument("FeedInputs: ", name, " should have output index < ",
                             graph.FindNode(name.substr(0, name.rfind(':')))->num_outputs());
    for (const Output& other : feeds) {
      if (other == *output) return InvalidArgument("Endpoint '", name, "' fed more than once.");
    }
    feeds.push_back(*output);
  }
  return feeds;
}

absl::StatusOr<std::vector<Output>> FindFetches(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<Output> fetches;
  for (const std::string& name : names) {
    const absl::StatusOr<Output> output = graph.FindOutput(name);
    if (absl::IsNotFound(output.status())) return NotFound("FetchOutputs node ", name, ": not found");
    if (!output.ok()) {
      return InvalidArgument("FetchOutputs ", name, ": output index too large, must be < ",
                             graph.FindNode(name.substr(0, name.rfind(':')))->num_outputs());
    }
    if (output->node->schema() == nullptr) {
      return WhyUnusable(*output->node);
    }
    fetches.push_back(*output);
  }
  return fetches;
}

absl::StatusOr<std::vector<Node*>> FindTargets(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<Node*> targets;
  std::string missing;
  for (const std::string& name : names) {
    Node* node = graph.FindNode(name);
    if (node == nullptr) absl::StrAppend(&missing, name, " ");
    targets.push_back(node);
  }
  if (!missing.empty()) return NotFound("PruneForTargets: Some target nodes not found: ", missing);
  return targets;
}

// A node name made of a tensor's: "_arg_a_0_0".
std::string EdgeNodeName(absl::string_view kind, const std::string& tensor, size_t index) {
  return absl::StrCat(kind, "_", absl::StrReplaceAll(tensor, {{":", "_"}, {"/", "_"}}), "_", index);
}

// Copies the part of a graph that a signature needs.
// - Feeds cut the graph: a fed tensor becomes an _Arg (or a Const, for text that is part of the signature), and what
//   computes it is copied only if something else needs it.
// - Fetches become _Retval nodes.
// - Copies first keep the inputs of their originals. Connect() maps them once all nodes exist, since loops point back.
class Extraction {
 public:
  Extraction(const Graph& graph, std::vector<Output> feeds)
      : source_(graph), feeds_(std::move(feeds)), copies_(graph.num_nodes()) {}

  absl::StatusOr<Graph> Run(const Signature& signature, const std::vector<Output>& fetches,
                            const std::vector<Node*>& targets) {
    RETURN_IF_ERROR(result_.AddFunctions(source_.library()));
    for (const Output& feed : feeds_) {
      args_.emplace(feed, nullptr);
      fed_nodes_.emplace(feed.node, nullptr);
    }
    for (const Output& fetch : fetches) Need(fetch);
    for (Node* target : targets) NeedNode(target);
    RETURN_IF_ERROR(Walk());
    RETURN_IF_ERROR(AddArgs(signature));
    RETURN_IF_ERROR(Connect());
    for (size_t i = 0; i < fetches.size(); ++i) {
      NodeDef def;
      def.set_name(result_.UniqueName(EdgeNodeName("_retval", signature.fetches[i], i)));
      def.set_op("_Retval");
      const Output value = Map(fetches[i]);
      def.set_device(fetches[i].node->device());
      // A value is fetched where it is.
      SetAttr(def, "_class", std::vector<std::string>{absl::StrCat("loc:@", value.node->name())});
      SetAttr(def, "T", RemoveRef(value.dtype()));
      SetAttr(def, "index", static_cast<int64_t>(i));
      RETURN_IF_ERROR(result_.AddNode(std::move(def), {value}, {}).status());
    }
    return std::move(result_);
  }

 private:
  void Need(const Output& output) {
    if (!args_.contains(output)) NeedNode(output.node);
  }
  void NeedNode(Node* node) {
    if (copies_[node->id()] != nullptr) return;
    copies_[node->id()] = result_.AddCopy(*node);
    stack_.push_back(node);
  }
  absl::Status Walk() {
    while (!stack_.empty()) {
      Node* node = stack_.back();
      stack_.pop_back();
      RETURN_IF_ERROR(CheckNoArgument(node->def()));
      if (HasShapeError(*node)) return WhyUnusable(*node);
      for (const Output& input : node->inputs()) Need(input);
      for (Node* control : node->control_inputs()) {
        // A fed node does not run: what waits for it waits for the feed.
        if (!fed_nodes_.contains(control)) NeedNode(control);
      }
    }
    return absl::OkStatus();
  }
  absl::Status AddArgs(const Signature& signature) {
    for (size_t i = 0; i < feeds_.size(); ++i) {
      const DType type = TypeOf(feeds_[i]);
      if (type == kInvalid) continue;
      const bool is_text = i < signature.texts.size() && signature.texts[i].has_value();
      NodeDef def;
      def.set_name(result_.UniqueName(EdgeNodeName("_arg", signature.feeds[i], i)));
      def.set_op(is_text ? "Const" : "_Arg");
      def.set_device(feeds_[i].node->device());
      if (is_text) {
        if (type != kString) {
          return InvalidArgument("Feed '", signature.feeds[i], "' is of type string, expected ", type);
        }
        SetAttr(def, "dtype", kString);
        SetAttr(def, "value", Tensor::Scalar<std::string>(*signature.texts[i]));
      } else {
        SetAttr(def, "T", type);
        SetAttr(def, "index", static_cast<int64_t>(i));
      }
      ASSIGN_OR_RETURN(Node * arg, result_.AddNode(std::move(def), {}, {}));
      arg->set_output_shape(0, feeds_[i].shape());
      args_[feeds_[i]] = arg;
      if (Node*& first = fed_nodes_[feeds_[i].node]; first == nullptr) first = arg;
    }
    return absl::OkStatus();
  }
  absl::Status Connect() {
    for (int id = 0; id < source_.num_nodes(); ++id) {
      Node* copy = copies_[id];
      if (copy == nullptr) continue;
      const Node& node = *source_.node(id);
      for (int i = 0; i < node.num_inputs(); ++i) {
        const Output input = Map(node.input(i));
        if (input.node == nullptr) {
          return WhyUnusable(node);
        }
        const bool is_fed = args_.contains(node.input(i));
        if (const DType want = node.input_type(i); is_fed && want != kInvalid && want != input.dtype()) {
          return InvalidArgument("Input ", i, " of node ", node.name(), " was passed ", input.dtype(), " from ",
                                 node.input(i).name(), ", which is fed, incompatible with expected ", want, ".");
        }
        copy->set_input(i, input);
      }
      std::vector<Node*> controls;
      for (Node* control : node.control_inputs()) {
        Node* mapped = copies_[control->id()];
        if (mapped == nullptr) mapped = fed_nodes_.at(control);
        if (mapped != nullptr) controls.push_back(mapped);
      }
      copy->set_control_inputs(std::move(controls));
    }
    return absl::OkStatus();
  }
  // The type of a fed tensor. If the op that produces it is unknown, its readers determine the
  // type; kInvalid if there is no reader.
  DType TypeOf(const Output& output) const {
    if (output.node->schema() != nullptr) return RemoveRef(output.dtype());
    for (const auto& node : source_.nodes()) {
      if (copies_[node->id()] == nullptr || node->schema() == nullptr) continue;
      for (int i = 0; i < node->num_inputs(); ++i) {
        if (node->input(i) == output) return RemoveRef(node->input_type(i));
      }
    }
    return kInvalid;
  }
  // Without a node if it is fed and only ops that are not known read it.
  Output Map(const Output& output) const {
    const auto it = args_.find(output);
    if (it != args_.end()) return Output(it->second);
    return Output(copies_[output.node->id()], output.index);
  }

  const Graph& source_;
  const std::vector<Output> feeds_;
  Graph result_;
  std::vector<Node*> copies_;  // by id in the source
  std::vector<Node*> stack_;
  absl::flat_hash_map<Output, Node*> args_;            // nullptr if the type is unknown
  absl::flat_hash_map<const Node*, Node*> fed_nodes_;  // an _Arg of each, if it has any
};

}  // namespace

// Every name with its length: a client may ask for names that no node can have,
// and they must not look like several.
std::string Signature::Key() const {
  std::string key;
  for (const std::vector<std::string>* const names : {&feeds, &fetches, &targets}) {
    absl::StrAppend(&key, names->size(), "\n");
    for (const std::string& name : *names) absl::StrAppend(&key, name.size(), ":", name);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].has_value()) absl::StrAppend(&key, "\n", i, "=", texts[i]->size(), ":", *texts[i]);
  }
  return key;
}

absl::Status CheckNoArgument(const NodeDef& def) {
  if (def.op() != "_Arg" && def.op() != "_Retval") return absl::OkStatus();
  return InvalidArgument("Node '", def.name(), "' is of type ", def.op(), ", which only the runtime may add");
}

absl::StatusOr<Graph> Extract(const Graph& graph, const Signature& signature) {
  if (signature.fetches.empty() && signature.targets.empty()) {
    return InvalidArgument("Must specify at least one target to fetch or execute.");
  }
  ASSIGN_OR_RETURN(std::vector<Output> feeds, FindFeeds(graph, signature.feeds));
  ASSIGN_OR_RETURN(const std::vector<Output> fetches, FindFetches(graph, signature.fetches));
  ASSIGN_OR_RETURN(const std::vector<Node*> targets, FindTargets(graph, signature.targets));
  return Extraction(graph, std::move(feeds)).Run(signature, fetches, targets);
}

}  // namespace thalweg
