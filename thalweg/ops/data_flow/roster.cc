// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/roster.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/roster_ops.h"

namespace thalweg {

namespace {

// A round takes its gradients before it is released, and a worker in a new session may already send one for the next.
constexpr int64_t kRoundsAhead = 2;

}  // namespace

int64_t Quorum(int64_t wanted, int64_t total, int64_t left) {
  const int64_t present = std::max<int64_t>(0, total - left);
  if (left == 0) return wanted;
  if (wanted <= total) return std::max<int64_t>(1, std::min(wanted, present));
  return std::max<int64_t>(1, (wanted * present + total - 1) / std::max<int64_t>(1, total));
}

int64_t Roster::Slowest() const {
  int64_t slowest = -1;
  for (const auto& [worker, member] : members_) {
    if (member.present && (slowest < 0 || member.clock < slowest)) slowest = member.clock;
  }
  return slowest;
}

Roster::Member& Roster::JoinLocked(int64_t worker) {
  const auto found = members_.find(worker);
  if (found != members_.end() && found->second.present) return found->second;
  const int64_t slowest = Slowest();
  Member& member = members_[worker];
  member.present = true;
  member.expelled = false;
  if (slowest >= 0) member.clock = slowest;
  return member;
}

absl::StatusOr<std::unique_ptr<Roster::Member>> Roster::Join(int64_t worker, const std::string& task) {
  MutexLock lock(&mutex_);
  const auto found = members_.find(worker);
  auto before = found == members_.end() ? nullptr : std::make_unique<Member>(found->second);
  const bool taken = before != nullptr && before->present && !before->task.empty() && !task.empty();
  if (taken && before->task != task) {
    return AlreadyExists("worker ", worker, " of the training is ", before->task, ", and ", task,
                         " comes with the same number: does the number of all workers count the chief?");
  }
  Member& member = JoinLocked(worker);
  if (!task.empty()) member.task = task;
  return before;
}

void Roster::Leave(int64_t worker, bool expelled) {
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    Member& member = members_[worker];
    if (member.present) member.left_nanos = NowNanos();
    member.expelled = expelled && (member.present || member.expelled);
    member.present = false;
    waits_.Flush(&ended);
  }
  WaitList::End(std::move(ended));
}

bool Roster::TakeBack(int64_t worker) {
  MutexLock lock(&mutex_);
  const auto found = members_.find(worker);
  if (found == members_.end() || !found->second.expelled) return false;
  JoinLocked(worker);
  return true;
}

void Roster::Clear() {
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    members_.clear();
    waits_.Flush(&ended);
  }
  WaitList::End(std::move(ended));
}

Roster::Members Roster::members() const {
  MutexLock lock(&mutex_);
  return members_;
}

void Roster::Report(ResourceReport* report) const {
  MutexLock lock(&mutex_);
  for (const auto& [worker, member] : members_) {
    report->members[worker] = {.present = member.present, .expelled = member.expelled, .left_nanos = member.left_nanos};
  }
}

int64_t Roster::NumLeft() const {
  return std::count_if(members_.begin(), members_.end(), [](const auto& m) { return !m.second.present; });
}

void Roster::Advance(int64_t worker, int64_t slack) {
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    Member& member = JoinLocked(worker);
    ++member.clock;
    if (LeadLocked(worker) > slack) ++member.waits;
    waits_.Flush(&ended);  // others may wait for this step
  }
  WaitList::End(std::move(ended));
}

void Roster::AwaitTurn(int64_t worker, int64_t slack, const WaitingCaller& caller, Done done) {
  waits_.Start(
      shared_from_this(), &mutex_, "RosterAwaitTurn", caller,
      [this, worker, slack](absl::Status*) {
        mutex_.AssertHeld();
        return LeadLocked(worker) <= slack;
      },
      [done = std::move(done)](const absl::Status& status) mutable { done(status); },
      [this](WaitList::Ended* ended) { waits_.Flush(ended); });
}

int64_t Roster::Lead(int64_t worker) const {
  MutexLock lock(&mutex_);
  return LeadLocked(worker);
}

int64_t Roster::LeadLocked(int64_t worker) const {
  const auto found = members_.find(worker);
  return found == members_.end() || !found->second.present ? 0 : found->second.clock - Slowest();
}

// Random, so that workers notice when a roster was lost.
Roster::Roster() : generation_(std::random_device()()) {}

int64_t Roster::generation() const {
  MutexLock lock(&mutex_);
  return generation_;
}

void Roster::AwaitStep(int64_t worker, int64_t round, int64_t generation, const WaitingCaller& caller, StepDone done) {
  struct Now {
    int64_t step = -1, generation = 0;
  };
  const auto now = std::make_shared<Now>();
  waits_.Start(
      shared_from_this(), &mutex_, "RosterAwaitStep", caller,
      [this, worker, round, generation, now](absl::Status* status) {
        mutex_.AssertHeld();
        if (closed_) {
          *status = OutOfRange("the chief has ended the training at step ", step_);
          return true;
        }
        if (step_ < 0) return false;
        // Each time the variables get new values, rounds have numbers that are far from all others.
        const bool current = round >= base_ && round <= round_ + kRoundsAhead;
        const bool released = worker < 0 || (current && round <= round_);
        if (!released && generation != generation_) {
          *status = Aborted("the chief began anew before it took the gradients of worker ", worker, " for step ", step_,
                            ": the step must be run again");
          return true;
        }
        if (!released) {
          if (round != round_ + 1 || extra_ == 0) return false;
          --extra_;
        }
        *now = {step_, generation_};
        return true;
      },
      [now, done = std::move(done)](const absl::Status& status) mutable { done(status, now->step, now->generation); },
      [this](WaitList::Ended* ended) { waits_.Flush(ended); });
}

void Roster::Release(const Released& released) {
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    if (!released.again && released.round != round_ + 1) return;
    const int64_t left = NumLeft();
    step_ = released.step;
    round_ = released.round;
    extra_ = std::max<int64_t>(
        0, Quorum(released.wanted, released.total, left) - std::max<int64_t>(1, released.total - left));
    closed_ = false;
    if (released.again) {
      ++generation_;
      base_ = released.round;
    }
    waits_.Flush(&ended);
  }
  WaitList::End(std::move(ended));
}

void Roster::Wake() {
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    ++generation_;
    waits_.Flush(&ended);
  }
  WaitList::End(std::move(ended));
}

void Roster::CloseSteps() {
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    waits_.Flush(&ended);
  }
  WaitList::End(std::move(ended));
}

void Roster::AwaitEmpty(const WaitingCaller& caller, Done done) {
  waits_.Start(
      shared_from_this(), &mutex_, "RosterAwaitEmpty", caller,
      [this](absl::Status*) {
        mutex_.AssertHeld();
        return Slowest() < 0;
      },
      [done = std::move(done)](const absl::Status& status) mutable { done(status); },
      [this](WaitList::Ended* ended) { waits_.Flush(ended); });
}

std::string Roster::Describe() const {
  std::string text = "a roster:";
  for (const auto& [worker, member] : members()) {
    const char* const where = member.present ? " at" : member.expelled ? " expelled at" : " left at";
    absl::StrAppend(&text, " worker ", worker, where, " step ", member.clock, ";");
  }
  return text;
}

}  // namespace thalweg
