// SPDX-License-Identifier: Apache-2.0
// BlockLSTM: a layer of LSTM cells over all time steps of [time, batch, depth],
//
//   [i, ci, f, o] = [x_t, h] W + b
//   i = sigmoid(i + wci * c)        f = sigmoid(f + wcf * c + forget_bias)        ci = tanh(ci)
//   c = ci * i + c * f, within +-cell_clip        o = sigmoid(o + wco * c)        h = o * tanh(c)
//
// and its gradient, which ignores the clipping. The peepholes wci, wcf and wco are used if
// use_peephole is set. Steps from seq_len_max on output zeros. BlockLSTMV2 has f before ci in W
// and b, and no forget_bias. LSTMBlockCell is one step, for [batch, depth].
//
// W is [depth + units, 4 * units]. Its upper rows are multiplied with the inputs of all time
// steps in one product, and only the lower rows step by step. Likewise, the gradients of x and W
// are products over all steps. Half precision is computed in float.
#include <algorithm>
#include <limits>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/float_compute.h"
#include "thalweg/ops/support/gemm.h"
#include "thalweg/ops/support/vector_math.h"

namespace thalweg {
namespace {

// Sizes, and how many steps there are to do.
struct Sizes {
  int64_t time = 0, batch = 0, depth = 0, units = 0, steps = 0;
  Shape Sequence() const { return Shape({time, batch, units}); }
};

enum Input { kSteps, kX, kC, kH, kW, kWci, kWcf, kWco, kB, kForwardInputs };

enum class Form { kLayer, kLayerV2, kCell };

// Inputs are numbered as in BlockLSTM; a cell does not have kSteps.
int NumberIn(Form form, int input) { return form == Form::kCell ? input - 1 : input; }

absl::Status Expect(const KernelContext& c, int i, absl::string_view name, const Shape& shape) {
  if (c.input(i).shape() == shape) return absl::OkStatus();
  return InvalidArgument(name, " must be ", shape, ", got ", c.input(i).shape());
}

absl::StatusOr<Sizes> ReadSizes(const KernelContext& c, Form form, bool use_peephole) {
  const bool cell = form == Form::kCell;
  const Shape& x = c.input(NumberIn(form, kX)).shape();
  const Shape& w = c.input(NumberIn(form, kW)).shape();
  if (!cell && c.input(kSteps).num_elements() != 1) return InvalidArgument("seq_len_max must be a scalar");
  if (x.rank() != (cell ? 2 : 3)) {
    return InvalidArgument("x must be ", cell ? "[batch, depth]" : "[time, batch, depth]", ", got ", x);
  }
  if (w.rank() != 2 || w.dim(1) % 4 != 0) return InvalidArgument("w must be [depth + units, 4 * units], got ", w);
  Sizes s{cell ? 1 : x.dim(0), x.dim(cell ? 0 : 1), x.dim(cell ? 1 : 2), w.dim(1) / 4};
  if (w.dim(0) != s.depth + s.units) {
    return InvalidArgument("w must be [", s.depth, " + ", s.units, ", 4 * ", s.units, "], got ", w);
  }
  // Sums over several sequences must have sizes too.
  RETURN_IF_ERROR(Shape::Make(Dims{s.time, s.batch, 4, s.units}).status());
  s.steps = cell ? 1 : c.input(kSteps).scalar<int64_t>();
  if (s.steps < 0 || s.steps > s.time) {
    return InvalidArgument("seq_len_max must be in [0, ", s.time, "], got ", s.steps);
  }
  RETURN_IF_ERROR(Expect(c, NumberIn(form, kC), "cs_prev", Shape({s.batch, s.units})));
  RETURN_IF_ERROR(Expect(c, NumberIn(form, kH), "h_prev", Shape({s.batch, s.units})));
  RETURN_IF_ERROR(Expect(c, NumberIn(form, kB), "b", Shape({4 * s.units})));
  if (use_peephole) {
    RETURN_IF_ERROR(Expect(c, NumberIn(form, kWci), "wci", Shape({s.units})));
    RETURN_IF_ERROR(Expect(c, NumberIn(form, kWcf), "wcf", Shape({s.units})));
    RETURN_IF_ERROR(Expect(c, NumberIn(form, kWco), "wco", Shape({s.units})));
  }
  return s;
}

// C += A op(B) for A [rows, k] and C [rows, columns], in shares of the columns.
void AddProduct(KernelContext& context, bool transpose_b, int64_t rows, int64_t columns, int64_t k, const float* a,
                const float* b, float* c) {
  if (rows == 0 || columns == 0 || k == 0) return;
  const int64_t ldb = transpose_b ? k : columns;
  constexpr int64_t kUnit = 24;  // columns of the library's tiles
  const double nanos = 2.0 * static_cast<double>(rows) * static_cast<double>(k) * kUnit / 60;
  context.ParallelFor((columns + kUnit - 1) / kUnit, nanos, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kUnit, count = std::min(end * kUnit, columns) - first;
    SingleThreadedSgemm(false, transpose_b, rows, count, k, a, k, transpose_b ? b + first * ldb : b + first, ldb, 1.0f,
                        c + first, columns);
  });
}

// The first columns of ci and f among the gates, which have n columns each.
struct Columns {
  Columns(Form form, int64_t n) : ci(form == Form::kLayerV2 ? 2 * n : n), f(form == Form::kLayerV2 ? n : 2 * n) {}
  int64_t ci, f;
};

// One row of a step. `gates` holds the sums, without the bias.
struct LstmRow {
  const float *gates, *bias, *c_prev, *wci, *wcf, *wco;
  float *i, *c, *f, *o, *ci, *co, *h;
};
// A loop with peepholes or not vectorizes; one that asks every time does not.
template <bool peephole>
[[gnu::always_inline]] inline void ForwardUnits(const LstmRow r, int64_t n, const Columns at, float forget_bias,
                                                float clip) {
#pragma GCC ivdep
  for (int64_t u = 0; u < n; ++u) {
    const float c_prev = r.c_prev[u];
    const float to_i = peephole ? r.wci[u] * c_prev : 0, to_f = peephole ? r.wcf[u] * c_prev : 0;
    const float i = vec::Sigmoid(r.gates[u] + r.bias[u] + to_i);
    const float ci = vec::Tanh(r.gates[at.ci + u] + r.bias[at.ci + u]);
    const float f = vec::Sigmoid(r.gates[at.f + u] + r.bias[at.f + u] + forget_bias + to_f);
    const float sum = ci * i + c_prev * f;
    const float low = sum < -clip ? -clip : sum, c = low > clip ? clip : low;
    const float o = vec::Sigmoid(r.gates[3 * n + u] + r.bias[3 * n + u] + (peephole ? r.wco[u] * c : 0));
    const float co = vec::Tanh(c);
    r.i[u] = i, r.ci[u] = ci, r.f[u] = f, r.c[u] = c, r.o[u] = o, r.co[u] = co, r.h[u] = o * co;
  }
}
THALWEG_SIMD void ForwardRow(const LstmRow& r, int64_t n, const Columns& at, float forget_bias, float clip,
                             bool peephole) {
  peephole ? ForwardUnits<true>(r, n, at, forget_bias, clip) : ForwardUnits<false>(r, n, at, forget_bias, clip);
}

class BlockLstmKernel : public Kernel {
 public:
  explicit BlockLstmKernel(Form form) : form_(form) {}

