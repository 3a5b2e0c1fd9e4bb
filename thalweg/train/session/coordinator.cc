// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/coordinator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"

namespace thalweg {

Coordinator::~Coordinator() {
  RequestStop();
  std::list<Body> bodies;
  {
    MutexLock lock(&mutex_);
    while (std::any_of(bodies_.begin(), bodies_.end(), [](const Body& b) { return !b.ended; })) changed_.Wait(&mutex_);
    bodies.swap(bodies_);
  }
}

void Coordinator::Start(const std::string& name, absl::AnyInvocable<absl::Status()> body) {
  MutexLock lock(&mutex_);
  Body& entry = bodies_.emplace_back();
  entry.name = name;
  entry.thread = std::make_unique<Thread>(name, [this, &entry, body = std::move(body)]() mutable {
    const absl::Status status = body();
    if (!status.ok()) RequestStop(status);
    MutexLock lock(&mutex_);
    entry.ended = true;
    changed_.SignalAll();
  });
}

void Coordinator::RequestStop(const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    // Errors after the stop are consequences of it.
    if (!stop_.cancelled() && error_.ok() && !absl::IsOutOfRange(why)) error_ = why;
  }
  stop_.Cancel(Cancelled("the coordinator was asked to stop"));
  MutexLock lock(&mutex_);
  changed_.SignalAll();
}

bool Coordinator::WaitForStop(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mutex_);
  while (!stop_.cancelled()) {
    if (changed_.WaitWithDeadline(&mutex_, deadline)) return stop_.cancelled();
  }
  return true;
}

absl::Status Coordinator::status() const {
  MutexLock lock(&mutex_);
  return error_;
}

absl::Status Coordinator::Join(absl::Duration grace) {
  const auto running = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<std::string> names;
    for (const Body& body : bodies_) {
      if (!body.ended) names.push_back(body.name);
    }
    return names;
  };
  std::list<Body> ended;
  MutexLock lock(&mutex_);
  while (!stop_.cancelled() && !running().empty()) changed_.Wait(&mutex_);
  const absl::Time deadline = absl::Now() + grace;
  while (!running().empty()) {
    if (!changed_.WaitWithDeadline(&mutex_, deadline) || running().empty()) continue;
    return DeadlineExceeded("threads that did not stop within ", absl::FormatDuration(grace), ": ",
                            absl::StrJoin(running(), ", "));
  }
  return error_;
}

}  // namespace thalweg
