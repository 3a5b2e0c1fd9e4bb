// SPDX-License-Identifier: Apache-2.0
// The master service, as clients see it. LocalMaster implements it; rpc/ has a stub that
// forwards calls to another process.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/proto/master.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct RunStepCall {
  std::string session_handle;
  std::vector<std::pair<std::string, Tensor>> feeds;  // "node:0" and its value
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  tensorflow::RunOptions options;
  std::string partial_run_handle;
};

struct RunCallableCall {
  std::string session_handle;
  int64_t handle = 0;                             // as MakeCallable() returned it
  std::vector<Tensor> feeds;                      // in the order of the callable's feeds
  std::optional<tensorflow::RunOptions> options;  // options of this step; nullopt: those of the callable
};

struct RunStepResult {
  std::vector<Tensor> fetches;  // in the order of the call
  tensorflow::RunMetadata metadata;
  // True if the step itself failed, false if the call could not be served.
  bool step_failed = false;
};

// Thread-safe. `done` runs as in Worker. Calls may block until it has run.
class Master {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  virtual ~Master() = default;

  // Checks that a session exists before the rest of a call is decoded. A stub returns OK:
  // the remote master checks.
  virtual absl::Status CheckSession(const std::string& handle) { return absl::OkStatus(); }

  virtual void CreateSession(const CallOptions& options, const tensorflow::CreateSessionRequest& request,
                             tensorflow::CreateSessionResponse* response, Done done) = 0;
  virtual void ExtendSession(const CallOptions& options, const tensorflow::ExtendSessionRequest& request,
                             tensorflow::ExtendSessionResponse* response, Done done) = 0;
  virtual void RunStep(const CallOptions& options, RunStepCall call, RunStepResult* result, Done done) = 0;
  virtual void PartialRunSetup(const CallOptions& options, const tensorflow::PartialRunSetupRequest& request,
                               tensorflow::PartialRunSetupResponse* response, Done done) = 0;
  virtual void CloseSession(const CallOptions& options, const tensorflow::CloseSessionRequest& request, Done done) = 0;
  virtual void ListDevices(const CallOptions& options, const tensorflow::ListDevicesRequest& request,
                           tensorflow::ListDevicesResponse* response, Done done) = 0;
  virtual void Reset(const CallOptions& options, const tensorflow::ResetRequest& request, Done done) = 0;
  virtual void MakeCallable(const CallOptions& options, const tensorflow::MakeCallableRequest& request,
                            tensorflow::MakeCallableResponse* response, Done done) = 0;
  virtual void RunCallable(const CallOptions& options, RunCallableCall call, RunStepResult* result, Done done) = 0;
  virtual void ReleaseCallable(const CallOptions& options, const tensorflow::ReleaseCallableRequest& request,
                               Done done) = 0;
};

}  // namespace thalweg