  absl::Status Init(const KernelInit& init) override {
    if (form_ != Form::kLayerV2) {
      ASSIGN_OR_RETURN(forget_bias_, init.Attr<float>("forget_bias"));
    }
    ASSIGN_OR_RETURN(clip_, init.Attr<float>("cell_clip"));
    if (!(clip_ > 0)) clip_ = std::numeric_limits<float>::infinity();
    ASSIGN_OR_RETURN(use_peephole_, init.Attr<bool>("use_peephole"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const Sizes s, ReadSizes(context, form_, use_peephole_));
    const int64_t n = s.units, step = s.batch * n;
    const Columns columns(form_, n);
    FloatComputation call(context);
    float* out[7];
    for (int k = 0; k < 7; ++k) {
      ASSIGN_OR_RETURN(out[k], call.Output(k, form_ == Form::kCell ? Shape({s.batch, n}) : s.Sequence()));
      std::fill_n(out[k] + s.steps * step, (s.time - s.steps) * step, 0.0f);
    }
    if (step == 0) return absl::OkStatus();  // there may be any number of steps without elements
    const float* in[kForwardInputs] = {};
    for (int k = kX; k < kForwardInputs; ++k) {
      ASSIGN_OR_RETURN(in[k], call.Input(NumberIn(form_, k)));
    }
    ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemporary(kFloat, Shape({s.steps, s.batch, 4 * n})));
    float* const gates = sums.mutable_data<float>();
    RETURN_IF_ERROR((Gemm{.m = s.steps * s.batch, .n = 4 * n, .k = s.depth}.Run(context, in[kX], in[kW], gates)));
    for (int64_t t = 0; t < s.steps; ++t) {
      const float* const h = t == 0 ? in[kH] : out[6] + (t - 1) * step;
      const float* const c = t == 0 ? in[kC] : out[1] + (t - 1) * step;
      AddProduct(context, false, s.batch, 4 * n, n, h, in[kW] + s.depth * 4 * n, gates + t * 4 * step);
      context.ParallelFor(s.batch, 8.0 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const int64_t at = t * step + b * n;
          ForwardRow({gates + 4 * at, in[kB], c + b * n, in[kWci], in[kWcf], in[kWco], out[0] + at, out[1] + at,
                      out[2] + at, out[3] + at, out[4] + at, out[5] + at, out[6] + at},
                     n, columns, forget_bias_, clip_, use_peephole_);
        }
      });
    }
    call.Finish();
    return absl::OkStatus();
  }

 private:
  const Form form_;
  float forget_bias_ = 0;
  float clip_ = 3;
  bool use_peephole_ = false;
};

