// SPDX-License-Identifier: Apache-2.0
// Cross entropy between softmax(features) and labels, per row of [batch,
// classes], together with its derivative: backprop = softmax(features) - labels.
// Labels are a distribution per row or, for the sparse form, a class number.
#include <cstring>
#include <string>

#include "absl/strings/str_join.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/softmax_rows.h"

namespace thalweg {
namespace {

// `backprop` may be `features`. loss = sum_i labels_i (log(sum exp(x)) - x_i),
// with x = features - max; a label of 0 counts nothing even for x of -infinity.
template <typename T>
THALWEG_SIMD void DenseRows(const T* features, const T* labels, T* loss, T* backprop, int64_t rows, int64_t classes) {
  SubtractRowMax(features, backprop, rows, classes);
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = backprop + r * classes;
    const T* p = labels + r * classes;
    T weighted = 0;
    for (int64_t i = 0; i < classes; ++i) weighted += p[i] == T(0) ? T(0) : p[i] * x[i];
    loss[r] = -weighted;
  }
  ExpAll(backprop, backprop, rows * classes);
  for (int64_t r = 0; r < rows; ++r) {
    T* y = backprop + r * classes;
    const T* p = labels + r * classes;
    const T sum = RowSum(y, classes);
    loss[r] += RowSum(p, classes) * std::log(sum);
    const T scale = T(1) / sum;
#pragma GCC ivdep
    for (int64_t i = 0; i < classes; ++i) y[i] = y[i] * scale - p[i];
  }
}

// REQUIRES: labels are in range.
template <typename T, typename Index>
THALWEG_SIMD void SparseRows(const T* features, const Index* labels, T* loss, T* backprop, int64_t rows,
                             int64_t classes) {
  SubtractRowMax(features, backprop, rows, classes);
  for (int64_t r = 0; r < rows; ++r) loss[r] = -backprop[r * classes + labels[r]];
  ExpAll(backprop, backprop, rows * classes);
  for (int64_t r = 0; r < rows; ++r) {
    T* y = backprop + r * classes;
    const T sum = RowSum(y, classes);
    loss[r] += std::log(sum);
    const T scale = T(1) / sum;
    for (int64_t i = 0; i < classes; ++i) y[i] *= scale;
    y[labels[r]] -= T(1);
  }
}

// Calls rows(features, loss, backprop, first row, count) for all rows, with
// pointers to float or double.
template <typename F>
absl::Status ForRows(KernelContext& context, const Tensor& features, Tensor* loss, Tensor* backprop, F&& rows) {
  const int64_t batch = features.dim(0), classes = features.dim(1);
  const auto run = [&]<typename T>(const T* x, T* l, T* b) {
    context.ParallelFor(batch, 2.0 * static_cast<double>(classes), [&](int64_t begin, int64_t end) {
      const int64_t step = RowsAtOnce(classes);
      for (int64_t r = begin; r < end; r += step) {
        rows(x + r * classes, l + r, b + r * classes, r, std::min(step, end - r));
      }
    });
    return absl::OkStatus();
  };
  if (features.dtype() == kFloat)
    return run(features.data<float>(), loss->mutable_data<float>(), backprop->mutable_data<float>());
  if (features.dtype() == kDouble) {
    return run(features.data<double>(), loss->mutable_data<double>(), backprop->mutable_data<double>());
  }
  ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kFloat, features.shape()));
  ASSIGN_OR_RETURN(Tensor wide_loss, context.AllocateTemporary(kFloat, loss->shape()));
  HalfToFloat(features.dtype(), features.raw(), wide.mutable_data<float>(), features.num_elements());
  RETURN_IF_ERROR(run(wide.data<float>(), wide_loss.mutable_data<float>(), wide.mutable_data<float>()));
  FloatToHalf(loss->dtype(), wide_loss.data<float>(), loss->raw(), batch);
  FloatToHalf(backprop->dtype(), wide.data<float>(), backprop->raw(), features.num_elements());
  return absl::OkStatus();
}

