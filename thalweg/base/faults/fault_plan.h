// SPDX-License-Identifier: Apache-2.0
// FaultPlan: the faults that are to strike a job, as --faults gives them.
//
//   seed=7,kill=ps:0@step:120,stop=worker:1@5s..9s+3s,drop=2%,partition=ps:0|worker:1@10s+4s
//
// docs/reliability.md has the grammar.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace thalweg {

// One fault. Unused fields have their defaults.
struct Fault {
  enum class Kind {
    // Faults of one task.
    kKill,       // SIGKILL
    kTerminate,  // SIGTERM
    kStop,       // SIGSTOP, and SIGCONT after `lasts`
    kHang,       // the thread that passes `point` sleeps for `lasts`
    kFail,       // `point` fails with UNAVAILABLE
    kDiskFull,   // writes fail with RESOURCE_EXHAUSTED
    kDiskSlow,   // every write takes `delay` longer
    // Faults of calls between tasks, and of clients' calls.
    kDrop,       // the call or its answer is lost: the caller gets UNAVAILABLE
    kDuplicate,  // the call is sent twice
    kDelay,      // it is sent up to `max_delay` later
    kPartition,  // nothing passes between the two sides
    // Faults of the machine.
    kClock,  // the wall clock jumps by `delay`
  };
  Kind kind = Kind::kKill;
  std::string task;                   // "ps:0"; "" for all
  std::vector<std::string> sides[2];  // the tasks of a partition; the second is empty for all others
  double probability = 0;             // for kDrop and kDuplicate
  absl::Duration delay, max_delay;
  // It begins with the nth time that the task passes `point` or, without a point, at
  // `time` after the start; and ends `lasts` later.
  std::string point;
  int64_t nth = 1;
  absl::Duration time;
  absl::Duration lasts = absl::InfiniteDuration();

  std::string ToString() const;  // as Parse() takes it
  // Whether a launcher can do it: a signal at a time, or the clock.
  bool is_of_launcher() const;
};

struct FaultPlan {
  uint64_t seed = 0;
  std::vector<Fault> faults;

  // INVALID_ARGUMENT, naming the item, what is wrong with it, and what was expected.
  // Random times are drawn from the seed, which is itself random if there is none.
  static absl::StatusOr<FaultPlan> Parse(absl::string_view text);
  std::string ToString() const;  // with the seed and the times that were drawn
};

}  // namespace thalweg
