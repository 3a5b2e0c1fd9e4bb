// SPDX-License-Identifier: Apache-2.0
// Resampler, ResamplerGrad: values of an image between its pixels, as spatial transformers take them. Around the image
// are zeros.
#include <cmath>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

absl::Status CheckResampler(const Tensor& data, const Tensor& warp) {
  if (data.rank() != 4) {
    return Unimplemented(
        "Only bilinear interpolation is currently supported. The input data shape must be [batch_size, data_height, "
        "data_width, data_channels], but is: ",
        data.shape());
  }
  if (warp.rank() < 2) return InvalidArgument("warp should be at least a matrix, got shape ", warp.shape());
  if (warp.dim(warp.rank() - 1) != 2) {
    return Unimplemented(
        "Only bilinear interpolation is supported, warping coordinates must be 2D; warp shape last entry should be 2, "
        "but shape vector is: ",
        warp.shape());
  }
  if (data.dim(0) != warp.dim(0)) {
    return InvalidArgument("Batch size of data and warp tensor must be the same, but input shapes are: ", data.shape(),
                           ", ", warp.shape());
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> SampleShape(const Tensor& data, const Tensor& warp) {
  std::vector<int64_t> dims(warp.rank());
  for (int i = 0; i < warp.rank(); ++i) dims[i] = warp.dim(i);
  dims.back() = data.dim(3);
  return Shape::Make(dims);
}

// The four pixels around a point, and their weights: top left, top right, bottom left, bottom right. A pixel outside of
// the image has index -1. A point that is not within one pixel of the image has none.
struct Neighbours {
  Neighbours(double x, double y, int64_t height, int64_t width) {
    if (!(x > -1 && y > -1 && x < static_cast<double>(width) && y < static_cast<double>(height))) return;
    inside = true;
    const int64_t left = static_cast<int64_t>(std::floor(x)), top = static_cast<int64_t>(std::floor(y));
    right_share = x - static_cast<double>(left);
    bottom_share = y - static_cast<double>(top);
    for (int i = 0; i < 4; ++i) {
      const int64_t column = left + i % 2, row = top + i / 2;
      if (column >= 0 && row >= 0 && column < width && row < height) pixel[i] = row * width + column;
      weight[i] = (i % 2 ? right_share : 1 - right_share) * (i / 2 ? bottom_share : 1 - bottom_share);
    }
  }

  bool inside = false;
  int64_t pixel[4] = {-1, -1, -1, -1};
  double weight[4] = {};
  double right_share = 0, bottom_share = 0;
};

// Calls f(neighbours, image, sample) for each point of each image.
template <typename T, typename F>
void ForEachPoint(const Tensor& data, const Tensor& warp, F&& f) {
  if (warp.num_elements() == 0) return;  // a batch may be huge and empty
  const int64_t batch = data.dim(0), points = warp.num_elements() / batch / 2;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t p = 0; p < points; ++p) {
      const T* const at = warp.data<T>() + 2 * (b * points + p);
      f(Neighbours(static_cast<double>(at[0]), static_cast<double>(at[1]), data.dim(1), data.dim(2)), b,
        b * points + p);
    }
  }
}

absl::Status Resampler(KernelContext& c) {
  const Tensor &data = c.input(0), &warp = c.input(1);
  RETURN_IF_ERROR(CheckResampler(data, warp));
  ASSIGN_OR_RETURN(const Shape shape, SampleShape(data, warp));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  const int64_t channels = data.dim(3), image = data.dim(1) * data.dim(2) * channels;
  return Dispatch(FloatTypes(), data.dtype(), [&]<typename T>() {
    ForEachPoint<T>(data, warp, [&](const Neighbours& near, int64_t b, int64_t sample) {
      const T* const from = data.data<T>() + b * image;
      T* const to = out->mutable_data<T>() + sample * channels;
      for (int64_t k = 0; k < channels; ++k) {
        double sum = 0;
        for (int i = 0; i < 4; ++i) {
          if (near.pixel[i] >= 0) sum += near.weight[i] * static_cast<double>(from[near.pixel[i] * channels + k]);
        }
        to[k] = static_cast<T>(sum);
      }
    });
    return absl::OkStatus();
  });
}

absl::Status ResamplerGrad(KernelContext& c) {
  const Tensor &data = c.input(0), &warp = c.input(1), &dy = c.input(2);
  RETURN_IF_ERROR(CheckResampler(data, warp));
  ASSIGN_OR_RETURN(const Shape shape, SampleShape(data, warp));
  if (dy.shape() != shape) {
    return InvalidArgument("grad_output shape is not consistent with data and warp shapes; it should be ", shape,
                           " but is ", dy.shape());
  }
  // Neither output may take the memory of an input, since both inputs are read until the end.
  ASSIGN_OR_RETURN(Tensor d_data, c.AllocateTemporary(data.dtype(), data.shape()));
  ASSIGN_OR_RETURN(Tensor d_warp, c.AllocateTemporary(warp.dtype(), warp.shape()));
  const int64_t channels = data.dim(3), image = data.dim(1) * data.dim(2) * channels;
  RETURN_IF_ERROR(Dispatch(FloatTypes(), data.dtype(), [&]<typename T>() {
    std::fill_n(d_data.mutable_data<T>(), data.num_elements(), T(0));
    ForEachPoint<T>(data, warp, [&](const Neighbours& near, int64_t b, int64_t sample) {
      const T* const from = data.data<T>() + b * image;
      const T* const grad = dy.data<T>() + sample * channels;
      double dx_sum = 0, dy_sum = 0;
      for (int64_t k = 0; near.inside && k < channels; ++k) {
        const double g = static_cast<double>(grad[k]);
        double value[4] = {};
        for (int i = 0; i < 4; ++i) {
          if (near.pixel[i] < 0) continue;
          value[i] = static_cast<double>(from[near.pixel[i] * channels + k]);
          T& sum = d_data.mutable_data<T>()[b * image + near.pixel[i] * channels + k];
          sum = static_cast<T>(static_cast<double>(sum) + g * near.weight[i]);
        }
        dx_sum += g * ((1 - near.bottom_share) * (value[1] - value[0]) + near.bottom_share * (value[3] - value[2]));
        dy_sum += g * ((1 - near.right_share) * (value[2] - value[0]) + near.right_share * (value[3] - value[1]));
      }
      d_warp.mutable_data<T>()[2 * sample] = static_cast<T>(dx_sum);
      d_warp.mutable_data<T>()[2 * sample + 1] = static_cast<T>(dy_sum);
    });
    return absl::OkStatus();
  }));
  c.set_output(0, std::move(d_data));
  c.set_output(1, std::move(d_warp));
  return absl::OkStatus();
}

absl::Status ResamplerGradShape(ShapeContext& c) {
  c.set_output(0, c.input(0));
  c.set_output(1, c.input(1));
  return absl::OkStatus();
}

const OpRegistration kResamplerOps[] = {
    Op("Resampler")
        .Input("data: T")
        .Input("warp: T")
        .Output("output: T")
        .Attr("T: {half, bfloat16, float, double}")
        .Shape(shapes::Unknown)
        .Compute(Resampler)
        .NotDifferentiable(),
    Op("ResamplerGrad")
        .Input("data: T")
        .Input("warp: T")
        .Input("grad_output: T")
        .Output("grad_data: T")
        .Output("grad_warp: T")
        .Attr("T: {half, bfloat16, float, double}")
        .Shape(ResamplerGradShape)
        .Compute(ResamplerGrad)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
