// SPDX-License-Identifier: Apache-2.0
// AvgPool and AvgPool3D: the mean of every window, per channel, over the
// elements that are inside the input; and their gradients, which spread each
// window's gradient over its elements.
#include <algorithm>
#include <cstring>
#include <utility>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/nn/window.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/float_compute.h"

namespace thalweg {
namespace {

// The number of positions that ForWindow() visits; an arbitrary positive number if there are
// none.
inline int64_t CountInside(const Windows& w, int64_t z, int64_t y, int64_t x) {
  const auto inside = [](const SlidingWindow& side, int64_t at) {
    return std::max<int64_t>(1, side.End(at) - side.Begin(at));
  };
  return inside(w[0], z) * inside(w[1], y) * inside(w[2], x);
}

// sum[c] += the c-th of each of the `count` rows, at most four, for n channels.
template <typename T>
[[gnu::always_inline]] inline void SumWindowRows(const T* const* rows, int count, int64_t n, T* sum) {
  const T *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
  if (count == 4) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) sum[i] += (a[i] + b[i]) + (c[i] + d[i]);
    return;
  }
  for (int r = 0; r < count; ++r) {
    a = rows[r];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) sum[i] += a[i];
  }
}

// A row of output positions of one image.
template <typename T>
THALWEG_SIMD void MeanRow(const Windows& w, int64_t n, const T* image, int64_t row, T* out) {
  const int64_t z = row / w[1].output, y = row % w[1].output;
  for (int64_t x = 0; x < w[2].output; ++x, out += n) {
    std::fill_n(out, n, T(0));
    const T* rows[4] = {};
    int count = 0;
    ForWindow(w, z, y, x, [&](int64_t position) {
      rows[count++] = image + position * n;
      if (count == 4) SumWindowRows(rows, std::exchange(count, 0), n, out);
    });
    SumWindowRows(rows, count, n, out);
    const T scale = T(1) / static_cast<T>(CountInside(w, z, y, x));
#pragma GCC ivdep
    for (int64_t c = 0; c < n; ++c) out[c] *= scale;
  }
}

template <typename T>
THALWEG_SIMD void SpreadImage(const Windows& w, int64_t n, const T* dy, T* dx) {
  std::fill_n(dx, InputPositions(w) * n, T(0));
  for (int64_t row = 0; row < w[0].output * w[1].output; ++row) {
    const int64_t z = row / w[1].output, y = row % w[1].output;
    for (int64_t x = 0; x < w[2].output; ++x, dy += n) {
      const T scale = T(1) / static_cast<T>(CountInside(w, z, y, x));
      ForWindow(w, z, y, x, [&](int64_t position) {
        T* to = dx + position * n;
#pragma GCC ivdep
        for (int64_t c = 0; c < n; ++c) to[c] += dy[c] * scale;
      });
    }
  }
}

absl::StatusOr<WindowAttrs> ReadPoolAttrs(const KernelInit& init, int spatial) {
  ASSIGN_OR_RETURN(WindowAttrs attrs, WindowAttrs::Read(init.node().def(), spatial));
  if (attrs.channels_first) {
    return InvalidArgument("Default ", init.node().op(), " only supports ", spatial == 2 ? "NHWC" : "NDHWC",
                           " on device type CPU");
  }
  if (attrs.ksize[attrs.channel_dim()] != 1 || attrs.strides[attrs.channel_dim()] != 1) {
    return Unimplemented("Non-spatial pooling is not yet supported. Volunteers? :)");
  }
  return attrs;
}

class AvgPoolKernel : public Kernel {
 public:
  explicit AvgPoolKernel(int spatial) : spatial_(spatial) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(attrs_, ReadPoolAttrs(init, spatial_));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    if (context.input(0).rank() != attrs_.rank()) {
      return InvalidArgument("tensor_in must be ", attrs_.rank(), "-dimensional");
    }
    ASSIGN_OR_RETURN(const Tensor x, AsFloat(context, context.input(0)));
    ASSIGN_OR_RETURN(const Windows windows, attrs_.SlideKsize(x.shape().dims()));
    const int64_t channels = x.dim(attrs_.channel_dim());
    ASSIGN_OR_RETURN(const Shape shape, attrs_.OutputShape(x.dim(0), windows, channels));
    const int64_t row = std::max<int64_t>(1, windows[2].output);
    const int64_t rows = std::max<int64_t>(1, OutputPositions(windows) / row);
    const double nanos = 0.3 * static_cast<double>(WindowPositions(windows) * row * channels);
    return ComputeInFloat(context, shape, [&](Tensor* y) {
      return Dispatch(Types<float, double>(), x.dtype(), [&]<typename T>() {
        if (shape.num_elements() == 0) return absl::OkStatus();
        context.ParallelFor(x.dim(0) * rows, nanos, [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            const T* image = x.data<T>() + r / rows * InputPositions(windows) * channels;
            MeanRow(windows, channels, image, r % rows, static_cast<T*>(y->raw()) + r * row * channels);
          }
        });
        return absl::OkStatus();
      });
    });
  }

 private:
  const int spatial_;
  WindowAttrs attrs_;
};

