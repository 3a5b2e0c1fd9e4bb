// Puts the bodies of functions where they are called, so that what runs knows
// no functions.
//
// A call (PartitionedCall, StatefulPartitionedCall, or a node whose op is a
// function of the library) becomes the nodes of the body. If and Case become
// Switch and Merge, While becomes a loop of Enter, Merge, Switch, NextIteration
// and Exit, For a While that counts. A RemoteCall is a call on another device,
// SymbolicGradient a call of the gradient, which is made where the library names
// none. What is taken twice is there twice.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

// Functions that call others twice, or constants in their bodies, may make a
// large graph of a small one.
struct InlineLimits {
  int max_nodes = 1 << 18;              // of the graph
  int64_t max_bytes = 1 << 30;          // of bodies that are put into it
  int64_t max_carried_bytes = 1 << 29;  // of bodies that nodes carry
};

// Rewrites all calls of `graph`, those in bodies too. Run it before placement:
// nodes of a body have the device they ask for, completed by the caller's.
//
// A node `x` of the function that `call` calls is named `call/_call/x`
// (`_then`, `_else`, `_branch_0`, `_cond`, `_body` for the others);
// INVALID_ARGUMENT if an outer node has that name. In place of `call` itself stays a NoOp that is
// done when the call is. Nodes with effects that run whenever their call does
// are added to `targets`, which optimizers must keep.
//
// NOT_FOUND if there is no such function, UNIMPLEMENTED, with their names, if
// functions call each other in a circle, RESOURCE_EXHAUSTED if calls are nested
// too deep or the graph grows beyond `limits`.
//
// Functions that kernels call themselves are attached to their nodes
// (embedded_functions.h).
absl::Status InlineFunctions(Graph& graph, std::vector<std::string>* targets, const InlineLimits& limits = {});
// If a graph was not inlined for want of the value of an _Arg, as the device of a
// RemoteCall is: its index.
std::optional<int> MissingArgument(const absl::Status& status);
// Without the last. `callers`: whose body `graph` is, if it is one.
struct Callers;
absl::Status InlineCalls(Graph& graph, std::vector<std::string>* targets, const InlineLimits& limits = {},
                         std::shared_ptr<const Callers> callers = nullptr);

}  // namespace thalweg
