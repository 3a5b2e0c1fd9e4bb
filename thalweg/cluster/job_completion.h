// The end of a job, as one of its tasks sees it.
//
// A task whose program has done its work announces that to all others. A task
// that does nothing of its own, as a parameter server, waits (Wait()) until all
// workers have announced their end, wait themselves, or are gone for good.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/cluster/membership.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/proto/job.pb.h"

namespace thalweg {

// The other tasks of the job. Thread-safe. UNIMPLEMENTED is the answer of a
// server of TensorFlow.
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
  // Another task has done its work, or this one has.
  std::function<void(const TaskId&)> on_task_done = [](const TaskId&) {};
  // When this task was last of use to somebody.
  std::function<absl::Time()> last_used = [] { return absl::InfinitePast(); };
  // Whether masters of TensorFlow, which do not announce their end, have worked
  // with this task, and all of them have closed their sessions.
  std::function<bool()> clients_left = [] { return false; };
  absl::Duration orphan_after = absl::InfiniteDuration();
  absl::Duration gone_after = absl::Seconds(30);
  absl::Duration idle_after = absl::Seconds(10);
};

// Thread-safe.
class JobCompletion {
 public:
  explicit JobCompletion(JobCompletionOptions options);

  // This task's work is done: tells the others, and returns those that could
  // not be told. A parameter server has nothing to announce.
  std::vector<std::string> Announce();
  // Another task's announcement.
  void TaskDone(const TaskId& task);
  GetTaskResponse::State state() const;

  // Until the job is over, or Stop(): OK. The job of workers that do not announce
  // their end is over when their sessions were closed, they are gone and nothing
  // came for idle_after. DEADLINE_EXCEEDED if there was no
  // worker, and nobody used this task, for orphan_after.
  absl::Status Wait();
  void Stop();

 private:
  // What is known of a task that keeps the job going.
  struct Presence {
    bool joined = false;
    absl::Time seen = absl::InfinitePast();
    absl::Time absent_since = absl::InfiniteFuture();
  };

  // Whose end this task waits for.
  std::vector<TaskId> Unresolved(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When the job is over, this task is an orphan, or it is time to ask those
  // that it waits for, as things are now.
  absl::Time Over(absl::Time now, const std::vector<TaskId>& waits) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time Orphaned() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When a parameter server of workers that do not announce their end may leave:
  // they have closed their sessions, are gone, and nothing came for idle_after.
  absl::Time Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time NextAsk(const std::vector<TaskId>& waits) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Report(absl::Time now, const std::vector<TaskId>& waits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Says now and then that nobody is there.
  void ReportAlone(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks these tasks what they do.
  void Ask(const std::vector<TaskId>& tasks) ABSL_LOCKS_EXCLUDED(mutex_);
  void RecordAnswers(const std::vector<TaskId>& tasks, const std::vector<absl::Status>& statuses,
                     const std::vector<GetTaskResponse>& answers, std::vector<TaskId>* found_done)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const JobCompletionOptions options_;
  std::vector<TaskId> holders_;  // tasks that keep the job going
  Cancellation stop_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<TaskId> done_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, Presence> presence_ ABSL_GUARDED_BY(mutex_);
  // Of the wait.
  absl::Time start_ ABSL_GUARDED_BY(mutex_);
  absl::Time asked_ ABSL_GUARDED_BY(mutex_);
  size_t known_ ABSL_GUARDED_BY(mutex_) = 0;  // how many were done when others were last asked
  absl::Time ending_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time report_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Duration alone_reported_ ABSL_GUARDED_BY(mutex_);  // for how long it was alone when it last said so
};

}  // namespace thalweg