// The backward pass of one row of a step. `dh` and `dc` hold the gradients of this step, followed
// by those of the step before. Results are added to the sums.
struct BackwardRowArgs {
  const float *i, *c, *f, *o, *ci, *co, *c_prev, *dh_out, *dc_out, *wci, *wcf, *wco, *dh;
  float *dc, *dgates, *db, *dwci, *dwcf, *dwco;
};
template <bool peephole>
[[gnu::always_inline]] inline void BackwardUnits(const BackwardRowArgs r, int64_t n, const Columns at) {
#pragma GCC ivdep
  for (int64_t u = 0; u < n; ++u) {
    const float i = r.i[u], f = r.f[u], o = r.o[u], ci = r.ci[u], co = r.co[u];
    const float dh = r.dh_out[u] + r.dh[u];
    const float d_o = o * (1 - o) * dh * co;
    const float dc = (1 - co * co) * dh * o + r.dc_out[u] + r.dc[u] + (peephole ? d_o * r.wco[u] : 0);
    const float dci = (1 - ci * ci) * dc * i;
    const float df = f * (1 - f) * dc * r.c_prev[u];
    const float di = i * (1 - i) * dc * ci;
    r.dgates[u] = di, r.dgates[at.ci + u] = dci, r.dgates[at.f + u] = df, r.dgates[3 * n + u] = d_o;
    r.db[u] += di, r.db[at.ci + u] += dci, r.db[at.f + u] += df, r.db[3 * n + u] += d_o;
    r.dc[u] = dc * f + (peephole ? di * r.wci[u] + df * r.wcf[u] : 0);
    if (peephole) {
      r.dwci[u] += di * r.c_prev[u];
      r.dwcf[u] += df * r.c_prev[u];
      r.dwco[u] += d_o * r.c[u];
    }
  }
}
THALWEG_SIMD void BackwardRow(const BackwardRowArgs& r, int64_t n, const Columns& at, bool peephole) {
  peephole ? BackwardUnits<true>(r, n, at) : BackwardUnits<false>(r, n, at);
}

