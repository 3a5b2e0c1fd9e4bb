// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/group_assembly.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr int64_t kChief = 0;

// Programs number their groups from 1: random keys above a billion do not meet theirs, nor those of earlier groups.
int32_t NewGroupKey(int32_t last) {
  std::random_device random;
  for (;;) {
    const auto key = static_cast<int32_t>((random() & 0x3fffffffU) | 0x40000000U);
    if (key != last) return key;
  }
}

absl::Status CheckArrival(const GroupAssembly::Arrival& a) {
  if (a.workers < 1 || a.workers > GroupAssembly::kMaxWorkers) {
    return InvalidArgument("a group of ", a.workers, " workers, expected 1 to ", GroupAssembly::kMaxWorkers);
  }
  if (a.worker < 0 || a.worker >= a.workers) {
    return InvalidArgument("worker ", a.worker, " arrives at a job of ", a.workers, " workers");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GroupAssembly::Outcome> GroupAssembly::Arrive(const Arrival& arrival, int64_t now_nanos) {
  RETURN_IF_ERROR(CheckArrival(arrival));
  MutexLock lock(&mutex_);
  const auto member = members_.find(arrival.worker);
  if (member != members_.end() && member->second == arrival.session && arrived_.empty()) {
    return Outcome{.size = static_cast<int32_t>(members_.size()), .key = key_};
  }
  std::erase_if(arrived_, [&](const auto& entry) {
    return now_nanos - entry.second.last_nanos > absl::ToInt64Nanoseconds(kAsksWithin);
  });
  for (const auto& [worker, present] : arrived_) {
    if (present.arrival.workers == arrival.workers) continue;
    return InvalidArgument("worker ", arrival.worker, " says that the job has ", arrival.workers, " workers, worker ",
                           worker, " that it has ", present.arrival.workers);
  }
  Outcome outcome;
  if (arrived_.empty() && !members_.empty()) outcome.ended = key_;
  Present& present = arrived_[arrival.worker];
  if (present.first_nanos == 0 || present.arrival.session != arrival.session) present.first_nanos = now_nanos;
  present.arrival = arrival;
  present.last_nanos = now_nanos;

  outcome.missing = Missing();
  if (!arrived_.contains(kChief) || (!outcome.missing.empty() && !MayGoOn(now_nanos))) return outcome;
  members_.clear();
  for (const auto& [worker, entry] : arrived_) members_[worker] = entry.arrival.session;
  arrived_.clear();
  key_ = NewGroupKey(key_);
  outcome.size = static_cast<int32_t>(members_.size());
  outcome.key = key_;
  return outcome;
}

std::vector<int64_t> GroupAssembly::Missing() const {
  const int64_t workers = arrived_.begin()->second.arrival.workers;
  const bool goes_on =
      std::any_of(arrived_.begin(), arrived_.end(), [](const auto& entry) { return entry.second.arrival.again; });
  std::vector<int64_t> missing;
  for (int64_t worker = 0; worker < workers; ++worker) {
    const bool expected = worker == kChief || !goes_on || members_.empty() || members_.contains(worker);
    if (expected && !arrived_.contains(worker)) missing.push_back(worker);
  }
  return missing;
}

bool GroupAssembly::MayGoOn(int64_t now_nanos) const {
  const bool goes_on =
      std::any_of(arrived_.begin(), arrived_.end(), [](const auto& entry) { return entry.second.arrival.again; });
  const Present& chief = arrived_.at(kChief);
  return goes_on && now_nanos - chief.first_nanos >= absl::ToInt64Nanoseconds(chief.arrival.lost_after);
}

std::string GroupAssembly::Describe() const {
  MutexLock lock(&mutex_);
  return absl::StrCat("an assembly of ", members_.size(), " workers, ", arrived_.size(), " of which wait for others");
}

}  // namespace thalweg
