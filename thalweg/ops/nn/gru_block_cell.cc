// SPDX-License-Identifier: Apache-2.0
// GRUBlockCell: a step of a layer of gated recurrent units (Cho et al. 2014),
//
//   [r, u] = sigmoid([x, h] Wru + bru)        c = tanh([x, r * h] Wc + bc)        h' = u * h + (1 - u) * c
//
// and GRUBlockCellGrad, from which the derivatives by the weights follow.
#include <algorithm>
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/gemm.h"

namespace thalweg {
namespace {

struct GruSizes {
  int64_t batch = 0, depth = 0, units = 0;
  int64_t width() const { return depth + units; }  // width of [x, h]
};

enum GruInput { kGruX, kGruH, kGruWru, kGruWc, kGruBru, kGruBc, kGruForwardInputs };

absl::StatusOr<GruSizes> ReadGruSizes(const KernelContext& c) {
  const Shape &x = c.input(kGruX).shape(), &h = c.input(kGruH).shape();
  if (x.rank() != 2 || h.rank() != 2) return InvalidArgument("x and h_prev must be matrices, got ", x, " and ", h);
  const Shape &ru = c.input(kGruWru).shape(), &wc = c.input(kGruWc).shape();
  const GruSizes s{x.dim(0), x.dim(1), h.dim(1)};
  if (h.dim(0) != s.batch) return InvalidArgument("h_prev must have ", s.batch, " rows, got ", h);
  if (wc.rank() != 2 || wc.dim(1) != s.units || wc.dim(0) - s.units != s.depth) {
    return InvalidArgument("w_c must be [", s.depth, " + ", s.units, ", ", s.units, "], got ", wc);
  }
  if (ru.rank() != 2 || ru.dim(0) != wc.dim(0) || ru.dim(1) % 2 != 0 || ru.dim(1) / 2 != s.units) {
    return InvalidArgument("w_ru must be [", s.depth, " + ", s.units, ", 2 * ", s.units, "], got ", ru);
  }
  if (!(c.input(kGruBru).shape() == Shape({ru.dim(1)}))) {
    return InvalidArgument("b_ru must be [", ru.dim(1), "], got ", c.input(kGruBru).shape());
  }
  if (!(c.input(kGruBc).shape() == Shape({s.units}))) {
    return InvalidArgument("b_c must be [", s.units, "], got ", c.input(kGruBc).shape());
  }
  return s;
}

float GruSigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// Rows [x, h], or [x, h * r].
absl::StatusOr<Tensor> Beside(KernelContext& c, const GruSizes& s, const float* r) {
  ASSIGN_OR_RETURN(Tensor joined, c.AllocateTemporary(kFloat, Shape({s.batch, s.width()})));
  const float *x = c.input(kGruX).data<float>(), *h = c.input(kGruH).data<float>();
  float* to = joined.mutable_data<float>();
  for (int64_t b = 0; b < s.batch; ++b, x += s.depth, h += s.units) {
    to = std::copy_n(x, s.depth, to);
    for (int64_t u = 0; u < s.units; ++u) *to++ = r == nullptr ? h[u] : h[u] * r[b * s.units + u];
  }
  return joined;
}

absl::Status ComputeGruBlockCell(KernelContext& c) {
  ASSIGN_OR_RETURN(const GruSizes s, ReadGruSizes(c));
  const int64_t n = s.units;
  float* out[4];  // r, u, c, h
  for (int k = 0; k < 4; ++k) {
    ASSIGN_OR_RETURN(Tensor * tensor, c.Allocate(k, Shape({s.batch, n})));
    out[k] = tensor->mutable_data<float>();
  }
  if (s.batch == 0 || n == 0) return absl::OkStatus();
  const auto in = [&](int k) { return c.input(k).data<float>(); };
  ASSIGN_OR_RETURN(const Tensor xh, Beside(c, s, nullptr));
  ASSIGN_OR_RETURN(Tensor gates, c.AllocateTemporary(kFloat, Shape({s.batch, 2 * n})));
  RETURN_IF_ERROR((Gemm{.m = s.batch, .n = 2 * n, .k = s.width()}.Run(c, xh.data<float>(), in(kGruWru),
                                                                      gates.mutable_data<float>())));
  for (int64_t i = 0; i < s.batch * n; ++i) {
    const int64_t u = i % n, at = i / n * 2 * n + u;
    out[0][i] = GruSigmoid(gates.data<float>()[at] + in(kGruBru)[u]);
    out[1][i] = GruSigmoid(gates.data<float>()[at + n] + in(kGruBru)[n + u]);
  }
  ASSIGN_OR_RETURN(const Tensor xhr, Beside(c, s, out[0]));
  RETURN_IF_ERROR((Gemm{.m = s.batch, .n = n, .k = s.width()}.Run(c, xhr.data<float>(), in(kGruWc), out[2])));
  for (int64_t i = 0; i < s.batch * n; ++i) {
    out[2][i] = std::tanh(out[2][i] + in(kGruBc)[i % n]);
    out[3][i] = out[1][i] * in(kGruH)[i] + (1 - out[1][i]) * out[2][i];
  }
  return absl::OkStatus();
}

absl::Status ComputeGruBlockCellGrad(KernelContext& context) {
  ASSIGN_OR_RETURN(const GruSizes s, ReadGruSizes(context));
  const int64_t n = s.units, width = s.width();
  const float* forward[4];  // r, u, c, d_h
  for (int k = 0; k < 4; ++k) {
    const Tensor& t = context.input(kGruForwardInputs + k);
    if (!(t.shape() == Shape({s.batch, n}))) {
      return InvalidArgument("r, u, c and d_h must be ", Shape({s.batch, n}), ", got ", t.shape());
    }
    forward[k] = t.data<float>();
  }
  const auto [r, u, c, dh] = forward;
  const Shape shapes[] = {Shape({s.batch, s.depth}), Shape({s.batch, n}), Shape({s.batch, n}), Shape({s.batch, 2 * n})};
  float* out[4];  // gradients of x and h_prev, and of the sums before tanh and sigmoid
  for (int k = 0; k < 4; ++k) {
    ASSIGN_OR_RETURN(Tensor * tensor, context.Allocate(k, shapes[k]));
    out[k] = tensor->mutable_data<float>();
    std::fill_n(out[k], tensor->num_elements(), 0.0f);
  }
  if (s.batch == 0 || n == 0) return absl::OkStatus();
  const float* const h = context.input(kGruH).data<float>();
  for (int64_t i = 0; i < s.batch * n; ++i) out[2][i] = dh[i] * (1 - u[i]) * (1 - c[i] * c[i]);
  ASSIGN_OR_RETURN(Tensor memory, context.AllocateTemporary(kFloat, Shape({2, s.batch, width})));
  float *const by_c = memory.mutable_data<float>(), *const by_ru = by_c + s.batch * width;
  RETURN_IF_ERROR((Gemm{.transpose_b = true, .m = s.batch, .n = width, .k = n}.Run(
      context, out[2], context.input(kGruWc).data<float>(), by_c)));
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = b * n + k;
      out[3][2 * b * n + k] = by_c[b * width + s.depth + k] * h[i] * r[i] * (1 - r[i]);
      out[3][2 * b * n + n + k] = dh[i] * (h[i] - c[i]) * u[i] * (1 - u[i]);
    }
  }
  RETURN_IF_ERROR((Gemm{.transpose_b = true, .m = s.batch, .n = width, .k = 2 * n}.Run(
      context, out[3], context.input(kGruWru).data<float>(), by_ru)));
  for (int64_t b = 0; b < s.batch; ++b) {
    const float *const from_c = by_c + b * width, *const from_ru = by_ru + b * width;
    for (int64_t k = 0; k < s.depth; ++k) out[0][b * s.depth + k] = from_c[k] + from_ru[k];
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = b * n + k;
      out[1][i] = from_ru[s.depth + k] + from_c[s.depth + k] * r[i] + dh[i] * u[i];
    }
  }
  return absl::OkStatus();
}

