// SPDX-License-Identifier: Apache-2.0
// Detects the end of a job in one of its tasks.
//
// A task whose program is done announces that to all other tasks. A task that only
// serves, such as a parameter server, waits (Wait()) until all workers have announced
// their end, wait themselves, or are gone for good.
//
// A program that ends with an error announces that too. A task that is killed announces
// nothing: tasks that wait notice that it does not answer any more. Either task may be
// restarted, so the others ask for it every second, until it answers again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/cluster/membership.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/kernel/task_observer.h"
#include "thalweg/proto/job.pb.h"

namespace thalweg {

// Calls to the other tasks of the job. Thread-safe. TensorFlow's servers answer
// UNIMPLEMENTED.
class JobPeers {
 public:
  virtual ~JobPeers() = default;
  virtual void TaskDone(const TaskId& to, const CallOptions& options, const TaskDoneRequest& request,
                        Worker::Done done) = 0;
  virtual void GetTask(const TaskId& to, const CallOptions& options, GetTaskResponse* response, Worker::Done done) = 0;
};

struct JobCompletionOptions {
  ClusterSpec cluster;
  TaskId self;
  JobPeers* peers = nullptr;         // borrowed
  Membership* membership = nullptr;  // borrowed
  // Called when a task, possibly this one, is done.
  std::function<void(const TaskId&)> on_task_done = [](const TaskId&) {};
  // Called every second while there are tasks that were lost and have not been restarted.
  std::function<void(const std::map<TaskId, TaskFailure>&)> on_tasks_failed = [](const auto&) {};
  // Measures all durations. Borrowed.
  Clock* clock = &RealClock();
  // When this task last served a call, as absl::FromUnixNanos(MonotonicNanos()).
  std::function<absl::Time()> last_used = [] { return absl::InfinitePast(); };
  // Whether TensorFlow masters, which do not announce their end, have used this task and
  // all of them have closed their sessions.
  std::function<bool()> clients_left = [] { return false; };
  absl::Duration orphan_after = absl::InfiniteDuration();
  absl::Duration gone_after = absl::Seconds(30);
  absl::Duration idle_after = absl::Seconds(10);
  absl::Duration failed_after = absl::Seconds(60);
};

// Thread-safe.
class JobCompletion {
 public:
  explicit JobCompletion(JobCompletionOptions options);
  ~JobCompletion() { Stop(); }

  // Announces to the other tasks that this task is done, or that it ends with an error.
  // Returns the tasks that could not be reached. A parameter server has nothing to announce.
  std::vector<std::string> Announce(bool failed = false);
  // Handle the announcement of another task.
  void TaskDone(const TaskId& task);
  void TaskFailed(const TaskId& task);
  // A master of Thalweg's uses this task. If its task ends before it is asked for its state, it is missed all the same.
  void MasterSeen(const std::string& task);
  GetTaskResponse::State state() const;

  // Waits until the job is over or Stop() is called; returns OK. A job of workers that do
  // not announce their end is over when they have closed their sessions, cannot be
  // reached, and no call has arrived for idle_after. Returns DEADLINE_EXCEEDED if there
  // was no worker, and no call arrived, for orphan_after, or if workers ended with an error
  // at least failed_after ago and no other worker is left.
  absl::Status Wait();
  void Stop();

 private:
  // The state of a task whose end others wait for.
  struct Presence {
    bool announces = false;  // it runs a server of Thalweg's, so it will announce its end
    bool joined = false;
    absl::Time seen = absl::InfinitePast();
    absl::Time absent_since = absl::InfiniteFuture();
  };

  // The monotonic clock as a time, which means nothing but its distance from others.
  absl::Time Now() const { return absl::FromUnixNanos(options_.clock->MonotonicNanos()); }
  // The tasks whose end this task waits for.
  std::vector<TaskId> Unresolved(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The times at which, as things are now, the job is over, this task is an orphan, or
  // the tasks that it waits for should be asked again.
  absl::Time Over(absl::Time now, const std::vector<TaskId>& waits) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time Orphaned() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When a parameter server of TensorFlow workers may exit (see Wait()).
  absl::Time Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When the last worker that ended with an error is given up.
  absl::Time Failed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string DescribeFailed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time NextAsk(const std::vector<TaskId>& waits) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Report(absl::Time now, const std::vector<TaskId>& waits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Logs, with growing intervals, that there is no worker.
  void ReportAlone(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks these tasks for their state.
  void Ask(const std::vector<TaskId>& tasks) ABSL_LOCKS_EXCLUDED(mutex_);
  void RecordAnswers(const std::vector<TaskId>& tasks, const std::vector<absl::Status>& statuses,
                     const std::vector<GetTaskResponse>& answers, absl::Time asked, std::vector<TaskId>* found_done)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds a task to failed_, and starts the thread that looks after such tasks.
  void AddFailed(const TaskId& task, const TaskFailure& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The body of that thread.
  void WatchFailed() ABSL_LOCKS_EXCLUDED(mutex_);

  const JobCompletionOptions options_;
  std::vector<TaskId> holders_;  // the tasks that must end before the job is over
  Cancellation stop_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<TaskId> done_ ABSL_GUARDED_BY(mutex_);       // only tasks of the cluster: anyone can announce anything
  bool stranger_done_ ABSL_GUARDED_BY(mutex_) = false;  // a task that is not in the cluster has announced its end
  bool self_failed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<TaskId, TaskFailure> failed_ ABSL_GUARDED_BY(mutex_);  // other tasks, until they are restarted
  std::map<TaskId, Presence> presence_ ABSL_GUARDED_BY(mutex_);
  // State of Wait().
  absl::Time start_ ABSL_GUARDED_BY(mutex_);
  absl::Time asked_ ABSL_GUARDED_BY(mutex_);
  size_t known_ ABSL_GUARDED_BY(mutex_) = 0;  // size of done_ when the others were last asked
  absl::Time ending_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time report_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Duration no_worker_logged_ ABSL_GUARDED_BY(mutex_);  // how long there was no worker when that was last logged

  std::unique_ptr<Thread> failed_watch_ ABSL_GUARDED_BY(mutex_);  // from the first failure on
};

}  // namespace thalweg
