// SPDX-License-Identifier: Apache-2.0
// Sliding windows over the spatial dimensions of images and volumes, shared by
// convolution and pooling. There are always three spatial dimensions; an image is a
// volume of depth 1.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "thalweg/graph/shape_context.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

// One spatial dimension. Output position o covers the input positions
// o * stride - pad_before + k * dilation, 0 <= k < window.
struct SlidingWindow {
  int64_t input = 1;
  int64_t window = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t output = 1;
  int64_t pad_before = 0;
  int64_t pad_after = 0;

  // The first input position of output position o; it may be outside.
  int64_t Start(int64_t o) const { return o * stride - pad_before; }
  // The input positions of output position o that are inside. REQUIRES: no dilation.
  int64_t Begin(int64_t o) const { return std::max<int64_t>(0, Start(o)); }
  int64_t End(int64_t o) const { return std::min(Start(o) + window, input); }
  // Sets the output size and, unless the padding is EXPLICIT, the padding.
  // INVALID_ARGUMENT if the window does not fit.
  absl::Status Slide(absl::string_view padding);

  friend bool operator==(const SlidingWindow&, const SlidingWindow&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const SlidingWindow& w) {
    return H::combine(std::move(h), w.input, w.window, w.stride, w.dilation, w.output, w.pad_before);
  }
};
using Windows = std::array<SlidingWindow, 3>;  // depth, height, width

inline int64_t InputPositions(const Windows& w) { return w[0].input * w[1].input * w[2].input; }
inline int64_t OutputPositions(const Windows& w) { return w[0].output * w[1].output * w[2].output; }
inline int64_t WindowPositions(const Windows& w) { return w[0].window * w[1].window * w[2].window; }

// Calls f(position) for the input positions inside the window of output position (z, y,
// x), in row-major order. REQUIRES: no dilation.
template <typename F>
[[gnu::always_inline]] inline void ForWindow(const Windows& w, int64_t z, int64_t y, int64_t x, const F& f) {
  const int64_t x_begin = w[2].Begin(x), x_end = w[2].End(x), y_begin = w[1].Begin(y), y_end = w[1].End(y);
  for (int64_t i = w[0].Begin(z); i < w[0].End(z); ++i) {
    for (int64_t j = y_begin; j < y_end; ++j) {
      const int64_t row = (i * w[1].input + j) * w[2].input;
      for (int64_t k = x_begin; k < x_end; ++k) f(row + k);
    }
  }
}

// The same for output position o. Slower for adjacent positions: the divisions take as long
// as a row of channels.
template <typename F>
[[gnu::always_inline]] inline void ForWindow(const Windows& w, int64_t o, const F& f) {
  ForWindow(w, o / (w[2].output * w[1].output), o / w[2].output % w[1].output, o % w[2].output, f);
}

// The attributes of convolution and pooling ops.
struct WindowAttrs {
  int spatial = 2;  // dimensions: images or volumes
  bool channels_first = false;
  std::string padding = "VALID";
  std::vector<int64_t> explicit_paddings;
  std::vector<int64_t> ksize;  // window of a pooling op; for all dimensions, like the fields below
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;

  // Reads and checks the attributes of a node: INVALID_ARGUMENT or UNIMPLEMENTED. Check()
  // checks lists that are inputs of the op.
  static absl::StatusOr<WindowAttrs> Read(const tensorflow::NodeDef& def, int spatial);
  absl::Status Check() const;

  int rank() const { return spatial + 2; }
  int channel_dim() const { return channels_first ? 1 : spatial + 1; }
  int spatial_dim(int i) const { return i + (channels_first ? 2 : 1); }

  // The windows over an input of these dimensions, of the given sizes (one per
  // spatial dimension). REQUIRES: rank() dimensions.
  absl::StatusOr<Windows> Slide(absl::Span<const int64_t> input, absl::Span<const int64_t> sizes) const;
  // With the sizes from ksize.
  absl::StatusOr<Windows> SlideKsize(absl::Span<const int64_t> input) const;
  // The shape of a result with `channels` channels.
  absl::StatusOr<Shape> OutputShape(int64_t batch, const Windows& windows, int64_t channels) const;

  // The inferred shape of the result. Sizes and dimensions may be -1 (unknown).
  // INVALID_ARGUMENT if they do not fit.
  absl::StatusOr<PartialShape> InferOutput(const PartialShape& input, absl::Span<const int64_t> sizes,
                                           int64_t channels) const;

 private:
  absl::StatusOr<SlidingWindow> SlideOne(int i, int64_t input, int64_t size) const;
};

}  // namespace thalweg