class AvgPoolGradKernel : public Kernel {
 public:
  explicit AvgPoolGradKernel(int spatial) : spatial_(spatial) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(attrs_, ReadPoolAttrs(init, spatial_));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& sizes = context.input(0);
    if (sizes.rank() != 1 || sizes.num_elements() != attrs_.rank()) {
      return InvalidArgument("orig_input_shape must be 1-dimensional and ", attrs_.rank(), " elements");
    }
    if (context.input(1).rank() != attrs_.rank()) {
      return InvalidArgument("out_backprop must be ", attrs_.rank(), "-dimensional");
    }
    ASSIGN_OR_RETURN(const Shape shape,
                     Shape::Make(Dims(sizes.data<int32_t>(), sizes.data<int32_t>() + sizes.num_elements())));
    ASSIGN_OR_RETURN(const Windows windows, attrs_.SlideKsize(shape.dims()));
    const int64_t channels = shape.dim(attrs_.channel_dim());
    ASSIGN_OR_RETURN(const Shape expected, attrs_.OutputShape(shape.dim(0), windows, channels));
    if (context.input(1).shape() != expected) {
      return InvalidArgument("Expected grad shape to be ", expected, ", but got ", context.input(1).shape());
    }
    ASSIGN_OR_RETURN(const Tensor dy, AsFloat(context, context.input(1)));
    const int64_t in = InputPositions(windows) * channels, out = OutputPositions(windows) * channels;
    const double nanos = 0.3 * static_cast<double>(WindowPositions(windows) * out) + 0.1 * static_cast<double>(in);
    return ComputeInFloat(context, shape, [&](Tensor* dx) {
      return Dispatch(Types<float, double>(), dy.dtype(), [&]<typename T>() {
        if (shape.num_elements() == 0) return absl::OkStatus();  // images of nothing may be many
        context.ParallelFor(shape.dim(0), nanos, [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b) {
            SpreadImage(windows, channels, dy.data<T>() + b * out, static_cast<T*>(dx->raw()) + b * in);
          }
        });
        return absl::OkStatus();
      });
    });
  }

 private:
  const int spatial_;
  WindowAttrs attrs_;
};

template <int spatial>
absl::Status AvgPoolShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const WindowAttrs attrs, WindowAttrs::Read(c.node().def(), spatial));
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, attrs.rank()));
  ASSIGN_OR_RETURN(PartialShape output,
                   attrs.InferOutput(input, absl::MakeConstSpan(attrs.ksize).subspan(attrs.spatial_dim(0), spatial),
                                     input.dim(attrs.channel_dim())));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

template <int rank>
absl::Status AvgPoolGradShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape shape, c.ConstantAsShape(0));
  c.set_output(0, shape.has_rank() && shape.rank() == rank ? shape : PartialShape::OfRank(rank));
  return absl::OkStatus();
}

std::vector<AttrArg> PoolAttrs(const Node& node) {
  std::vector<AttrArg> attrs;
  for (const char* name : {"ksize", "strides", "padding", "data_format"}) {
    attrs.emplace_back(name, node.def().attr().at(name));
  }
  return attrs;
}

template <int spatial>
absl::Status AvgPoolGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Output(s.Add(spatial == 2 ? "AvgPoolGrad" : "AvgPool3DGrad", {ShapeOf(s, g.input(0)), g.dy()},
                           PoolAttrs(*g.node()))));
  return absl::OkStatus();
}

template <int spatial>
absl::Status AvgPoolGradGradient(GradientContext& g) {
  g.set_dx(1, Output(g.scope().Add(spatial == 2 ? "AvgPool" : "AvgPool3D", {g.dy()}, PoolAttrs(*g.node()))));
  return absl::OkStatus();
}

Op WithPoolAttrs(Op& op, int spatial) {
  return op.Output("output: T")
      .Attr(absl::StrCat("ksize: list(int) >= ", spatial + 2))
      .Attr(absl::StrCat("strides: list(int) >= ", spatial + 2))
      .Attr("padding: {'SAME', 'VALID'}")
      .Attr(spatial == 2 ? "data_format: {'NHWC', 'NCHW'} = 'NHWC'" : "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'")
      .Attr("T: {half, bfloat16, float, double}");
}

const OpRegistration kAvgPoolOps[] = {
    WithPoolAttrs(Op("AvgPool").Input("value: T"), 2)
        .Shape(AvgPoolShape<2>)
        .Kernel<AvgPoolKernel>(2)
        .Gradient(AvgPoolGradient<2>),
    WithPoolAttrs(Op("AvgPoolGrad").Input("orig_input_shape: int32").Input("grad: T"), 2)
        .Shape(AvgPoolGradShape<4>)
        .Kernel<AvgPoolGradKernel>(2)
        .Gradient(AvgPoolGradGradient<2>),
    WithPoolAttrs(Op("AvgPool3D").Input("input: T"), 3)
        .Shape(AvgPoolShape<3>)
        .Kernel<AvgPoolKernel>(3)
        .Gradient(AvgPoolGradient<3>),
    WithPoolAttrs(Op("AvgPool3DGrad").Input("orig_input_shape: int32").Input("grad: T"), 3)
        .Shape(AvgPoolGradShape<5>)
        .Kernel<AvgPoolGradKernel>(3)
        .Gradient(AvgPoolGradGradient<3>),
};

}  // namespace

Output AvgPool(const Scope& s, Output value, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
               Padding padding) {
  return s.Add("AvgPool", {value}, {{"ksize", ksize}, {"strides", strides}, {"padding", NameOf(padding)}});
}
Output AvgPool3D(const Scope& s, Output input, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
                 Padding padding) {
  return s.Add("AvgPool3D", {input}, {{"ksize", ksize}, {"strides", strides}, {"padding", NameOf(padding)}});
}

}  // namespace thalweg
