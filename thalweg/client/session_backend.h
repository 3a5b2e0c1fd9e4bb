// SPDX-License-Identifier: Apache-2.0
// Where a session's steps run: in this process, or on a server.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "thalweg/client/session.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/proto/device.pb.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {

// A compiled signature. Immutable; must not outlive its backend.
class BackendCallable {
 public:
  virtual ~BackendCallable() = default;
  // Values for the feeds of the signature, in order; results of its fetches,
  // in order.
  virtual absl::Status Run(absl::Span<const Tensor> feeds, const RunOptions& options, std::vector<Tensor>* results,
                           tensorflow::RunMetadata* metadata) const = 0;
};

// Thread-safe.
class SessionBackend {
 public:
  virtual ~SessionBackend() = default;
  // Adds nodes; all or, with an error, none.
  virtual absl::Status Extend(const tensorflow::GraphDef& def) = 0;
  virtual absl::StatusOr<std::shared_ptr<const BackendCallable>> Prepare(const Signature& signature) = 0;
  // One step, whose time counts from here.
  virtual absl::Status Run(const Signature& signature, absl::Span<const Tensor> feeds, const RunOptions& options,
                           std::vector<Tensor>* results, tensorflow::RunMetadata* metadata) = 0;
  // Those that nodes prefer come first.
  virtual absl::StatusOr<std::vector<tensorflow::DeviceAttributes>> ListDevices() = 0;
  virtual absl::Status Close() = 0;
};

std::unique_ptr<SessionBackend> MakeDirectBackend(const SessionOptions& options);
// Opens a session on the server at options.target.
absl::StatusOr<std::unique_ptr<SessionBackend>> MakeRemoteBackend(const SessionOptions& options);

}  // namespace thalweg
