// SPDX-License-Identifier: Apache-2.0
// Activations y = f(x), elementwise, and the ops that compute dx from dy and
// x, or from dy and y where that is enough (Elu, Selu).
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"
#include "thalweg/ops/support/vector_math.h"

namespace thalweg {
namespace {

constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluScaleAlpha = 1.7580993408473768599402175208123;

// NaN stays NaN.
struct ReluFn {
  template <typename T>
  T operator()(T x) const {
    return x < T(0) ? T(0) : x;
  }
};
struct Relu6Fn {
  template <typename T>
  T operator()(T x) const {
    return x < T(0) ? T(0) : x > T(6) ? T(6) : x;
  }
};
struct EluFn {
  static constexpr float kNanos = 1.5f;
  template <typename T>
  T operator()(T x) const {
    return x < T(0) ? vec::Expm1(x) : x;
  }
};
struct SeluFn {
  static constexpr float kNanos = 1.5f;
  template <typename T>
  T operator()(T x) const {
    return x < T(0) ? T(kSeluScaleAlpha) * vec::Expm1(x) : T(kSeluScale) * x;
  }
};
// log(1 + exp(x)), written so that nothing overflows.
struct SoftplusFn {
  static constexpr float kNanos = 2;
  template <typename T>
  T operator()(T x) const {
    return (x > T(0) ? x : T(0)) + vec::Log1p(vec::Exp(-std::fabs(x)));
  }
};
struct SoftsignFn {
  template <typename T>
  T operator()(T x) const {
    return x / (T(1) + std::fabs(x));
  }
};

// All of these take (dy, x) but those of Elu and Selu, which take (dy, y).
struct ReluGradFn {
  template <typename T>
  T operator()(T dy, T x) const {
    return x > T(0) ? dy : T(0);
  }
};
struct Relu6GradFn {
  template <typename T>
  T operator()(T dy, T x) const {
    return x > T(0) && x < T(6) ? dy : T(0);
  }
};
struct EluGradFn {
  template <typename T>
  T operator()(T dy, T y) const {
    return y < T(0) ? dy * (y + T(1)) : dy;
  }
};
struct SeluGradFn {
  template <typename T>
  T operator()(T dy, T y) const {
    return y < T(0) ? dy * (y + T(kSeluScaleAlpha)) : dy * T(kSeluScale);
  }
};
struct SoftplusGradFn {
  static constexpr float kNanos = 1.5f;
  template <typename T>
  T operator()(T dy, T x) const {
    return dy / (vec::Exp(-x) + T(1));
  }
};
struct SoftsignGradFn {
  template <typename T>
  T operator()(T dy, T x) const {
    const T a = T(1) + std::fabs(x);
    return dy / (a * a);
  }
};

// dx from dy and the input, or the output, by the op that is made for it.
absl::Status FromInput(GradientContext& g, absl::string_view op) {
  g.set_dx(0, Output(g.scope().Add(op, {g.dy(), g.input(0)})));
  return absl::OkStatus();
}
absl::Status FromOutput(GradientContext& g, absl::string_view op) {
  g.set_dx(0, Output(g.scope().Add(op, {g.dy(), g.output(0)})));
  return absl::OkStatus();
}
absl::Status ReluGradient(GradientContext& g) { return FromOutput(g, "ReluGrad"); }
absl::Status Relu6Gradient(GradientContext& g) { return FromOutput(g, "Relu6Grad"); }
absl::Status EluGradient(GradientContext& g) { return FromOutput(g, "EluGrad"); }
absl::Status SeluGradient(GradientContext& g) { return FromOutput(g, "SeluGrad"); }
absl::Status SoftplusGradient(GradientContext& g) { return FromInput(g, "SoftplusGrad"); }
absl::Status SoftsignGradient(GradientContext& g) { return FromInput(g, "SoftsignGrad"); }

// Linear in dy with a factor of x that is constant almost everywhere.
absl::Status PiecewiseLinear(GradientContext& g, absl::string_view op) {
  g.set_dx(0, Output(g.scope().Add(op, {g.dy(), g.input(1)})));
  g.set_dx(1, Output(g.scope().Add("ZerosLike", {g.input(1)})));
  return absl::OkStatus();
}
absl::Status ReluGradGradient(GradientContext& g) { return PiecewiseLinear(g, "ReluGrad"); }
absl::Status Relu6GradGradient(GradientContext& g) { return PiecewiseLinear(g, "Relu6Grad"); }

// The part of dz dy where the activation was in its exponential branch.
Output WhereNegative(const Scope& s, Output y, Output value) {
  return s.Add("SelectV2", {Less(s, y, ScalarConst(s, y.dtype(), 0)), value, Output(s.Add("ZerosLike", {value}))});
}
absl::Status EluGradGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Output(s.Add("EluGrad", {g.dy(), g.input(1)})));
  g.set_dx(1, WhereNegative(s, g.input(1), Mul(s, g.dy(), g.input(0))));
  return absl::OkStatus();
}
absl::Status SeluGradGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Output(s.Add("SeluGrad", {g.dy(), g.input(1)})));
  g.set_dx(1, WhereNegative(s, g.input(1), Mul(s, g.dy(), g.input(0))));
  return absl::OkStatus();
}
// z = dy sigmoid(x); the second derivative is sigmoid(x) sigmoid(-x).
absl::Status SoftplusGradGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = g.input(1);
  const Output both = Mul(s, g.dy(), g.input(0));
  g.set_dx(0, Output(s.Add("SoftplusGrad", {g.dy(), x})));
  g.set_dx(1, RealDiv(s, both, Add(s, Add(s, Exp(s, Neg(s, x)), ScalarConst(s, x.dtype(), 2)), Exp(s, x))));
  return absl::OkStatus();
}

