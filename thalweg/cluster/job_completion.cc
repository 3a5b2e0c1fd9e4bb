#include "thalweg/cluster/job_completion.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/wait_logging.h"

namespace thalweg {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(5);
// How often the tasks that an ending job waits for are asked.
constexpr absl::Duration kAskEvery = absl::Milliseconds(500);
constexpr absl::Duration kAskRarely = absl::Seconds(10);

}  // namespace

JobCompletion::JobCompletion(JobCompletionOptions options) : options_(std::move(options)) {
  for (const TaskId& task : options_.cluster.tasks()) {
    if (task != options_.self && task.job != "ps" && task.job != "evaluator") holders_.push_back(task);
  }
}

GetTaskResponse::State JobCompletion::state() const {
  MutexLock lock(&mutex_);
  if (done_.contains(options_.self)) return GetTaskResponse::DONE;
  return joined_ ? GetTaskResponse::JOINED : GetTaskResponse::RUNNING;
}

void JobCompletion::TaskDone(const TaskId& task) {
  options_.membership->MarkSeen(task.ToString());  // a session that comes later does not wait for it
  MutexLock lock(&mutex_);
  done_.insert(task);
  changed_.SignalAll();
}

void JobCompletion::Stop() { stop_.Cancel(Cancelled(options_.self.ToString(), " was stopped")); }

std::vector<std::string> JobCompletion::Announce() {
  if (options_.self.job == "ps") return {};
  std::vector<TaskId> others;
  {
    MutexLock lock(&mutex_);
    for (const TaskId& task : options_.cluster.tasks()) {
      if (task != options_.self && !done_.contains(task)) others.push_back(task);
    }
  }
  TaskDone(options_.self);
  TaskDoneRequest request;
  request.set_job(options_.self.job);
  request.set_index(options_.self.index);
  std::vector<absl::Status> statuses(others.size());
  BlockingCounter left(static_cast<int>(others.size()));
  for (size_t i = 0; i < others.size(); ++i) {
    options_.peers->TaskDone(others[i], {.timeout = kCallTimeout, .cancellation = &stop_}, request,
                             [&, i](const absl::Status& status) {
                               statuses[i] = status;
                               left.DecrementCount();
                             });
  }
  left.Wait();
  std::vector<std::string> unreached;
  for (size_t i = 0; i < others.size(); ++i) {
    if (statuses[i].ok() || absl::IsUnimplemented(statuses[i])) continue;
    VLOG(1) << options_.self.ToString() << " is done, which " << others[i].ToString()
            << " could not be told: " << statuses[i].message();
    unreached.push_back(others[i].ToString());
  }
  return unreached;
}

std::vector<TaskId> JobCompletion::Unresolved(absl::Time now) const {
  std::vector<TaskId> unresolved;
  for (const TaskId& task : holders_) {
    if (done_.contains(task)) continue;
    const auto known = presence_.find(task);
    const bool settled =
        known != presence_.end() && (known->second.joined || now - known->second.absent_since >= options_.gone_after);
    if (!settled) unresolved.push_back(task);
  }
  return unresolved;
}

void JobCompletion::Ask(const std::vector<TaskId>& tasks) {
  std::vector<absl::Status> statuses(tasks.size());
  std::vector<GetTaskResponse> answers(tasks.size());
  BlockingCounter left(static_cast<int>(tasks.size()));
  for (size_t i = 0; i < tasks.size(); ++i) {
    options_.peers->GetTask(tasks[i], {.timeout = kCallTimeout, .cancellation = &stop_}, &answers[i],
                            [&, i](const absl::Status& status) {
                              statuses[i] = status;
                              left.DecrementCount();
                            });
  }
  left.Wait();
  const absl::Time now = absl::Now();
  MutexLock lock(&mutex_);
  asked_ = now;
  for (size_t i = 0; i < tasks.size(); ++i) {
    Presence& presence = presence_[tasks[i]];
    if (statuses[i].ok()) {
      // One that only waited and has left since stays what it was.
      presence.joined = answers[i].state() == GetTaskResponse::JOINED;
      if (answers[i].state() == GetTaskResponse::DONE) done_.insert(tasks[i]);
    }
    if (statuses[i].ok() || absl::IsUnimplemented(statuses[i])) {
      presence.seen = now;
      presence.absent_since = absl::InfiniteFuture();
    } else {
      presence.absent_since = std::min(presence.absent_since, now);
    }
  }
}

absl::Time JobCompletion::Over(absl::Time now, const std::vector<TaskId>& waits) const {
  if (done_.empty() || !waits.empty()) return absl::InfiniteFuture();
  // A parameter server that does not know the workers leaves when it is left
  // alone.
  if (holders_.empty() && options_.self.job == "ps") return options_.last_used() + options_.gone_after;
  return now;
}

absl::Time JobCompletion::Orphaned() const {
  absl::Time heard = std::max(start_, options_.last_used());
  for (const auto& [task, presence] : presence_) {
    if (!presence.joined) heard = std::max(heard, presence.seen);
  }
  return heard + options_.orphan_after;
}

absl::Time JobCompletion::NextAsk(const std::vector<TaskId>& waits) const {
  if (waits.empty()) return absl::InfiniteFuture();
  if (!done_.empty()) return known_ != done_.size() ? absl::InfinitePast() : asked_ + kAskEvery;
  // While nobody is done, only to know if anybody is there.
  return asked_ + std::clamp(options_.orphan_after / 4, absl::Milliseconds(20), kAskRarely);
}

void JobCompletion::Report(absl::Time now, const std::vector<TaskId>& waits) {
  if (done_.empty()) return;
  if (ending_since_ == absl::InfiniteFuture()) {
    ending_since_ = now;
    report_ = now + kLogWaitAfter;
  }
  if (now < report_) return;
  report_ = now + (now - ending_since_);
  LOG(INFO) << options_.self.ToString() << " waits for the end of "
            << absl::StrJoin(waits, ", ", [](std::string* out, const TaskId& task) { *out += task.ToString(); })
            << ", since " << absl::FormatDuration(absl::Trunc(now - ending_since_, absl::Seconds(1)));
}

absl::Status JobCompletion::Wait() {
  const auto id = stop_.Register([this](const absl::Status&) {
    MutexLock lock(&mutex_);
    changed_.SignalAll();
  });
  if (!id.has_value()) return absl::OkStatus();
  {
    MutexLock lock(&mutex_);
    joined_ = true;
    start_ = asked_ = absl::Now();
  }
  absl::Status result;
  while (true) {
    std::vector<TaskId> ask;
    {
      MutexLock lock(&mutex_);
      const absl::Time now = absl::Now();
      const std::vector<TaskId> waits = Unresolved(now);
      if (stop_.cancelled() || Over(now, waits) <= now) break;
      if (Orphaned() <= now) {
        result = DeadlineExceeded(options_.self.ToString(), ": there was no worker for ",
                                  absl::FormatDuration(options_.orphan_after));
        break;
      }
      Report(now, waits);
      if (NextAsk(waits) <= now) {
        ask = waits;
        known_ = done_.size();
      } else {
        const absl::Time wake = std::min({Over(now, waits), Orphaned(), NextAsk(waits), report_});
        changed_.WaitWithDeadline(&mutex_, wake);
      }
    }
    if (!ask.empty()) Ask(ask);
  }
  stop_.Deregister(*id);
  // Others need not find out that this one does not wait any more.
  if (result.ok() && !stop_.cancelled()) Announce();
  return result;
}

}  // namespace thalweg
