// SPDX-License-Identifier: Apache-2.0
// FusedBatchNorm: normalizes every channel over all other dimensions,
//
//   y = (x - mean) / sqrt(variance + epsilon) * scale + offset.
//
// In training, mean and variance are those of the batch. The outputs batch_mean and
// batch_variance are running averages, (1 - f) * old + f * batch's with f =
// exponential_avg_factor, the variance with Bessel's correction. The reserve spaces hold the
// values of the batch for the gradient. Otherwise the inputs mean and variance are used.
//
// Everything is computed in float, on rows of channels; other layouts and types
// are converted.
#include <algorithm>
#include <cmath>
#include <limits>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/elementwise.h"

namespace thalweg {
namespace {

// ---- Loops over rows of channels ----

// sums[c] += x, and with centers also squares[c] += (x - center)^2.
THALWEG_SIMD void SumRows(const float* x, int64_t rows, int64_t n, float* sums) {
  for (int64_t r = 0; r < rows; ++r, x += n) {
#pragma GCC ivdep
    for (int64_t c = 0; c < n; ++c) sums[c] += x[c];
  }
}
THALWEG_SIMD void SumSquares(const float* x, const float* center, int64_t rows, int64_t n, float* sums) {
  for (int64_t r = 0; r < rows; ++r, x += n) {
#pragma GCC ivdep
    for (int64_t c = 0; c < n; ++c) sums[c] += (x[c] - center[c]) * (x[c] - center[c]);
  }
}
THALWEG_SIMD void SumProducts(const float* x, const float* center, const float* dy, int64_t rows, int64_t n,
                              float* sums) {
  for (int64_t r = 0; r < rows; ++r, x += n, dy += n) {
#pragma GCC ivdep
    for (int64_t c = 0; c < n; ++c) sums[c] += (x[c] - center[c]) * dy[c];
  }
}
// y = (x - center) * factor + offset.
THALWEG_SIMD void NormalizeRows(const float* x, const float* center, const float* factor, const float* offset,
                                int64_t rows, int64_t n, float* y) {
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
#pragma GCC ivdep
    for (int64_t c = 0; c < n; ++c) y[c] = (x[c] - center[c]) * factor[c] + offset[c];
  }
}
// dx = factor * (dy - mean_dy - (x - center) * slope).
THALWEG_SIMD void GradRows(const float* x, const float* center, const float* dy, const float* mean_dy,
                           const float* factor, const float* slope, int64_t rows, int64_t n, float* dx) {
  for (int64_t r = 0; r < rows; ++r, x += n, dy += n, dx += n) {
#pragma GCC ivdep
    for (int64_t c = 0; c < n; ++c) dx[c] = factor[c] * (dy[c] - mean_dy[c] - (x[c] - center[c]) * slope[c]);
  }
}

struct Rows {
  int64_t rows = 0;
  int64_t channels = 0;
};

using Row = std::vector<float>;

// Sums over all rows what body(first row, rows, sums) adds up. Works in pieces, whose sums are
// added in double and in a fixed order, so that the result does not depend on threads.
template <typename F>
Row SumOver(KernelContext& context, const Rows& d, const F& body) {
  constexpr int64_t kPiece = 512;
  const int64_t pieces = (d.rows + kPiece - 1) / kPiece;
  std::vector<Row> partial(pieces, Row(d.channels));
  context.ParallelFor(pieces, 0.3 * static_cast<double>(kPiece * d.channels), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      body(i * kPiece, std::min(kPiece, d.rows - i * kPiece), partial[i].data());
    }
  });
  Row sums(d.channels);
  for (int64_t c = 0; c < d.channels; ++c) {
    double sum = 0;
    for (int64_t i = 0; i < pieces; ++i) sum += partial[i][c];
    sums[c] = static_cast<float>(sum);
  }
  return sums;
}

// ---- Layouts and types ----

// A tensor's elements as floats in rows of channels. `channels_first`: it is
// [batch, channels, inner].
absl::StatusOr<Tensor> ToRows(KernelContext& context, const Tensor& t, bool channels_first) {
  Tensor x = t;
  if (IsHalfPrecision(t.dtype())) {
    ASSIGN_OR_RETURN(x, context.AllocateTemporary(kFloat, t.shape()));
    HalfToFloat(t.dtype(), t.raw(), x.mutable_data<float>(), t.num_elements());
  }
  if (!channels_first || x.num_elements() == 0) return x;
  ASSIGN_OR_RETURN(Tensor rows, context.AllocateTemporary(kFloat, t.shape()));
  const int64_t channels = t.dim(1), inner = t.shape().Product(2, t.rank());
  const float* from = x.data<float>();
  float* to = rows.mutable_data<float>();
  for (int64_t b = 0; b < t.dim(0); ++b, to += channels * inner) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t i = 0; i < inner; ++i) to[i * channels + c] = *from++;
    }
  }
  return rows;
}

