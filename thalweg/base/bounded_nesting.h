// SPDX-License-Identifier: Apache-2.0
// Bounds the nesting depth of callbacks, and with it the use of the stack.
//
// When one part of a step sends a value, the receiving part may continue on the same
// stack, and send to the next part. A graph with a long chain of such hops would
// overflow the stack. Graphs come from clients, so their length cannot be trusted.
#pragma once

#include <deque>

#include "absl/functional/any_invocable.h"

namespace thalweg {

// Runs `work` immediately, unless calls of this function already nest too deep on this
// thread. In that case `work` is queued, and the innermost running call runs it in a
// loop after its own work has returned. Do not wait for `work` on this thread.
void RunNested(absl::AnyInvocable<void()> work);

// While it lives, RunNested() on this thread starts at depth 0 with an empty queue.
// Needed by code that runs inside such work and waits for work of its own.
class FreshNesting {
 public:
  FreshNesting();
  ~FreshNesting();
  FreshNesting(const FreshNesting&) = delete;
  FreshNesting& operator=(const FreshNesting&) = delete;

 private:
  int depth_;
  std::deque<absl::AnyInvocable<void()>> deferred_;
};

}  // namespace thalweg
