// RecvBufResponse: the bytes that one member of a collective sends to another.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/statusor.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Large values lie in the message as their own memory, which it keeps alive.
// RESOURCE_EXHAUSTED if it is larger than a message can be (2 GB).
absl::StatusOr<grpc::ByteBuffer> SerializeRecvBufResponse(const Tensor& value);

// Copies the bytes into the memory of `value`. INVALID_ARGUMENT if it is no such
// message, INTERNAL if there are more or fewer of them.
absl::Status ParseRecvBufResponse(grpc::ByteBuffer& buffer, Tensor* value);

}  // namespace thalweg
