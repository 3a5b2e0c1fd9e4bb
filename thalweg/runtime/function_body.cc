// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/function_body.h"

#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/graph/similar_op.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {
namespace {

using tensorflow::AttrValue;
using tensorflow::FunctionDef;
using tensorflow::NodeDef;
using tensorflow::OpDef;

// Puts the values of the function's attributes where their names stand.
absl::Status Substitute(const AttrMap& attrs, AttrValue& value) {
  if (value.value_case() == AttrValue::kPlaceholder) {
    const auto it = attrs.find(value.placeholder());
    if (it == attrs.end()) return InvalidArgument("the call has no attr '", value.placeholder(), "'");
    value = AttrValue(it->second);
  } else if (value.value_case() == AttrValue::kFunc) {
    for (auto& [name, inner] : *value.mutable_func()->mutable_attr()) RETURN_IF_ERROR(Substitute(attrs, inner));
  } else if (value.value_case() == AttrValue::kList) {
    for (auto& function : *value.mutable_list()->mutable_func()) {
      for (auto& [name, inner] : *function.mutable_attr()) RETURN_IF_ERROR(Substitute(attrs, inner));
    }
  }
  return absl::OkStatus();
}

// Builds the body of one call: nodes get the prefix of the call, attributes that are placeholders get the values of the
// call, and names of tensors change from a function's ("node:output:0") to a graph's ("prefix/node:0").
class Instantiation {
 public:
  Instantiation(const FunctionDef& function, const Graph& graph, absl::string_view prefix)
      : function_(function), graph_(graph), prefix_(prefix) {}

  absl::StatusOr<FunctionBody> Run(const AttrMap& attrs) {
    const OpDef& signature = function_.signature();
    NodeDef call;
    call.set_name(signature.name());
    *call.mutable_attr() = attrs;
    AddDefaultAttrs(signature, call);
    ASSIGN_OR_RETURN(const NodeTypes types, ComputeTypes(signature, call));
    body_.arg_types = types.inputs;
    body_.result_types = types.outputs;
    AddArgs(types);
    for (const NodeDef& node : function_.node_def()) RETURN_IF_ERROR(AddNode(node, call.attr()));
    for (int i = 0; i < function_.node_def_size(); ++i) RETURN_IF_ERROR(Connect(i));
    RETURN_IF_ERROR(AddResults(types));
    RETURN_IF_ERROR(AddEffects());
    return std::move(body_);
  }

 private:
  std::string Name(absl::string_view node) const { return absl::StrCat(prefix_, node); }

  void AddArgs(const NodeTypes& types) {
    for (int a = 0; a < function_.signature().input_arg_size(); ++a) {
      std::vector<std::string>& tensors = tensors_[function_.signature().input_arg(a).name()];
      for (int i = types.input_starts[a]; i < types.input_starts[a + 1]; ++i) {
        NodeDef* arg = body_.def.add_node();
        arg->set_name(Name(absl::StrCat("_arg_", i)));
        arg->set_op("_Arg");
        SetAttr(*arg, "T", types.inputs[i]);
        SetAttr(*arg, "index", static_cast<int64_t>(i));
        body_.args.push_back(arg->name());
        tensors.push_back(absl::StrCat(arg->name(), ":0"));
      }
    }
  }

  // Adds a node, without inputs, and the tensors that it makes.
  absl::Status AddNode(const NodeDef& source, const AttrMap& attrs) {
    RETURN_IF_ERROR(
        Append(CheckNoArgument(source), absl::StrCat("; in function '", function_.signature().name(), "'")));
    NodeDef* node = body_.def.add_node();
    *node = source;
    node->set_name(Name(source.name()));
    node->clear_input();
    for (auto& [name, value] : *node->mutable_attr()) {
      RETURN_IF_ERROR(Append(Substitute(attrs, value), absl::StrCat("; attr '", name, "' of '", source.name(), "'")));
    }
    nodes_[source.name()] = node->name();
    const OpSchema* schema = graph_.FindSchema(source.op());
    if (schema == nullptr) {
      return NotFound("Op type not registered '", source.op(), "'; node '", source.name(), "' of function '",
                      function_.signature().name(), "'", SuggestSimilarOp(source.op()));
    }
    AddDefaultAttrs(schema->def, *node);
    RenameFrame(node);
    ASSIGN_OR_RETURN(const NodeTypes types, ComputeTypes(schema->def, *node));
    for (int o = 0; o < schema->def.output_arg_size(); ++o) {
      auto& tensors = tensors_[absl::StrCat(source.name(), ":", schema->def.output_arg(o).name())];
      for (int i = types.output_starts[o]; i < types.output_starts[o + 1]; ++i) {
        tensors.push_back(absl::StrCat(node->name(), ":", i));
      }
    }
    if (schema->def.is_stateful()) stateful_.push_back(node->name());
    return absl::OkStatus();
  }

