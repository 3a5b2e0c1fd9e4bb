// SPDX-License-Identifier: Apache-2.0
// Bessel functions of order 0 and 1, elementwise: J and Y, the modified I and K,
// and I and K with their exponential taken off ("e": I0e(x) = exp(-|x|) I0(x),
// K0e(x) = exp(x) K0(x)).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math/special_function.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"

namespace thalweg {
namespace {

// From here on the asymptotic series below is exact to the last digits.
constexpr double kLarge = 40;

// The asymptotic series sum_k a_k / x^k with a_k = a_{k-1} (mu - (2k-1)^2) / (8k), mu = 4 order^2.
// It is K and, with alternating signs, I without the exponential and the square root.
double Asymptotic(int order, double x, double sign) {
  const double mu = 4.0 * order * order;
  double term = 1, sum = 1;
  for (int k = 1; k < 30 && std::fabs(term) > 1e-17; ++k) {
    const double odd = 2 * k - 1;
    term *= sign * (mu - odd * odd) / (8 * k * x);
    sum += term;
  }
  return sum;
}

// I of order 0 or 1 by its power series, whose terms are all positive. (That of the
// standard library calls lgamma, whose sign is a global variable.)
double SeriesI(int order, double x) {
  const double square = x * x / 4;
  double term = order == 0 ? 1 : x / 2, sum = term;
  for (int k = 1; term > 1e-17 * sum; ++k) {
    term *= square / (k * (k + order));
    sum += term;
  }
  return sum;
}

double ScaledI(int order, double x) {
  const double a = std::fabs(x);
  double y;
  if (std::isnan(x)) return x;
  if (std::isinf(a)) {
    y = 0;
  } else if (a > kLarge) {
    y = Asymptotic(order, a, -1) / std::sqrt(2 * std::numbers::pi * a);
  } else {
    y = SeriesI(order, a) * std::exp(-a);
  }
  return order == 1 && x < 0 ? -y : y;
}
double ScaledK(int order, double x) {
  if (std::isnan(x) || x < 0) return kNan;
  if (x == 0) return kInfinity;
  if (std::isinf(x)) return 0;
  if (x > kLarge) return Asymptotic(order, x, 1) * std::sqrt(std::numbers::pi / (2 * x));
  // Smaller ones are where the library's iteration ends.
  if (x < 1e-30) return order == 1 ? 1 / x : -std::log(x / 2) - std::numbers::egamma;
  return std::cyl_bessel_k(static_cast<double>(order), x) * std::exp(x);
}
double Scaled(double scaled, double exponent) { return scaled == 0 ? 0 : scaled * std::exp(exponent); }

double I0e(double x) { return ScaledI(0, x); }
double I1e(double x) { return ScaledI(1, x); }
double K0e(double x) { return ScaledK(0, x); }
double K1e(double x) { return ScaledK(1, x); }
double I0(double x) { return std::isinf(x) ? kInfinity : Scaled(ScaledI(0, x), std::fabs(x)); }
double I1(double x) { return std::isinf(x) ? x : Scaled(ScaledI(1, x), std::fabs(x)); }
double K0(double x) { return Scaled(ScaledK(0, x), -x); }
double K1(double x) { return Scaled(ScaledK(1, x), -x); }
double J0(double x) { return j0(x); }
double J1(double x) { return j1(x); }
double Y0(double x) { return x < 0 ? kNan : x == 0 ? -kInfinity : y0(x); }
double Y1(double x) { return x < 0 ? kNan : x == 0 ? -kInfinity : y1(x); }

// Every derivative is p * other(x) + q * y / x + r * y, where `other` is the other order of the
// same kind. r may be multiplied with the sign of x. `at_0` is the derivative at 0, where the
// division is undefined.
struct Slope {
  const char* other;
  double p;
  double q = 0;
  double r = 0;
  bool signed_r = false;
  double at_0 = 0;
};
constexpr std::pair<const char*, Slope> kSlopes[] = {
    {"BesselI0", {"BesselI1", 1}},
    {"BesselI1", {"BesselI0", 1, -1, 0, false, .5}},
    {"BesselI0e", {"BesselI1e", 1, 0, -1, true}},
    {"BesselI1e", {"BesselI0e", 1, -1, -1, true, .5}},
    {"BesselK0", {"BesselK1", -1}},
    {"BesselK1", {"BesselK0", -1, -1}},
    {"BesselK0e", {"BesselK1e", -1, 0, 1}},
    {"BesselK1e", {"BesselK0e", -1, -1, 1}},
    {"BesselJ0", {"BesselJ1", -1}},
    {"BesselJ1", {"BesselJ0", 1, -1, 0, false, .5}},
    {"BesselY0", {"BesselY1", -1}},
    {"BesselY1", {"BesselY0", 1, -1}},
};

absl::Status BesselGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = g.input(0), y = g.output(0);
  const auto number = [&](double value) { return ScalarConst(s, x.dtype(), value); };
  const Slope& rule = std::find_if(std::begin(kSlopes), std::end(kSlopes), [&](const auto& row) {
                        return g.node()->op() == row.first;
                      })->second;
  Output slope = Mul(s, number(rule.p), s.Add(rule.other, {x}));
  if (rule.r != 0) {
    const Output r = rule.signed_r ? Mul(s, number(rule.r), Sign(s, x)) : number(rule.r);
    slope = Add(s, slope, Mul(s, r, y));
  }
  if (rule.q != 0) slope = Add(s, slope, Mul(s, number(rule.q), RealDiv(s, y, x)));
  if (rule.at_0 != 0) slope = s.Add("SelectV2", {Equal(s, x, number(0)), number(rule.at_0), slope});
  g.set_dx(0, Mul(s, g.dy(), slope));
  return absl::OkStatus();
}

template <double (*F)(double)>
Op Bessel(absl::string_view name) {
  return SpecialFunction<F, 200>(name, BesselGradient);
}

const OpRegistration kBesselOps[] = {
    Bessel<I0>("BesselI0"), Bessel<I1>("BesselI1"), Bessel<I0e>("BesselI0e"), Bessel<I1e>("BesselI1e"),
    Bessel<K0>("BesselK0"), Bessel<K1>("BesselK1"), Bessel<K0e>("BesselK0e"), Bessel<K1e>("BesselK1e"),
    Bessel<J0>("BesselJ0"), Bessel<J1>("BesselJ1"), Bessel<Y0>("BesselY0"),   Bessel<Y1>("BesselY1"),
};

}  // namespace
}  // namespace thalweg
