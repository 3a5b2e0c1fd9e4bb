// SPDX-License-Identifier: Apache-2.0
// MaxPool and MaxPool3D: the largest element of every window, per channel;
// MaxPool also over groups of channels. V2 has window and strides as inputs.
#include <algorithm>
#include <limits>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/nn/max_pool.h"
#include "thalweg/ops/nn_ops.h"

namespace thalweg {
namespace {

// Always inlined: out of line it would not be compiled for several instruction sets.
template <typename T>
[[gnu::always_inline]] inline void MaxPositions(const Pool& p, const T* image, int64_t begin, int64_t end, T* out) {
  const int64_t n = p.channels;
  for (int64_t o = begin; o < end; ++o, out += n) {
    std::fill_n(out, n, std::numeric_limits<T>::lowest());
    ForWindow(p.windows, o, [&](int64_t position) {
      const T* x = image + position * n;
#pragma GCC ivdep
      for (int64_t c = 0; c < n; ++c) out[c] = out[c] < x[c] ? x[c] : out[c];
    });
  }
}

// For float, compiled for several instruction sets; other types are rare.
THALWEG_SIMD void MaxPositionsFloat(const Pool& p, const float* image, int64_t begin, int64_t end, float* out) {
  MaxPositions(p, image, begin, end, out);
}

class MaxPoolKernel : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const WindowAttrs attrs, Attrs(context, 1));
    // A quantized type is ordered as its bits.
    const Tensor raw = context.input(0);
    ASSIGN_OR_RETURN(
        const Tensor input,
        AsFloat(context, StorageType(raw.dtype()) == raw.dtype() ? raw : raw.Bitcast(StorageType(raw.dtype()))));
    if (input.rank() == attrs.rank() && attrs.ksize[attrs.channel_dim()] != 1) return Depthwise(context, attrs, input);
    ASSIGN_OR_RETURN(const Pool pool, PoolOf(attrs, input.shape()));
    ASSIGN_OR_RETURN(const Shape shape, attrs.OutputShape(pool.batch, pool.windows, pool.channels));
    return ComputeInFloat(context, shape, [&](Tensor* output) {
      if (shape.num_elements() == 0) return absl::OkStatus();  // images of nothing may be many
      return Dispatch(MaxPoolTypes(), input.dtype(), [&]<typename T>() {
        const int64_t row = pool.windows[2].output, rows = OutputPositions(pool.windows) / std::max<int64_t>(1, row);
        T* const out = static_cast<T*>(output->raw());
        context.ParallelFor(pool.batch * rows, pool.nanos() / static_cast<double>(std::max<int64_t>(1, rows)),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t r = begin; r < end; ++r) {
                                const T* image = input.data<T>() + r / rows * pool.input_image();
                                const int64_t first = r % rows * row;
                                T* const to = out + r * row * pool.channels;
                                if constexpr (std::is_same_v<T, float>) {
                                  MaxPositionsFloat(pool, image, first, first + row, to);
                                } else {
                                  MaxPositions(pool, image, first, first + row, to);
                                }
                              }
                            });
        return absl::OkStatus();
      });
    });
  }

 private:
  // Over groups of channels.
  absl::Status Depthwise(KernelContext& context, const WindowAttrs& attrs, const Tensor& input) const {
    const int last = attrs.channel_dim();
    for (int i = 0; i < attrs.spatial; ++i) {
      if (attrs.ksize[attrs.spatial_dim(i)] != 1) {
        return Unimplemented("MaxPooling supports exactly one of pooling across depth or pooling across width/height.");
      }
    }
    const int64_t window = attrs.ksize[last];
    if (input.dim(last) % window != 0) {
      return Unimplemented("Depthwise max pooling requires the depth window to evenly divide the input depth");
    }
    if (attrs.strides[last] != window) {
      return Unimplemented("Depthwise max pooling requires the depth window to equal the depth stride");
    }
    Shape shape = input.shape();
    shape.set_dim(last, input.dim(last) / window);
    return ComputeInFloat(context, shape, [&](Tensor* output) {
      return Dispatch(MaxPoolTypes(), input.dtype(), [&]<typename T>() {
        const T* x = input.data<T>();
        T* y = static_cast<T*>(output->raw());
        for (int64_t i = 0; i < shape.num_elements(); ++i, x += window) y[i] = *std::max_element(x, x + window);
        return absl::OkStatus();
      });
    });
  }
};