template <typename T>
THALWEG_SIMD void LeakyLoop(const T* x, T* y, int64_t n, T alpha) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] > T(0) ? x[i] : alpha * x[i];
}
template <typename T>
THALWEG_SIMD void LeakyGradLoop(const T* dy, const T* x, T* dx, int64_t n, T alpha) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) dx[i] = x[i] > T(0) ? dy[i] : alpha * dy[i];
}

class LeakyReluKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(alpha_, init.Attr<float>("alpha"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(Tensor * y, context.ForwardOrAllocate({0}, 0, x.shape()));
    return Dispatch(FloatTypes(), x.dtype(), [&]<typename T>() {
      context.ParallelFor(x.num_elements(), 0.5, [&](int64_t begin, int64_t end) {
        const T* in = x.data<T>();
        T* out = y->mutable_data<T>();
        if constexpr (std::is_floating_point_v<T>) {
          LeakyLoop<T>(in + begin, out + begin, end - begin, alpha_);
        } else {
          for (int64_t i = begin; i < end; ++i) out[i] = float(in[i]) > 0 ? in[i] : T(alpha_ * float(in[i]));
        }
      });
      return absl::OkStatus();
    });
  }

 private:
  float alpha_ = 0;
};

class LeakyReluGradKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(alpha_, init.Attr<float>("alpha"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& context) override {
    const Tensor& dy = context.input(0);
    const Tensor& x = context.input(1);
    if (dy.shape() != x.shape()) {
      return InvalidArgument("gradients and features must have the same shape, got ", dy.shape(), " and ", x.shape());
    }
    ASSIGN_OR_RETURN(Tensor * dx, context.ForwardOrAllocate({0, 1}, 0, x.shape()));
    return Dispatch(FloatTypes(), x.dtype(), [&]<typename T>() {
      context.ParallelFor(x.num_elements(), 0.5, [&](int64_t begin, int64_t end) {
        const T* g = dy.data<T>();
        const T* in = x.data<T>();
        T* out = dx->mutable_data<T>();
        if constexpr (std::is_floating_point_v<T>) {
          LeakyGradLoop<T>(g + begin, in + begin, out + begin, end - begin, alpha_);
        } else {
          for (int64_t i = begin; i < end; ++i) out[i] = float(in[i]) > 0 ? g[i] : T(alpha_ * float(g[i]));
        }
      });
      return absl::OkStatus();
    });
  }

 private:
  float alpha_ = 0;
};

absl::Status LeakyReluGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const float alpha, g.Attr<float>("alpha"));
  g.set_dx(0, Output(g.scope().Add("LeakyReluGrad", {g.dy(), g.input(0)}, {{"alpha", alpha}})));
  return absl::OkStatus();
}
absl::Status LeakyReluGradGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const float alpha, g.Attr<float>("alpha"));
  g.set_dx(0, Output(g.scope().Add("LeakyReluGrad", {g.dy(), g.input(1)}, {{"alpha", alpha}})));
  g.set_dx(1, Output(g.scope().Add("ZerosLike", {g.input(1)})));
  return absl::OkStatus();
}

