// SPDX-License-Identifier: Apache-2.0
// Convolution of images and volumes whose channels come last, and its two
// gradients:
//
//   output[b, o, m] = sum over window positions k and channels c of
//                     input[b, o * stride - pad + k * dilation, c] * filter[k, c, m]
//
// With groups, the channels of input and output are divided into that many equal parts, and
// each part of the output depends only on its part of the input. The filter then has shape
// [window, input channels / groups, output channels].
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/ops/nn/window.h"

namespace thalweg {

struct ConvolutionSize {
  int64_t batch = 0;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t groups = 1;
  Windows windows;

  // Numbers of elements: input and output positions of an image (or volume), the window, and
  // the filter.
  int64_t input_positions() const { return InputPositions(windows); }
  int64_t output_positions() const { return OutputPositions(windows); }
  int64_t window_positions() const { return WindowPositions(windows); }
  int64_t input_image() const { return input_positions() * in_channels; }
  int64_t output_image() const { return output_positions() * out_channels; }
  int64_t filter() const { return window_positions() * (in_channels / groups) * out_channels; }
  // Multiplications and additions for one image.
  double flops() const {
    return 2.0 * static_cast<double>(output_positions()) * static_cast<double>(window_positions()) *
           static_cast<double>(in_channels / groups) * static_cast<double>(out_channels);
  }

  friend bool operator==(const ConvolutionSize&, const ConvolutionSize&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ConvolutionSize& s) {
    return H::combine(std::move(h), s.batch, s.in_channels, s.out_channels, s.groups, s.windows);
  }
};

enum class ConvolutionKind {
  kForward,         // (input, filter) -> output
  kBackpropInput,   // (filter, output's gradient) -> input's gradient
  kBackpropFilter,  // (input, output's gradient) -> filter's gradient
};

// oneDNN's code for one size. It is generated once and runs on the calling thread.
class OneDnnConvolution {
 public:
  // Null if the library has no fast implementation for this size.
  static std::unique_ptr<OneDnnConvolution> Make(ConvolutionKind kind, const ConvolutionSize& size);
  virtual ~OneDnnConvolution() = default;

  // The library has its own layout for filters: the size in that layout, and conversions from
  // and to it.
  virtual int64_t filter_floats() const = 0;
  virtual absl::Status PackFilter(const float* filter, float* packed) const = 0;
  virtual absl::Status UnpackFilter(const float* packed, float* filter) const = 0;
  // The size of the scratch memory for Run().
  virtual int64_t scratch_floats() const = 0;
  // Thread-safe. The filter is in the library's layout.
  virtual absl::Status Run(const float* input, const float* filter, const float* output, float* scratch) const = 0;
};

// Runs convolutions of one node. Thread-safe.
class Convolver {
 public:
  explicit Convolver(ConvolutionKind kind) : kind_(kind) {}

  // The meaning of the operands and the result depends on the kind. Their type is float,
  // double, int32, half or bfloat16. REQUIRES: they have the given sizes.
  absl::Status Run(KernelContext& context, const ConvolutionSize& size, const Tensor& a, const Tensor& b,
                   Tensor* result);

 private:
  absl::Status RunFloat(KernelContext& context, const ConvolutionSize& size, const float* a, const float* b,
                        float* result);
  std::shared_ptr<const OneDnnConvolution> Find(const ConvolutionSize& size);

  const ConvolutionKind kind_;
  Mutex mutex_;
  // Null if the library has no fast implementation.
  absl::flat_hash_map<ConvolutionSize, std::shared_ptr<const OneDnnConvolution>> made_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
