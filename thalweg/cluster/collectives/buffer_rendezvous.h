// SPDX-License-Identifier: Apache-2.0
// Where the bytes that a collective of this task sends wait for the member that
// takes them, or that member for the bytes. By step and key.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Thread-safe.
class BufferRendezvous {
 public:
  using Taken = absl::AnyInvocable<void(const absl::Status&)>;
  using Take = absl::AnyInvocable<void(const absl::Status&, Tensor)>;

  // Both end with what `cancellation` says when that comes first. It must live
  // until the callback has run.
  void Offer(int64_t step_id, const std::string& key, Tensor value, Cancellation* cancellation, Taken taken);
  void TakeAsync(int64_t step_id, const std::string& key, Cancellation* cancellation, Take take);

  // The step has failed: whoever waits for something of it, now or later, gets
  // `why`. False if it had failed already.
  bool Abort(int64_t step_id, const absl::Status& why);
  // OK if the step has not failed.
  absl::Status StatusOf(int64_t step_id) const;
  // Nothing is exchanged any more.
  void AbortAll(const absl::Status& why);

 private:
  struct Entry {
    uint64_t id = 0;
    Tensor value;
    Taken taken;
    Take take;
    Cancellation* cancellation = nullptr;
    std::optional<Cancellation::CallbackId> callback;
  };
  using Step = std::map<std::string, Entry>;

  absl::Status Check(int64_t step_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wait(int64_t step_id, const std::string& key, Entry entry);
  std::optional<Entry> Remove(int64_t step_id, const std::string& key, uint64_t id);
  static void End(Entry entry, const absl::Status& status);

  mutable Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<int64_t, Step> steps_ ABSL_GUARDED_BY(mutex_);
  // The last steps that failed, the oldest first.
  std::deque<int64_t> failed_order_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int64_t, absl::Status> failed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