// The way back.
void FromRows(const Tensor& rows, bool channels_first, Tensor* t) {
  const float* from = rows.data<float>();
  std::vector<float> turned;
  if (channels_first && t->num_elements() > 0) {
    turned.resize(t->num_elements());
    const int64_t channels = t->dim(1), inner = t->shape().Product(2, t->rank());
    float* to = turned.data();
    for (int64_t b = 0; b < t->dim(0); ++b, from += channels * inner) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t i = 0; i < inner; ++i) *to++ = from[i * channels + c];
      }
    }
    from = turned.data();
  }
  if (IsHalfPrecision(t->dtype())) {
    FloatToHalf(t->dtype(), from, t->raw(), t->num_elements());
  } else if (t->raw() != from) {
    std::copy_n(from, t->num_elements(), t->mutable_data<float>());
  }
}

// A tensor to compute output i in: it itself if it is float rows.
absl::StatusOr<Tensor> RowsFor(KernelContext& context, Tensor* output, bool channels_first) {
  if (output->dtype() == kFloat && !channels_first) return *output;
  return context.AllocateTemporary(kFloat, output->shape());
}

Row ToRow(const Tensor& t) {
  Row row(t.num_elements());
  if (IsHalfPrecision(t.dtype())) {
    HalfToFloat(t.dtype(), t.raw(), row.data(), t.num_elements());
  } else {
    std::copy_n(t.data<float>(), t.num_elements(), row.data());
  }
  return row;
}

absl::Status SetRow(KernelContext& context, int i, const Row& row) {
  ASSIGN_OR_RETURN(Tensor * t, context.Allocate(i, Shape({static_cast<int64_t>(row.size())})));
  if (IsHalfPrecision(t->dtype())) {
    FloatToHalf(t->dtype(), row.data(), t->raw(), t->num_elements());
  } else {
    std::copy(row.begin(), row.end(), t->mutable_data<float>());
  }
  return absl::OkStatus();
}

// ---- Kernels ----

struct BatchNormAttrs {
  bool training = true;
  bool channels_first = false;
  float epsilon = 0.0001f;
  float factor = 1;
};

absl::StatusOr<BatchNormAttrs> ReadBatchNormAttrs(const tensorflow::NodeDef& def) {
  BatchNormAttrs attrs;
  ASSIGN_OR_RETURN(attrs.training, GetAttr<bool>(def, "is_training"));
  ASSIGN_OR_RETURN(const std::string format, GetAttr<std::string>(def, "data_format"));
  attrs.channels_first = format == "NCHW" || format == "NCDHW";
  ASSIGN_OR_RETURN(attrs.epsilon, GetAttr<float>(def, "epsilon"));
  if (HasAttr(def, "exponential_avg_factor")) {
    ASSIGN_OR_RETURN(attrs.factor, GetAttr<float>(def, "exponential_avg_factor"));
  }
  return attrs;
}

absl::StatusOr<Rows> RowsOf(const Tensor& x, bool channels_first) {
  if (x.rank() != 4 && x.rank() != 5) return InvalidArgument("input must be 4 or 5-dimensional", x.shape());
  const int64_t channels = x.dim(channels_first ? 1 : x.rank() - 1);
  return Rows{channels == 0 ? 0 : x.num_elements() / channels, channels};
}

absl::Status CheckVector(const Tensor& t, const char* name) {
  return t.rank() == 1 ? absl::OkStatus() : InvalidArgument(name, " must be 1-dimensional", t.shape());
}
absl::Status CheckSize(const Tensor& t, int64_t channels, absl::string_view what) {
  if (t.num_elements() == channels) return absl::OkStatus();
  return InvalidArgument(what, " must have the same number of elements as the channels of x, got ", t.num_elements(),
                         " and ", channels);
}

class FusedBatchNormKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(attrs_, ReadBatchNormAttrs(init.node().def()));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const Rows d, Check(context));
    const Row scale = ToRow(context.input(1)), offset = ToRow(context.input(2));
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, context.input(0).shape()));
    if (context.num_outputs() > 5) {
      ASSIGN_OR_RETURN(Tensor * unused, context.Allocate(5, Shape()));
      std::fill_n(static_cast<char*>(unused->raw()), ElementSize(unused->dtype()), 0);
    }
    if (d.rows == 0) {  // there is no mean of zero rows
      const Row nan(d.channels, std::numeric_limits<float>::quiet_NaN());
      for (int i = 1; i < 5; ++i) RETURN_IF_ERROR(SetRow(context, i, nan));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Tensor x, ToRows(context, context.input(0), attrs_.channels_first));
    const float* const from = x.data<float>();
    Row mean, variance;
    if (attrs_.training) {
      mean = SumOver(context, d, [&](int64_t first, int64_t rows, float* sums) {
        SumRows(from + first * d.channels, rows, d.channels, sums);
      });
      for (float& m : mean) m /= static_cast<float>(d.rows);
      variance = SumOver(context, d, [&](int64_t first, int64_t rows, float* sums) {
        SumSquares(from + first * d.channels, mean.data(), rows, d.channels, sums);
      });
      for (float& v : variance) v /= static_cast<float>(d.rows);
    } else {
      mean = ToRow(context.input(3));
      variance = ToRow(context.input(4));
    }
    Row factor(d.channels);
    for (int64_t c = 0; c < d.channels; ++c) factor[c] = scale[c] / std::sqrt(variance[c] + attrs_.epsilon);
    ASSIGN_OR_RETURN(Tensor out, RowsFor(context, y, attrs_.channels_first));
    float* const to = static_cast<float*>(out.raw());
    context.ParallelFor(d.rows, 0.3 * static_cast<double>(d.channels), [&](int64_t begin, int64_t end) {
      NormalizeRows(from + begin * d.channels, mean.data(), factor.data(), offset.data(), end - begin, d.channels,
                    to + begin * d.channels);
    });
    FromRows(out, attrs_.channels_first, y);
    return SetStatistics(context, d, std::move(mean), std::move(variance));
  }

 private:
  absl::StatusOr<Rows> Check(KernelContext& context) const {
    ASSIGN_OR_RETURN(const Rows d, RowsOf(context.input(0), attrs_.channels_first));
    const char* const names[] = {"scale", "offset", "estimated_mean", "estimated_variance"};
    for (int i = 0; i < 4; ++i) RETURN_IF_ERROR(CheckVector(context.input(1 + i), names[i]));
    RETURN_IF_ERROR(CheckSize(context.input(1), d.channels, "scale"));
    RETURN_IF_ERROR(CheckSize(context.input(2), d.channels, "offset"));
    if (!attrs_.training || attrs_.factor != 1) {
      const char* when = attrs_.training ? "When exponential_avg_factor != 1" : "When is_training=false";
      RETURN_IF_ERROR(CheckSize(context.input(3), d.channels, absl::StrCat(when, ", mean")));
      RETURN_IF_ERROR(CheckSize(context.input(4), d.channels, absl::StrCat(when, ", variance")));
    }
    return d;
  }

  absl::Status SetStatistics(KernelContext& context, const Rows& d, Row mean, Row variance) const {
    RETURN_IF_ERROR(SetRow(context, 3, mean));
    RETURN_IF_ERROR(SetRow(context, 4, variance));
    if (attrs_.training) {
      const float correction = static_cast<float>(d.rows) / static_cast<float>(std::max<int64_t>(1, d.rows - 1));
      for (float& v : variance) v *= correction;
      if (attrs_.factor != 1) {
        const Row old_mean = ToRow(context.input(3)), old_variance = ToRow(context.input(4));
        for (int64_t c = 0; c < d.channels; ++c) {
          mean[c] = (1 - attrs_.factor) * old_mean[c] + attrs_.factor * mean[c];
          variance[c] = (1 - attrs_.factor) * old_variance[c] + attrs_.factor * variance[c];
        }
      }
    }
    RETURN_IF_ERROR(SetRow(context, 1, mean));
    return SetRow(context, 2, variance);
  }

  BatchNormAttrs attrs_;
};

class FusedBatchNormGradKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(attrs_, ReadBatchNormAttrs(init.node().def()));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const Rows d, Check(context));
    ASSIGN_OR_RETURN(Tensor * output, context.Allocate(0, context.input(1).shape()));
    for (int i = 3; i < 5; ++i) {  // mean and variance have no gradient
      RETURN_IF_ERROR(context.Allocate(i, Shape({0})).status());
    }
    if (d.rows == 0) {  // the mean and the variance of nothing are NaN; the gradients are not
      for (const int i : {1, 2}) RETURN_IF_ERROR(SetRow(context, i, Row(d.channels, 0.0f)));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Tensor dy, ToRows(context, context.input(0), attrs_.channels_first));
    ASSIGN_OR_RETURN(const Tensor x, ToRows(context, context.input(1), attrs_.channels_first));
    const Row scale = ToRow(context.input(2)), mean = ToRow(context.input(3));
    Row factor = ToRow(context.input(4));  // 1 / sqrt(variance + epsilon), times scale later
    for (float& f : factor) f = 1 / std::sqrt(f + attrs_.epsilon);
    const float *px = x.data<float>(), *pdy = dy.data<float>();
    Row offset_dx = SumOver(context, d, [&](int64_t first, int64_t rows, float* sums) {
      SumRows(pdy + first * d.channels, rows, d.channels, sums);
    });
    Row products = SumOver(context, d, [&](int64_t first, int64_t rows, float* sums) {
      SumProducts(px + first * d.channels, mean.data(), pdy + first * d.channels, rows, d.channels, sums);
    });
    RETURN_IF_ERROR(SetRow(context, 2, offset_dx));
    Row slope(d.channels), scale_dx(d.channels), mean_dy(d.channels);
    const float count = static_cast<float>(std::max<int64_t>(1, d.rows));
    for (int64_t c = 0; c < d.channels; ++c) {
      scale_dx[c] = products[c] * factor[c];
      if (attrs_.training) {
        slope[c] = factor[c] * factor[c] * products[c] / count;
        mean_dy[c] = offset_dx[c] / count;
      }
      factor[c] *= scale[c];
    }
    RETURN_IF_ERROR(SetRow(context, 1, scale_dx));
    ASSIGN_OR_RETURN(Tensor dx, RowsFor(context, output, attrs_.channels_first));
    float* const to = static_cast<float*>(dx.raw());
    context.ParallelFor(d.rows, 0.5 * static_cast<double>(d.channels), [&](int64_t begin, int64_t end) {
      const int64_t first = begin * d.channels;
      GradRows(px + first, mean.data(), pdy + first, mean_dy.data(), factor.data(), slope.data(), end - begin,
               d.channels, to + first);
    });
    FromRows(dx, attrs_.channels_first, output);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Rows> Check(KernelContext& context) const {
    RETURN_IF_ERROR(RowsOf(context.input(0), attrs_.channels_first).status());
    ASSIGN_OR_RETURN(const Rows d, RowsOf(context.input(1), attrs_.channels_first));
    RETURN_IF_ERROR(CheckVector(context.input(2), "scale"));
    RETURN_IF_ERROR(CheckVector(context.input(3), "saved mean"));
    RETURN_IF_ERROR(CheckVector(context.input(4), "saved variance"));
    if (context.input(0).shape() != context.input(1).shape()) {
      return InvalidArgument("x and y_backprop must have same shape, but x has shape ", context.input(1).shape(),
                             " and y_backprop has shape ", context.input(0).shape());
    }
    RETURN_IF_ERROR(CheckSize(context.input(2), d.channels, "scale"));
    RETURN_IF_ERROR(CheckSize(context.input(3), d.channels, "reserve_space_1"));
    RETURN_IF_ERROR(CheckSize(context.input(4), d.channels, "reserve_space_2"));
    return d;
  }

  BatchNormAttrs attrs_;
};

// ---- Shapes ----

// x with the channels of all vectors; the vectors' shape.
absl::Status BatchNormShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const BatchNormAttrs attrs, ReadBatchNormAttrs(c.node().def()));
  PartialShape channels = PartialShape::OfRank(1);
  for (int i = 1; i < (attrs.training ? 3 : 5); ++i) {
    ASSIGN_OR_RETURN(channels, PartialShape::Merge(channels, c.input(i)));
  }
  const PartialShape& x = c.input(0);
  if (x.has_rank()) {
    if (x.rank() != 4 && x.rank() != 5) return InvalidArgument("Shape must be rank 4 or 5 but is rank ", x.rank());
    Dims dims(x.dims().begin(), x.dims().end());
    int64_t& channel = attrs.channels_first ? dims[1] : dims.back();
    ASSIGN_OR_RETURN(channels, PartialShape::Merge(channels, PartialShape({channel})));
    channel = channels.dim(0);
    c.set_output(0, PartialShape(std::move(dims)));
  }
  for (int i = 1; i < std::min(5, c.num_outputs()); ++i) c.set_output(i, channels);
  if (c.num_outputs() > 5) c.set_output(5, PartialShape());
  return absl::OkStatus();
}