absl::Status GruShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, c.WithRank(kGruX, 2));
  ASSIGN_OR_RETURN(const PartialShape h, c.WithRank(kGruH, 2));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, {x.dim(0), h.dim(1)});
  return absl::OkStatus();
}

absl::Status GruGradShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, c.WithRank(kGruX, 2));
  ASSIGN_OR_RETURN(const PartialShape h, c.WithRank(kGruH, 2));
  ASSIGN_OR_RETURN(const PartialShape w, c.WithRank(kGruWru, 2));
  c.set_output(0, x);
  c.set_output(1, {x.dim(0), h.dim(1)});
  c.set_output(2, {x.dim(0), h.dim(1)});
  c.set_output(3, {x.dim(0), w.dim(1)});
  return absl::OkStatus();
}

absl::Status GruGradient(GradientContext& g) {
  const Scope& s = g.scope();
  std::vector<OpInput> inputs;
  for (int i = 0; i < kGruForwardInputs; ++i) inputs.emplace_back(g.input(i));
  for (int i = 0; i < 3; ++i) inputs.emplace_back(g.output(i));
  inputs.emplace_back(g.dy(3));
  Node* const node = s.Add("GRUBlockCellGrad", inputs);
  if (node == nullptr) return absl::OkStatus();
  const Output x = g.input(kGruX), h = g.input(kGruH), d_c = node->out(2), d_ru = node->out(3);
  const MatMulOptions turned{.transpose_a = true};
  g.set_dx(kGruX, node->out(0));
  g.set_dx(kGruH, node->out(1));
  g.set_dx(kGruWru, MatMul(s, Concat(s, {x, h}, 1), d_ru, turned));
  g.set_dx(kGruWc, MatMul(s, Concat(s, {x, Mul(s, h, g.output(0))}, 1), d_c, turned));
  g.set_dx(kGruBru, Output(s.Add("BiasAddGrad", {d_ru})));
  g.set_dx(kGruBc, Output(s.Add("BiasAddGrad", {d_c})));
  return absl::OkStatus();
}

Op WithGruInputs(absl::string_view name) {
  Op op(name);
  op.Attr("T: {float}");
  for (const char* input : {"x", "h_prev", "w_ru", "w_c", "b_ru", "b_c"}) op.Input(absl::StrCat(input, ": T"));
  return op;
}

Op GruForward() {
  Op op = WithGruInputs("GRUBlockCell");
  for (const char* output : {"r", "u", "c", "h"}) op.Output(absl::StrCat(output, ": T"));
  return op.Shape(GruShape).Compute(ComputeGruBlockCell).Gradient(GruGradient);
}

Op GruBackward() {
  Op op = WithGruInputs("GRUBlockCellGrad");
  for (const char* input : {"r", "u", "c", "d_h"}) op.Input(absl::StrCat(input, ": T"));
  for (const char* output : {"d_x", "d_h_prev", "d_c_bar", "d_r_bar_u_bar"}) op.Output(absl::StrCat(output, ": T"));
  return op.Shape(GruGradShape).Compute(ComputeGruBlockCellGrad).NotDifferentiable();
}

const OpRegistration kGruOps[] = {GruForward(), GruBackward()};

}  // namespace
}  // namespace thalweg