constexpr char kFloatSet[] = "T: {half, bfloat16, float, double}";

Op Activation(absl::string_view name, absl::string_view type_attr) {
  return Op(name).Input("features: T").Output("activations: T").Attr(type_attr).Shape(shapes::LikeInput0);
}
Op ActivationGrad(absl::string_view name, absl::string_view second, absl::string_view type_attr) {
  return Op(name)
      .Input("gradients: T")
      .Input(absl::StrCat(second, ": T"))
      .Output("backprops: T")
      .Attr(type_attr)
      .Shape(shapes::MergeInputs);
}

const OpRegistration kReluOps[] = {
    Activation("Relu", "T: {realnumbertype, qint8}")
        .Kernel<UnaryKernel>(SelectUnary<ReluFn, Reals>)
        .Gradient(ReluGradient),
    Activation("Relu6", "T: realnumbertype").Kernel<UnaryKernel>(SelectUnary<Relu6Fn, Reals>).Gradient(Relu6Gradient),
    Activation("Elu", kFloatSet).Kernel<UnaryKernel>(SelectUnary<EluFn, Floats>).Gradient(EluGradient),
    Activation("Selu", kFloatSet).Kernel<UnaryKernel>(SelectUnary<SeluFn, Floats>).Gradient(SeluGradient),
    Activation("Softplus", kFloatSet).Kernel<UnaryKernel>(SelectUnary<SoftplusFn, Floats>).Gradient(SoftplusGradient),
    Activation("Softsign", kFloatSet).Kernel<UnaryKernel>(SelectUnary<SoftsignFn, Floats>).Gradient(SoftsignGradient),
    ActivationGrad("ReluGrad", "features", "T: realnumbertype")
        .Kernel<SameShapeBinaryKernel>(SelectBinary<ReluGradFn, Reals>)
        .Gradient(ReluGradGradient),
    ActivationGrad("Relu6Grad", "features", "T: realnumbertype")
        .Kernel<SameShapeBinaryKernel>(SelectBinary<Relu6GradFn, Reals>)
        .Gradient(Relu6GradGradient),
    ActivationGrad("EluGrad", "outputs", kFloatSet)
        .Kernel<SameShapeBinaryKernel>(SelectBinary<EluGradFn, Floats>)
        .Gradient(EluGradGradient),
    ActivationGrad("SeluGrad", "outputs", kFloatSet)
        .Kernel<SameShapeBinaryKernel>(SelectBinary<SeluGradFn, Floats>)
        .Gradient(SeluGradGradient),
    ActivationGrad("SoftplusGrad", "features", kFloatSet)
        .Kernel<SameShapeBinaryKernel>(SelectBinary<SoftplusGradFn, Floats>)
        .Gradient(SoftplusGradGradient),
    ActivationGrad("SoftsignGrad", "features", kFloatSet)
        .Kernel<SameShapeBinaryKernel>(SelectBinary<SoftsignGradFn, Floats>),
    Op("LeakyRelu")
        .Input("features: T")
        .Output("activations: T")
        .Attr("alpha: float = 0.2")
        .Attr("T: {half, bfloat16, float, double} = DT_FLOAT")
        .Shape(shapes::LikeInput0)
        .Kernel<LeakyReluKernel>()
        .Gradient(LeakyReluGradient),
    Op("LeakyReluGrad")
        .Input("gradients: T")
        .Input("features: T")
        .Output("backprops: T")
        .Attr("alpha: float = 0.2")
        .Attr("T: {half, bfloat16, float, double} = DT_FLOAT")
        .Shape(shapes::MergeInputs)
        .Kernel<LeakyReluGradKernel>()
        .Gradient(LeakyReluGradGradient),
};

}  // namespace

Output Relu(const Scope& s, Output features) { return s.Add("Relu", {features}); }
Output Relu6(const Scope& s, Output features) { return s.Add("Relu6", {features}); }
Output LeakyRelu(const Scope& s, Output features, const LeakyReluOptions& options) {
  return s.Add("LeakyRelu", {features}, {{"alpha", options.alpha}});
}
Output Elu(const Scope& s, Output features) { return s.Add("Elu", {features}); }
Output Selu(const Scope& s, Output features) { return s.Add("Selu", {features}); }
Output Softplus(const Scope& s, Output features) { return s.Add("Softplus", {features}); }
Output Softsign(const Scope& s, Output features) { return s.Add("Softsign", {features}); }

}  // namespace thalweg
