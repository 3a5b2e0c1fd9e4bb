// SPDX-License-Identifier: Apache-2.0
// Special functions, elementwise: the error function and its kin, the gamma
// function's logarithm and derivatives, Hurwitz' zeta function.
#include <cmath>
#include <limits>
#include <numbers>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math/special_function.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/vector_math.h"

namespace thalweg {
namespace {

// y with erfc(y) = q, for 0 < q <= 1: Winitzki's approximation of erf, then
// Halley's iteration, which triples the digits at every step.
double InverseErfc(double q) {
  constexpr double a = 0.147;
  const double log_term = std::log(q * (2 - q));  // log(1 - erf^2)
  const double t = 2 / (std::numbers::pi * a) + log_term / 2;
  double y = std::sqrt(std::sqrt(t * t - log_term / a) - t);
  for (int i = 0; i < 8; ++i) {
    const double slope = -2 * std::numbers::inv_sqrtpi * std::exp(-y * y);
    if (slope == 0) break;
    const double u = (std::erfc(y) - q) / slope;
    const double step = u / (1 + y * u);
    y -= step;
    if (std::fabs(step) <= 1e-16 * y) break;
  }
  return y;
}

double InverseErf(double x) {
  if (!(x > -1 && x < 1)) return x == 1 ? kInfinity : x == -1 ? -kInfinity : kNan;
  // Near 0 the complement would lose digits: the same iteration on erf itself.
  if (std::fabs(x) < 0.5) {
    double y = x * std::sqrt(std::numbers::pi) / 2;
    for (int i = 0; i < 6; ++i) {
      const double u = (std::erf(y) - x) / (2 * std::numbers::inv_sqrtpi * std::exp(-y * y));
      y -= u / (1 + y * u);
    }
    return y;
  }
  return std::copysign(InverseErfc(1 - std::fabs(x)), x);
}

// The quantile of the normal distribution.
double InverseNormal(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -kInfinity : p == 1 ? kInfinity : kNan;
  if (p > 0.25 && p < 0.75) return std::numbers::sqrt2 * InverseErf(2 * p - 1);
  return p < 0.5 ? -std::numbers::sqrt2 * InverseErfc(2 * p) : std::numbers::sqrt2 * InverseErfc(2 * (1 - p));
}

// By recurrence up to where the asymptotic series is exact; by reflection for
// negative arguments. NaN at the poles.
double DigammaOf(double x) {
  double result = 0;
  if (x <= 0) {
    if (x == std::floor(x)) return kNan;
    // The tangent repeats from integer to integer; next to one it is exact.
    result = -std::numbers::pi / std::tan(std::numbers::pi * (x - std::nearbyint(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  if (std::isinf(x)) return x;
  const double z = 1 / (x * x);
  // Bernoulli numbers: B_2k / 2k.
  const double series =
      z *
      (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return result + std::log(x) - 0.5 / x - series;
}

// sum_k (k + q)^-s, by Euler and Maclaurin's formula.
double ZetaOf(double s, double q) {
  if (std::isnan(s) || std::isnan(q)) return kNan;
  if (s == 1) return kInfinity;
  if (s < 1) return kNan;
  if (q <= 0) {
    if (q == std::floor(q)) return kInfinity;
    if (s != std::floor(s)) return kNan;  // powers of negative numbers
  }
  constexpr int kTerms = 12;
  double sum = 0, a = q;
  // Terms one by one until they are positive and the tail is smooth.
  for (int k = 0; k < kTerms || a < kTerms; ++k, a += 1) {
    const double term = std::pow(a, -s);
    sum += term;
    if (a > 0 && term < 1e-17 * std::fabs(sum)) return sum;
    if (k > 10000) break;
  }
  const double power = std::pow(a, -s);
  sum += power * a / (s - 1) + power / 2;
  // B_2k / (2k)! times the derivatives of x^-s at a.
  constexpr double kBernoulli[] = {
      1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000, 1.0 / 74724249600};
  double factor = s, derivative = power / a;
  for (int k = 0; k < 7; ++k) {
    sum += kBernoulli[k] * factor * derivative;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2);
    derivative /= a * a;
  }
  return sum;
}

// The n-th derivative of digamma.
double PolygammaOf(double n, double x) {
  if (n < 0 || n != std::floor(n)) return kNan;
  if (n == 0) return DigammaOf(x);
  const double sign = std::fmod(n, 2) == 0 ? -1 : 1;
  int gamma_sign = 1;
  return sign * std::exp(lgamma_r(n + 1, &gamma_sign)) * ZetaOf(n + 1, x);
}

struct ErfFn {
  static constexpr float kNanos = 2;
  template <typename T>
  T operator()(T x) const {
    return vec::Erf(x);
  }
};
struct ErfcFn {
  static constexpr float kNanos = 15;
  template <typename T>
  T operator()(T x) const {
    return std::erfc(x);
  }
};
struct ErfinvFn {
  static constexpr float kNanos = 100;
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(InverseErf(x));
  }
};
struct NdtriFn {
  static constexpr float kNanos = 100;
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(InverseNormal(x));
  }
};
// lgamma itself writes to a global variable.
struct LgammaFn {
  static constexpr float kNanos = 20;
  float operator()(float x) const {
    int sign;
    return lgammaf_r(x, &sign);
  }
  double operator()(double x) const {
    int sign;
    return lgamma_r(x, &sign);
  }
};
struct DigammaFn {
  static constexpr float kNanos = 50;
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(DigammaOf(x));
  }
};
struct ZetaFn {
  static constexpr float kNanos = 300;
  template <typename T>
  T operator()(T x, T q) const {
    return static_cast<T>(ZetaOf(x, q));
  }
};
struct PolygammaFn {
  static constexpr float kNanos = 300;
  template <typename T>
  T operator()(T a, T x) const {
    return static_cast<T>(PolygammaOf(a, x));
  }
};

// dy c exp(x^2 d)
Output Gaussian(GradientContext& g, Output x, double c, double d) {
  const Scope& s = g.scope();
  const DType t = x.dtype();
  const Output bell = Exp(s, Mul(s, ScalarConst(s, t, d), Square(s, x)));
  return Mul(s, Mul(s, g.dy(), ScalarConst(s, t, c)), bell);
}
absl::Status ErfGradient(GradientContext& g) {
  g.set_dx(0, Gaussian(g, g.input(0), 2 * std::numbers::inv_sqrtpi, -1));
  return absl::OkStatus();
}
absl::Status ErfcGradient(GradientContext& g) {
  g.set_dx(0, Gaussian(g, g.input(0), -2 * std::numbers::inv_sqrtpi, -1));
  return absl::OkStatus();
}
absl::Status ErfinvGradient(GradientContext& g) {
  g.set_dx(0, Gaussian(g, g.output(0), std::sqrt(std::numbers::pi) / 2, 1));
  return absl::OkStatus();
}
absl::Status NdtriGradient(GradientContext& g) {
  g.set_dx(0, Gaussian(g, g.output(0), std::sqrt(2 * std::numbers::pi), 0.5));
  return absl::OkStatus();
}
absl::Status LgammaGradient(GradientContext& g) {
  g.set_dx(0, Mul(g.scope(), g.dy(), Digamma(g.scope(), g.input(0))));
  return absl::OkStatus();
}
absl::Status DigammaGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Mul(s, g.dy(), s.Add("Polygamma", {ScalarConst(s, g.input(0).dtype(), 1), g.input(0)})));
  return absl::OkStatus();
}
// Only with respect to the second argument; the first is the order.
absl::Status PolygammaGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output n = g.input(0), x = g.input(1);
  const Output dx = Mul(s, g.dy(), s.Add("Polygamma", {Add(s, n, ScalarConst(s, n.dtype(), 1)), x}));
  g.set_dx(1, SumBroadcast(s, n, x, dx, dx).second);
  return absl::OkStatus();
}
absl::Status ZetaGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = g.input(0), q = g.input(1);
  const Output slope = Mul(s, Neg(s, x), s.Add("Zeta", {Add(s, x, ScalarConst(s, x.dtype(), 1)), q}));
  const Output dq = Mul(s, g.dy(), slope);
  g.set_dx(1, SumBroadcast(s, x, q, dq, dq).second);
  return absl::OkStatus();
}

