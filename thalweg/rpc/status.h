// SPDX-License-Identifier: Apache-2.0
// Conversion between absl::Status and grpc::Status.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace thalweg {

// gRPC sends error messages in headers, whose size is limited, so long messages are
// truncated. The codes have the same numbers.
inline grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  constexpr size_t kMaxBytes = 3072;
  std::string message(status.message().substr(0, kMaxBytes));
  if (status.message().size() > kMaxBytes) message += "... (cut)";
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message);
}

inline absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace thalweg