  // Makes frame names unique per call, because all calls use the names of the body.
  void RenameFrame(NodeDef* node) const {
    const auto it = node->mutable_attr()->find("frame_name");
    if (it != node->mutable_attr()->end()) it->second.set_s(Name(it->second.s()));
  }

  absl::Status Connect(int i) {
    const NodeDef& source = function_.node_def(i);
    NodeDef* node = body_.def.mutable_node(static_cast<int>(body_.args.size()) + i);
    for (absl::string_view input : source.input()) {
      if (absl::ConsumePrefix(&input, "^")) {
        if (tensors_.contains(input)) continue;  // an argument is there when the body runs
        const auto it = nodes_.find(input);
        if (it == nodes_.end()) return Unknown(input);
        node->add_input(absl::StrCat("^", it->second));
        continue;
      }
      ASSIGN_OR_RETURN(const std::vector<std::string> tensors, Find(input));
      for (const std::string& tensor : tensors) node->add_input(tensor);
    }
    Colocate(node);
    return absl::OkStatus();
  }

  // "loc:@x" of a node of the body is the x of this call.
  void Colocate(NodeDef* node) const {
    const auto it = node->mutable_attr()->find("_class");
    if (it == node->mutable_attr()->end()) return;
    for (std::string& text : *it->second.mutable_list()->mutable_s()) {
      absl::string_view name = text;
      if (!absl::ConsumePrefix(&name, "loc:@")) continue;
      if (const auto other = nodes_.find(name); other != nodes_.end()) text = absl::StrCat("loc:@", other->second);
    }
  }

  absl::Status Unknown(absl::string_view tensor) const {
    return InvalidArgument("function '", function_.signature().name(), "' has no tensor or node '", tensor, "'");
  }

  // "arg", "arg:1", "node:output" or "node:output:1".
  absl::StatusOr<std::vector<std::string>> Find(absl::string_view text) const {
    if (const auto it = tensors_.find(text); it != tensors_.end()) return it->second;
    const size_t colon = text.rfind(':');
    int index;
    if (colon == absl::string_view::npos || !absl::SimpleAtoi(text.substr(colon + 1), &index)) return Unknown(text);
    const auto it = tensors_.find(text.substr(0, colon));
    if (it == tensors_.end() || index < 0 || index >= static_cast<int>(it->second.size())) return Unknown(text);
    return std::vector<std::string>{it->second[index]};
  }

  absl::Status AddResults(const NodeTypes& types) {
    for (int o = 0; o < function_.signature().output_arg_size(); ++o) {
      const std::string& name = function_.signature().output_arg(o).name();
      const auto it = function_.ret().find(name);
      if (it == function_.ret().end()) {
        return InvalidArgument("function '", function_.signature().name(), "' does not say where its output '", name,
                               "' comes from");
      }
      ASSIGN_OR_RETURN(const std::vector<std::string> tensors, Find(it->second));
      const int expected = types.output_starts[o + 1] - types.output_starts[o];
      if (static_cast<int>(tensors.size()) != expected) {
        return InvalidArgument("output '", name, "' of function '", function_.signature().name(), "' is ",
                               tensors.size(), " tensors, expected ", expected);
      }
      body_.results.insert(body_.results.end(), tensors.begin(), tensors.end());
    }
    return absl::OkStatus();
  }

  // A function that names its control outputs means them all; others run
  // everything that has effects.
  absl::Status AddEffects() {
    if (function_.control_ret().empty()) {
      body_.effects = std::move(stateful_);
      return absl::OkStatus();
    }
    // In an order that does not depend on the map.
    const std::map<std::string, std::string> sorted(function_.control_ret().begin(), function_.control_ret().end());
    for (const auto& [name, node] : sorted) {
      const auto it = nodes_.find(node);
      if (it == nodes_.end()) return Unknown(node);
      body_.effects.push_back(it->second);
    }
    return absl::OkStatus();
  }

  const FunctionDef& function_;
  const Graph& graph_;
  const std::string prefix_;
  FunctionBody body_;
  absl::flat_hash_map<std::string, std::string> nodes_;                 // name in the function -> in the body
  absl::flat_hash_map<std::string, std::vector<std::string>> tensors_;  // by argument or "node:output"
  std::vector<std::string> stateful_;
};

}  // namespace

absl::StatusOr<FunctionBody> Instantiate(const FunctionDef& function, const AttrMap& attrs, const Graph& graph,
                                         absl::string_view prefix) {
  return Instantiation(function, graph, prefix).Run(attrs);
}

}  // namespace thalweg