// For the V2 ops, whose window is an input.
absl::Status PoolV2Shape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 4));
  ASSIGN_OR_RETURN(WindowAttrs attrs, WindowAttrs::Read(c.node().def(), 2));
  const std::optional<Tensor> ksize = c.Constant(1), strides = c.Constant(2);
  PartialShape output = PartialShape::OfRank(4);
  if (ksize && strides && ksize->num_elements() == 4 && strides->num_elements() == 4) {
    attrs.ksize.assign(ksize->data<int32_t>(), ksize->data<int32_t>() + 4);
    attrs.strides.assign(strides->data<int32_t>(), strides->data<int32_t>() + 4);
    RETURN_IF_ERROR(attrs.Check());
    int64_t channels = input.dim(attrs.channel_dim());
    if (channels > 0) channels /= attrs.ksize[attrs.channel_dim()];
    ASSIGN_OR_RETURN(
        output, attrs.InferOutput(input, absl::MakeConstSpan(attrs.ksize).subspan(attrs.spatial_dim(0), 2), channels));
  }
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

template <int spatial>
absl::Status MaxPoolGradient(GradientContext& g) {
  const char* op = spatial == 2 ? "MaxPoolGrad" : "MaxPool3DGrad";
  g.set_dx(0, Output(g.scope().Add(op, {g.input(0), g.output(0), g.dy()}, MaxPoolAttrs(*g.node()))));
  return absl::OkStatus();
}

absl::Status MaxPoolV2Gradient(GradientContext& g) {
  g.set_dx(0, Output(g.scope().Add("MaxPoolGradV2", {g.input(0), g.output(0), g.dy(), g.input(1), g.input(2)},
                                   MaxPoolAttrs(*g.node()))));
  return absl::OkStatus();
}

constexpr char kPooled[] =
    "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = DT_FLOAT";

const OpRegistration kMaxPoolOps[] = {
    Op("MaxPool")
        .Input("input: T")
        .Output("output: T")
        .Attr(kPooled)
        .Attr("ksize: list(int) >= 4")
        .Attr("strides: list(int) >= 4")
        .Attr(kPoolExplicitPadding)
        .Attr("explicit_paddings: list(int) = []")
        .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
        .Shape(MaxPoolShape<2>)
        .Kernel<MaxPoolKernel>(2)
        .Gradient(MaxPoolGradient<2>),
    Op("MaxPoolV2")
        .Input("input: T")
        .Input("ksize: int32")
        .Input("strides: int32")
        .Output("output: T")
        .Attr(kPooled)
        .Attr(kPoolPadding)
        .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
        .Shape(PoolV2Shape)
        .Kernel<MaxPoolKernel>(2)
        .Gradient(MaxPoolV2Gradient),
    Op("MaxPool3D")
        .Input("input: T")
        .Output("output: T")
        .Attr("ksize: list(int) >= 5")
        .Attr("strides: list(int) >= 5")
        .Attr(kPoolPadding)
        .Attr(kPoolVolumeFormat)
        .Attr("T: {half, bfloat16, float}")
        .Shape(MaxPoolShape<3>)
        .Kernel<MaxPoolKernel>(3)
        .Gradient(MaxPoolGradient<3>),
};

}  // namespace

Output MaxPool(const Scope& s, Output input, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
               Padding padding) {
  return s.Add("MaxPool", {input}, {{"ksize", ksize}, {"strides", strides}, {"padding", NameOf(padding)}});
}
Output MaxPool3D(const Scope& s, Output input, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
                 Padding padding) {
  return s.Add("MaxPool3D", {input}, {{"ksize", ksize}, {"strides", strides}, {"padding", NameOf(padding)}});
}

}  // namespace thalweg
