// SPDX-License-Identifier: Apache-2.0
// LRN: local response normalization across channels (the last dimension),
//
//   y[c] = x[c] / N[c]^beta,  N[c] = bias + alpha * sum of x[j]^2, |j - c| <= radius,
//
// and its gradient
//
//   dx[c] = dy[c] / N[c]^beta - 2 alpha beta x[c] * sum of dy[j] y[j] / N[j], |j - c| <= radius.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/pool_vector.h"
#include "thalweg/ops/support/vector_math.h"

namespace thalweg {
namespace {

struct LrnAttrs {
  int64_t radius = 5;
  float bias = 1;
  float alpha = 1;
  float beta = 0.5f;
};

typedef float Lanes __attribute__((vector_size(32), aligned(4)));  // clang passes over `aligned` after `using`
static_assert(alignof(Lanes) == 4);
constexpr int64_t kLanes = 8;

// A row of channels with zeros before and after, so that every window of `radius`
// on both sides is inside, in whole vectors.
class PaddedRow {
 public:
  PaddedRow(int64_t channels, int64_t radius)
      : radius_(radius), values_((channels + kLanes - 1) / kLanes * kLanes + 2 * radius) {}
  float* data() { return values_.data() + radius_; }
  // The sums of the windows around every channel, in whole vectors.
  void SumAround(int64_t channels, float* sums) const {
    for (int64_t c = 0; c < channels; c += kLanes) {
      Lanes sum = {};
      const float* x = values_.data() + c;
      for (int64_t i = 0; i <= 2 * radius_; ++i) sum += *reinterpret_cast<const Lanes*>(x + i);
      std::memcpy(sums + c, &sum, sizeof(sum));
    }
  }

 private:
  const int64_t radius_;
  PoolVector<float> values_;
};

// n^-beta. The tutorials' beta is 0.75.
inline float InversePower(float n, float beta) {
  if (beta == 0.75f) {
    const float root = std::sqrt(n);
    return 1.0f / (root * std::sqrt(root));
  }
  if (beta == 0.5f) return 1.0f / std::sqrt(n);
  if (beta == 1.0f) return 1.0f / n;
  return vec::Exp(-beta * vec::Log(n));
}

// N of a row. `squares` is scratch.
inline void Norms(const LrnAttrs& a, const float* x, int64_t channels, PaddedRow& squares, float* norms) {
  float* s = squares.data();
#pragma GCC ivdep
  for (int64_t c = 0; c < channels; ++c) s[c] = x[c] * x[c];
  squares.SumAround(channels, norms);
#pragma GCC ivdep
  for (int64_t c = 0; c < channels; ++c) norms[c] = a.bias + a.alpha * norms[c];
}

// Whole vectors: what Norms writes.
int64_t RoundUp(int64_t channels) { return (channels + kLanes - 1) / kLanes * kLanes; }

THALWEG_SIMD void LrnRows(const LrnAttrs& a, const float* x, float* y, int64_t rows, int64_t channels) {
  PaddedRow squares(channels, a.radius);
  PoolVector<float> row(RoundUp(channels));
  float* const norms = row.data();
  const float beta = a.beta;
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
    Norms(a, x, channels, squares, norms);
    if (beta == 0.75f) {  // the common case: a separate loop that needs square roots only
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) y[c] = x[c] * InversePower(norms[c], 0.75f);
    } else {
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) y[c] = x[c] * InversePower(norms[c], beta);
    }
  }
}

THALWEG_SIMD void LrnGradRows(const LrnAttrs& a, const float* dy, const float* x, const float* y, float* dx,
                              int64_t rows, int64_t channels) {
  PaddedRow squares(channels, a.radius), ratios(channels, a.radius);
  PoolVector<float> row(2 * RoundUp(channels));
  float* const norms = row.data();
  float* const sums = norms + RoundUp(channels);
  const float factor = 2 * a.alpha * a.beta, beta = a.beta;
  for (int64_t r = 0; r < rows; ++r, dy += channels, x += channels, y += channels, dx += channels) {
    Norms(a, x, channels, squares, norms);
    float* ratio = ratios.data();
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) ratio[c] = dy[c] * y[c] / norms[c];
    ratios.SumAround(channels, sums);
    if (beta == 0.75f) {
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) {
        dx[c] = dy[c] * InversePower(norms[c], 0.75f) - factor * x[c] * sums[c];
      }
    } else {
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) dx[c] = dy[c] * InversePower(norms[c], beta) - factor * x[c] * sums[c];
    }
  }
}

