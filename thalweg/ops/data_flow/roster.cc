// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/roster.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/roster_ops.h"

namespace thalweg {

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

void Roster::Leave(int64_t worker) {
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    members_[worker].present = false;
    waits_.Flush(&ended);
  }
  WaitList::End(std::move(ended));
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

int64_t Roster::NumLeft() const {
  return std::count_if(members_.begin(), members_.end(), [](const auto& m) { return !m.second.present; });
}

void Roster::Advance(int64_t worker, int64_t slack, const WaitingCaller& caller, Done done) {
  int64_t clock = 0;
  {
    MutexLock lock(&mutex_);
    Member& member = JoinLocked(worker);
    clock = ++member.clock;
    if (clock > Slowest() + slack) ++member.waits;
  }
  waits_.Start(
      shared_from_this(), &mutex_, "RosterAdvance", caller,
      [this, clock, slack](absl::Status*) {
        mutex_.AssertHeld();
        const int64_t slowest = Slowest();
        return slowest < 0 || clock <= slowest + slack;
      },
      [done = std::move(done)](const absl::Status& status) mutable { done(status); },
      // The step of this worker may be what others wait for.
      [this](WaitList::Ended* ended) { waits_.Flush(ended); });
}

void Roster::AwaitStep(int64_t local_step, const WaitingCaller& caller, StepDone done) {
  const auto token = std::make_shared<int64_t>(-1);
  waits_.Start(
      shared_from_this(), &mutex_, "RosterAwaitStep", caller,
      [this, local_step, token, generation = std::optional<int64_t>()](absl::Status* status) mutable {
        mutex_.AssertHeld();
        if (!generation.has_value()) generation = generation_;
        if (closed_) {
          *status = OutOfRange("the chief has ended the training at step ", step_);
          return true;
        }
        // A step that is yet to come: the training went back to an older one.
        const bool lost = step_ >= 0 && local_step > step_;
        const bool extra = step_ == local_step && extra_ > 0;
        if (step_ <= local_step && generation == generation_ && !extra && !lost) return false;
        if (extra) --extra_;
        *token = step_;
        return true;
      },
      [token, done = std::move(done)](const absl::Status& status) mutable { done(status, *token); },
      [this](WaitList::Ended* ended) { waits_.Flush(ended); });
}

void Roster::Release(int64_t step, int64_t wanted, int64_t total, bool again) {
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    const int64_t left = NumLeft();
    step_ = step;
    extra_ = std::max<int64_t>(0, Quorum(wanted, total, left) - std::max<int64_t>(1, total - left));
    closed_ = false;
    if (again) ++generation_;
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
    absl::StrAppend(&text, " worker ", worker, member.present ? " at step " : " left at step ", member.clock, ";");
  }
  return text;
}

}  // namespace thalweg
