// SPDX-License-Identifier: Apache-2.0
// BiasAdd: output = value + bias, where bias has one element per channel: the
// last dimension of value (NHWC), or the second (NCHW). BiasAddGrad sums over
// everything but the channels.
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

using BiasTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                        std::complex<float>, std::complex<double>>;

// A tensor as [outer, channels, inner].
struct Channels {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t inner = 1;
};

Channels ChannelsOf(const Shape& shape, bool nchw) {
  if (!nchw) return {shape.Product(0, shape.rank() - 1), shape.dim(shape.rank() - 1), 1};
  return {shape.dim(0), shape.dim(1), shape.Product(2, shape.rank())};
}

absl::StatusOr<bool> IsNchw(const tensorflow::NodeDef& def) {
  if (!HasAttr(def, "data_format")) return false;  // BiasAddV1
  ASSIGN_OR_RETURN(const std::string format, GetAttr<std::string>(def, "data_format"));
  return format == "NCHW";
}

// y = x + bias for rows of channels.
template <typename T>
THALWEG_SIMD void AddRows(const T* x, const T* bias, T* y, int64_t rows, int64_t channels) {
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) y[c] = WrapAdd(x[c], bias[c]);
  }
}

// y = x + bias for planes of one channel each, from channel `first` on.
template <typename T>
THALWEG_SIMD void AddPlanes(const T* x, const T* bias, T* y, int64_t first, int64_t planes, int64_t channels,
                            int64_t inner) {
  for (int64_t p = 0; p < planes; ++p, x += inner, y += inner) {
    const T b = bias[(first + p) % channels];
#pragma GCC ivdep
    for (int64_t i = 0; i < inner; ++i) y[i] = WrapAdd(x[i], b);
  }
}

template <typename T>
void AddBias(KernelContext& context, const Channels& d, const T* x, const T* bias, T* y) {
  if (d.inner == 1) {
    context.ParallelFor(d.outer, 0.3 * static_cast<double>(d.channels), [&](int64_t begin, int64_t end) {
      AddRows(x + begin * d.channels, bias, y + begin * d.channels, end - begin, d.channels);
    });
    return;
  }
  context.ParallelFor(d.outer * d.channels, 0.3 * static_cast<double>(d.inner), [&](int64_t begin, int64_t end) {
    AddPlanes(x + begin * d.inner, bias, y + begin * d.inner, begin, end - begin, d.channels, d.inner);
  });
}

class BiasAddKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(nchw_, IsNchw(init.node().def()));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& value = context.input(0);
    const Tensor& bias = context.input(1);
    if (value.rank() < 2) return InvalidArgument("Input tensor must be at least 2D: ", value.shape());
    if (bias.rank() != 1) return InvalidArgument("Biases must be 1D: ", bias.shape());
    const Channels d = ChannelsOf(value.shape(), nchw_);
    if (bias.dim(0) != d.channels) {
      return InvalidArgument("Must provide as many biases as the ", nchw_ ? "channel dimension" : "last dimension",
                             " of the input tensor: ", bias.shape(), " vs. ", value.shape());
    }
    ASSIGN_OR_RETURN(Tensor * out, context.ForwardOrAllocate({0}, 0, value.shape()));
    if (out->num_elements() == 0) return absl::OkStatus();  // rows of nothing may be many
    if (IsHalfPrecision(value.dtype())) return AddHalf(context, d, value, bias, out);
    return Dispatch(BiasTypes(), value.dtype(), [&]<typename T>() {
      AddBias(context, d, value.data<T>(), bias.data<T>(), out->mutable_data<T>());
      return absl::OkStatus();
    });
  }

 private:
  static absl::Status AddHalf(KernelContext& context, const Channels& d, const Tensor& value, const Tensor& bias,
                              Tensor* out) {
    ASSIGN_OR_RETURN(Tensor x, context.AllocateTemporary(kFloat, value.shape()));
    ASSIGN_OR_RETURN(Tensor b, context.AllocateTemporary(kFloat, bias.shape()));
    HalfToFloat(value.dtype(), value.raw(), x.mutable_data<float>(), x.num_elements());
    HalfToFloat(bias.dtype(), bias.raw(), b.mutable_data<float>(), b.num_elements());
    AddBias(context, d, x.data<float>(), b.data<float>(), x.mutable_data<float>());
    FloatToHalf(out->dtype(), x.data<float>(), out->raw(), x.num_elements());
    return absl::OkStatus();
  }

  bool nchw_ = false;
};

// sum[c] += x[r][c], for channels [begin, end).
template <typename T>
THALWEG_SIMD void SumRows(const T* x, T* sum, int64_t rows, int64_t channels, int64_t begin, int64_t end) {
  for (int64_t r = 0; r < rows; ++r, x += channels) {
#pragma GCC ivdep
    for (int64_t c = begin; c < end; ++c) sum[c] = WrapAdd(sum[c], x[c]);
  }
}

// Sum of a plane, in lanes so that it vectorizes.
template <typename T>
THALWEG_SIMD T SumPlane(const T* x, int64_t n) {
  constexpr int kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] = WrapAdd(lanes[l], x[i + l]);
  }
  T sum(0);
  for (; i < n; ++i) sum = WrapAdd(sum, x[i]);
  for (int l = 0; l < kLanes; ++l) sum = WrapAdd(sum, lanes[l]);
  return sum;
}

