// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/client/session_backend.h"
#include "thalweg/runtime/direct_session.h"

namespace thalweg {
namespace {

StepOptions StepOptionsOf(const RunOptions& options) {
  return {.timeout = options.timeout,
          .trace = options.trace,
          .partition_graphs = options.output_partition_graphs,
          .cancellation = options.cancellation};
}

class DirectCallable : public BackendCallable {
 public:
  DirectCallable(DirectSession& session, DirectSession::Callable callable)
      : session_(session), callable_(std::move(callable)) {}
  absl::Status Run(absl::Span<const Tensor> feeds, const RunOptions& options, std::vector<Tensor>* results,
                   tensorflow::RunMetadata* metadata) const override {
    return session_.Run(callable_, StepOptionsOf(options), feeds, results, metadata);
  }

 private:
  DirectSession& session_;
  const DirectSession::Callable callable_;
};

class DirectBackend : public SessionBackend {
 public:
  explicit DirectBackend(const SessionOptions& options)
      : session_({.cpus = options.cpu_devices,
                  .threads = options.threads,
                  .allow_soft_placement = options.allow_soft_placement,
                  .log_device_placement = options.log_device_placement,
                  .operation_timeout = options.operation_timeout,
                  .optimizer = options.optimizer}) {}
  absl::Status Extend(const tensorflow::GraphDef& def) override { return session_.Extend(def); }
  absl::StatusOr<std::shared_ptr<const BackendCallable>> Prepare(const Signature& signature) override {
    ASSIGN_OR_RETURN(DirectSession::Callable callable, session_.Prepare(signature));
    return std::make_shared<const DirectCallable>(session_, std::move(callable));
  }
  absl::Status Run(const Signature& signature, absl::Span<const Tensor> feeds, const RunOptions& options,
                   std::vector<Tensor>* results, tensorflow::RunMetadata* metadata) override {
    return session_.Run(signature, StepOptionsOf(options), feeds, results, metadata);
  }
  absl::StatusOr<std::vector<tensorflow::DeviceAttributes>> ListDevices() override {
    RETURN_IF_ERROR(session_.CheckOpen());
    std::vector<tensorflow::DeviceAttributes> devices;
    for (const auto& device : session_.devices().devices()) devices.push_back(device->Attributes());
    return devices;
  }
  absl::Status Close() override { return session_.Close(); }

 private:
  DirectSession session_;
};

}  // namespace

std::unique_ptr<SessionBackend> MakeDirectBackend(const SessionOptions& options) {
  return std::make_unique<DirectBackend>(options);
}

}  // namespace thalweg
