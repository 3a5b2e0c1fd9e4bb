// SPDX-License-Identifier: Apache-2.0
// Convolution and pooling layers for images [batch, height, width, channels].
#pragma once

#include <string>

#include "thalweg/ops/arguments.h"
#include "thalweg/train/layers/layers.h"

namespace thalweg::layers {

// The size of a window or a stride: {height, width}, or one number for both.
struct Extent {
  // One number for both, or height and width:
  Extent(int64_t both) : height(both), width(both) {}  // NOLINT: implicit by design
  Extent(int64_t height, int64_t width) : height(height), width(width) {}
  int64_t height;  // in pixels
  int64_t width;   // in pixels
};

// The geometry, activation, initial values and name of a Conv2D layer.
struct Conv2DOptions {
  Extent strides = 1;                                              // step from window to window
  Padding padding = Padding::kValid;                               // kSame pads with zeros
  Extent dilation = 1;                                             // distance between the elements of a window
  Activation activation;                                           // applied to the result; empty: linear
  bool use_bias = true;                                            // add a bias
  Initializer kernel_initializer = initializers::GlorotUniform();  // initial kernel
  Initializer bias_initializer = initializers::Zeros();            // initial bias
  bool trainable = true;                                           // whether optimizers train the variables
  std::string name = "conv2d";  // prefix of the variables, made unique: conv2d, conv2d_1, ...
};

// A convolution: activation(conv(x, kernel) + bias), [batch, out_height, out_width, filters]. The
// variables are `name/kernel` [height, width, channels, filters] and `name/bias` [filters]. The
// number of channels must be known.
Output Conv2D(const Scope& s, Output x, int64_t filters, Extent window, const Conv2DOptions& options = {});

// The padding and the name of a pooling layer.
struct PoolingOptions {
  Padding padding = Padding::kValid;  // kSame pads the borders
  std::string name;                   // empty: "max_pooling2d" or "average_pooling2d"
};

// The largest element (MaxPooling2D) or the mean (AveragePooling2D) of every window:
Output MaxPooling2D(const Scope& s, Output x, Extent window, Extent strides, const PoolingOptions& options = {});
Output AveragePooling2D(const Scope& s, Output x, Extent window, Extent strides, const PoolingOptions& options = {});

}  // namespace thalweg::layers
