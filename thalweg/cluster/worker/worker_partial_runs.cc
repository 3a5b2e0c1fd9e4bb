// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/worker_partial_runs.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thalweg/base/cancellation.h"
#include "thalweg/base/status.h"
#include "thalweg/runtime/executor.h"

namespace thalweg {

// A step that the master feeds and fetches in several calls. The first call starts it, each call
// exchanges tensors through the rendezvous, and the last call waits for its end.
class WorkerPartialRuns::PartialRun : public std::enable_shared_from_this<PartialRun> {
 public:
  PartialRun(const StepEnvironment& environment, int64_t step_id, std::shared_ptr<WorkerSession> session,
             std::shared_ptr<Executable> executable)
      : session_(std::move(session)),
        executable_(std::move(executable)),
        rendezvous_(environment.rendezvous->Begin(step_id, session_)) {
    rendezvous_->SetCluster(session_->task(), session_->workers());
    step_ = {{.id = step_id,
              .rendezvous = rendezvous_.get(),
              .cancellation = &cancellation_,
              .pool = environment.pool,
              .resources = &resources_,
              .session_resources = &session_->resources()},
             {}};
  }

  void Start() {
    const auto self = shared_from_this();
    // The run may have been cancelled since its creation.
    if (!cancellation_.Register([this](const absl::Status& why) { rendezvous_->Abort(why); }).has_value()) {
      rendezvous_->Abort(cancellation_.status());
    }
    execution_.emplace(*executable_, step_, nullptr);
    execution_->Start({}, [self](const absl::Status& status) { self->Ended(status); });
  }
  void Cancel(const absl::Status& why) { cancellation_.Cancel(why); }
  const WorkerSession& session() const { return *session_; }
  int64_t id() const { return step_.id; }

  // Serves one call: sends its feeds, and completes when all of its fetches have arrived.
  void Exchange(const CallOptions& options, RunGraphCall call, RunGraphResult* result, Worker::Done done) {
    struct Call {
      std::shared_ptr<PartialRun> run;
      Mutex mutex;
      int left ABSL_GUARDED_BY(mutex) = 0;
      absl::Status status ABSL_GUARDED_BY(mutex);
      Worker::Done done;
      Cancellation* outside = nullptr;
      std::optional<Cancellation::CallbackId> id;
    };
    for (auto& [key, tensor] : call.send) {
      if (absl::Status status = rendezvous_->Send(key, {std::move(tensor), false}); !status.ok()) return done(status);
    }
    auto shared = std::make_shared<Call>();
    shared->run = shared_from_this();
    shared->done = std::move(done);
    if (options.cancellation != nullptr) {
      shared->outside = options.cancellation;
      shared->id =
          options.cancellation->Register([run = shared_from_this()](const absl::Status& why) { run->Cancel(why); });
      if (!shared->id.has_value()) Cancel(options.cancellation->status());
    }
    // One for each fetch, one for the end of the step if this is the last call, and one for this function.
    const int waits = static_cast<int>(call.recv_keys.size()) + (call.is_last_partial ? 1 : 0) + 1;
    {
      MutexLock lock(&shared->mutex);
      shared->left = waits;
    }
    const auto count_down = [shared](const absl::Status& status) {
      absl::Status first;
      {
        MutexLock lock(&shared->mutex);
        if (shared->status.ok()) shared->status = status;
        if (--shared->left > 0) return;
        first = shared->status;
      }
      if (shared->id.has_value()) shared->outside->TryDeregister(*shared->id);
      Worker::Done done = std::move(shared->done);
      done(first);
    };
    result->recv.resize(call.recv_keys.size());
    for (size_t i = 0; i < call.recv_keys.size(); ++i) {
      result->recv[i].first = call.recv_keys[i];
      rendezvous_->RecvLocalAsync(call.recv_keys[i],
                                  [count_down, &to = result->recv[i].second, key = call.recv_keys[i]](
                                      absl::Status status, Rendezvous::Value value) {
                                    if (status.ok() && value.dead) {
                                      status = InvalidArgument("The tensor returned for ", key, " was not valid.");
                                    }
                                    to = std::move(value.tensor);
                                    count_down(status);
                                  });
    }
    if (call.is_last_partial) OnEnd(count_down);
    count_down(absl::OkStatus());
  }