class BlockLstmGradKernel : public Kernel {
 public:
  explicit BlockLstmGradKernel(Form form) : form_(form) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(use_peephole_, init.Attr<bool>("use_peephole"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const Sizes s, ReadSizes(context, form_, use_peephole_));
    constexpr absl::string_view kNames[] = {"i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad"};
    for (int k = 0; k < 9; ++k) RETURN_IF_ERROR(Expect(context, kForwardInputs + k, kNames[k], s.Sequence()));
    FloatComputation call(context);
    float* out[8];  // gradients of x, c, h, w, wci, wcf, wco, b
    for (int k = 0; k < 8; ++k) {
      const Shape& shape = context.input(kX + k).shape();
      ASSIGN_OR_RETURN(out[k], call.Output(k, shape));
      std::fill_n(out[k], shape.num_elements(), 0.0f);
    }
    if (s.batch * s.units > 0 && s.steps > 0) {  // there may be any number of steps without elements
      const float* in[kForwardInputs + 9] = {};
      for (int k = kX; k < kForwardInputs + 9; ++k) {
        ASSIGN_OR_RETURN(in[k], call.Input(k));
      }
      ASSIGN_OR_RETURN(Tensor gates, context.AllocateTemporary(kFloat, Shape({s.steps, s.batch, 4 * s.units})));
      float* const dgates = gates.mutable_data<float>();
      for (int64_t t = s.steps - 1; t >= 0; --t) StepBack(context, s, t, in, dgates, out);
      RETURN_IF_ERROR(Products(context, s, in, dgates, out));
    }
    call.Finish();
    return absl::OkStatus();
  }

 private:
  // Outputs 1 and 2 hold the derivatives by c and h on the way back.
  void StepBack(KernelContext& context, const Sizes& s, int64_t t, const float* const* in, float* dgates,
                float* const* out) const {
    const int64_t n = s.units, step = s.batch * n;
    const auto forward = [&](int k) { return in[kForwardInputs + k] + t * step; };
    const float* const c_prev = t == 0 ? in[kC] : forward(1) - step;
    float* const dg = dgates + t * 4 * step;
    for (int64_t b = 0; b < s.batch; ++b) {
      const int64_t at = b * n;
      BackwardRow({forward(0) + at, forward(1) + at, forward(2) + at, forward(3) + at, forward(4) + at, forward(5) + at,
                   c_prev + at, forward(8) + at, forward(7) + at, in[kWci], in[kWcf], in[kWco], out[2] + at,
                   out[1] + at, dg + 4 * at, out[7], out[4], out[5], out[6]},
                  n, Columns(form_, n), use_peephole_);
    }
    std::fill_n(out[2], step, 0.0f);
    AddProduct(context, true, s.batch, n, 4 * n, dg, in[kW] + s.depth * 4 * n, out[2]);
  }

  static absl::Status Products(KernelContext& context, const Sizes& s, const float* const* in, const float* dgates,
                               float* const* out) {
    const int64_t n = s.units, rows = s.steps * s.batch;
    RETURN_IF_ERROR(
        (Gemm{.transpose_b = true, .m = rows, .n = s.depth, .k = 4 * n}.Run(context, dgates, in[kW], out[0])));
    RETURN_IF_ERROR(
        (Gemm{.transpose_a = true, .m = s.depth, .n = 4 * n, .k = rows}.Run(context, in[kX], dgates, out[3])));
    // Each step saw the h of the one before.
    float* const dw = out[3] + s.depth * 4 * n;
    RETURN_IF_ERROR((Gemm{.transpose_a = true, .m = n, .n = 4 * n, .k = rows - s.batch}.Run(
        context, in[kForwardInputs + 6], dgates + 4 * s.batch * n, dw)));
    SingleThreadedSgemm(true, false, n, 4 * n, s.batch, in[kH], n, dgates, 4 * n, 1.0f, dw, 4 * n);
    return absl::OkStatus();
  }

  const Form form_;
  bool use_peephole_ = false;
};

