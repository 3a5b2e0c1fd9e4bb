// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/rendezvous.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "thalweg/base/bounded_nesting.h"
#include "thalweg/base/status.h"

namespace thalweg {

std::string RendezvousKey::ToString() const {
  return absl::StrFormat("%s;%016x;%s;%s;%d:%d", source_device, source_incarnation, destination_device, edge, frame,
                         iteration);
}

absl::StatusOr<RendezvousKey> RendezvousKey::Parse(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ';');
  RendezvousKey key;
  if (parts.size() == 5) {
    const std::vector<absl::string_view> frame = absl::StrSplit(parts[4], ':');
    if (absl::SimpleHexAtoi(parts[1], &key.source_incarnation) && frame.size() == 2 &&
        absl::SimpleAtoi(frame[0], &key.frame) && absl::SimpleAtoi(frame[1], &key.iteration) && !parts[0].empty() &&
        !parts[2].empty() && !parts[3].empty()) {
      key.source_device = std::string(parts[0]);
      key.destination_device = std::string(parts[2]);
      key.edge = std::string(parts[3]);
      return key;
    }
  }
  return InvalidArgument("Invalid  rendezvous key: ", text);
}

LocalRendezvous::~LocalRendezvous() { Abort(Cancelled("the step has ended")); }

absl::Status LocalRendezvous::Send(const std::string& key, Value value) {
  RecvDone waiter;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return aborted_;
    Entry& entry = entries_[key];
    if (entry.has_value) return Aborted("Duplicated send: ", key);
    entry.has_value = true;
    if (!entry.waiter) {
      entry.value = std::move(value);
      return absl::OkStatus();
    }
    entry.taken = true;
    waiter = std::move(entry.waiter);
    entry.waiter = nullptr;
  }
  // The receiver continues on this stack, and may send to the next receiver.
  RunNested(
      [waiter = std::move(waiter), value = std::move(value)]() mutable { waiter(absl::OkStatus(), std::move(value)); });
  return absl::OkStatus();
}

void LocalRendezvous::RecvAsync(const std::string& key, RecvDone done) {
  absl::Status status;
  Value value;
  {
    MutexLock lock(&mutex_);
    status = aborted_;
    if (status.ok()) {
      Entry& entry = entries_[key];
      if (entry.waiter) {
        status = Internal("two receivers wait for ", key);
      } else if (entry.taken) {
        status = Internal("received twice: ", key);
      } else if (!entry.has_value) {
        entry.waiter = std::move(done);
        return;
      } else {
        value = std::move(entry.value);
        entry.value = Value();
        entry.taken = true;
      }
    }
  }
  done(status, std::move(value));
}

void LocalRendezvous::Abort(const absl::Status& status) {
  std::vector<RecvDone> waiters;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ = status;
    for (auto& [key, entry] : entries_) {
      if (entry.waiter) waiters.push_back(std::move(entry.waiter));
    }
    entries_.clear();
  }
  for (RecvDone& waiter : waiters) waiter(status, Value());
}

}  // namespace thalweg
