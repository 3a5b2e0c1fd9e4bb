#include "thalweg/train/convolution_layers.h"

#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/train/variable.h"

namespace thalweg::layers {
namespace {

std::vector<int64_t> PerDimension(const Extent& e) { return {1, e.height, e.width, 1}; }

absl::Status CheckImages(absl::string_view layer, const Output& x) {
  if (!x) return InvalidArgument(layer, ": the input is missing");
  if (x.shape().rank() != 4) {
    return InvalidArgument(layer, ": the input must be [batch, height, width, channels], got ", x.shape());
  }
  return absl::OkStatus();
}

using Pool = Output (*)(const Scope&, Output, const std::vector<int64_t>&, const std::vector<int64_t>&,
                        absl::string_view);
Output Pooled(const Scope& s, absl::string_view layer, Pool pool, Output x, const Extent& window, const Extent& strides,
              const PoolingOptions& options) {
  if (!s.ok()) return {};
  s.Fail(CheckImages(layer, x));
  if (!s.ok()) return {};
  return pool(s.SubScope(options.name.empty() ? layer : absl::string_view(options.name)), x, PerDimension(window),
              PerDimension(strides), options.padding);
}

}  // namespace

Output Conv2D(const Scope& scope, Output x, int64_t filters, Extent window, const Conv2DOptions& options) {
  if (!scope.ok()) return {};
  scope.Fail(CheckImages("Conv2D", x));
  if (filters <= 0 || window.height <= 0 || window.width <= 0) {
    scope.Fail(InvalidArgument("Conv2D: filters and the window must be positive, got ", filters, " and ", window.height,
                               "x", window.width));
  }
  if (scope.ok() && x.shape().dim(3) < 0) {
    scope.Fail(InvalidArgument("Conv2D: the number of channels must be known, got ", x.shape()));
  }
  if (!scope.ok()) return {};
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
  return Pooled(s, "max_pooling2d", MaxPool, x, window, strides, options);
}

Output AveragePooling2D(const Scope& s, Output x, Extent window, Extent strides, const PoolingOptions& options) {
  return Pooled(s, "average_pooling2d", AvgPool, x, window, strides, options);
}

}  // namespace thalweg::layers
