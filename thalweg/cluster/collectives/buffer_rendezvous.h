// SPDX-License-Identifier: Apache-2.0
// Exchanges the buffers of collectives by step and key. A sender's buffer waits here for the
// member that receives it, or a receiver waits for the buffer.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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

  // Offer a buffer, or take one. The callback gets the status of `cancellation` if that is cancelled
  // first. `cancellation` must live until the callback has run.
  void Offer(int64_t step_id, const std::string& key, Tensor value, Cancellation* cancellation, Taken taken);
  void TakeAsync(int64_t step_id, const std::string& key, Cancellation* cancellation, Take take);

  // Fails a step: all its waits, present and later, end with `why`. Returns false if the step had
  // failed before.
  bool Abort(int64_t step_id, const absl::Status& why);
  // OK if the step has not failed.
  absl::Status StatusOf(int64_t step_id) const;
  // Fails the steps that wait here for buffers of a group, and all later waits for such buffers. Their keys begin with
  // the group's key, or with kFailureKey and that.
  void AbortGroup(int32_t group_key, const absl::Status& why);
  static constexpr absl::string_view kFailureKey = "failure:";
  // Fails all steps, present and later.
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
  absl::Status CheckGroup(absl::string_view key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wait(int64_t step_id, const std::string& key, Entry entry);
  std::optional<Entry> Remove(int64_t step_id, const std::string& key, uint64_t id);
  static void End(Entry entry, const absl::Status& status);

  mutable Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<int64_t, Step> steps_ ABSL_GUARDED_BY(mutex_);
  // Steps that failed recently, oldest first.
  std::deque<int64_t> failed_order_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int64_t, absl::Status> failed_ ABSL_GUARDED_BY(mutex_);
  // Groups that ended recently, by their keys as text, oldest first.
  std::deque<std::pair<std::string, absl::Status>> ended_groups_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
