// SPDX-License-Identifier: Apache-2.0
// The master service of this server: creates sessions and dispatches calls to them.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/master/master.h"
#include "thalweg/cluster/master/master_session.h"
#include "thalweg/cluster/membership.h"
#include "thalweg/cluster/peer_health.h"
#include "thalweg/cluster/worker/local_worker.h"

namespace thalweg {

struct LocalMasterOptions {
  TaskId task;
  LocalDevices* devices = nullptr;   // borrowed
  Membership* membership = nullptr;  // borrowed
  std::shared_ptr<Workers> workers;
  WorkersFactory make_workers;             // for sessions with their own cluster definition
  tensorflow::ConfigProto default_config;  // defaults for what a session does not set
  PeerHealth* health = nullptr;            // borrowed; shared with the server's worker
  UpdateGate* gate = nullptr;              // borrowed; shared with the server's worker
  CollectiveStepIds* sequences = nullptr;  // borrowed; shared with the server's worker
  TaskMonitor* monitor = nullptr;          // borrowed; nullptr: nothing is recorded
  // A session is closed if it runs no step and no client has called it for this long.
  absl::Duration client_lease = absl::Hours(24);
  int max_sessions = 10'000;
};

class LocalMaster : public Master {
 public:
  explicit LocalMaster(const LocalMasterOptions& options) : options_(options) {}
  ~LocalMaster() override { CloseAll(); }

  absl::Status CheckSession(const std::string& handle) override { return Find(handle).status(); }
  void CreateSession(const CallOptions& options, const tensorflow::CreateSessionRequest& request,
                     tensorflow::CreateSessionResponse* response, Done done) override;
  void ExtendSession(const CallOptions& options, const tensorflow::ExtendSessionRequest& request,
                     tensorflow::ExtendSessionResponse* response, Done done) override;
  void RunStep(const CallOptions& options, RunStepCall call, RunStepResult* result, Done done) override;
  void PartialRunSetup(const CallOptions& options, const tensorflow::PartialRunSetupRequest& request,
                       tensorflow::PartialRunSetupResponse* response, Done done) override;
  void CloseSession(const CallOptions& options, const tensorflow::CloseSessionRequest& request, Done done) override;
  void ListDevices(const CallOptions& options, const tensorflow::ListDevicesRequest& request,
                   tensorflow::ListDevicesResponse* response, Done done) override;
  void Reset(const CallOptions& options, const tensorflow::ResetRequest& request, Done done) override;
  void MakeCallable(const CallOptions& options, const tensorflow::MakeCallableRequest& request,
                    tensorflow::MakeCallableResponse* response, Done done) override;
  void RunCallable(const CallOptions& options, RunCallableCall call, RunStepResult* result, Done done) override;
  void ReleaseCallable(const CallOptions& options, const tensorflow::ReleaseCallableRequest& request,
                       Done done) override;

  // Closes all sessions and ends their running steps.
  void CloseAll();
  int num_sessions() const;

 private:
  class Creation;
  struct Entry {
    std::shared_ptr<MasterSession> session;
    int64_t used_nanos = 0;  // when a client last called it
  };

  absl::Status Add(const std::shared_ptr<MasterSession>& session);
  void SetAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Closes the sessions whose client lease has expired.
  void CloseAbandoned();
  void CleanUpAll(const CallOptions& options, const ClusterDevices& devices, const tensorflow::ResetRequest& request,
                  Done done);
  absl::StatusOr<std::shared_ptr<MasterSession>> Find(const std::string& handle);

  const LocalMasterOptions options_;
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, Entry> sessions_ ABSL_GUARDED_BY(mutex_);
  bool alarm_set_ ABSL_GUARDED_BY(mutex_) = false;
  Timer timer_;  // the last member: destroyed first, so that no alarm uses the others
};

}  // namespace thalweg
