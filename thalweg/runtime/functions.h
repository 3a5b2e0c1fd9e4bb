// SPDX-License-Identifier: Apache-2.0
// Inlines function calls, so that the executor needs no notion of functions.
//
// A call (PartitionedCall, StatefulPartitionedCall, or a node whose op is a library
// function) is replaced by the nodes of the body. If and Case become Switch and Merge.
// While becomes a loop of Enter, Merge, Switch, NextIteration and Exit. For becomes a
// While with a counter. A RemoteCall is a call on another device. SymbolicGradient is a
// call of the gradient function, which is synthesized if the library has none. A function
// that is called twice is copied twice.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

// Inlining can make a large graph of a small one, if functions call others twice or
// contain constants. These limits bound that.
struct InlineLimits {
  int max_nodes = 1 << 18;              // nodes of the resulting graph
  int64_t max_bytes = 1 << 30;          // total size of inlined bodies
  int64_t max_carried_bytes = 1 << 29;  // total size of embedded bodies (embedded_functions.h)
};

// Replaces all calls in `graph`, including those in inlined bodies. Call it before
// placement: nodes of a body request their own device, merged with the caller's.
//
// A node `x` of the function that `call` calls is named `call/_call/x` (`_then`, `_else`,
// `_branch_0`, `_cond`, `_body` for the other kinds); INVALID_ARGUMENT if the graph has
// such a name already. A NoOp takes the place of `call` itself and runs after the call's
// nodes. Nodes with side effects that run whenever their call does are added to
// `targets`, which optimizers must keep.
//
// Returns NOT_FOUND if a function does not exist, UNIMPLEMENTED, with the names, if
// functions are recursive, and RESOURCE_EXHAUSTED if calls nest too deep or the graph
// exceeds `limits`.
//
// Functions that kernels call at run time are attached to their nodes
// (embedded_functions.h).
absl::Status InlineFunctions(Graph& graph, std::vector<std::string>* targets, const InlineLimits& limits = {});
// If InlineFunctions() failed because it needs the value of an _Arg, such as the device
// of a RemoteCall: the index of that _Arg.
std::optional<int> MissingArgument(const absl::Status& status);
// InlineFunctions() without embedding functions. If `graph` is itself the body of a
// function, `callers` is its call chain.
struct Callers;
absl::Status InlineCalls(Graph& graph, std::vector<std::string>* targets, const InlineLimits& limits = {},
                         std::shared_ptr<const Callers> callers = nullptr);

}  // namespace thalweg
