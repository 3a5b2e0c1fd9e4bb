// SPDX-License-Identifier: Apache-2.0
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
// A task that is done has probably gone.
constexpr absl::Duration kDoneCallTimeout = absl::Seconds(1);
// How often the tasks that an ending job waits for are asked.
constexpr absl::Duration kAskEvery = absl::Milliseconds(500);
constexpr absl::Duration kAskRarely = absl::Seconds(10);
// How often tasks are asked that have never answered. A task must have answered once before it
// can be missed.
constexpr absl::Duration kAskNew = absl::Seconds(1);
// How often to check whether clients have left, and after which time without a worker to log
// that.
constexpr absl::Duration kLook = absl::Seconds(1);
constexpr absl::Duration kLogNoWorkerAfter = absl::Minutes(1);
// How often tasks that ended with an error are asked whether they have been restarted.
constexpr absl::Duration kWatchFailedEvery = absl::Seconds(1);

}  // namespace

JobCompletion::JobCompletion(JobCompletionOptions options) : options_(std::move(options)) {
  for (const TaskId& task : options_.cluster.tasks()) {
    if (task != options_.self && task.job != "ps" && task.job != "evaluator") holders_.push_back(task);
  }
}

GetTaskResponse::State JobCompletion::state() const {
  MutexLock lock(&mutex_);
  if (done_.contains(options_.self)) return GetTaskResponse::DONE;
  if (self_failed_) return GetTaskResponse::FAILED;
  return joined_ ? GetTaskResponse::JOINED : GetTaskResponse::RUNNING;
}

void JobCompletion::TaskDone(const TaskId& task) {
  if (!options_.cluster.Address(task).ok()) {
    // Nobody waits for it, and what it calls itself is not kept. But a parameter server that does not know the workers
    // learns that they end.
    MutexLock lock(&mutex_);
    if (std::exchange(stranger_done_, true)) return;
    LOG(INFO) << options_.self.ToString() << ": a task that is not in the cluster is done";
    changed_.SignalAll();
    return;
  }
  options_.membership->MarkSeen(task.ToString());  // a session that comes later does not wait for it
  {
    MutexLock lock(&mutex_);
    done_.insert(task);
    failed_.erase(task);
    changed_.SignalAll();
  }
  options_.on_task_done(task);
}

void JobCompletion::TaskFailed(const TaskId& task) {
  MutexLock lock(&mutex_);
  if (task == options_.self) {
    self_failed_ = true;
    return;
  }
  // Ignores announcements of tasks that are not in this cluster.
  if (std::find(holders_.begin(), holders_.end(), task) == holders_.end()) return;
  if (stop_.cancelled() || options_.failed_after == absl::InfiniteDuration()) return;
  LOG(WARNING) << task.ToString() << " has ended with an error; work that needs it fails unless the task is restarted "
               << "within " << absl::FormatDuration(options_.failed_after) << " (--failed_after)";
  AddFailed(task, {.when = Now()});
}

void JobCompletion::MasterSeen(const std::string& task) {
  MutexLock lock(&mutex_);
  for (const TaskId& holder : holders_) {
    if (holder.ToString() == task) presence_[holder].announces = true;
  }
}

void JobCompletion::AddFailed(const TaskId& task, const TaskFailure& failure) {
  failed_[task] = failure;
  changed_.SignalAll();
  if (failed_watch_ == nullptr) failed_watch_ = std::make_unique<Thread>("failed tasks", [this] { WatchFailed(); });
}

