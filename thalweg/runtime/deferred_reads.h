// Reads of reference variables, as late as their readers.
//
// A client that builds graphs for TensorFlow reads a variable through one
// Identity ("v/read") for the whole graph. There, that Identity shows the
// variable's own memory, so a reader that is ordered after an update sees the
// updated value: so do averages of variables that are taken after a training
// step. Here an Identity is a value, taken when it runs.
#pragma once

#include "absl/status/status.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

// True for nodes that change a variable given by reference.
bool UpdatesVariable(const Node& node);

// Lets what uses such an Identity after an update in place of the variable, on
// the same device, take the variable itself, which is read when the user runs.
// An Assign is no update in place: it may bring memory of its own.
absl::Status DeferReads(Graph& graph);

}  // namespace thalweg
