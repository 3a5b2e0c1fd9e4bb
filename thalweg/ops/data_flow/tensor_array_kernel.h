// SPDX-License-Identifier: Apache-2.0
// Shared by the ops on TensorArrays: their three versions, in which the handle is a ref to strings,
// strings, or a resource; argument checks; and the array that collects gradients.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/tensor_array.h"

namespace thalweg {

using ArrayPtr = std::shared_ptr<TensorArray>;

enum class ArrayVersion { kRef = 1, kString = 2, kResource = 3 };

// The name of an op, and the specification of its handle `name`.
std::string ArrayOpName(absl::string_view what, ArrayVersion v);
std::string ArrayHandle(absl::string_view name, ArrayVersion v);

// An op whose first input is the handle.
Op ArrayUser(absl::string_view what, ArrayVersion v);
// Sets the gradient for the newest version only, which is the one that C++ models use.
Op WithGradient(Op op, ArrayVersion v, GradientFn gradient);

// INVALID_ARGUMENT if the array has elements of another type.
absl::Status CheckArrayWrite(const TensorArray& array, const Tensor& value);
absl::Status CheckArrayRead(const TensorArray& array, DType dtype);

// The element shape that the op which created the array declares.
PartialShape ArrayElementShape(const ShapeContext& c);

// The gradient of a read is a write to the gradient array, and vice versa. The flow of the gradient
// array is the gradient of the flow.
struct GradientArray {
  Output handle, flow;
};
GradientArray ArrayOfGradients(GradientContext& c, Output flow);

}  // namespace thalweg
