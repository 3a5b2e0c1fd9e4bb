// Bounds how deep callbacks nest.
//
// A value that one part of a step sends may let another go on in place, which sends to
// the next: a graph with a chain of such hops would take a piece of the stack for each
// of them, and graphs come from others.
#pragma once

#include <deque>

#include "absl/functional/any_invocable.h"

namespace thalweg {

// Runs `work` at once, unless calls of this function nest too deep on this thread
// already. Then it runs when the call at that depth has returned from its own work: in
// a loop there, and not on top of it. So `work` must not be waited for.
void RunNested(absl::AnyInvocable<void()> work);

// While it lives, calls of RunNested() on this thread nest from the start: for code
// that waits, inside of such work, for what it has begun itself.
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
