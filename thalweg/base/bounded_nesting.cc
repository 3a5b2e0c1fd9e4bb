// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/bounded_nesting.h"

#include <utility>

#include "thalweg/base/exception_boundary.h"

namespace thalweg {
namespace {

// A hop through the executor takes less than 2 KB of stack.
constexpr int kMaxDepth = 64;

thread_local int depth = 0;
thread_local std::deque<absl::AnyInvocable<void()>> deferred;

struct Deeper {
  Deeper() { ++depth; }
  ~Deeper() { --depth; }
};

}  // namespace

void RunNested(absl::AnyInvocable<void()> work) {
  if (depth == kMaxDepth) return deferred.push_back(std::move(work));
  const Deeper deeper;
  LogExceptions("a callback", [&] { work(); });
  while (depth == kMaxDepth && !deferred.empty()) {
    work = std::move(deferred.front());
    deferred.pop_front();
    LogExceptions("a callback", [&] { work(); });
  }
}

FreshNesting::FreshNesting() : depth_(std::exchange(depth, 0)) { deferred_.swap(deferred); }

FreshNesting::~FreshNesting() {
  depth = depth_;
  deferred_.swap(deferred);
}

}  // namespace thalweg
