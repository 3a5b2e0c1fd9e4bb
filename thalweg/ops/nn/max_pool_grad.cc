// SPDX-License-Identifier: Apache-2.0
// Gradients of MaxPool and MaxPool3D. Of images the first largest element of a
// window gets the window's gradient; of volumes every element that is within
// 1e-5 of the largest, as TensorFlow has it. GradGrad is the gradient of the
// gradient: it picks the elements at the same places.
#include <algorithm>
#include <cmath>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/nn/max_pool.h"
#include "thalweg/ops/support/pool_vector.h"

namespace thalweg {
namespace {

// dx of one image; best and where are scratch, an element per channel.
// Always inlined: out of line it would not be compiled for several instruction sets.
template <typename T>
[[gnu::always_inline]] inline void GradImage(const Pool& p, const T* x, const T* dy, T* dx, T* best, int32_t* where) {
  const int64_t n = p.channels;
  std::fill_n(dx, p.input_image(), T(0));
  for (int64_t o = 0; o < OutputPositions(p.windows); ++o, dy += n) {
    FirstLargest(p, x, o, best, where);
    ForWindow(p.windows, o, [&](int64_t position) {
      T* to = dx + position * n;
      const int32_t here = static_cast<int32_t>(position);
#pragma GCC ivdep
      for (int64_t c = 0; c < n; ++c) to[c] += where[c] == here ? dy[c] : T(0);
    });
  }
}

// For float, compiled for several instruction sets; other types are rare.
THALWEG_SIMD void GradImageFloat(const Pool& p, const float* x, const float* dy, float* dx, float* best,
                                 int32_t* where) {
  GradImage(p, x, dy, dx, best, where);
}

template <typename T>
void GradGradImage(const Pool& p, const T* x, const T* ddx, T* out, T* best, int32_t* where) {
  const int64_t n = p.channels;
  for (int64_t o = 0; o < OutputPositions(p.windows); ++o, out += n) {
    FirstLargest(p, x, o, best, where);
    for (int64_t c = 0; c < n; ++c) out[c] = ddx[where[c] * n + c];
  }
}

// Elements close to the largest all count.
template <typename T>
inline bool IsLargest(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::abs(x - y) < T(1e-5);
  } else {
    return x == y;
  }
}

template <typename T>
void VolumeGradImage(const Pool& p, const T* x, const T* y, const T* dy, T* dx) {
  const int64_t n = p.channels;
  std::fill_n(dx, p.input_image(), T(0));
  for (int64_t o = 0; o < OutputPositions(p.windows); ++o, y += n, dy += n) {
    ForWindow(p.windows, o, [&](int64_t position) {
      const T* from = x + position * n;
      T* to = dx + position * n;
      for (int64_t c = 0; c < n; ++c) to[c] += IsLargest(from[c], y[c]) ? dy[c] : T(0);
    });
  }
}

class MaxPoolGradKernel : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const WindowAttrs attrs, Attrs(context, 3));
    ASSIGN_OR_RETURN(const Pool pool, PoolOf(attrs, context.input(0).shape()));
    ASSIGN_OR_RETURN(const Shape shape, attrs.OutputShape(pool.batch, pool.windows, pool.channels));
    RETURN_IF_ERROR(CheckShape("orig_output", context.input(1), shape));
    RETURN_IF_ERROR(CheckShape("grad", context.input(2), shape));
    ASSIGN_OR_RETURN(const Tensor x, AsFloat(context, context.input(0)));
    ASSIGN_OR_RETURN(const Tensor y, AsFloat(context, context.input(1)));
    ASSIGN_OR_RETURN(const Tensor dy, AsFloat(context, context.input(2)));
    return ComputeInFloat(context, x.shape(), [&](Tensor* dx) {
      if (x.num_elements() == 0) return absl::OkStatus();  // images of nothing may be many
      return Dispatch(MaxPoolTypes(), x.dtype(), [&]<typename T>() {
        context.ParallelFor(pool.batch, 2 * pool.nanos(), [&](int64_t begin, int64_t end) {
          PoolVector<T> best(pool.channels);
          PoolVector<int32_t> where(pool.channels);
          for (int64_t b = begin; b < end; ++b) {
            const int64_t in = b * pool.input_image(), out = b * pool.output_image();
            if (spatial_ == 3) {
              VolumeGradImage(pool, x.data<T>() + in, y.data<T>() + out, dy.data<T>() + out,
                              dx->mutable_data<T>() + in);
            } else if constexpr (std::is_same_v<T, float>) {
              GradImageFloat(pool, x.data<T>() + in, dy.data<T>() + out, dx->mutable_data<T>() + in, best.data(),
                             where.data());
            } else {
              GradImage(pool, x.data<T>() + in, dy.data<T>() + out, dx->mutable_data<T>() + in, best.data(),
                        where.data());
            }
          }
        });
        return absl::OkStatus();
      });
    });
  }
};