 private:
  void OnEnd(Worker::Done done) {
    {
      MutexLock lock(&mutex_);
      if (!ended_) {
        on_end_ = std::move(done);
        return;
      }
    }
    done(status_);
  }
  void Ended(const absl::Status& status) {
    if (!status.ok()) rendezvous_->Abort(status);
    Worker::Done on_end;
    {
      MutexLock lock(&mutex_);
      ended_ = true;
      status_ = status;
      on_end = std::move(on_end_);
      on_end_ = nullptr;
    }
    if (on_end) on_end(status);
  }

  const std::shared_ptr<WorkerSession> session_;
  const std::shared_ptr<Executable> executable_;
  const std::shared_ptr<StepRendezvous> rendezvous_;
  Cancellation cancellation_;
  ResourceManager resources_;
  TrackedStep step_;
  std::optional<Execution> execution_;
  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_;  // written once, before ended_
  Worker::Done on_end_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::pair<std::shared_ptr<WorkerPartialRuns::PartialRun>, bool>> WorkerPartialRuns::FindOrMake(
    const RunGraphCall& call, std::shared_ptr<WorkerSession> session) {
  {
    MutexLock lock(&mutex_);
    if (!cancelled_.ok()) return cancelled_;
    if (const auto it = runs_.find(call.step_id); it != runs_.end()) return std::pair(it->second, false);
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Executable> executable, session->FindPartial(call.graph_handle));
  auto run = std::make_shared<PartialRun>(environment_, call.step_id, std::move(session), std::move(executable));
  MutexLock lock(&mutex_);
  if (!cancelled_.ok()) return cancelled_;
  if (!runs_.emplace(call.step_id, run).second) return Aborted("Step ", call.step_id, " was started twice");
  return std::pair(std::move(run), true);
}

void WorkerPartialRuns::Run(const CallOptions& options, RunGraphCall call, std::shared_ptr<WorkerSession> session,
                            RunGraphResult* result, Worker::Done done) {
  const auto found = FindOrMake(call, std::move(session));
  if (!found.ok()) return done(found.status());
  const auto& [run, is_new] = *found;
  if (is_new) run->Start();
  run->Exchange(options, std::move(call), result, std::move(done));
}

void WorkerPartialRuns::Remove(int64_t step_id, const absl::Status& why) {
  std::shared_ptr<PartialRun> run;
  {
    MutexLock lock(&mutex_);
    const auto it = runs_.find(step_id);
    if (it == runs_.end()) return;
    run = std::move(it->second);
    runs_.erase(it);
  }
  run->Cancel(why);
}

void WorkerPartialRuns::RemoveOf(const WorkerSession& session, const absl::Status& why) {
  std::vector<std::shared_ptr<PartialRun>> removed;
  {
    MutexLock lock(&mutex_);
    absl::erase_if(runs_, [&](const auto& item) {
      if (&item.second->session() != &session) return false;
      removed.push_back(item.second);
      return true;
    });
  }
  for (const auto& run : removed) {
    run->Cancel(why);
    environment_.rendezvous->Remove(run->id(), why);
  }
}

void WorkerPartialRuns::CancelAll(const absl::Status& why) {
  absl::flat_hash_map<int64_t, std::shared_ptr<PartialRun>> runs;
  {
    MutexLock lock(&mutex_);
    if (cancelled_.ok()) cancelled_ = why;
    runs.swap(runs_);
  }
  for (const auto& [id, run] : runs) run->Cancel(why);
}

}  // namespace thalweg
