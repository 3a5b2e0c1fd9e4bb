// SPDX-License-Identifier: Apache-2.0
// Betainc(a, b, x): the regularized incomplete beta function, the integral of
// t^(a-1) (1-t)^(b-1) from 0 to x by that to 1. Elementwise; scalars are
// repeated, nothing else is.
#include <cmath>
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"

namespace thalweg {
namespace {

// The continued fraction of DLMF 8.17.22 by modified Lentz. Converges fast for
// x < (a + 1) / (a + b + 2).
double Fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr int kTerms = 20000;
  const auto guard = [](double v) { return std::fabs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / guard(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < kTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guard(1 + even * d);
    c = guard(1 + even / c);
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guard(1 + odd * d);
    c = guard(1 + odd / c);
    h *= d * c;
    if (std::fabs(d * c - 1) < 1e-16) break;
  }
  return h;
}

double Betainc(double a, double b, double x) {
  if (!(a > 0) || !(b > 0) || !(x >= 0 && x <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0 || x == 1) return x;
  int sign;
  const double front =
      std::exp(lgamma_r(a + b, &sign) - lgamma_r(a, &sign) - lgamma_r(b, &sign) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * Fraction(a, b, x) / a;
  return 1 - front * Fraction(b, a, 1 - x) / b;
}

absl::Status ComputeBetainc(KernelContext& c) {
  Shape shape;
  for (int i = 0; i < 3; ++i) {
    const Shape& own = c.input(i).shape();
    if (own.rank() == 0) continue;
    if (shape.rank() != 0 && shape != own) {
      return InvalidArgument("Shapes of a, b and x are inconsistent: ", c.input(0).shape(), " vs. ", c.input(1).shape(),
                             " vs. ", c.input(2).shape());
    }
    shape = own;
  }
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  const auto run = [&]<typename T>(T) {
    const T* in[3];
    int64_t step[3];
    for (int i = 0; i < 3; ++i) {
      in[i] = c.input(i).data<T>();
      step[i] = c.input(i).rank() == 0 ? 0 : 1;
    }
    T* const z = out->mutable_data<T>();
    c.ParallelFor(out->num_elements(), 300, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        z[i] = static_cast<T>(Betainc(in[0][i * step[0]], in[1][i * step[1]], in[2][i * step[2]]));
      }
    });
  };
  c.output_type(0) == kFloat ? run(float{}) : run(double{});
  return absl::OkStatus();
}

absl::Status BetaincShape(ShapeContext& c) {
  PartialShape shape{Shape()};
  for (int i = 0; i < 3; ++i) {
    const PartialShape& own = c.input(i);
    if (!own.has_rank()) return absl::OkStatus();
    if (own.rank() == 0) continue;
    if (shape.rank() == 0) {
      shape = own;
    } else {
      ASSIGN_OR_RETURN(shape, PartialShape::Merge(shape, own));
    }
  }
  c.set_output(0, shape);
  return absl::OkStatus();
}

// Only with respect to x: no closed form is known for the other arguments.
absl::Status BetaincGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output a = g.input(0), b = g.input(1), x = g.input(2);
  const Output one = ScalarConst(s, x.dtype(), 1);
  const Output beta = Sub(s, Add(s, Lgamma(s, a), Lgamma(s, b)), Lgamma(s, Add(s, a, b)));
  const Output left = s.Add("Xlogy", {Sub(s, a, one), x});
  const Output right = s.Add("Xlog1py", {Sub(s, b, one), Neg(s, x)});
  const Output dx = Mul(s, g.dy(), Exp(s, Sub(s, Add(s, left, right), beta)));
  g.set_dx(2, SumBroadcast(s, x, g.output(0), dx, dx).first);
  return absl::OkStatus();
}

const OpRegistration kBetainc = Op("Betainc")
                                    .Input("a: T")
                                    .Input("b: T")
                                    .Input("x: T")
                                    .Output("z: T")
                                    .Attr("T: {float, double}")
                                    .Shape(BetaincShape)
                                    .Compute(ComputeBetainc)
                                    .Gradient(BetaincGradient);

}  // namespace
}  // namespace thalweg