void JobCompletion::WatchFailed() {
  const auto id = stop_.Register([this](const absl::Status&) {
    MutexLock lock(&mutex_);
    changed_.SignalAll();
  });
  if (!id.has_value()) return;
  while (!stop_.cancelled()) {
    std::vector<TaskId> tasks;
    {
      MutexLock lock(&mutex_);
      for (const auto& [task, failure] : failed_) tasks.push_back(task);
      if (tasks.empty()) {
        changed_.Wait(&mutex_);
        continue;
      }
    }
    Ask(tasks);
    std::map<TaskId, TaskFailure> failed;
    {
      MutexLock lock(&mutex_);
      failed = failed_;
    }
    for (auto& [task, failure] : failed) failure.when = absl::Now() - (Now() - failure.when);
    if (!failed.empty()) options_.on_tasks_failed(failed);
    const absl::Time next = Now() + kWatchFailedEvery;
    MutexLock lock(&mutex_);
    while (!stop_.cancelled() && Now() < next) changed_.WaitWithTimeout(&mutex_, next - Now());
  }
  stop_.Deregister(*id);
}

void JobCompletion::Stop() {
  stop_.Cancel(Cancelled(options_.self.ToString(), " was stopped"));
  std::unique_ptr<Thread> watch;
  {
    MutexLock lock(&mutex_);
    watch = std::move(failed_watch_);
  }
}

std::vector<std::string> JobCompletion::Announce(bool failed) {
  if (options_.self.job == "ps") return {};
  // Also tell the tasks that are done themselves: they may wait in Join() for this
  // announcement. Errors are ignored, because they may be gone.
  std::vector<TaskId> others;
  std::vector<bool> is_done;
  {
    MutexLock lock(&mutex_);
    for (const TaskId& task : options_.cluster.tasks()) {
      if (task == options_.self) continue;
      others.push_back(task);
      is_done.push_back(done_.contains(task));
    }
  }
  failed ? TaskFailed(options_.self) : TaskDone(options_.self);
  TaskDoneRequest request;
  request.set_failed(failed);
  request.set_job(options_.self.job);
  request.set_index(options_.self.index);
  std::vector<absl::Status> statuses(others.size());
  BlockingCounter left(static_cast<int>(others.size()));
  for (size_t i = 0; i < others.size(); ++i) {
    const absl::Duration timeout = is_done[i] ? kDoneCallTimeout : kCallTimeout;
    options_.peers->TaskDone(others[i], {.timeout = timeout, .cancellation = &stop_}, request,
                             [&, i](const absl::Status& status) {
                               statuses[i] = status;
                               left.DecrementCount();
                             });
  }
  left.Wait();
  std::vector<std::string> unreached;
  for (size_t i = 0; i < others.size(); ++i) {
    if (statuses[i].ok() || is_done[i] || absl::IsUnimplemented(statuses[i])) continue;
    VLOG(1) << options_.self.ToString() << " could not announce to " << others[i].ToString()
            << (failed ? " that it has failed: " : " that it is done: ") << statuses[i].message();
    unreached.push_back(others[i].ToString());
  }
  return unreached;
}

std::vector<TaskId> JobCompletion::Unresolved(absl::Time now) const {
  // A task that could not be reached before the last announcement may have been started since.
  const bool is_current = known_ == done_.size();
  std::vector<TaskId> unresolved;
  for (const TaskId& task : holders_) {
    if (done_.contains(task)) continue;
    const auto known = presence_.find(task);
    const bool settled =
        known != presence_.end() &&
        (known->second.joined || (is_current && now - known->second.absent_since >= options_.gone_after));
    if (!settled) unresolved.push_back(task);
  }
  return unresolved;
}

void JobCompletion::Ask(const std::vector<TaskId>& tasks) {
  const absl::Time asked = Now();
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
  std::vector<TaskId> found_done;
  RecordAnswers(tasks, statuses, answers, asked, &found_done);
  for (const TaskId& task : found_done) options_.on_task_done(task);
}

