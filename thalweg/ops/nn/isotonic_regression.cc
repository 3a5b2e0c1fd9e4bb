// SPDX-License-Identifier: Apache-2.0
// IsotonicRegression: of each row (the last dimension) the sequence that never
// rises and is nearest to it in the sum of squares, and the number of the
// segment of equal values that each element is in. Neighbours that rise are
// pooled, and their mean takes their place (Ayer et al. 1955).
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

absl::Status ComputeRegression(KernelContext& c) {
  const Tensor x = c.input(0);
  if (x.rank() < 1) return InvalidArgument("IsotonicRegression: input must be at least a vector");
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, x.shape()));
  ASSIGN_OR_RETURN(Tensor* const segments, c.Allocate(1, x.shape()));
  const int64_t n = x.dim(x.rank() - 1), rows = n == 0 ? 0 : x.num_elements() / n;
  return Dispatch(RealTypes(), x.dtype(), [&]<typename T>() {
    return Dispatch(Types<float, double, Half, BFloat16>(), out->dtype(), [&]<typename R>() {
      struct Pool {
        double sum;
        int64_t count;
        double mean() const { return sum / static_cast<double>(count); }
      };
      for (int64_t r = 0; r < rows; ++r) {
        std::vector<Pool> pools;
        for (int64_t i = 0; i < n; ++i) {
          pools.push_back({static_cast<double>(x.data<T>()[r * n + i]), 1});
          while (pools.size() > 1 && pools[pools.size() - 2].mean() < pools.back().mean()) {
            const Pool last = pools.back();
            pools.pop_back();
            pools.back().sum += last.sum;
            pools.back().count += last.count;
          }
        }
        int64_t at = r * n;
        for (size_t k = 0; k < pools.size(); ++k) {
          for (int64_t i = 0; i < pools[k].count; ++i, ++at) {
            out->mutable_data<R>()[at] = static_cast<R>(pools[k].mean());
            segments->mutable_data<int32_t>()[at] = static_cast<int32_t>(k);
          }
        }
      }
      return absl::OkStatus();
    });
  });
}

const OpRegistration kIsotonicRegression = Op("IsotonicRegression")
                                               .Input("input: T")
                                               .Output("output: output_dtype")
                                               .Output("segments: int32")
                                               .Attr("T: realnumbertype")
                                               .Attr("output_dtype: {half, bfloat16, float, double} = DT_FLOAT")
                                               .Shape(shapes::LikeInput0)
                                               .Compute(ComputeRegression);

}  // namespace
}  // namespace thalweg
