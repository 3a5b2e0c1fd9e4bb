// SPDX-License-Identifier: Apache-2.0
// Layers for images, [batch, height, width, channels].
#pragma once

#include <string>

#include "thalweg/ops/arguments.h"
#include "thalweg/train/layers/layers.h"

namespace thalweg::layers {

// Of a window or a stride: {height, width}, or one number for both.
struct Extent {
  Extent(int64_t both) : height(both), width(both) {}  // NOLINT: implicit by design
  Extent(int64_t height, int64_t width) : height(height), width(width) {}
  int64_t height;
  int64_t width;
};

struct Conv2DOptions {
  Extent strides = 1;
  Padding padding = Padding::kValid;
  Extent dilation = 1;
  Activation activation;  // none: linear
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  bool trainable = true;
  std::string name = "conv2d";  // made unique: conv2d, conv2d_1, ...
};

// activation(conv(x, kernel) + bias), with the variables `name/kernel` [height,
// width, channels, filters] and `name/bias` [filters]. The number of channels
// must be known.
Output Conv2D(const Scope& s, Output x, int64_t filters, Extent window, const Conv2DOptions& options = {});

struct PoolingOptions {
  Padding padding = Padding::kValid;
  std::string name;  // "max_pooling2d", "average_pooling2d", if empty
};

// The largest element (MaxPooling2D) or the mean (AveragePooling2D) of every window:
Output MaxPooling2D(const Scope& s, Output x, Extent window, Extent strides, const PoolingOptions& options = {});
Output AveragePooling2D(const Scope& s, Output x, Extent window, Extent strides, const PoolingOptions& options = {});

}  // namespace thalweg::layers