Op Unary(absl::string_view name) {
  return Op(name).Input("x: T").Output("y: T").Attr("T: {bfloat16, half, float, double}").Shape(shapes::LikeInput0);
}

const OpRegistration kUnarySpecialOps[] = {
    Unary("Erf").Kernel<UnaryKernel>(SelectUnary<ErfFn, Floats>).Gradient(ErfGradient),
    Unary("Erfc").Kernel<UnaryKernel>(SelectUnary<ErfcFn, Floats>).Gradient(ErfcGradient),
    Unary("Erfinv").Kernel<UnaryKernel>(SelectUnary<ErfinvFn, Floats>).Gradient(ErfinvGradient),
    Unary("Ndtri").Kernel<UnaryKernel>(SelectUnary<NdtriFn, Floats>).Gradient(NdtriGradient),
    Unary("Lgamma").Kernel<UnaryKernel>(SelectUnary<LgammaFn, Floats>).Gradient(LgammaGradient),
    Unary("Digamma").Kernel<UnaryKernel>(SelectUnary<DigammaFn, Floats>).Gradient(DigammaGradient),
    Op("Zeta")
        .Input("x: T")
        .Input("q: T")
        .Output("z: T")
        .Attr("T: {float, double}")
        .Shape(shapes::Broadcast)
        .Kernel<BinaryKernel>(SelectBinary<ZetaFn, Floats>)
        .Gradient(ZetaGradient),
    Op("Polygamma")
        .Input("a: T")
        .Input("x: T")
        .Output("z: T")
        .Attr("T: {float, double}")
        .Shape(shapes::Broadcast)
        .Kernel<BinaryKernel>(SelectBinary<PolygammaFn, Floats>)
        .Gradient(PolygammaGradient),
};

}  // namespace

Output Erf(const Scope& s, Output x) { return s.Add("Erf", {x}); }
Output Erfc(const Scope& s, Output x) { return s.Add("Erfc", {x}); }
Output Erfinv(const Scope& s, Output x) { return s.Add("Erfinv", {x}); }
Output Ndtri(const Scope& s, Output x) { return s.Add("Ndtri", {x}); }
Output Lgamma(const Scope& s, Output x) { return s.Add("Lgamma", {x}); }
Output Digamma(const Scope& s, Output x) { return s.Add("Digamma", {x}); }

}  // namespace thalweg