// The kernel of LRN and of its gradient. All inputs have the same shape.
class LrnKernel : public Kernel {
 public:
  explicit LrnKernel(bool grad) : grad_(grad) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(attrs_.radius, init.Attr<int64_t>("depth_radius"));
    if (attrs_.radius < 0 || attrs_.radius >= std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("depth_radius = ", attrs_.radius, " larger than int max");
    }
    ASSIGN_OR_RETURN(attrs_.bias, init.Attr<float>("bias"));
    ASSIGN_OR_RETURN(attrs_.alpha, init.Attr<float>("alpha"));
    ASSIGN_OR_RETURN(attrs_.beta, init.Attr<float>("beta"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Shape& shape = context.input(0).shape();
    if (shape.rank() != 4) return InvalidArgument(grad_ ? "inputs" : "in", " must be 4-dimensional");
    std::vector<Tensor> in;
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Tensor& x = context.input(i);
      if (x.shape() != shape) {
        return InvalidArgument("input_grads, input_image, and out_image should have the same shape");
      }
      if (!IsHalfPrecision(x.dtype())) {
        in.push_back(x);
        continue;
      }
      ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kFloat, shape));
      HalfToFloat(x.dtype(), x.raw(), wide.mutable_data<float>(), x.num_elements());
      in.push_back(std::move(wide));
    }
    ASSIGN_OR_RETURN(Tensor * output, context.Allocate(0, shape));
    Tensor out = *output;
    if (IsHalfPrecision(out.dtype())) {
      ASSIGN_OR_RETURN(out, context.AllocateTemporary(kFloat, shape));
    }
    if (shape.num_elements() == 0) return absl::OkStatus();
    const int64_t channels = shape.dim(3), rows = shape.num_elements() / channels;
    LrnAttrs attrs = attrs_;
    attrs.radius = std::min(attrs.radius, channels);  // all there is
    float* const to = static_cast<float*>(out.raw());
    context.ParallelFor(rows, (grad_ ? 4.0 : 2.0) * static_cast<double>(channels), [&](int64_t begin, int64_t end) {
      const int64_t first = begin * channels, count = end - begin;
      if (grad_) {
        LrnGradRows(attrs, in[0].data<float>() + first, in[1].data<float>() + first, in[2].data<float>() + first,
                    to + first, count, channels);
      } else {
        LrnRows(attrs, in[0].data<float>() + first, to + first, count, channels);
      }
    });
    if (IsHalfPrecision(output->dtype())) FloatToHalf(output->dtype(), to, output->raw(), out.num_elements());
    return absl::OkStatus();
  }

 private:
  const bool grad_;
  LrnAttrs attrs_;
};

absl::Status LrnShape(ShapeContext& c) {
  PartialShape shape = PartialShape::OfRank(4);
  for (int i = 0; i < c.num_inputs(); ++i) {
    ASSIGN_OR_RETURN(shape, PartialShape::Merge(shape, c.input(i)));
  }
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status LrnGradient(GradientContext& g) {
  std::vector<AttrArg> attrs;
  for (const char* name : {"depth_radius", "bias", "alpha", "beta"}) {
    attrs.emplace_back(name, g.node()->def().attr().at(name));
  }
  g.set_dx(0, Output(g.scope().Add("LRNGrad", {g.dy(), g.input(0), g.output(0)}, std::move(attrs))));
  return absl::OkStatus();
}

Op WithLrnAttrs(Op& op) {
  return op.Output("output: T")
      .Attr("depth_radius: int = 5")
      .Attr("bias: float = 1.0")
      .Attr("alpha: float = 1.0")
      .Attr("beta: float = 0.5")
      .Attr("T: {half, bfloat16, float} = DT_FLOAT")
      .Shape(LrnShape);
}

const OpRegistration kLrnOps[] = {
    WithLrnAttrs(Op("LRN").Input("input: T")).Kernel<LrnKernel>(false).Gradient(LrnGradient),
    WithLrnAttrs(Op("LRNGrad").Input("input_grads: T").Input("input_image: T").Input("output_image: T"))
        .Kernel<LrnKernel>(true),
};

}  // namespace

Output Lrn(const Scope& s, Output input, const LrnOptions& options) {
  return s.Add("LRN", {input},
               {{"depth_radius", options.depth_radius},
                {"bias", options.bias},
                {"alpha", options.alpha},
                {"beta", options.beta}});
}

}  // namespace thalweg