absl::Status BatchNormGradShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, PartialShape::Merge(c.input(0), c.input(1)));
  PartialShape channels = PartialShape::OfRank(1);
  for (int i = 2; i < 5; ++i) {
    ASSIGN_OR_RETURN(channels, PartialShape::Merge(channels, c.input(i)));
  }
  c.set_output(0, x);
  c.set_output(1, channels);
  c.set_output(2, channels);
  for (int i = 3; i < 5; ++i) c.set_output(i, PartialShape({0}));
  return absl::OkStatus();
}

// ---- Gradient ----

template <int version>
absl::Status BatchNormGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const BatchNormAttrs attrs, ReadBatchNormAttrs(g.node()->def()));
  std::vector<AttrArg> args;
  for (const char* name : {"epsilon", "data_format", "is_training"}) {
    args.emplace_back(name, g.node()->def().attr().at(name));
  }
  const Output mean = attrs.training ? g.output(3) : g.input(3), variance = attrs.training ? g.output(4) : g.input(4);
  std::vector<OpInput> inputs{g.dy(), g.input(0), g.input(1), mean, variance};
  if (version == 3) inputs.push_back(g.output(5));
  const char* const ops[] = {"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"};
  Node* const grad = g.scope().Add(ops[version - 1], std::move(inputs), std::move(args));
  if (grad == nullptr) return absl::OkStatus();
  for (int i = 0; i < 3; ++i) g.set_dx(i, grad->out(i));
  return absl::OkStatus();
}

// ---- Registration ----

Op WithBatchNormAttrs(Op& op, bool grad, int version) {
  if (version == 1) {
    op.Attr("T: {float}");
  } else {
    op.Attr("T: {half, bfloat16, float}").Attr(version == 3 && !grad ? "U: {bfloat16, float}" : "U: {float}");
  }
  op.Attr("epsilon: float = 0.0001");
  if (!grad) op.Attr("exponential_avg_factor: float = 1.0");
  return op
      .Attr(version == 3 ? "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'"
                         : "data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Attr("is_training: bool = true");
}

Op BatchNorm(const char* name, int version) {
  const char* const u = version == 1 ? "T" : "U";
  Op op(name);
  op.Input("x: T");
  for (const char* in : {"scale", "offset", "mean", "variance"}) op.Input(absl::StrCat(in, ": ", u));
  op.Output("y: T");
  for (const char* out : {"batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"}) {
    op.Output(absl::StrCat(out, ": ", u));
  }
  if (version == 3) op.Output("reserve_space_3: U");
  return WithBatchNormAttrs(op, false, version).Shape(BatchNormShape).Kernel<FusedBatchNormKernel>();
}

Op BatchNormGrad(const char* name, int version) {
  const char* const u = version == 1 ? "T" : "U";
  Op op(name);
  op.Input("y_backprop: T").Input("x: T").Input(version == 1 ? "scale: T" : "scale: float");
  op.Input(absl::StrCat("reserve_space_1: ", u)).Input(absl::StrCat("reserve_space_2: ", u));
  if (version == 3) op.Input("reserve_space_3: U");
  op.Output("x_backprop: T").Output(absl::StrCat("scale_backprop: ", u)).Output(absl::StrCat("offset_backprop: ", u));
  const int first = version == 3 ? 4 : 3;
  for (int i = first; i < first + 2; ++i) op.Output(absl::StrCat("reserve_space_", i, ": ", u));
  return WithBatchNormAttrs(op, true, version).Shape(BatchNormGradShape).Kernel<FusedBatchNormGradKernel>();
}

const OpRegistration kBatchNormOps[] = {
    BatchNorm("FusedBatchNorm", 1).Gradient(BatchNormGradient<1>),
    BatchNorm("FusedBatchNormV2", 2).Gradient(BatchNormGradient<2>),
    BatchNorm("FusedBatchNormV3", 3).Gradient(BatchNormGradient<3>),
    BatchNormGrad("FusedBatchNormGrad", 1),
    BatchNormGrad("FusedBatchNormGradV2", 2),
    BatchNormGrad("FusedBatchNormGradV3", 3),
};

}  // namespace

FusedBatchNormResult FusedBatchNorm(const Scope& s, Output x, Output scale, Output offset, Output mean, Output variance,
                                    const FusedBatchNormOptions& options) {
  Node* const node = s.Add("FusedBatchNormV3", {x, scale, offset, mean, variance},
                           {{"epsilon", options.epsilon},
                            {"exponential_avg_factor", options.exponential_avg_factor},
                            {"data_format", NameOf(options.data_format)},
                            {"is_training", options.is_training}});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1), node->out(2)};
}

}  // namespace thalweg
