// What a loop that computes gradients knows of the loop that it follows
// backwards.
#pragma once

#include "thalweg/graph/loop.h"

namespace thalweg {

// How many iterations the loop made: an int32.
Output CountIterations(const Scope& s, Loop& loop);

// A list of what `value` was in each iteration, where it was.
Output CollectValues(const Scope& s, Loop& loop, Output value);

// Makes the nodes from `first` on, which are to be adopted by `back` and use
// values of iterations of `forward`, fit for it: these values go into lists, one
// more element in every iteration of `forward`, and come out in the opposite
// order. Values that stay the same, and shapes, cost no more than themselves.
void UseSavedValues(const Scope& s, Loop& forward, Loop& back, int first);

}  // namespace thalweg