void JobCompletion::RecordAnswers(const std::vector<TaskId>& tasks, const std::vector<absl::Status>& statuses,
                                  const std::vector<GetTaskResponse>& answers, absl::Time asked,
                                  std::vector<TaskId>* found_done) {
  const absl::Time now = Now();
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < tasks.size(); ++i) {
    Presence& presence = presence_[tasks[i]];
    if (statuses[i].ok()) {
      presence.announces = true;
      // One that only waited and has left since stays what it was.
      presence.joined = answers[i].state() == GetTaskResponse::JOINED;
      const bool done = answers[i].state() == GetTaskResponse::DONE;
      if (done && done_.insert(tasks[i]).second) found_done->push_back(tasks[i]);
      // A question from before the announcement may have been answered before it, too.
      const auto failed = failed_.find(tasks[i]);
      if (failed != failed_.end() && failed->second.when <= asked && answers[i].state() != GetTaskResponse::FAILED) {
        LOG(INFO) << tasks[i].ToString() << (failed->second.unreachable ? " answers again" : " has been restarted");
        failed_.erase(failed);
      }
    }
    if (statuses[i].ok() || absl::IsUnimplemented(statuses[i])) {
      presence.seen = now;
      presence.absent_since = absl::InfiniteFuture();
    } else {
      presence.absent_since = std::min(presence.absent_since, now);
      if (presence.announces && !presence.joined && !done_.contains(tasks[i]) && !failed_.contains(tasks[i]) &&
          !stop_.cancelled() && options_.failed_after != absl::InfiniteDuration()) {
        LOG(WARNING) << tasks[i].ToString() << " does not answer: " << statuses[i].message();
        AddFailed(tasks[i], {.when = now, .unreachable = true});
      }
    }
  }
}

absl::Time JobCompletion::Over(absl::Time now, const std::vector<TaskId>& waits) const {
  // A parameter server that does not know the workers leaves when it is left
  // alone.
  if (holders_.empty() && options_.self.job == "ps" && (stranger_done_ || !done_.empty())) {
    return options_.last_used() + options_.gone_after;
  }
  if (done_.empty() || !waits.empty()) return absl::InfiniteFuture();
  return now;
}

absl::Time JobCompletion::Orphaned() const {
  absl::Time heard = std::max(start_, options_.last_used());
  for (const auto& [task, presence] : presence_) {
    if (!presence.joined) heard = std::max(heard, presence.seen);
  }
  return heard + options_.orphan_after;
}

absl::Time JobCompletion::Idle() const {
  if (options_.self.job != "ps" || !options_.clients_left()) return absl::InfiniteFuture();
  absl::Time since = options_.last_used();
  for (const TaskId& task : holders_) {
    if (done_.contains(task)) continue;
    const auto peer = presence_.find(task);
    if (peer == presence_.end()) return absl::InfiniteFuture();
    since = std::max(since, peer->second.absent_since);  // one that is there may come again
  }
  return since + options_.idle_after;
}

absl::Time JobCompletion::Failed() const {
  // Tasks that were killed may take long to be restarted: orphan_after limits that.
  const bool announced =
      std::any_of(failed_.begin(), failed_.end(), [](const auto& failed) { return !failed.second.unreachable; });
  if (!announced || !done_.empty()) return absl::InfiniteFuture();
  absl::Time last = absl::InfinitePast();
  for (const TaskId& task : holders_) {
    const auto failed = failed_.find(task);
    const auto peer = presence_.find(task);
    if (failed != failed_.end()) {
      last = std::max(last, failed->second.when);
    } else if (peer == presence_.end()) {
      return absl::InfiniteFuture();
    } else if (!peer->second.joined) {
      last = std::max(last, peer->second.absent_since);  // one that is there trains on
    }
  }
  return last + options_.failed_after;
}

std::string JobCompletion::DescribeFailed() const {
  return absl::StrJoin(failed_, ", ", [now = Now()](std::string* out, const auto& failed) {
    absl::StrAppend(out, failed.first.ToString(), " ", failed.second.Describe(now));
  });
}

