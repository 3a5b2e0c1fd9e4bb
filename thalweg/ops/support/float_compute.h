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

// A tensor as float, if it is of half precision.
absl::StatusOr<Tensor> AsFloat(KernelContext& context, const Tensor& x);

// Calls compute(result) with output 0, or with a float tensor that is narrowed
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

// The same for kernels of several outputs: inputs and outputs as floats. What is
// of half precision is a copy; Finish() narrows that of the outputs.
class FloatComputation {
 public:
  explicit FloatComputation(KernelContext& context) : context_(context) {}
  // REQUIRES: input i is float or of half precision; so is output i.
  absl::StatusOr<const float*> Input(int i);
  absl::StatusOr<float*> Output(int i, const Shape& shape);
  void Finish();

 private:
  KernelContext& context_;
  std::vector<Tensor> inputs_;                       // copies
  std::vector<std::pair<Tensor*, Tensor>> outputs_;  // that are narrowed, and their copies
};

}  // namespace thalweg
