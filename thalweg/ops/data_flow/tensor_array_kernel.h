// What the ops on TensorArrays have in common: their three versions, of which
// the handle is a ref to strings, strings or a resource; what they check; and
// the array that gradients are collected in.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/tensor_array.h"

namespace thalweg {

using ArrayPtr = std::shared_ptr<TensorArray>;

enum class ArrayVersion { kRef = 1, kString = 2, kResource = 3 };

// The name of an op, and its input or output `name` that is a handle.
std::string ArrayOpName(absl::string_view what, ArrayVersion v);
std::string ArrayHandle(absl::string_view name, ArrayVersion v);

// An op whose first input is the handle.
Op ArrayUser(absl::string_view what, ArrayVersion v);
// Only the newest version is in the way of gradients of C++ models.
Op WithGradient(Op op, ArrayVersion v, GradientFn gradient);

// INVALID_ARGUMENT if the array has elements of another type.
absl::Status CheckArrayWrite(const TensorArray& array, const Tensor& value);
absl::Status CheckArrayRead(const TensorArray& array, DType dtype);

// What the op that made the array says of its elements.
PartialShape ArrayElementShape(const ShapeContext& c);

// The gradient of what was read is written to the array of gradients and the
// other way round; the flow of it is the gradient of the flow.
struct GradientArray {
  Output handle, flow;
};
GradientArray ArrayOfGradients(GradientContext& c, Output flow);

}  // namespace thalweg
