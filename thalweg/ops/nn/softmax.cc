// SPDX-License-Identifier: Apache-2.0
// Softmax: exp(x_i) / sum_j exp(x_j) along the last dimension; LogSoftmax: its
// logarithm.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/softmax_rows.h"

namespace thalweg {
namespace {

template <typename T>
THALWEG_SIMD void SoftmaxRows(const T* x, T* y, int64_t rows, int64_t classes) {
  SubtractRowMax(x, y, rows, classes);
  ExpAll(y, y, rows * classes);
  for (int64_t r = 0; r < rows; ++r, y += classes) {
    const T scale = T(1) / RowSum(y, classes);
    for (int64_t i = 0; i < classes; ++i) y[i] *= scale;
  }
}

// `scratch` has as many elements as x.
template <typename T>
THALWEG_SIMD void LogSoftmaxRows(const T* x, T* y, T* scratch, int64_t rows, int64_t classes) {
  SubtractRowMax(x, y, rows, classes);
  ExpAll(y, scratch, rows * classes);
  for (int64_t r = 0; r < rows; ++r, y += classes, scratch += classes) {
    const T log_sum = std::log(RowSum(scratch, classes));
    for (int64_t i = 0; i < classes; ++i) y[i] -= log_sum;
  }
}

template <typename T>
absl::Status RunRows(KernelContext& context, bool log, const T* x, T* y, int64_t rows, int64_t classes) {
  Tensor scratch;
  if (log) {
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({rows, classes}));
    ASSIGN_OR_RETURN(scratch, context.AllocateTemporary(DTypeOf<T>, shape));
  }
  context.ParallelFor(rows, 1.5 * static_cast<double>(classes), [&](int64_t begin, int64_t end) {
    const int64_t step = RowsAtOnce(classes);
    for (int64_t r = begin; r < end; r += step) {
      const int64_t n = std::min(step, end - r), at = r * classes;
      if (log) {
        LogSoftmaxRows(x + at, y + at, scratch.mutable_data<T>() + at, n, classes);
      } else {
        SoftmaxRows(x + at, y + at, n, classes);
      }
    }
  });
  return absl::OkStatus();
}

class SoftmaxKernel : public Kernel {
 public:
  explicit SoftmaxKernel(bool log) : log_(log) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    if (x.rank() < 1) return InvalidArgument("logits must have >= 1 dimension, got ", x.shape());
    ASSIGN_OR_RETURN(Tensor * y, context.ForwardOrAllocate({0}, 0, x.shape()));
    if (x.num_elements() == 0) return absl::OkStatus();
    const int64_t classes = x.dim(x.rank() - 1), rows = x.num_elements() / classes;
    if (x.dtype() == kFloat) return RunRows(context, log_, x.data<float>(), y->mutable_data<float>(), rows, classes);
    if (x.dtype() == kDouble) return RunRows(context, log_, x.data<double>(), y->mutable_data<double>(), rows, classes);
    ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kFloat, x.shape()));
    float* const values = wide.mutable_data<float>();
    HalfToFloat(x.dtype(), x.raw(), values, x.num_elements());
    RETURN_IF_ERROR(RunRows(context, log_, values, values, rows, classes));
    FloatToHalf(y->dtype(), values, y->raw(), x.num_elements());
    return absl::OkStatus();
  }

 private:
  const bool log_;
};

absl::Status SoftmaxShape(ShapeContext& c) {
  if (c.input(0).has_rank() && c.input(0).rank() < 1)
    return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

Output SumLast(const Scope& s, Output x) {
  const int32_t last[] = {-1};
  return ReduceSum(s, x, IntsConst(s, last), {.keep_dims = true});
}

// (dy - sum(dy y)) y
absl::Status SoftmaxGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output y = g.output(0);
  g.set_dx(0, Mul(s, Sub(s, g.dy(), SumLast(s, Mul(s, g.dy(), y))), y));
  return absl::OkStatus();
}

// dy - sum(dy) exp(y)
absl::Status LogSoftmaxGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Sub(s, g.dy(), Mul(s, SumLast(s, g.dy()), Exp(s, g.output(0)))));
  return absl::OkStatus();
}

const OpRegistration kSoftmaxOps[] = {
    Op("Softmax")
        .Input("logits: T")
        .Output("softmax: T")
        .Attr("T: {half, bfloat16, float, double}")
        .Shape(SoftmaxShape)
        .Kernel<SoftmaxKernel>(false)
        .Gradient(SoftmaxGradient),
    Op("LogSoftmax")
        .Input("logits: T")
        .Output("logsoftmax: T")
        .Attr("T: {half, bfloat16, float, double}")
        .Shape(SoftmaxShape)
        .Kernel<SoftmaxKernel>(true)
        .Gradient(LogSoftmaxGradient),
};

}  // namespace

Output Softmax(const Scope& s, Output logits) { return s.Add("Softmax", {logits}); }
Output LogSoftmax(const Scope& s, Output logits) { return s.Add("LogSoftmax", {logits}); }

}  // namespace thalweg
