// SPDX-License-Identifier: Apache-2.0
// Shared by the max pooling ops, their gradients and second gradients: finding the first
// largest element of a window per channel, and checking inputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/nn/window.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/float_compute.h"

namespace thalweg {

// Half precision is computed in float, which is exact: results are elements of the input.
using MaxPoolTypes = Types<float, double, int32_t, int64_t, uint8_t, int16_t, int8_t, uint16_t, uint32_t, uint64_t>;

// Attributes of the ops.
inline constexpr char kPoolPadding[] = "padding: {'SAME', 'VALID'}";
inline constexpr char kPoolExplicitPadding[] = "padding: {'SAME', 'VALID', 'EXPLICIT'}";
inline constexpr char kPoolVolumeFormat[] = "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'";

// The input of a pooling, with its channels last.
struct Pool {
  Windows windows;
  int64_t batch = 0;
  int64_t channels = 0;

  int64_t input_image() const { return InputPositions(windows) * channels; }
  int64_t output_image() const { return OutputPositions(windows) * channels; }
  // Estimated nanoseconds per image.
  double nanos() const {
    return 0.3 * static_cast<double>(WindowPositions(windows)) * static_cast<double>(output_image());
  }
};

// Finds, for every channel of the window at output position o, the position of the first
// largest element. The first element counts even if it is NaN.
template <typename T>
[[gnu::always_inline]] inline void FirstLargest(const Pool& p, const T* image, int64_t o, T* best, int32_t* where) {
  const int64_t n = p.channels;
  bool first = true;
  ForWindow(p.windows, o, [&](int64_t position) {
    const T* x = image + position * n;
    const int32_t here = static_cast<int32_t>(position);
    if (first) {
      std::copy_n(x, n, best);
      std::fill_n(where, n, here);
      first = false;
      return;
    }
#pragma GCC ivdep
    for (int64_t c = 0; c < n; ++c) {
      where[c] = best[c] < x[c] ? here : where[c];
      best[c] = best[c] < x[c] ? x[c] : best[c];
    }
  });
}

// Base class of the pooling kernels: reads the attributes and computes sizes.
class PoolKernel : public Kernel {
 public:
  explicit PoolKernel(int spatial) : spatial_(spatial) {}

  absl::Status Init(const KernelInit& init) override;

 protected:
  // The attributes. For V2 ops, ksize and strides are inputs `first` and `first` + 1.
  absl::StatusOr<WindowAttrs> Attrs(KernelContext& context, int first) const;
  static absl::StatusOr<Pool> PoolOf(const WindowAttrs& attrs, const Shape& input);
  static absl::Status CheckShape(const char* what, const Tensor& t, const Shape& expected);

  const int spatial_;
  WindowAttrs attrs_;
};

// The shape of every output, of images (spatial = 2) or volumes (3).
absl::Status InferMaxPool(ShapeContext& c, int spatial);
template <int spatial>
absl::Status MaxPoolShape(ShapeContext& c) {
  return InferMaxPool(c, spatial);
}

// The attributes of a node that its gradient has too.
std::vector<AttrArg> MaxPoolAttrs(const Node& node);

}  // namespace thalweg
