// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/layers/layers.h"

#include <algorithm>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/random_ops.h"
#include "thalweg/train/layers/check_layer.h"
#include "thalweg/train/layers/variable.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg::layers {
namespace {

absl::Status CheckDense(const Output& x, int64_t units) {
  RETURN_IF_ERROR(CheckFloating(x));
  if (units <= 0) return InvalidArgument("units must be positive, got ", units);
  const PartialShape& shape = x.shape();
  if (shape.rank() < 2 || shape.dim(shape.rank() - 1) < 0) {
    return InvalidArgument("the input needs a rank of at least 2 and a known last dimension, got ", shape);
  }
  if (shape.rank() > 2 && std::count(shape.dims().begin(), shape.dims().end(), PartialShape::kUnknown) > 1) {
    return InvalidArgument("more than one unknown dimension in an input of rank > 2: ", shape);
  }
  return absl::OkStatus();
}

Output Sizes(const Scope& s, const PartialShape& shape, int64_t last) {
  std::vector<int32_t> sizes(shape.dims().begin(), shape.dims().end());
  sizes.back() = static_cast<int32_t>(last);
  return Const(s, sizes);
}

}  // namespace

Output Dense(const Scope& scope, Output x, int64_t units, const DenseOptions& options) {
  if (!CheckLayer(scope, "Dense", options.name, x, [&] { return CheckDense(x, units); })) return {};
  const Scope s = scope.SubScope(options.name);
  const PartialShape shape = x.shape();
  const int64_t in = shape.dim(shape.rank() - 1);
  const DType dtype = RemoveRef(x.dtype());
  const Var kernel =
      MakeVariable(s, "kernel", {in, units},
                   {.initializer = options.kernel_initializer, .dtype = dtype, .trainable = options.trainable});
  const bool flatten = shape.rank() > 2;
  if (flatten) x = Reshape(s, x, Const(s, {int32_t{-1}, static_cast<int32_t>(in)}));
  Output y = MatMul(s, x, kernel);
  if (options.use_bias) {
    const Var bias = MakeVariable(
        s, "bias", {units}, {.initializer = options.bias_initializer, .dtype = dtype, .trainable = options.trainable});
    y = BiasAdd(s, y, bias);
  }
  if (flatten) y = Reshape(s, y, Sizes(s, shape, units));
  if (options.activation) y = options.activation(s, y);
  return y;
}

Output Flatten(const Scope& s, Output x) {
  if (!s.ok()) return {};
  const PartialShape& shape = x.shape();
  int64_t width = 1;
  for (int i = 1; i < shape.rank(); ++i) width = shape.dim(i) < 0 || width < 0 ? -1 : width * shape.dim(i);
  if (!x) s.Fail(InvalidArgument("Flatten: the input is missing"));
  if (shape.rank() < 1 || width < 0) {
    s.Fail(InvalidArgument("Flatten '", s.FullName("Flatten"), "': only the first dimension of ", x.name(),
                           " may be unknown, got ", shape));
  }
  if (!s.ok()) return {};
  return Reshape(s.WithOpName("Flatten"), x, {-1, static_cast<int32_t>(width)});
}

Output Embedding(const Scope& scope, Output ids, int64_t size, int64_t depth, const EmbeddingOptions& options) {
  if (!scope.ok()) return {};
  if (size <= 0 || depth <= 0) {
    scope.Fail(InvalidArgument("Embedding '", scope.FullName(options.name), "': size and depth must be positive, got [",
                               size, ",", depth, "]"));
    return {};
  }
  const Scope s = scope.SubScope(options.name);
  const Var table =
      MakeVariable(s, "embeddings", {size, depth},
                   {.initializer = options.initializer, .dtype = options.dtype, .trainable = options.trainable});
  return Gather(s.WithOpName("embedding_lookup"), table, ids);
}

Output Dropout(const Scope& scope, Output x, const DropoutOptions& options) {
  const auto check = [&] {
    if (options.rate >= 0 && options.rate < 1) return CheckFloating(x);
    return InvalidArgument("the rate must be at least 0 and less than 1, got ", options.rate);
  };
  if (!CheckLayer(scope, "Dropout", options.name, x, check)) return {};
  const bool always = !options.training.tensor();
  if ((always && !options.training.value()) || options.rate == 0) return x;
  const Scope s = scope.SubScope(options.name);
  const DType dtype = RemoveRef(x.dtype());
  Output rate = Hyperparameter(options.rate).AsTensor(s, "rate", dtype);
  // With a rate of 0, everything is kept and divided by 1, which is the identity.
  if (!always) rate = Mul(s, rate, Cast(s, options.training.tensor(), dtype));
  const Output drawn = RandomUniform(s, ShapeOf(s, x), dtype, OpSeed(s, options.seed));
  const Output keep = Cast(s, GreaterEqual(s, drawn, rate), dtype);
  const Output scale = RealDiv(s, OnesLike(s, rate), Sub(s, OnesLike(s, rate), rate));
  return Mul(s, Mul(s, x, scale), keep);
}

}  // namespace thalweg::layers
