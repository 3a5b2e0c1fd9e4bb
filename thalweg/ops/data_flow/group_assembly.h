// SPDX-License-Identifier: Apache-2.0
// GroupAssembly: decides which workers form the group of an all-reduce whose workers may be lost and come back. It
// lives in the task of the chief, which is worker 0.
//
// Every worker arrives when it begins a session, and asks again until the group is there. The arrival of a worker
// begins a round. The round ends, with a new group, when the chief and all expected workers have arrived, or
// `lost_after` the chief if some do not come. At the start of a job all its workers are expected. Later those of the
// last group are, because workers that come back arrive by themselves.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/resource.h"

namespace thalweg {

// Thread-safe.
class GroupAssembly : public Resource {
 public:
  static constexpr int64_t kMaxWorkers = 1 << 16;
  // Who does not ask again for so long is gone. Workers ask several times per second.
  static constexpr absl::Duration kAsksWithin = absl::Seconds(5);

  struct Arrival {
    int64_t worker = 0;
    int64_t session = 0;  // differs between the sessions of a worker
    bool again = false;   // whether this process has been in a group before
    int64_t workers = 1;  // of the job
    absl::Duration lost_after;
  };
  struct Outcome {
    // The group of which the session is a member; size 0 if the round has not ended.
    int32_t size = 0, key = 0;
    std::vector<int64_t> missing;  // workers for which the round waits
    // A group that ends because of this arrival.
    std::optional<int32_t> ended;
  };

  // `now_nanos` is a monotonic time. INVALID_ARGUMENT if the arrival makes no sense, or contradicts that of another
  // worker.
  absl::StatusOr<Outcome> Arrive(const Arrival& arrival, int64_t now_nanos);

  std::string Describe() const override;

 private:
  struct Present {
    Arrival arrival;
    int64_t first_nanos = 0, last_nanos = 0;
  };

  // The workers for which the round waits.
  std::vector<int64_t> Missing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether it has waited for long enough.
  bool MayGoOn(int64_t now_nanos) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<int64_t, Present> arrived_ ABSL_GUARDED_BY(mutex_);  // in this round; empty if there is none
  std::map<int64_t, int64_t> members_ ABSL_GUARDED_BY(mutex_);  // sessions of the last group, by worker
  int32_t key_ ABSL_GUARDED_BY(mutex_) = 0;                     // the last group's
};

}  // namespace thalweg