// The derivatives of one cell by its old state, its gates and the peepholes.
class LstmBlockCellGradKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(use_peephole_, init.Attr<bool>("use_peephole"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    constexpr int kInputs = 16, kFirst = 8;  // number of inputs; index of the first output of the forward cell
    ASSIGN_OR_RETURN(const Sizes s, ReadSizes(context, Form::kCell, use_peephole_));
    const int64_t n = s.units;
    const Shape state({s.batch, n});
    constexpr absl::string_view kNames[] = {"i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad"};
    for (int k = kFirst; k < kInputs; ++k) RETURN_IF_ERROR(Expect(context, k, kNames[k - kFirst], state));
    ASSIGN_OR_RETURN(const Shape gates, Shape::Make({s.batch, 4 * n}));
    const auto peephole = [&](int i) { return context.input(NumberIn(Form::kCell, i)).shape(); };
    const Shape shapes[] = {state, gates, peephole(kWci), peephole(kWcf), peephole(kWco)};
    FloatComputation call(context);
    float* out[5];
    for (int k = 0; k < 5; ++k) {
      ASSIGN_OR_RETURN(out[k], call.Output(k, shapes[k]));
      std::fill_n(out[k], shapes[k].num_elements(), 0.0f);
    }
    const float* in[kInputs];
    for (int k = 0; k < kInputs; ++k) {
      ASSIGN_OR_RETURN(in[k], call.Input(k));
    }
    // There is no later step that adds to dh, and the gradient of the bias is not an output.
    ASSIGN_OR_RETURN(Tensor zeros, context.AllocateTemporary(kFloat, Shape({5 * n})));
    float *const dh = zeros.mutable_data<float>(), *const db = dh + n;
    std::fill_n(dh, 5 * n, 0.0f);
    const auto old = [&](int i) { return in[NumberIn(Form::kCell, i)]; };
    for (int64_t b = 0; b < s.batch && n > 0; ++b) {
      const int64_t at = b * n;
      BackwardRow(
          {in[8] + at, in[9] + at, in[10] + at, in[11] + at, in[12] + at, in[13] + at, old(kC) + at, in[15] + at,
           in[14] + at, old(kWci), old(kWcf), old(kWco), dh, out[0] + at, out[1] + 4 * at, db, out[2], out[3], out[4]},
          n, Columns(Form::kCell, n), use_peephole_);
    }
    call.Finish();
    return absl::OkStatus();
  }

 private:
  bool use_peephole_ = false;
};

absl::Status ForwardShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, c.WithRank(kX, 3));
  ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(kB, 1));
  const int64_t units = b.dim(0) < 0 ? -1 : b.dim(0) / 4;
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, {x.dim(0), x.dim(1), units});
  return absl::OkStatus();
}

absl::Status CellShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, c.WithRank(NumberIn(Form::kCell, kX), 2));
  ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(NumberIn(Form::kCell, kB), 1));
  const int64_t units = b.dim(0) < 0 ? -1 : b.dim(0) / 4;
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, {x.dim(0), units});
  return absl::OkStatus();
}

absl::Status CellGradShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, c.WithRank(NumberIn(Form::kCell, kX), 2));
  ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(NumberIn(Form::kCell, kB), 1));
  c.set_output(0, {x.dim(0), b.dim(0) < 0 ? -1 : b.dim(0) / 4});
  c.set_output(1, {x.dim(0), b.dim(0)});
  for (int i = 0; i < 3; ++i) c.set_output(2 + i, c.input(NumberIn(Form::kCell, kWci + i)));
  return absl::OkStatus();
}

absl::Status BackwardShape(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(kX + i));
  return absl::OkStatus();
}

absl::Status BlockLstmGradient(GradientContext& g) {
  std::vector<OpInput> inputs;
  for (int i = 0; i < kForwardInputs; ++i) inputs.emplace_back(g.input(i));
  for (int i = 0; i < 7; ++i) inputs.emplace_back(g.output(i));
  inputs.emplace_back(g.dy(1));
  inputs.emplace_back(g.dy(6));
  ASSIGN_OR_RETURN(const bool use_peephole, g.Attr<bool>("use_peephole"));
  const char* const op = g.node()->op() == "BlockLSTM" ? "BlockLSTMGrad" : "BlockLSTMGradV2";
  Node* const node = g.scope().Add(op, inputs, {{"use_peephole", use_peephole}});
  if (node == nullptr) return absl::OkStatus();
  for (int i = 0; i < 8; ++i) g.set_dx(kX + i, node->out(i));
  return absl::OkStatus();
}