// `t` repeated to `shape`, which it broadcasts to. Rare, so simple.
absl::StatusOr<Tensor> Repeated(KernelContext& context, const Tensor& t, const Shape& shape) {
  if (t.shape() == shape) return t;
  ASSIGN_OR_RETURN(const Broadcast b, Broadcast::Make(t.shape(), shape));
  ASSIGN_OR_RETURN(Tensor out, context.AllocateTemporary(t.dtype(), shape));
  const size_t size = ElementSize(t.dtype());
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    int64_t rest = i, from = 0;
    for (size_t d = 0; d < b.sizes.size(); ++d) {
      from += rest % b.sizes[d] * b.x_strides[d];
      rest /= b.sizes[d];
    }
    std::memcpy(static_cast<char*>(out.raw()) + i * size, static_cast<const char*>(t.raw()) + from * size, size);
  }
  return out;
}

absl::Status ComputeDense(KernelContext& context) {
  const Tensor& features = context.input(0);
  const Tensor& labels = context.input(1);
  Shape shape = features.shape();
  if (features.shape() != labels.shape()) {
    absl::StatusOr<Broadcast> b = Broadcast::Make(features.shape(), labels.shape());
    if (!b.ok()) {
      return InvalidArgument("logits and labels must be broadcastable: logits_size=", features.shape(),
                             " labels_size=", labels.shape());
    }
    shape = b->shape;
  }
  if (shape.rank() != 2) {
    return InvalidArgument(
        "logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional: logits_size=",
        features.shape(), " labels_size=", labels.shape());
  }
  ASSIGN_OR_RETURN(const Tensor x, Repeated(context, features, shape));
  ASSIGN_OR_RETURN(Tensor p, Repeated(context, labels, shape));
  ASSIGN_OR_RETURN(Tensor * loss, context.Allocate(0, Shape({shape.dim(0)})));
  ASSIGN_OR_RETURN(Tensor * backprop, context.Allocate(1, shape));
  if (shape.num_elements() == 0) {
    if (loss->num_elements() > 0) std::memset(loss->raw(), 0, loss->num_elements() * ElementSize(loss->dtype()));
    return absl::OkStatus();
  }
  if (IsHalfPrecision(p.dtype())) {
    ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kFloat, shape));
    HalfToFloat(p.dtype(), p.raw(), wide.mutable_data<float>(), p.num_elements());
    p = std::move(wide);
  }
  const int64_t classes = shape.dim(1);
  return ForRows(context, x, loss, backprop, [&]<typename T>(const T* in, T* l, T* b, int64_t first, int64_t count) {
    DenseRows(in, p.data<T>() + first * classes, l, b, count, classes);
  });
}

template <typename Index>
absl::Status CheckLabels(const Tensor& labels, int64_t classes) {
  for (const Index label : labels.flat<Index>()) {
    if (label >= 0 && label < classes) continue;
    // Show a limited number of labels in the message.
    const auto shown = labels.flat<Index>().subspan(0, 64);
    return InvalidArgument("Received a label value of ", label, " which is outside the valid range of [0, ", classes,
                           ").  Label values: ", absl::StrJoin(shown, " "));
  }
  return absl::OkStatus();
}

absl::Status ComputeSparse(KernelContext& context) {
  const Tensor& features = context.input(0);
  const Tensor& labels = context.input(1);
  if (features.rank() != 2) return InvalidArgument("logits must be 2-D, but got shape ", features.shape());
  if (labels.rank() != 1) return InvalidArgument("labels must be 1-D, but got shape ", labels.shape());
  if (features.dim(0) != labels.dim(0)) {
    return InvalidArgument("logits and labels must have the same first dimension, got logits shape ", features.shape(),
                           " and labels shape ", labels.shape());
  }
  const int64_t classes = features.dim(1);
  if (classes == 0) return InvalidArgument("Must have at least one class, but got logits shape ", features.shape());
  return Dispatch(IndexTypes(), labels.dtype(), [&]<typename Index>() -> absl::Status {
    RETURN_IF_ERROR(CheckLabels<Index>(labels, classes));
    ASSIGN_OR_RETURN(Tensor * loss, context.Allocate(0, labels.shape()));
    ASSIGN_OR_RETURN(Tensor * backprop, context.ForwardOrAllocate({0}, 1, features.shape()));
    const Index* const index = labels.data<Index>();
    return ForRows(context, features, loss, backprop,
                   [&]<typename T>(const T* in, T* l, T* b, int64_t first, int64_t count) {
                     SparseRows(in, index + first, l, b, count, classes);
                   });
  });
}

