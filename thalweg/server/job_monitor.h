// SPDX-License-Identifier: Apache-2.0
// Collects the status of all tasks of a job.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/proto/monitor.pb.h"
#include "thalweg/rpc/rpc_client.h"

namespace thalweg {

// Thread-safe.
class JobMonitor {
 public:
  // A task that does not answer within this time counts as down.
  static constexpr absl::Duration kTimeout = absl::Milliseconds(700);
  // The same, if it is asked for thousands of steps.
  static constexpr absl::Duration kLongTimeout = absl::Seconds(5);

  // The status of this process's own task, which is not asked over the network.
  using Own = std::function<void(const GetMonitorRequest&, TaskStatus*)>;

  // `client` is borrowed. `own` is empty for an observer that is not a task of the cluster.
  JobMonitor(ClusterSpec cluster, TaskId self, RpcClient* client, Own own);
  ~JobMonitor() { Stop(); }

  // Asks all tasks at once and diagnoses the job. Blocks for kTimeout at most. Callers with the
  // same request at the same time share one round of questions, and its result serves for a
  // moment, so that many viewers cost no more than one. Other requests do not wait for it.
  JobStatus Ask(const GetMonitorRequest& request);
  size_t num_tasks() const { return cluster_.tasks().size(); }
  // Ends the current rounds; later ones find all other tasks down.
  void Stop() { stop_.Cancel(absl::CancelledError("The server ends")); }

 private:
  struct Round;
  struct Result;
  struct Missed {
    int count = 0;      // rounds in a row without an answer
    int64_t nanos = 0;  // the end of the last one
  };
  // The last answer of a task.
  struct Answered {
    int64_t nanos = 0;  // when it came; 0: there was none
    int pid = 0;
    std::string host;
  };
  static absl::Duration TimeFor(const GetMonitorRequest& request);
  static void AddWhatOthersKnow(JobStatus* job);
  JobStatus AskAll(const GetMonitorRequest& request);
  std::shared_ptr<RpcChannel> ChannelTo(const TaskId& task) ABSL_LOCKS_EXCLUDED(mutex_);

  const ClusterSpec cluster_;
  const TaskId self_;
  RpcClient* const client_;
  const Own own_;
  Cancellation stop_;

  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::shared_ptr<Result>> results_ ABSL_GUARDED_BY(mutex_);  // by request
  std::map<std::string, Missed> missed_ ABSL_GUARDED_BY(mutex_);                    // by task
  std::map<TaskId, std::shared_ptr<RpcChannel>> channels_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Answered> answered_ ABSL_GUARDED_BY(mutex_);  // by task
};

// Asks the task at `address` ("host:port") for the status of its whole job. UNAVAILABLE or
// DEADLINE_EXCEEDED if it does not answer.
absl::StatusOr<JobStatus> AskJob(const std::string& address, const GetMonitorRequest& request,
                                 absl::Duration timeout = absl::Seconds(3));

// The addresses of the servers on this machine, those of other users too, found by their same-host links.
std::vector<std::string> FindLocalServers();

}  // namespace thalweg
