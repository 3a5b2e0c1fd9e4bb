// SPDX-License-Identifier: Apache-2.0
// Fail points: named places in the code where a fault can be injected, so that
// tests and users see what happens when it strikes there (docs/reliability.md).
//
//   RETURN_IF_ERROR(FailPoint("save.before_rename"));
//
// They are always compiled in. While no handler is set, a fail point costs one
// relaxed load of an atomic.
#pragma once

#include <atomic>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace thalweg {

struct FailPointInfo {
  const char* name;
  const char* place;  // when it is passed, for people
  bool can_fail;      // whether an error that the handler returns has an effect
};

// All fail points, in the order of a step's life.
absl::Span<const FailPointInfo> FailPoints();
// nullptr if there is none of this name.
const FailPointInfo* FindFailPoint(absl::string_view name);

// Called at every fail point, on the thread that passes it, maybe while locks of
// the caller are held. It may end the process, block, or return an error, which
// the place then treats like one of its own. `task` is the name of the task
// that passes the point, "/job:ps/replica:0/task:0", or "" if the place does not
// know it. Thread-safe.
using FailPointHandler = std::function<absl::Status(absl::string_view point, absl::string_view task)>;

// Sets the handler of this process; nullptr switches fail points off. Threads that
// are inside the old handler finish it.
void SetFailPointHandler(FailPointHandler handler);

namespace internal {
extern std::atomic<bool> fail_points_on;
absl::Status HitFailPoint(const char* point, absl::string_view task);
}  // namespace internal

// Passes the fail point. REQUIRES: FailPoints() has its name.
inline absl::Status FailPoint(const char* point, absl::string_view task = {}) {
  if (!internal::fail_points_on.load(std::memory_order_relaxed)) return absl::OkStatus();
  return internal::HitFailPoint(point, task);
}
// The same in a place that cannot fail.
inline void PassFailPoint(const char* point, absl::string_view task = {}) {
  if (internal::fail_points_on.load(std::memory_order_relaxed)) internal::HitFailPoint(point, task).IgnoreError();
}

}  // namespace thalweg
