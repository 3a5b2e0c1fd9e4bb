// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/layers/convolution_layers.h"

#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/train/layers/check_layer.h"
#include "thalweg/train/layers/variable.h"

namespace thalweg::layers {
namespace {

std::vector<int64_t> PerDimension(const Extent& e) { return {1, e.height, e.width, 1}; }

absl::Status CheckImages(const Output& x) {
  if (x.shape().rank() == 4) return absl::OkStatus();
  return InvalidArgument("the input must be [batch, height, width, channels], got ", x.shape());
}

absl::Status CheckConv2D(const Output& x, int64_t filters, const Extent& window) {
  RETURN_IF_ERROR(CheckFloating(x));
  RETURN_IF_ERROR(CheckImages(x));
  if (filters <= 0 || window.height <= 0 || window.width <= 0) {
    return InvalidArgument("filters and the window must be positive, got ", filters, " and ", window.height, "x",
                           window.width);
  }
  if (x.shape().dim(3) < 0) return InvalidArgument("the number of channels must be known, got ", x.shape());
  return absl::OkStatus();
}

using Pool = Output (*)(const Scope&, Output, const std::vector<int64_t>&, const std::vector<int64_t>&, Padding);
Output Pooled(const Scope& s, absl::string_view layer, absl::string_view default_name, Pool pool, Output x,
              const Extent& window, const Extent& strides, const PoolingOptions& options) {
  const absl::string_view name = options.name.empty() ? default_name : absl::string_view(options.name);
  if (!CheckLayer(s, layer, name, x, [&] { return CheckImages(x); })) return {};
  return pool(s.SubScope(name), x, PerDimension(window), PerDimension(strides), options.padding);
}

}  // namespace

Output Conv2D(const Scope& scope, Output x, int64_t filters, Extent window, const Conv2DOptions& options) {
  if (!CheckLayer(scope, "Conv2D", options.name, x, [&] { return CheckConv2D(x, filters, window); })) return {};
  const Scope s = scope.SubScope(options.name);
  const DType dtype = RemoveRef(x.dtype());
  const Var kernel =
      MakeVariable(s, "kernel", {window.height, window.width, x.shape().dim(3), filters},
                   {.initializer = options.kernel_initializer, .dtype = dtype, .trainable = options.trainable});
  Output y = thalweg::Conv2D(s, x, kernel, PerDimension(options.strides), options.padding,
                             {.dilations = PerDimension(options.dilation)});
  if (options.use_bias) {
    const Var bias =
        MakeVariable(s, "bias", {filters},
                     {.initializer = options.bias_initializer, .dtype = dtype, .trainable = options.trainable});
    y = BiasAdd(s, y, bias);
  }
  return options.activation ? options.activation(s, y) : y;
}

Output MaxPooling2D(const Scope& s, Output x, Extent window, Extent strides, const PoolingOptions& options) {
  return Pooled(s, "MaxPooling2D", "max_pooling2d", MaxPool, x, window, strides, options);
}

Output AveragePooling2D(const Scope& s, Output x, Extent window, Extent strides, const PoolingOptions& options) {
  return Pooled(s, "AveragePooling2D", "average_pooling2d", AvgPool, x, window, strides, options);
}

}  // namespace thalweg::layers
