// SPDX-License-Identifier: Apache-2.0
// AdjustContrast and RandomCrop: ops of TensorFlow's first graphs, which newer
// graphs may not have.
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/seeds.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

using CroppedTypes = Types<uint8_t, int8_t, int16_t, int32_t, int64_t, float, double>;

// Each channel's distance from its mean, times a factor, within bounds.
absl::Status ComputeContrast(KernelContext& c) {
  const Tensor x = c.input(0);
  if (x.rank() < 3) return InvalidArgument("input must be at least 3-D, got shape", x.shape());
  for (int i = 1; i < 4; ++i) {
    if (c.input(i).rank() != 0) return InvalidArgument("input ", i, " must be scalar: ", c.input(i).shape());
  }
  const float factor = c.input(1).scalar<float>(), low = c.input(2).scalar<float>(), high = c.input(3).scalar<float>();
  if (!(low <= high)) return InvalidArgument("min_value ", low, " is larger than max_value ", high);
  ASSIGN_OR_RETURN(Tensor* const y, c.Allocate(0, x.shape()));
  if (x.num_elements() == 0) return absl::OkStatus();
  const int64_t channels = x.dim(x.rank() - 1), pixels = x.dim(x.rank() - 2) * x.dim(x.rank() - 3);
  const int64_t images = x.num_elements() / (channels * pixels);
  return Dispatch(CroppedTypes(), x.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < images * channels; ++i) {
      const int64_t first = i / channels * pixels * channels + i % channels;
      double sum = 0;
      for (int64_t p = 0; p < pixels; ++p) sum += static_cast<double>(x.data<T>()[first + p * channels]);
      const float mean = static_cast<float>(sum / static_cast<double>(pixels));
      for (int64_t p = 0; p < pixels; ++p) {
        const float value = static_cast<float>(x.data<T>()[first + p * channels]);
        y->mutable_data<float>()[first + p * channels] = std::clamp((value - mean) * factor + mean, low, high);
      }
    }
    return absl::OkStatus();
  });
}

class RandomCropKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override { return SeedFromAttrs(init, &generator_); }

  absl::Status Compute(KernelContext& c) override {
    const Tensor x = c.input(0), size = c.input(1);
    if (x.rank() != 3) return InvalidArgument("input must be 3-dimensional", x.shape());
    if (size.rank() != 1 || size.num_elements() != 2) {
      return InvalidArgument("size must be 1-dimensional and have 2 elements", size.shape());
    }
    const int64_t height = size.data<int64_t>()[0], width = size.data<int64_t>()[1];
    if (height < 0 || height > x.dim(0) || width < 0 || width > x.dim(1)) {
      return FailedPrecondition("width must be >= target_width: width = ", x.dim(1), ", target_width = ", width,
                                "; height = ", x.dim(0), ", target_height = ", height);
    }
    ASSIGN_OR_RETURN(Tensor* const y, c.Allocate(0, Shape({height, width, x.dim(2)})));
    PhiloxSingle next(generator_.Reserve(1));
    const int64_t top = next() % static_cast<uint64_t>(x.dim(0) - height + 1);
    const int64_t left = next() % static_cast<uint64_t>(x.dim(1) - width + 1);
    const Dims strides = RowMajorStrides(x.shape().dims());
    return CopyStrided(c, y->shape().dims(), x, {.offset = top * strides[0] + left * strides[1], .strides = strides}, y,
                       {.strides = RowMajorStrides(y->shape().dims())});
  }

 private:
  SharedPhilox generator_;
};

const OpRegistration kRemovedImageOpsOps[] = {
    Op("AdjustContrast")
        .Input("images: T")
        .Input("contrast_factor: float")
        .Input("min_value: float")
        .Input("max_value: float")
        .Output("output: float")
        .Attr("T: {uint8, int8, int16, int32, int64, float, double}")
        .Shape(shapes::LikeInput0)
        .Compute(ComputeContrast)
        .NotDifferentiable(),
    Op("RandomCrop")
        .Input("image: T")
        .Input("size: int64")
        .Output("output: T")
        .Attr("T: {uint8, int8, int16, int32, int64, float, double}")
        .Attr("seed: int = 0")
        .Attr("seed2: int = 0")
        .Stateful()
        .Shape(shapes::Unknown)
        .Kernel<RandomCropKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
