// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/while.h"

#include "thalweg/base/status.h"
#include "thalweg/graph/loop.h"

namespace thalweg {
namespace {

absl::Status CheckStart(const std::vector<Output>& start, const std::vector<PartialShape>& shapes) {
  if (start.empty()) return InvalidArgument("While: there are no values to start with");
  if (!shapes.empty() && shapes.size() != start.size()) {
    return InvalidArgument("While: ", shapes.size(), " shapes for ", start.size(), " values");
  }
  for (size_t i = 0; i < start.size(); ++i) {
    if (!start[i]) return InvalidArgument("While: value ", i, " to start with is missing");
    if (shapes.empty() || PartialShape::Merge(start[i].shape(), shapes[i]).ok()) continue;
    return InvalidArgument("While: value ", i, " starts with shape ", start[i].shape(), ", which is not ", shapes[i]);
  }
  return absl::OkStatus();
}

absl::Status CheckCondition(const Output& go_on) {
  if (!go_on) return InvalidArgument("While: the condition is missing");
  if (RemoveRef(go_on.dtype()) == kBool && go_on.shape().rank() <= 0) return absl::OkStatus();
  return InvalidArgument("While: the condition must be a bool of rank 0, got ", go_on.dtype(), go_on.shape());
}

absl::Status CheckNext(const std::vector<Output>& next, const Loop& loop) {
  if (next.size() != loop.variables().size()) {
    return InvalidArgument("While: the body gives ", next.size(), " values, there are ", loop.variables().size());
  }
  for (size_t i = 0; i < next.size(); ++i) {
    const Output value = loop.variables()[i].value();
    if (!next[i]) return InvalidArgument("While: value ", i, " that the body gives is missing");
    if (RemoveRef(next[i].dtype()) != value.dtype()) {
      return InvalidArgument("While: value ", i, " is of type ", value.dtype(), ", the body gives ", next[i].dtype());
    }
    if (!PartialShape::Merge(next[i].shape(), value.shape()).ok()) {
      return InvalidArgument("While: value ", i, " has shape ", value.shape(), ", the body gives ", next[i].shape(),
                             "; WhileOptions::shapes can say what both have in common");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Output> While(const Scope& scope, const std::vector<Output>& start, const LoopCondition& condition,
                          const LoopBody& body, const WhileOptions& options) {
  std::vector<Output> nothing(start.size());
  if (!scope.ok()) return nothing;
  scope.Fail(CheckStart(start, options.shapes));
  if (!scope.ok()) return nothing;
  const Scope s = scope.SubScope(options.name);
  Loop loop(s);
  std::vector<Output> values;
  for (size_t i = 0; i < start.size(); ++i) {
    loop.AddVariable(start[i], options.shapes.empty() ? start[i].shape() : options.shapes[i]);
    values.emplace_back(loop.variables()[i].merge);
  }
  if (!s.ok()) return nothing;
  int first = s.graph().num_nodes();
  const Output go_on = condition(loop.condition_scope(), values);
  if (s.ok()) s.Fail(CheckCondition(go_on));
  if (!s.ok()) return nothing;
  loop.Adopt(first);
  loop.SetCondition(go_on);
  if (!s.ok()) return nothing;

  for (size_t i = 0; i < values.size(); ++i) values[i] = loop.variables()[i].value();
  first = s.graph().num_nodes();
  std::vector<Output> next = body(loop.body_scope(), values);
  if (s.ok()) s.Fail(CheckNext(next, loop));
  if (!s.ok()) return nothing;
  for (size_t i = 0; i < next.size(); ++i) {
    // Later operations rely on the shape.
    const PartialShape& shape = values[i].shape();
    if (*PartialShape::Merge(next[i].shape(), shape) == next[i].shape()) continue;
    next[i] = loop.body_scope().Add("EnsureShape", {next[i]}, {{"shape", shape}});
  }
  loop.Adopt(first);
  if (!s.ok()) return nothing;
  std::vector<Output> ends;
  for (size_t i = 0; i < next.size(); ++i) ends.push_back(loop.SetNext(static_cast<int>(i), next[i]));
  return s.ok() ? ends : nothing;
}

}  // namespace thalweg
