// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/float_compute.h"

namespace thalweg {

absl::StatusOr<Tensor> AsFloat(KernelContext& context, const Tensor& x) {
  if (!IsHalfPrecision(x.dtype())) return x;
  ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kFloat, x.shape()));
  HalfToFloat(x.dtype(), x.raw(), wide.mutable_data<float>(), x.num_elements());
  return wide;
}

absl::StatusOr<const float*> FloatComputation::Input(int i) {
  const Tensor& x = context_.input(i);
  if (!IsHalfPrecision(x.dtype())) return x.data<float>();
  ASSIGN_OR_RETURN(Tensor wide, AsFloat(context_, x));
  return inputs_.emplace_back(std::move(wide)).data<float>();
}

absl::StatusOr<float*> FloatComputation::Output(int i, const Shape& shape) {
  ASSIGN_OR_RETURN(Tensor * output, context_.Allocate(i, shape));
  if (!IsHalfPrecision(output->dtype())) return output->mutable_data<float>();
  ASSIGN_OR_RETURN(Tensor wide, context_.AllocateTemporary(kFloat, shape));
  return outputs_.emplace_back(output, std::move(wide)).second.mutable_data<float>();
}

void FloatComputation::Finish() {
  for (auto& [narrow, wide] : outputs_) {
    FloatToHalf(narrow->dtype(), wide.data<float>(), narrow->raw(), wide.num_elements());
  }
}

}  // namespace thalweg
