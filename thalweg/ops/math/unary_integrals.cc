// SPDX-License-Identifier: Apache-2.0
// Integrals as functions of their bound, elementwise.
//
//   Dawsn(x) = exp(-x^2) * integral of exp(t^2) from 0 to x
//   Expint(x) = integral of exp(t) / t from -infinity to x (its principal value), for x >= 0
//   FresnelCos(x), FresnelSin(x) = integral of cos, sin(pi t^2 / 2) from 0 to x
//   Spence(x) = -integral of log(t) / (t - 1) from 1 to x
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math/special_function.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"

namespace thalweg {
namespace {

constexpr double kPi = std::numbers::pi;

// By its power series near 0, and by Rybicki's sum of Gaussians elsewhere
// (G. Rybicki, Computers in Physics 3, 1989): exact to exp(-(pi / 2h)^2).
double Dawsn(double x) {
  const double a = std::fabs(x);
  if (std::isnan(x)) return x;
  if (a < 0.3) {
    double term = x, sum = x;
    for (int k = 1; k < 20; ++k) {
      term *= -2 * x * x / (2 * k + 1);
      sum += term;
    }
    return sum;
  }
  if (a > 1e3) return (1 + 1 / (2 * a * a)) / (2 * x);
  constexpr double h = 0.2;
  const int middle = static_cast<int>(std::nearbyint(a / h)) | 1;  // terms are those of odd numbers
  double sum = 0;
  for (int n = middle - 32; n <= middle + 32; n += 2) sum += std::exp(-(a - n * h) * (a - n * h)) / n;
  return std::copysign(sum * std::numbers::inv_sqrtpi, x);
}

double Expint(double x) {
  if (std::isnan(x) || x == kInfinity) return x;
  if (x < 0) return kNan;  // as TensorFlow has it
  if (x > 720) return kInfinity;
  return std::expint(x);
}

// C(x) + i S(x): power series for small x; beyond, from a continued fraction of
// the complex error function.
std::complex<double> Fresnel(double x) {
  const double a = std::fabs(x);
  if (std::isnan(x)) return {x, x};
  std::complex<double> result;
  if (a < 1.6) {
    // sum of (i pi/2)^k x^(2k+1) / (k! (2k+1))
    const std::complex<double> z(0, kPi / 2 * a * a);
    std::complex<double> term = a;
    for (int k = 0; k < 40; ++k) {
      result += term / (2.0 * k + 1);
      term *= z / (k + 1.0);
    }
  } else if (a > 1e8) {
    result = {0.5, 0.5};
  } else {
    // erfc((1 - i) sqrt(pi) a / 2), by modified Lentz.
    const double square = kPi * a * a;
    std::complex<double> b(1, -square), c = 1e300, d = 1.0 / b, h = d;
    for (int n = 1; n < 200; ++n) {
      const double factor = -(2.0 * n - 1) * (2.0 * n);
      b += 4.0;
      d = 1.0 / (factor * d + b);
      c = b + factor / c;
      const std::complex<double> step = c * d;
      h *= step;
      if (std::abs(step.real() - 1) + std::abs(step.imag()) < 1e-16) break;
    }
    h *= std::complex<double>(a, -a);
    result = std::complex<double>(0.5, 0.5) * (1.0 - std::polar(1.0, std::fmod(square / 2, 2 * kPi)) * h);
  }
  return x < 0 ? -result : result;
}
double FresnelCos(double x) { return Fresnel(x).real(); }
double FresnelSin(double x) { return Fresnel(x).imag(); }

// The dilogarithm of 1 - x: its series where that converges fast, and elsewhere
// the formulas of Euler and Landen.
double SmallDilogarithm(double w) {
  double power = w, sum = 0;
  for (int k = 1; k < 80 && std::fabs(power) > 1e-18; ++k, power *= w) sum += power / (static_cast<double>(k) * k);
  return sum;
}
double Spence(double x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return kPi * kPi / 6;
  if (std::isinf(x)) return -kInfinity;
  if (x < 0.5) return kPi * kPi / 6 - std::log(x) * std::log1p(-x) - SmallDilogarithm(x);
  if (x <= 1) return SmallDilogarithm(1 - x);
  // 1 - 1/x is below 1/2 up to 2; beyond, 1/x is.
  const double log = std::log(x);
  if (x <= 2) return -SmallDilogarithm(1 - 1 / x) - log * log / 2;
  return -(kPi * kPi / 6 + log * std::log1p(-1 / x) - SmallDilogarithm(1 / x)) - log * log / 2;
}

// Sets the derivative with respect to x.
absl::Status Chain(GradientContext& g, Output slope) {
  g.set_dx(0, Mul(g.scope(), g.dy(), slope));
  return absl::OkStatus();
}
absl::Status DawsnGradient(GradientContext& g) {  // 1 - 2 x y
  const Scope& s = g.scope();
  const Output x = g.input(0), two = ScalarConst(s, x.dtype(), 2), one = ScalarConst(s, x.dtype(), 1);
  return Chain(g, Sub(s, one, Mul(s, Mul(s, two, x), g.output(0))));
}
absl::Status ExpintGradient(GradientContext& g) {
  return Chain(g, RealDiv(g.scope(), Exp(g.scope(), g.input(0)), g.input(0)));
}
Output HalfPiSquare(GradientContext& g) {
  const Scope& s = g.scope();
  return Mul(s, ScalarConst(s, g.input(0).dtype(), kPi / 2), Square(s, g.input(0)));
}
absl::Status FresnelCosGradient(GradientContext& g) { return Chain(g, Cos(g.scope(), HalfPiSquare(g))); }
absl::Status FresnelSinGradient(GradientContext& g) { return Chain(g, Sin(g.scope(), HalfPiSquare(g))); }
absl::Status SpenceGradient(GradientContext& g) {  // log(x) / (1 - x); -1 at 1
  const Scope& s = g.scope();
  const Output x = g.input(0), one = ScalarConst(s, x.dtype(), 1);
  const Output slope = RealDiv(s, Log(s, x), Sub(s, one, x));
  return Chain(g, s.Add("SelectV2", {Equal(s, x, one), Neg(s, one), slope}));
}

const OpRegistration kUnaryIntegralsOps[] = {
    SpecialFunction<Dawsn, 100>("Dawsn", DawsnGradient),
    SpecialFunction<Expint, 100>("Expint", ExpintGradient),
    SpecialFunction<FresnelCos, 100>("FresnelCos", FresnelCosGradient),
    SpecialFunction<FresnelSin, 100>("FresnelSin", FresnelSinGradient),
    SpecialFunction<Spence, 100>("Spence", SpenceGradient),
};

}  // namespace
}  // namespace thalweg