absl::Time JobCompletion::NextAsk(const std::vector<TaskId>& waits) const {
  if (waits.empty()) return absl::InfiniteFuture();
  if (options_.clients_left()) return asked_ + kAskEvery;
  if (!done_.empty()) return known_ != done_.size() ? absl::InfinitePast() : asked_ + kAskEvery;
  if (!failed_.empty()) return asked_ + kWatchFailedEvery;
  // While no worker is done, ask only to find out which workers are alive.
  const bool all_known =
      std::all_of(waits.begin(), waits.end(), [this](const TaskId& task) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const auto peer = presence_.find(task);
        return peer != presence_.end() && peer->second.seen != absl::InfinitePast();
      });
  return asked_ + std::clamp(options_.orphan_after / 4, absl::Milliseconds(20), all_known ? kAskRarely : kAskNew);
}

void JobCompletion::Report(absl::Time now, const std::vector<TaskId>& waits) {
  if (done_.empty()) return;
  if (ending_since_ == absl::InfiniteFuture()) {
    ending_since_ = now;
    report_ = now + kLogWaitAfter;
  }
  if (now < report_) return;
  report_ = now + (now - ending_since_);
  LOG(INFO) << options_.self.ToString() << " has waited for "
            << absl::FormatDuration(absl::Trunc(now - ending_since_, absl::Seconds(1))) << " for the end of "
            << absl::StrJoin(waits, ", ", [](std::string* out, const TaskId& task) { *out += task.ToString(); });
}

void JobCompletion::ReportAlone(absl::Time now) {
  if (!done_.empty() || (stranger_done_ && holders_.empty()) || options_.self.job != "ps") return;
  absl::Time heard = std::max(start_, options_.last_used());
  for (const auto& [task, peer] : presence_) heard = std::max(heard, peer.seen);
  const absl::Duration without_worker = absl::Trunc(now - heard, absl::Seconds(1));
  if (without_worker < kLogWaitAfter) no_worker_logged_ = absl::ZeroDuration();
  if (without_worker < std::max(kLogNoWorkerAfter, 2 * no_worker_logged_)) return;
  no_worker_logged_ = without_worker;
  LOG(INFO) << options_.self.ToString() << " has seen no worker for " << absl::FormatDuration(without_worker)
            << (options_.orphan_after == absl::InfiniteDuration()
                    ? std::string("; it waits forever (set --orphan_after to limit this)")
                    : absl::StrCat("; it exits after ", absl::FormatDuration(options_.orphan_after)));
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
    start_ = asked_ = Now();
  }
  absl::Status result;
  while (true) {
    std::vector<TaskId> ask;
    {
      MutexLock lock(&mutex_);
      const absl::Time now = Now();
      const std::vector<TaskId> waits = Unresolved(now);
      if (stop_.cancelled() || Over(now, waits) <= now) break;
      if (Idle() <= now) {
        LOG(INFO) << options_.self.ToString() << ": all sessions are closed, and no call has arrived for "
                  << absl::FormatDuration(options_.idle_after);
        break;
      }
      if (Orphaned() <= now) {
        result = DeadlineExceeded(options_.self.ToString(), ": there was no worker for ",
                                  absl::FormatDuration(options_.orphan_after));
        break;
      }
      if (Failed() <= now) {
        result = DeadlineExceeded(options_.self.ToString(), ": no worker is left: ", DescribeFailed(),
                                  "; not restarted within ", absl::FormatDuration(options_.failed_after),
                                  " (--failed_after)");
        break;
      }
      Report(now, waits);
      ReportAlone(now);
      if (NextAsk(waits) <= now) {
        ask = waits;
        known_ = done_.size();
      } else {
        const absl::Time wake =
            std::min({Over(now, waits), Orphaned(), Failed(), Idle(), NextAsk(waits), report_, now + kLook});
        changed_.WaitWithTimeout(&mutex_, wake - Now());
      }
    }
    if (ask.empty()) continue;
    Ask(ask);
    MutexLock lock(&mutex_);
    asked_ = Now();
  }
  stop_.Deregister(*id);
  // Others need not find out that this one does not wait any more.
  if (result.ok() && !stop_.cancelled()) Announce();
  return result;
}

}  // namespace thalweg