template <typename T>
void SumChannels(KernelContext& context, const Channels& d, const T* x, T* sum) {
  std::fill_n(sum, d.channels, T(0));
  if (d.outer == 0 || d.inner == 0) return;  // planes of nothing may be many
  // Threads take channels, not rows: no partial sums to add up.
  const double nanos = 0.3 * static_cast<double>(d.outer) * static_cast<double>(d.inner);
  if (d.inner == 1) {
    // Whole cache lines of channels.
    const int64_t unit = 64 / sizeof(T), units = (d.channels + unit - 1) / unit;
    context.ParallelFor(units, nanos * static_cast<double>(unit), [&](int64_t begin, int64_t end) {
      SumRows(x, sum, d.outer, d.channels, begin * unit, std::min(end * unit, d.channels));
    });
    return;
  }
  context.ParallelFor(d.channels, nanos, [&](int64_t begin, int64_t end) {
    for (int64_t o = 0; o < d.outer; ++o) {
      for (int64_t c = begin; c < end; ++c) {
        sum[c] = WrapAdd(sum[c], SumPlane(x + (o * d.channels + c) * d.inner, d.inner));
      }
    }
  });
}

class BiasAddGradKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(nchw_, IsNchw(init.node().def()));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& dy = context.input(0);
    if (dy.rank() < 2) return InvalidArgument("Input tensor must be at least 2D: ", dy.shape());
    const Channels d = ChannelsOf(dy.shape(), nchw_);
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, Shape({d.channels})));
    if (IsHalfPrecision(dy.dtype())) {
      ASSIGN_OR_RETURN(Tensor x, context.AllocateTemporary(kFloat, dy.shape()));
      ASSIGN_OR_RETURN(Tensor sum, context.AllocateTemporary(kFloat, out->shape()));
      HalfToFloat(dy.dtype(), dy.raw(), x.mutable_data<float>(), x.num_elements());
      SumChannels(context, d, x.data<float>(), sum.mutable_data<float>());
      FloatToHalf(out->dtype(), sum.data<float>(), out->raw(), d.channels);
      return absl::OkStatus();
    }
    return Dispatch(BiasTypes(), dy.dtype(), [&]<typename T>() {
      SumChannels(context, d, dy.data<T>(), out->mutable_data<T>());
      return absl::OkStatus();
    });
  }

 private:
  bool nchw_ = false;
};

absl::Status BiasAddShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const bool nchw, IsNchw(c.node().def()));
  ASSIGN_OR_RETURN(const PartialShape bias, c.WithRank(1, 1));
  const PartialShape& value = c.input(0);
  if (!value.has_rank()) return absl::OkStatus();
  if (value.rank() < 2) return InvalidArgument("Shape must be at least rank 2 but is rank ", value.rank());
  Dims dims(value.dims().begin(), value.dims().end());
  int64_t& channels = nchw ? dims[1] : dims.back();
  if (channels >= 0 && bias.dim(0) >= 0 && channels != bias.dim(0)) {
    return InvalidArgument("Dimensions must be equal, but are ", channels, " and ", bias.dim(0),
                           " with input shapes: ", value, ", ", bias);
  }
  channels = std::max(channels, bias.dim(0));
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

absl::Status BiasAddGradShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const bool nchw, IsNchw(c.node().def()));
  const PartialShape& dy = c.input(0);
  if (!dy.has_rank()) {
    c.set_output(0, PartialShape::OfRank(1));
    return absl::OkStatus();
  }
  if (dy.rank() < 2) return InvalidArgument("Shape must be at least rank 2 but is rank ", dy.rank());
  c.set_output(0, PartialShape({nchw ? dy.dim(1) : dy.dim(dy.rank() - 1)}));
  return absl::OkStatus();
}

absl::Status BiasAddGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const bool nchw, IsNchw(g.node()->def()));
  g.set_dx(0, g.dy());
  g.set_dx(1, BiasAddGrad(g.scope(), g.dy(),
                          {.data_format = nchw ? DataFormat::kChannelsFirst : DataFormat::kChannelsLast}));
  return absl::OkStatus();
}

// The gradient of a sum over everything but the channels: its own gradient,
// repeated. Adding it to zeros of the right shape does that.
absl::Status BiasAddGradGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const bool nchw, IsNchw(g.node()->def()));
  const Scope& s = g.scope();
  g.set_dx(0, BiasAdd(s, s.Add("ZerosLike", {g.input(0)}), g.dy(),
                      {.data_format = nchw ? DataFormat::kChannelsFirst : DataFormat::kChannelsLast}));
  return absl::OkStatus();
}

const OpRegistration kBiasAddOps[] = {
    Op("BiasAdd")
        .Input("value: T")
        .Input("bias: T")
        .Output("output: T")
        .Attr("T: numbertype")
        .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
        .Shape(BiasAddShape)
        .Kernel<BiasAddKernel>()
        .Gradient(BiasAddGradient),
    Op("BiasAddV1")
        .Input("value: T")
        .Input("bias: T")
        .Output("output: T")
        .Attr("T: numbertype")
        .Shape(BiasAddShape)
        .Kernel<BiasAddKernel>()
        .Gradient(BiasAddGradient),
    Op("BiasAddGrad")
        .Input("out_backprop: T")
        .Output("output: T")
        .Attr("T: numbertype")
        .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
        .Shape(BiasAddGradShape)
        .Kernel<BiasAddGradKernel>()
        .Gradient(BiasAddGradGradient),
};

}  // namespace

Output BiasAdd(const Scope& s, Output value, Output bias, const BiasAddOptions& options) {
  return s.Add("BiasAdd", {value, bias}, {{"data_format", NameOf(options.data_format)}});
}
Output BiasAddGrad(const Scope& s, Output out_backprop, const BiasAddOptions& options) {
  return s.Add("BiasAddGrad", {out_backprop}, {{"data_format", NameOf(options.data_format)}});
}

}  // namespace thalweg
