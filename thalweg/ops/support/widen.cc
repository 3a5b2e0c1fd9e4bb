#include "thalweg/ops/support/widen.h"

namespace thalweg {

absl::StatusOr<Tensor> Widened(KernelContext& context, const Tensor& x) {
  if (!IsHalfPrecision(x.dtype())) return x;
  ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kFloat, x.shape()));
  HalfToFloat(x.dtype(), x.raw(), wide.mutable_data<float>(), x.num_elements());
  return wide;
}

absl::StatusOr<const float*> WideCall::Input(int i) {
  const Tensor& x = context_.input(i);
  if (!IsHalfPrecision(x.dtype())) return x.data<float>();
  ASSIGN_OR_RETURN(Tensor wide, Widened(context_, x));
  return inputs_.emplace_back(std::move(wide)).data<float>();
}

absl::StatusOr<float*> WideCall::Output(int i, const Shape& shape) {
  ASSIGN_OR_RETURN(Tensor * output, context_.Allocate(i, shape));
  if (!IsHalfPrecision(output->dtype())) return output->mutable_data<float>();
  ASSIGN_OR_RETURN(Tensor wide, context_.AllocateTemporary(kFloat, shape));
  return outputs_.emplace_back(output, std::move(wide)).second.mutable_data<float>();
}

void WideCall::Finish() {
  for (auto& [narrow, wide] : outputs_) {
    FloatToHalf(narrow->dtype(), wide.data<float>(), narrow->raw(), wide.num_elements());
  }
}

}  // namespace thalweg
