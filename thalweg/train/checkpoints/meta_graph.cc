// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/checkpoints/meta_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/proto/meta_graph.pb.h"
#include "thalweg/train/checkpoints/variable_slice.h"
#include "thalweg/train/layers/variable.h"

namespace thalweg {
namespace {

tensorflow::VariableDef Describe(const Var& v, bool trainable) {
  tensorflow::VariableDef def;
  def.set_variable_name(v.ref.name());
  def.set_initializer_name(v.initializer.node->name());
  def.set_snapshot_name(v.read.name());
  def.set_trainable(trainable);
  // The second input of Assign(ref, value).
  if (v.initializer.node->num_inputs() > 1) def.set_initial_value_name(v.initializer.node->input(1).name());
  if (const std::optional<VariableSlice> part = VariableSliceOf(v)) {
    tensorflow::SaveSliceInfoDef& info = *def.mutable_save_slice_info_def();
    info.set_full_name(part->full_name);
    for (int i = 0; i < part->shape.rank(); ++i) {
      info.add_full_shape(part->full_shape.dim(i));
      info.add_var_offset(part->offset[i]);
      info.add_var_shape(part->shape.dim(i));
    }
  }
  return def;
}

// "save/snapshot/" of "save/snapshot/ThalwegSnapshot".
std::string ScopeOf(const std::string& name) { return name.substr(0, name.rfind('/') + 1); }

}  // namespace

std::string MetaGraph(const Graph& graph, const tensorflow::SaverDef& saver) {
  tensorflow::MetaGraphDef meta;
  *meta.mutable_graph_def() = graph.Export();
  *meta.mutable_saver_def() = saver;
  // TensorFlow, which reads this, does not know the ops that take the values of one
  // moment, and does not need them.
  std::set<std::string> scopes;
  for (const auto& node : graph.nodes()) {
    if (node->op() == "ThalwegSnapshot") scopes.insert(ScopeOf(node->name()));
  }
  const auto is_left_out = [&](const std::string& name) {
    return std::any_of(scopes.begin(), scopes.end(),
                       [&](const std::string& scope) { return absl::StartsWith(name, scope); });
  };
  auto& nodes = *meta.mutable_graph_def()->mutable_node();
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(), [&](const auto& node) { return is_left_out(node.name()); }),
              nodes.end());
  std::map<std::string, const OpSchema*> ops;
  for (const auto& node : graph.nodes()) {
    if (node->schema() != nullptr && !is_left_out(node->name())) ops[node->op()] = node->schema();
  }
  for (const auto& [name, schema] : ops) {
    *meta.mutable_meta_info_def()->mutable_stripped_op_list()->add_op() = schema->def;
  }
  const std::vector<std::string>& trainable = graph.Collection(kTrainableVariables);
  const auto is_trainable = [&](const Var& v) {
    return std::find(trainable.begin(), trainable.end(), v.name()) != trainable.end();
  };
  auto& collections = *meta.mutable_collection_def();
  const auto add = [&](const char* collection, const std::vector<Var>& variables) {
    for (const Var& v : variables) {
      collections[collection].mutable_bytes_list()->add_value(Describe(v, is_trainable(v)).SerializeAsString());
    }
  };
  add(kGlobalVariables, GlobalVariables(graph));
  add(kTrainableVariables, TrainableVariables(graph));
  if (const Var step = GetGlobalStep(graph)) add(kGlobalStep, {step});
  return meta.SerializeAsString();
}

}  // namespace thalweg
