// SPDX-License-Identifier: Apache-2.0
// RecvBufResponse: the bytes that one member of a collective sends to another.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/statusor.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The message refers to the memory of large values and keeps it alive.
// RESOURCE_EXHAUSTED if the message exceeds 2 GB.
absl::StatusOr<grpc::ByteBuffer> SerializeRecvBufResponse(const Tensor& value);

// Copies the bytes into the memory of `value`. INVALID_ARGUMENT if the message does not
// parse, INTERNAL if it has more or fewer bytes.
absl::Status ParseRecvBufResponse(grpc::ByteBuffer& buffer, Tensor* value);

}  // namespace thalweg