absl::Status LstmBlockCellGradient(GradientContext& g) {
  const Scope& s = g.scope();
  std::vector<OpInput> inputs;
  for (int i = kX; i < kForwardInputs; ++i) inputs.emplace_back(g.input(NumberIn(Form::kCell, i)));
  for (int i = 0; i < 6; ++i) inputs.emplace_back(g.output(i));
  inputs.emplace_back(g.dy(1));
  inputs.emplace_back(g.dy(6));
  ASSIGN_OR_RETURN(const bool use_peephole, g.Attr<bool>("use_peephole"));
  Node* const node = s.Add("LSTMBlockCellGrad", inputs, {{"use_peephole", use_peephole}});
  if (node == nullptr) return absl::OkStatus();
  const auto in = [&](int i) { return g.input(NumberIn(Form::kCell, i)); };
  const auto set = [&](int i, Output dx) { g.set_dx(NumberIn(Form::kCell, i), dx); };
  // [x, h] W made the gates.
  const Output gates = node->out(1), x_shape = ShapeOf(s, in(kX));
  const Output both = MatMul(s, gates, in(kW), {.transpose_b = true});
  const Output depth = StridedSlice(s, x_shape, Const(s, {1}), Const(s, {2}), Const(s, {1}));
  set(kX, Slice(s, both, Const(s, {0, 0}), x_shape));
  set(kC, node->out(0));
  set(kH, Slice(s, both, Concat(s, {Const(s, {0}), depth}, 0), ShapeOf(s, in(kH))));
  set(kW, MatMul(s, Concat(s, {in(kX), in(kH)}, 1), gates, {.transpose_a = true}));
  for (int i = 0; i < 3; ++i) set(kWci + i, node->out(2 + i));
  set(kB, Output(s.Add("BiasAddGrad", {gates})));
  return absl::OkStatus();
}

Op WithForwardInputs(absl::string_view name, Form form) {
  Op op(name);
  if (form != Form::kCell) op.Input("seq_len_max: int64");
  for (const char* input : {"x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b"}) {
    op.Input(absl::StrCat(input, ": T"));
  }
  return op;
}

Op Forward(absl::string_view name, Form form) {
  Op op = WithForwardInputs(name, form);
  for (const char* output : {"i", "cs", "f", "o", "ci", "co", "h"}) op.Output(absl::StrCat(output, ": T"));
  if (form != Form::kLayerV2) op.Attr("forget_bias: float = 1.0");
  return op.Attr(form == Form::kLayerV2 ? "cell_clip: float = 0.0" : "cell_clip: float = 3.0")
      .Attr("use_peephole: bool = false")
      .Attr("T: {half, float}")
      .Shape(form == Form::kCell ? CellShape : ForwardShape)
      .Kernel<BlockLstmKernel>(form)
      .Gradient(form == Form::kCell ? LstmBlockCellGradient : BlockLstmGradient);
}

Op Backward(absl::string_view name, Form form) {
  Op op = WithForwardInputs(name, form);
  for (const char* input : {"i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad"}) {
    op.Input(absl::StrCat(input, ": T"));
  }
  for (const char* output : {"x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b"}) {
    op.Output(absl::StrCat(output, "_grad: T"));
  }
  return op.Attr("use_peephole: bool")
      .Attr("T: {half, float}")
      .Shape(BackwardShape)
      .Kernel<BlockLstmGradKernel>(form)
      .NotDifferentiable();
}

Op CellBackward() {
  Op op = WithForwardInputs("LSTMBlockCellGrad", Form::kCell);
  for (const char* input : {"i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad"}) {
    op.Input(absl::StrCat(input, ": T"));
  }
  for (const char* output : {"cs_prev_grad", "dicfo", "wci_grad", "wcf_grad", "wco_grad"}) {
    op.Output(absl::StrCat(output, ": T"));
  }
  return op.Attr("use_peephole: bool")
      .Attr("T: {half, float}")
      .Shape(CellGradShape)
      .Kernel<LstmBlockCellGradKernel>()
      .NotDifferentiable();
}

const OpRegistration kBlockLstmOps[] = {
    Forward("BlockLSTM", Form::kLayer),          Forward("BlockLSTMV2", Form::kLayerV2),
    Forward("LSTMBlockCell", Form::kCell),       Backward("BlockLSTMGrad", Form::kLayer),
    Backward("BlockLSTMGradV2", Form::kLayerV2), CellBackward(),
};

}  // namespace
}  // namespace thalweg
