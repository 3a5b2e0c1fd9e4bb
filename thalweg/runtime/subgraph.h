// SPDX-License-Identifier: Apache-2.0
// Extracts the subgraph that one signature needs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/graph/graph.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {

// The interface of a step: tensors that are fed ("node:0"), tensors that are fetched, and
// nodes that run for their side effects.
struct Signature {
  std::vector<std::string> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  // By feed index: the values of string feeds that must be known when the step is
  // compiled, such as the device of a RemoteCall. May be shorter than `feeds`.
  std::vector<std::optional<std::string>> texts;

  std::string Key() const;  // identifies the signature in caches
};

// Copies the nodes that the fetches and targets need. Every fed tensor becomes an _Arg
// with its index in `feeds`, or a Const if `texts` has its value. Every fetched tensor
// gets a _Retval with its index in `fetches`. INVALID_ARGUMENT or NOT_FOUND for unknown
// names, for an empty signature, and for nodes that only the runtime may add.
absl::StatusOr<Graph> Extract(const Graph& graph, const Signature& signature);

// Checks a node from a client. INVALID_ARGUMENT, naming it, for _Arg and _Retval, which
// only the runtime may add because it relies on their indices.
absl::Status CheckNoArgument(const tensorflow::NodeDef& def);

}  // namespace thalweg
