#include "thalweg/train/layers.h"

#include <algorithm>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/train/variable.h"

namespace thalweg::layers {
namespace {

absl::Status CheckInput(const Output& x, int64_t units) {
  if (!x) return InvalidArgument("Dense: the input is missing");
  if (units <= 0) return InvalidArgument("Dense: units must be positive, got ", units);
  const PartialShape& shape = x.shape();
  if (shape.rank() < 2 || shape.dim(shape.rank() - 1) < 0) {
    return InvalidArgument("Dense: the input needs a rank of at least 2 and a known last dimension, got ", shape);
  }
  if (shape.rank() > 2 && std::count(shape.dims().begin(), shape.dims().end(), PartialShape::kUnknown) > 1) {
    return InvalidArgument("Dense: more than one unknown dimension in an input of rank > 2: ", shape);
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
  if (!scope.ok()) return {};
  scope.Fail(CheckInput(x, units));
  if (!scope.ok()) return {};
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

}  // namespace thalweg::layers
