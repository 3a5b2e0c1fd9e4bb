#include "thalweg/ops/widen.h"

namespace thalweg {

absl::StatusOr<Tensor> Widened(KernelContext& context, const Tensor& x) {
  if (!IsHalfPrecision(x.dtype())) return x;
  ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kFloat, x.shape()));
  HalfToFloat(x.dtype(), x.raw(), wide.mutable_data<float>(), x.num_elements());
  return wide;
}

}  // namespace thalweg
