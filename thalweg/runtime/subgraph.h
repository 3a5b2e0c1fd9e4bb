// Cuts out of a graph what one signature of a step needs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/graph/graph.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {

// What a step is asked: tensors that are given ("node:0"), tensors that are
// wanted, nodes that must run.
struct Signature {
  std::vector<std::string> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  // Of feeds whose text decides how the step is compiled, as the device of a
  // RemoteCall does: by their place in feeds, which may go on after the last.
  std::vector<std::optional<std::string>> texts;

  std::string Key() const;  // to find what was compiled for it
};

// A copy of the nodes that lead to the fetches and targets, with an _Arg (by
// its place in feeds) for every fed tensor, or a Const if it is among the texts,
// and a _Retval (by its place in fetches) for every fetched one.
// INVALID_ARGUMENT or NOT_FOUND for names that are not there, for an empty
// signature, and for nodes that only the runtime adds.
absl::StatusOr<Graph> Extract(const Graph& graph, const Signature& signature);

// INVALID_ARGUMENT, naming it, for a node that only the runtime adds: _Arg and
// _Retval, whose indices it relies on. For nodes that come from outside.
absl::Status CheckNoArgument(const tensorflow::NodeDef& def);

}  // namespace thalweg
