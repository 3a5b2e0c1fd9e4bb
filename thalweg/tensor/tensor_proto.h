// SPDX-License-Identifier: Apache-2.0
// Conversion between Tensor and TensorProto.
#pragma once

#include "absl/status/statusor.h"
#include "thalweg/proto/tensor.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Reads every encoding: tensor_content (strings: n varint32 lengths, then the bytes),
// typed fields, and typed fields with fewer values than elements (the last value
// repeats; none means zeros). A reference type is read as its base type. Returns
// INVALID_ARGUMENT, saying what was expected, for a wrong size, an invalid shape or an
// unknown type. Returns RESOURCE_EXHAUSTED if memory is short, or if the message omits
// more values than `allowance` permits.
//
// `allowance` is the number of bytes that omitted values may take. It is decremented,
// so that several tensors can share one. Pass it for messages from clients and peers,
// in which a few bytes could otherwise claim any amount of memory. nullptr means 4 GB,
// for constants of graphs, which clients often encode with a single value.
absl::StatusOr<Tensor> TensorFromProto(const tensorflow::TensorProto& proto, int64_t* allowance = nullptr);
// The same, but takes over the bytes of large numeric tensors instead of copying them.
absl::StatusOr<Tensor> TensorFromProto(tensorflow::TensorProto&& proto, int64_t* allowance = nullptr);

// Writes numbers as tensor_content and strings as string_val, like TensorFlow's own
// runtime. REQUIRES: tensor.has_value()
void TensorToProto(const Tensor& tensor, tensorflow::TensorProto* proto);
// Writes typed fields, which are readable in text form. REQUIRES: tensor.has_value()
void TensorToProtoFields(const Tensor& tensor, tensorflow::TensorProto* proto);

// Returns UNIMPLEMENTED, naming the type, if the tensor holds a variant that cannot
// leave the process. A proto would contain only its type.
absl::Status CheckEncodable(const Tensor& tensor);

}  // namespace thalweg
