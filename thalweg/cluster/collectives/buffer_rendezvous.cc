// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/collectives/buffer_rendezvous.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr size_t kMaxFailed = 1024;
constexpr size_t kMaxEndedGroups = 64;

absl::string_view GroupOfKey(absl::string_view key) {
  absl::ConsumePrefix(&key, BufferRendezvous::kFailureKey);
  return key.substr(0, key.find(':'));
}

}  // namespace

absl::Status BufferRendezvous::Check(int64_t step_id) const {
  if (!closed_.ok()) return closed_;
  const auto it = failed_.find(step_id);
  return it == failed_.end() ? absl::OkStatus() : it->second;
}

absl::Status BufferRendezvous::CheckGroup(absl::string_view key) const {
  for (const auto& [group, why] : ended_groups_) {
    if (group == GroupOfKey(key)) return why;
  }
  return absl::OkStatus();
}

absl::Status BufferRendezvous::StatusOf(int64_t step_id) const {
  MutexLock lock(&mutex_);
  return Check(step_id);
}

void BufferRendezvous::End(Entry entry, const absl::Status& status) {
  if (entry.callback.has_value()) entry.cancellation->TryDeregister(*entry.callback);
  if (entry.taken) entry.taken(status);
  if (entry.take) entry.take(status, {});
}

// Removes what is there under the key, if it is still what `id` says.
std::optional<BufferRendezvous::Entry> BufferRendezvous::Remove(int64_t step_id, const std::string& key, uint64_t id) {
  MutexLock lock(&mutex_);
  const auto step = steps_.find(step_id);
  if (step == steps_.end()) return std::nullopt;
  const auto it = step->second.find(key);
  if (it == step->second.end() || it->second.id != id) return std::nullopt;
  Entry entry = std::move(it->second);
  step->second.erase(it);
  if (step->second.empty()) steps_.erase(step);
  return entry;
}

// Puts one side there, or brings it together with the other.
void BufferRendezvous::Wait(int64_t step_id, const std::string& key, Entry entry) {
  // Cancellation may come before the entry is in the table: then it finds
  // nothing, and the check below, under the lock, finds it cancelled.
  const bool offers = static_cast<bool>(entry.taken);
  {
    MutexLock lock(&mutex_);
    entry.id = next_id_++;
  }
  const uint64_t id = entry.id;
  Cancellation* const cancellation = entry.cancellation;
  if (cancellation != nullptr) {
    entry.callback = cancellation->Register([this, step_id, key, id](const absl::Status& why) {
      if (std::optional<Entry> mine = Remove(step_id, key, id)) {
        mine->callback.reset();
        End(*std::move(mine), why);
      }
    });
  }
  absl::Status status;
  std::optional<Entry> other;
  {
    MutexLock lock(&mutex_);
    status = Check(step_id);
    if (status.ok()) status = CheckGroup(key);
    if (status.ok() && cancellation != nullptr && cancellation->cancelled()) status = cancellation->status();
    if (status.ok()) {
      Step& step = steps_[step_id];
      const auto it = step.find(key);
      if (it == step.end()) {
        step.emplace(key, std::move(entry));
        return;
      }
      if (static_cast<bool>(it->second.taken) == offers) {
        status = Internal(offers ? "Two values were offered for " : "Two members ask for ", key, " of step ", step_id);
      } else {
        other = std::move(it->second);
        step.erase(it);
        if (step.empty()) steps_.erase(step_id);
      }
    }
  }
  if (!other.has_value()) return End(std::move(entry), status);
  Entry& from = offers ? entry : *other;
  Entry& to = offers ? *other : entry;
  for (Entry* e : {&from, &to}) {
    if (e->callback.has_value()) e->cancellation->TryDeregister(*e->callback);
  }
  to.take(absl::OkStatus(), std::move(from.value));
  from.taken(absl::OkStatus());
}

void BufferRendezvous::Offer(int64_t step_id, const std::string& key, Tensor value, Cancellation* cancellation,
                             Taken taken) {
  Wait(step_id, key, {.value = std::move(value), .taken = std::move(taken), .cancellation = cancellation});
}

void BufferRendezvous::TakeAsync(int64_t step_id, const std::string& key, Cancellation* cancellation, Take take) {
  Wait(step_id, key, {.take = std::move(take), .cancellation = cancellation});
}

bool BufferRendezvous::Abort(int64_t step_id, const absl::Status& why) {
  Step ended;
  {
    MutexLock lock(&mutex_);
    if (!failed_.emplace(step_id, why).second) return false;
    failed_order_.push_back(step_id);
    if (failed_order_.size() > kMaxFailed) {
      failed_.erase(failed_order_.front());
      failed_order_.pop_front();
    }
    if (const auto it = steps_.find(step_id); it != steps_.end()) {
      ended = std::move(it->second);
      steps_.erase(it);
    }
  }
  for (auto& [key, entry] : ended) End(std::move(entry), why);
  return true;
}

void BufferRendezvous::AbortGroup(int32_t group_key, const absl::Status& why) {
  const std::string group = absl::StrCat(group_key);
  std::vector<int64_t> steps;
  {
    MutexLock lock(&mutex_);
    ended_groups_.emplace_back(group, why);
    if (ended_groups_.size() > kMaxEndedGroups) ended_groups_.pop_front();
    for (const auto& [id, step] : steps_) {
      const bool waits =
          std::any_of(step.begin(), step.end(), [&](const auto& entry) { return GroupOfKey(entry.first) == group; });
      if (waits) steps.push_back(id);
    }
  }
  for (const int64_t id : steps) Abort(id, why);
}

void BufferRendezvous::AbortAll(const absl::Status& why) {
  absl::flat_hash_map<int64_t, Step> ended;
  {
    MutexLock lock(&mutex_);
    if (closed_.ok()) closed_ = why;
    ended.swap(steps_);
  }
  for (auto& [id, step] : ended) {
    for (auto& [key, entry] : step) End(std::move(entry), why);
  }
}

}  // namespace thalweg
