// SPDX-License-Identifier: Apache-2.0
// Reads of reference variables that come after updates.
//
// A client that builds graphs for TensorFlow reads a variable through one
// Identity ("v/read") for the whole graph. In TensorFlow, that Identity, and every
// other op that only passes a value on (Switch, Enter, ...), shows the variable's
// own memory, and updates write to that memory. A node that uses the value after
// an update sees the update, no matter when the Identity ran: averages of
// variables that are taken after a training step rely on that, and so do loops
// that read what an earlier iteration has assigned. A fetch sees all updates of
// the step.
//
// Here, an Identity of a variable is a value, taken when it runs; an update leaves
// it alone. Readers that come after an update therefore read the variable
// themselves, when they run. All others keep the value: while other steps update
// the variable, the readers of one Identity all see the same.
#pragma once

#include <vector>

#include "thalweg/graph/graph.h"

namespace thalweg {

// True for nodes that send a tensor to another device or task.
bool IsSend(const Node& node);

// True for nodes that change a variable given by reference.
bool UpdatesVariable(const Node& node);

// Finds the readers that come after an update. Those that get the value through
// Identities get the variable as their input instead. For the others, returns the
// nodes in between, by id: true if a node must pass on the variable itself.
std::vector<bool> DeferReads(Graph& graph);

// True if node `n` only needs a few rows, or the shape, of its input `i`. If that is a
// variable, the kernel takes the variable itself and reads it in place: a table is
// then neither held nor copied, however large it is.
bool ReadsInPlace(const Node& n, int i);
// Has such nodes take variables that they get through Identities from the variable
// itself, and removes the Identities that nothing needs any more. As in TensorFlow,
// these nodes see updates that other steps make while this one runs. To be called
// before DeferReads().
void ReadInPlace(Graph& graph);

// True if an output carries a variable, given the result of DeferReads().
bool CarriesVariable(const Output& output, const std::vector<bool>& passes_variable);
// True if node `n` takes the variable itself as its input `i`, not its value.
bool TakesVariable(const Node& n, int i, const std::vector<bool>& passes_variable);

}  // namespace thalweg