class MaxPoolGradGradKernel : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const WindowAttrs attrs, Attrs(context, 3));
    ASSIGN_OR_RETURN(const Pool pool, PoolOf(attrs, context.input(0).shape()));
    ASSIGN_OR_RETURN(const Shape shape, attrs.OutputShape(pool.batch, pool.windows, pool.channels));
    RETURN_IF_ERROR(CheckShape("orig_output", context.input(1), shape));
    RETURN_IF_ERROR(CheckShape("grad", context.input(2), context.input(0).shape()));
    ASSIGN_OR_RETURN(const Tensor x, AsFloat(context, context.input(0)));
    ASSIGN_OR_RETURN(const Tensor ddx, AsFloat(context, context.input(2)));
    return ComputeInFloat(context, shape, [&](Tensor* output) {
      if (shape.num_elements() == 0) return absl::OkStatus();
      return Dispatch(MaxPoolTypes(), x.dtype(), [&]<typename T>() {
        context.ParallelFor(pool.batch, pool.nanos(), [&](int64_t begin, int64_t end) {
          PoolVector<T> best(pool.channels);
          PoolVector<int32_t> where(pool.channels);
          for (int64_t b = begin; b < end; ++b) {
            const int64_t in = b * pool.input_image();
            GradGradImage(pool, x.data<T>() + in, ddx.data<T>() + in,
                          output->mutable_data<T>() + b * pool.output_image(), best.data(), where.data());
          }
        });
        return absl::OkStatus();
      });
    });
  }
};

absl::Status LikeInput1(ShapeContext& c) {
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

// By the gradient that came in; what was the largest does not change by a
// little.
template <int spatial>
absl::Status MaxPoolGradGradient(GradientContext& g) {
  const char* op = spatial == 2 ? "MaxPoolGradGrad" : "MaxPool3DGradGrad";
  std::vector<AttrArg> attrs = MaxPoolAttrs(*g.node());
  std::erase_if(attrs, [](const AttrArg& a) { return a.name == "explicit_paddings"; });
  g.set_dx(2, Output(g.scope().Add(op, {g.input(0), g.input(1), g.dy()}, std::move(attrs))));
  return absl::OkStatus();
}

constexpr char kImageFormat[] = "data_format: {'NHWC', 'NCHW'} = 'NHWC'";

Op Grad(const char* name, const char* type, const char* type_of_originals) {
  return Op(name)
      .Input(absl::StrCat("orig_input: ", type_of_originals))
      .Input(absl::StrCat("orig_output: ", type_of_originals))
      .Input(absl::StrCat("grad: ", type))
      .Output(absl::StrCat("output: ", type));
}

const OpRegistration kMaxPoolGradOps[] = {
    Grad("MaxPoolGrad", "T", "T")
        .Attr("ksize: list(int) >= 4")
        .Attr("strides: list(int) >= 4")
        .Attr(kPoolExplicitPadding)
        .Attr("explicit_paddings: list(int) = []")
        .Attr(kImageFormat)
        .Attr("T: realnumbertype = DT_FLOAT")
        .Shape(shapes::LikeInput0)
        .Kernel<MaxPoolGradKernel>(2)
        .Gradient(MaxPoolGradGradient<2>),
    Grad("MaxPoolGradV2", "T", "T")
        .Input("ksize: int32")
        .Input("strides: int32")
        .Attr(kPoolPadding)
        .Attr(kImageFormat)
        .Attr("T: realnumbertype = DT_FLOAT")
        .Shape(shapes::LikeInput0)
        .Kernel<MaxPoolGradKernel>(2),
    Grad("MaxPoolGradGrad", "T", "T")
        .Attr("ksize: list(int) >= 4")
        .Attr("strides: list(int) >= 4")
        .Attr(kPoolPadding)
        .Attr(kImageFormat)
        .Attr("T: realnumbertype")
        .Shape(LikeInput1)
        .Kernel<MaxPoolGradGradKernel>(2),
    Grad("MaxPoolGradGradV2", "T", "T")
        .Input("ksize: int32")
        .Input("strides: int32")
        .Attr(kPoolPadding)
        .Attr(kImageFormat)
        .Attr("T: realnumbertype")
        .Shape(LikeInput1)
        .Kernel<MaxPoolGradGradKernel>(2),
    Grad("MaxPool3DGrad", "T", "TInput")
        .Attr("ksize: list(int) >= 5")
        .Attr("strides: list(int) >= 5")
        .Attr(kPoolPadding)
        .Attr(kPoolVolumeFormat)
        .Attr("T: {half, bfloat16, float} = DT_FLOAT")
        .Attr("TInput: {half, bfloat16, float} = DT_FLOAT")
        .Shape(shapes::LikeInput0)
        .Kernel<MaxPoolGradKernel>(3)
        .Gradient(MaxPoolGradGradient<3>),
    Grad("MaxPool3DGradGrad", "T", "T")
        .Attr("ksize: list(int) >= 5")
        .Attr("strides: list(int) >= 5")
        .Attr(kPoolPadding)
        .Attr(kPoolVolumeFormat)
        .Attr("T: realnumbertype")
        .Shape(LikeInput1)
        .Kernel<MaxPoolGradGradKernel>(3),
};

}  // namespace
}  // namespace thalweg
