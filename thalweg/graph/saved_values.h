// SPDX-License-Identifier: Apache-2.0
// Saves the values of a forward loop for the loop that computes its gradient, which
// runs the iterations in reverse order.
#pragma once

#include "thalweg/graph/loop.h"

namespace thalweg {

// The number of iterations that the loop made, an int32.
Output CountIterations(const Scope& s, Loop& loop);

// A list of the values that `value` had in each iteration, on the device of `value`.
Output CollectValues(const Scope& s, Loop& loop, Output value);

// Prepares the nodes with an id of at least `first` for adoption by `back`. Where they
// use a value of an iteration of `forward`, `forward` appends it to a list in every
// iteration, and `back` takes the elements in reverse order. Loop invariants are used
// directly, and of values needed only for their shape, only the shape is saved.
void UseSavedValues(const Scope& s, Loop& forward, Loop& back, int first);

}  // namespace thalweg
