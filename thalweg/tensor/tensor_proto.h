// Tensors in and out of TensorProto.
#pragma once

#include "absl/status/statusor.h"
#include "thalweg/proto/tensor.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Reads every encoding: tensor_content (strings: n varint32 lengths, then the
// bytes), typed fields, and typed fields with fewer values than elements (the
// last one repeats; none means zeros). A reference type is read as its base.
// INVALID_ARGUMENT, saying what was got and expected, for a wrong size, an
// invalid shape or an unknown type. RESOURCE_EXHAUSTED if memory is short, or
// if the message leaves out more values than it may.
//
// `allowance` is how many bytes of repeated values tensors may take beyond those
// that came with their messages; this one's are taken off. Calls of others give
// one, since a few bytes could claim any amount of memory. nullptr: 4 GB, for the
// constants of graphs, which clients write with one value.
absl::StatusOr<Tensor> TensorFromProto(const tensorflow::TensorProto& proto, int64_t* allowance = nullptr);
// The same; takes the bytes of many numbers over instead of copying them.
absl::StatusOr<Tensor> TensorFromProto(tensorflow::TensorProto&& proto, int64_t* allowance = nullptr);

// Numbers as tensor_content, strings as string_val: what TensorFlow's own
// runtime writes. REQUIRES: tensor.has_value()
void TensorToProto(const Tensor& tensor, tensorflow::TensorProto* proto);
// Everything in typed fields: readable in text form. REQUIRES: tensor.has_value()
void TensorToProtoFields(const Tensor& tensor, tensorflow::TensorProto* proto);

// UNIMPLEMENTED, naming the type, if a variant of the tensor cannot leave the
// process: in a proto only its type would be left.
absl::Status CheckEncodable(const Tensor& tensor);

}  // namespace thalweg
