// SPDX-License-Identifier: Apache-2.0
// The incomplete gamma function and its kin, elementwise with broadcasting.
//
//   Igamma(a, x) = integral of t^(a-1) exp(-t) from 0 to x, by gamma(a); Igammac is the rest to 1
//   IgammaGradA(a, x) = d Igamma / da
//   RandomGammaGrad(alpha, sample) = d sample / d alpha for a sample of the gamma distribution: how it
//     moves if alpha does and its rank, Igamma(alpha, sample), stays
#include <cmath>
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math/special_function.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"

namespace thalweg {
namespace {

// A number and its derivative with respect to a.
struct Dual {
  double value;
  double slope = 0;
};
Dual operator+(Dual x, Dual y) { return {x.value + y.value, x.slope + y.slope}; }
Dual operator-(Dual x, Dual y) { return {x.value - y.value, x.slope - y.slope}; }
Dual operator*(Dual x, Dual y) { return {x.value * y.value, x.slope * y.value + x.value * y.slope}; }
Dual operator/(Dual x, Dual y) {
  const double z = x.value / y.value;
  return {z, (x.slope - z * y.slope) / y.value};
}
double Value(double x) { return x; }
double Value(const Dual& x) { return x.value; }
bool Converged(double factor) { return std::fabs(factor - 1) < 1e-16; }
bool Converged(const Dual& factor) { return Converged(factor.value) && std::fabs(factor.slope) < 1e-16; }
bool Vanishes(double term, double sum) { return std::fabs(term) <= 1e-17 * std::fabs(sum); }
bool Vanishes(const Dual& term, const Dual& sum) {
  return Vanishes(term.value, sum.value) && std::fabs(term.slope) <= 1e-17 * (std::fabs(sum.slope) + sum.value);
}

// The lower part by its series, or the upper by a continued fraction, whichever
// converges; both without the factor x^a exp(-x) / gamma(a). T is a number, or
// one with its derivative.
template <typename T>
struct Part {
  T factor;
  bool lower;
};
template <typename T>
Part<T> IncompleteGamma(T a, double x) {
  constexpr int kTerms = 20000;
  if (x < Value(a) + 1) {
    T term = T{1} / a, sum = term;
    for (int k = 1; k < kTerms && !Vanishes(term, sum); ++k) {
      term = term * (T{x} / (a + T{static_cast<double>(k)}));
      sum = sum + term;
    }
    return {sum, true};
  }
  T b = T{x + 1} - a, c = T{1e300}, d = T{1} / b, h = d;
  for (int k = 1; k < kTerms; ++k) {
    const T factor = T{static_cast<double>(k)} * (a - T{static_cast<double>(k)});
    b = b + T{2};
    d = factor * d + b;
    c = b + factor / c;
    if (Value(d) == 0) d = T{1e-300};
    if (Value(c) == 0) c = T{1e-300};
    d = T{1} / d;
    const T step = d * c;
    h = h * step;
    if (Converged(step)) break;
  }
  return {h, false};
}

// x^a exp(-x) / gamma(a).
double Front(double a, double x) {
  int sign;
  return std::exp(a * std::log(x) - x - lgamma_r(a, &sign));
}

// For a > 0: uses the recurrence until the asymptotic series is precise enough.
double Digamma(double x) {
  double sum = 0;
  for (; x < 12; ++x) sum -= 1 / x;
  const double r = 1 / (x * x);
  const double series = r * (1. / 12 - r * (1. / 120 - r * (1. / 252 - r * (1. / 240 - r * (1. / 132)))));
  return sum + std::log(x) - 1 / (2 * x) - series;
}

bool Undefined(double a, double x) { return std::isnan(a) || std::isnan(x) || a <= 0 || x < 0; }

double Igamma(double a, double x, bool lower) {
  if (Undefined(a, x) || (std::isinf(a) && std::isinf(x))) return kNan;
  if (x == 0 || std::isinf(a)) return lower ? 0 : 1;
  if (x == kInfinity) return lower ? 1 : 0;
  const Part<double> part = IncompleteGamma(a, x);
  const double value = part.factor * Front(a, x);
  return part.lower == lower ? value : 1 - value;
}

// dP/da without the factor above: a part is F(a) * front(a), and
// front'(a) = front(a) * (log(x) - digamma(a)).
double ScaledSlope(double a, double x) {
  const Part<Dual> part = IncompleteGamma(Dual{a, 1}, x);
  const double slope = part.factor.slope + part.factor.value * (std::log(x) - Digamma(a));
  return part.lower ? slope : -slope;
}

struct IgammaFn {
  static constexpr float kNanos = 200;
  template <typename T>
  T operator()(T a, T x) const {
    return static_cast<T>(Igamma(a, x, true));
  }
};
struct IgammacFn {
  static constexpr float kNanos = 200;
  template <typename T>
  T operator()(T a, T x) const {
    return static_cast<T>(Igamma(a, x, false));
  }
};
struct IgammaGradAFn {
  static constexpr float kNanos = 400;
  template <typename T>
  T operator()(T a, T x) const {
    if (Undefined(a, x)) return static_cast<T>(kNan);
    if (x == 0 || std::isinf(a) || std::isinf(x)) return 0;
    return static_cast<T>(ScaledSlope(a, x) * Front(a, x));
  }
};
struct RandomGammaGradFn {
  static constexpr float kNanos = 400;
  template <typename T>
  T operator()(T alpha, T sample) const {
    if (Undefined(alpha, sample)) return static_cast<T>(kNan);
    if (sample == 0) return 0;
    // By the implicit function theorem: -dP/da by the density, which is the
    // factor divided by the sample.
    return static_cast<T>(-ScaledSlope(alpha, sample) * sample);
  }
};

// By a: IgammaGradA. By x: the density exp(-x + (a-1) log(x) - lgamma(a)).
absl::Status GammaGradient(GradientContext& g, double sign) {
  const Scope& s = g.scope();
  const Output a = g.input(0), x = g.input(1);
  const Output minus_one = ScalarConst(s, a.dtype(), -1), factor = ScalarConst(s, a.dtype(), sign);
  const Output power = Sub(s, Mul(s, Add(s, a, minus_one), Log(s, x)), Lgamma(s, a));
  const Output dy = Mul(s, g.dy(), factor);
  return SetSums(g, Mul(s, dy, s.Add("IgammaGradA", {a, x})), Mul(s, dy, Exp(s, Sub(s, power, x))));
}
absl::Status IgammaGradient(GradientContext& g) { return GammaGradient(g, 1); }
absl::Status IgammacGradient(GradientContext& g) { return GammaGradient(g, -1); }

template <typename Fn>
Op Binary(absl::string_view name, absl::string_view types, const char* a = "a: T", const char* x = "x: T",
          const char* z = "z: T") {
  return Op(name)
      .Input(a)
      .Input(x)
      .Output(z)
      .Attr(absl::StrCat("T: {", types, "}"))
      .Shape(shapes::Broadcast)
      .Kernel<BinaryKernel>(SelectBinary<Fn, Floats>);
}

const OpRegistration kIncompleteGammaOps[] = {
    Binary<IgammaFn>("Igamma", "bfloat16, half, float, double").Gradient(IgammaGradient),
    Binary<IgammacFn>("Igammac", "bfloat16, half, float, double").Gradient(IgammacGradient),
    Binary<IgammaGradAFn>("IgammaGradA", "float, double"),
    Binary<RandomGammaGradFn>("RandomGammaGrad", "float, double", "alpha: T", "sample: T", "output: T"),
};

}  // namespace
}  // namespace thalweg
