// SPDX-License-Identifier: Apache-2.0
// For kernels that compute half precision in float.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Converts a half-precision tensor to float; returns others unchanged.
absl::StatusOr<Tensor> AsFloat(KernelContext& context, const Tensor& x);

// Calls compute(result) with output 0 or, if that has half precision, with a float tensor that is converted
// to it.
template <typename F>
absl::Status ComputeInFloat(KernelContext& context, const Shape& shape, const F& compute) {
  ASSIGN_OR_RETURN(Tensor * output, context.Allocate(0, shape));
  if (!IsHalfPrecision(output->dtype())) return compute(output);
  ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kFloat, shape));
  RETURN_IF_ERROR(compute(&wide));
  FloatToHalf(output->dtype(), wide.data<float>(), output->raw(), wide.num_elements());
  return absl::OkStatus();
}

// The same for kernels with several outputs. Inputs and outputs of half precision are float copies; Finish()
// converts the outputs back.
class FloatComputation {
 public:
  explicit FloatComputation(KernelContext& context) : context_(context) {}
  // REQUIRES: input i and output i are float or half precision.
  absl::StatusOr<const float*> Input(int i);
  absl::StatusOr<float*> Output(int i, const Shape& shape);
  void Finish();

 private:
  KernelContext& context_;
  std::vector<Tensor> inputs_;                       // copies
  std::vector<std::pair<Tensor*, Tensor>> outputs_;  // half-precision outputs and their float copies
};

}  // namespace thalweg
