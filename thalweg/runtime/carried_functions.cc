#include "thalweg/runtime/carried_functions.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/scope.h"
#include "thalweg/runtime/function_body.h"
#include "thalweg/runtime/functions.h"

namespace thalweg {
namespace {

using tensorflow::NameAttrList;

absl::Status Attach(Graph& graph, const std::vector<std::string>& callers);

// The body of `f`, without calls.
absl::StatusOr<std::string> BodyOf(const Graph& graph, const NameAttrList& f, std::vector<std::string> callers) {
  const auto& functions = graph.library().function();
  const auto it = std::find_if(functions.begin(), functions.end(),
                               [&](const auto& known) { return known.signature().name() == f.name(); });
  if (it == functions.end()) return NotFound("Function ", f.name(), " is not defined.");
  if (std::count(callers.begin(), callers.end(), f.name()) > 0) {
    return Unimplemented("functions call each other in a circle: ", absl::StrJoin(callers, " -> "), " -> ", f.name());
  }
  callers.push_back(f.name());
  ASSIGN_OR_RETURN(const FunctionBody body, Instantiate(*it, f.attr(), graph, ""));
  Graph inner;
  RETURN_IF_ERROR(inner.AddFunctions(graph.library()));
  RETURN_IF_ERROR(inner.Import(body.def));
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
  RETURN_IF_ERROR(Attach(inner, callers));
  tensorflow::GraphDef def = inner.Export();
  def.clear_library();
  return def.SerializeAsString();
}

absl::Status Attach(Graph& graph, const std::vector<std::string>& callers) {
  for (const auto& node : graph.nodes()) {
    if (node->schema() == nullptr) continue;
    for (const auto& attr : node->schema()->def.attr()) {
      if (attr.type() != "func" || HasAttr(node->def(), absl::StrCat("_graph_of_", attr.name()))) continue;
      ASSIGN_OR_RETURN(const NameAttrList f, GetAttr<NameAttrList>(node->def(), attr.name()));
      const absl::StatusOr<std::string> body = BodyOf(graph, f, callers);
      if (!body.ok()) return Append(body.status(), absl::StrCat("; function of node '", node->name(), "'"));
      SetAttr(node->mutable_def(), absl::StrCat("_graph_of_", attr.name()), *body);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AttachCarriedFunctions(Graph& graph) { return Attach(graph, {}); }

}  // namespace thalweg
