// SPDX-License-Identifier: Apache-2.0
// How a worker forwards a pause of updates to the masters of its sessions.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/worker/local_worker.h"

namespace thalweg {
namespace {

const int64_t kFormerMasterNanos = absl::ToInt64Nanoseconds(UpdateGate::kRepeatTimeout);

}  // namespace

void LocalWorker::RememberMaster(const WorkerSession& session) {
  if (session.workers() == nullptr || session.master_task() == session.task()) return;
  Worker* const worker = session.workers()->Find(session.master_task());
  if (worker == nullptr) return;
  std::erase_if(former_masters_, [&](const FormerMaster& former) {
    return former.peer.worker == worker || former.closed_nanos < NowNanos() - kFormerMasterNanos;
  });
  former_masters_.push_back({{session.master_task(), worker, session.workers()}, NowNanos()});
}

std::vector<Peer> LocalWorker::OtherMasters() const {
  std::vector<Peer> masters;
  MutexLock lock(&mutex_);
  for (const auto& [handle, session] : sessions_) {
    if (session->master_task() == session->task()) continue;
    Worker* const master = session->workers()->Find(session->master_task());
    const bool known = std::any_of(masters.begin(), masters.end(), [&](const Peer& p) { return p.worker == master; });
    if (master != nullptr && !known) masters.push_back({session->master_task(), master, session->workers()});
  }
  for (const FormerMaster& former : former_masters_) {
    const bool known =
        std::any_of(masters.begin(), masters.end(), [&](const Peer& p) { return p.worker == former.peer.worker; });
    if (!known && former.closed_nanos > NowNanos() - kFormerMasterNanos) masters.push_back(former.peer);
  }
  return masters;
}

void LocalWorker::PauseOwn(const tensorflow::PauseUpdatesRequest& request, Done done) {
  if (options_.gate == nullptr) return done(absl::OkStatus());
  if (!request.resume()) {
    return options_.gate->Pause(request.id(), absl::Milliseconds(request.lease_ms()), std::move(done),
                                request.overwrites());
  }
  done(options_.gate->Resume(request.id()));
}

// Does not wait until the master's steps have ended: none of them is a step of this session. Renewals of the pause, and
// its end, reach the master as those of the other sessions.
void LocalWorker::RelayPauses(const std::string& handle) {
  if (options_.gate == nullptr) return;
  const std::vector<uint64_t> pauses = options_.gate->pauses();
  if (pauses.empty()) return;
  Peer master;
  {
    MutexLock lock(&mutex_);
    const auto it = sessions_.find(handle);
    if (it == sessions_.end() || it->second->master_task() == it->second->task()) return;
    master = {it->second->master_task(), it->second->workers()->Find(it->second->master_task()), it->second->workers()};
  }
  if (master.worker == nullptr) return;
  for (const uint64_t id : pauses) {
    auto request = std::make_shared<tensorflow::PauseUpdatesRequest>();
    request->set_id(id);
    request->set_lease_ms(absl::ToInt64Milliseconds(UpdateGate::kRelayedLease));
    master.worker->PauseUpdates({.timeout = UpdateGate::kRelayedLease}, *request,
                                [request, workers = master.workers](const absl::Status&) {});
  }
}

void LocalWorker::PauseUpdates(const CallOptions& options, const tensorflow::PauseUpdatesRequest& request, Done done) {
  if (!request.held_by().empty()) {
    if (options_.gate != nullptr) options_.gate->Held(request.id(), request.held_by());
    return done(absl::OkStatus());
  }
  constexpr int64_t kMaxLeaseMs = 60'000;
  if (request.lease_ms() < 0 || request.lease_ms() > kMaxLeaseMs) {
    return done(InvalidArgument("PauseUpdates: lease_ms is ", request.lease_ms(), ", expected 0 to ", kMaxLeaseMs));
  }
  struct Pauses {
    std::vector<Peer> masters;
    tensorflow::PauseUpdatesRequest request;
    Mutex mutex;
    int left ABSL_GUARDED_BY(mutex) = 0;
    absl::Status status ABSL_GUARDED_BY(mutex);
    Done done;

    void Ended(const absl::Status& ended) {
      absl::Status first;
      {
        MutexLock lock(&mutex);
        // One that is gone runs no steps; TensorFlow's do not know of this.
        if (!absl::IsUnavailable(ended) && !absl::IsUnimplemented(ended)) status.Update(ended);
        if (--left > 0) return;
        first = status;
      }
      done(first);
    }
  };
  const auto pauses = std::make_shared<Pauses>();
  if (request.relay()) pauses->masters = OtherMasters();
  pauses->request = request;
  pauses->request.set_relay(false);
  pauses->done = std::move(done);
  {
    MutexLock lock(&pauses->mutex);
    pauses->left = static_cast<int>(pauses->masters.size()) + 1;
  }
  for (const Peer& master : pauses->masters) {
    master.worker->PauseUpdates(options, pauses->request,
                                [pauses](const absl::Status& status) { pauses->Ended(status); });
  }
  PauseOwn(pauses->request, [pauses](const absl::Status& status) { pauses->Ended(status); });
}

}  // namespace thalweg