absl::Status DenseShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, BroadcastShape(c.input(0), c.input(1)));
  if (shape.has_rank() && shape.rank() != 2) {
    return InvalidArgument("Shape must be rank 2 but is rank ", shape.rank(), " for shapes ", c.input(0), " and ",
                           c.input(1));
  }
  if (!shape.has_rank()) shape = PartialShape::OfRank(2);
  c.set_output(0, PartialShape({shape.dim(0)}));
  c.set_output(1, std::move(shape));
  return absl::OkStatus();
}

absl::Status SparseShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape features, c.WithRank(0, 2));
  ASSIGN_OR_RETURN(const PartialShape labels, c.WithRank(1, 1));
  ASSIGN_OR_RETURN(const PartialShape batch, PartialShape::Merge(PartialShape({features.dim(0)}), labels));
  c.set_output(0, batch);
  c.set_output(1, PartialShape({batch.dim(0), features.dim(1)}));
  return absl::OkStatus();
}

// Scales the rows of a matrix.
Output ScaleRows(const Scope& s, Output scales, Output matrix) {
  return Mul(s, s.Add("ExpandDims", {scales, ScalarConst(s, kInt32, -1)}), matrix);
}

// By the features: dloss times backprop; and, where the derivative itself is
// differentiated, softmax's own derivative.
Output FeaturesGradient(GradientContext& g) {
  const Scope& s = g.scope();
  Output dx = ScaleRows(s, g.dy(0), g.output(1));
  if (g.has_dy(1)) {
    const Output y = Softmax(s, g.input(0)), dd = g.dy(1);
    const int32_t last[] = {-1};
    const Output inner = ReduceSum(s, Mul(s, dd, y), IntsConst(s, last), {.keep_dims = true});
    dx = Add(s, dx, Mul(s, Sub(s, dd, inner), y));
  }
  return dx;
}

absl::Status DenseGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, FeaturesGradient(g));
  g.set_dx(1, ScaleRows(s, g.dy(0), Neg(s, LogSoftmax(s, g.input(0)))));
  return absl::OkStatus();
}

absl::Status SparseGradient(GradientContext& g) {
  g.set_dx(0, FeaturesGradient(g));
  return absl::OkStatus();
}

const OpRegistration kCrossEntropyOps[] = {
    Op("SoftmaxCrossEntropyWithLogits")
        .Input("features: T")
        .Input("labels: T")
        .Output("loss: T")
        .Output("backprop: T")
        .Attr("T: {half, bfloat16, float, double}")
        .Shape(DenseShape)
        .Compute(ComputeDense)
        .Gradient(DenseGradient),
    Op("SparseSoftmaxCrossEntropyWithLogits")
        .Input("features: T")
        .Input("labels: Tlabels")
        .Output("loss: T")
        .Output("backprop: T")
        .Attr("T: {half, bfloat16, float, double}")
        .Attr("Tlabels: {int32, int64} = DT_INT64")
        .Shape(SparseShape)
        .Compute(ComputeSparse)
        .Gradient(SparseGradient),
};

CrossEntropyResult Both(Node* node) {
  if (node == nullptr) return {};
  return {node->out(0), node->out(1)};
}

}  // namespace

CrossEntropyResult SoftmaxCrossEntropyWithLogits(const Scope& s, Output features, Output labels) {
  return Both(s.Add("SoftmaxCrossEntropyWithLogits", {features, labels}));
}
CrossEntropyResult SparseSoftmaxCrossEntropyWithLogits(const Scope& s, Output features, Output labels) {
  return Both(s.Add("SparseSoftmaxCrossEntropyWithLogits", {features, labels}));
}

}  // namespace thalweg
