// SPDX-License-Identifier: Apache-2.0
// Math: elementwise functions, reductions, matrix products. Elementwise ops of two
// operands broadcast them as NumPy does: sizes are equal, or one of them is 1. The
// operators of operators.h are short forms of the most common ones.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"

namespace thalweg {

// ---- one operand ----

// |x|; of complex numbers see ComplexAbs.
Output Abs(const Scope& s, Output x);
// -x.
Output Neg(const Scope& s, Output x);
// 1 / x.
Output Reciprocal(const Scope& s, Output x);
// x * x.
Output Square(const Scope& s, Output x);
// The square root of x.
Output Sqrt(const Scope& s, Output x);
// 1 / sqrt(x).
Output Rsqrt(const Scope& s, Output x);
// e to the power of x.
Output Exp(const Scope& s, Output x);
// exp(x) - 1, exact for small x.
Output Expm1(const Scope& s, Output x);
// The natural logarithm of x.
Output Log(const Scope& s, Output x);
// log(1 + x), exact for small x.
Output Log1p(const Scope& s, Output x);
// The sine of x, in radians.
Output Sin(const Scope& s, Output x);
// The cosine of x, in radians.
Output Cos(const Scope& s, Output x);
// The tangent of x, in radians.
Output Tan(const Scope& s, Output x);
// The inverse of the sine, in radians.
Output Asin(const Scope& s, Output x);
// The inverse of the cosine, in radians.
Output Acos(const Scope& s, Output x);
// The inverse of the tangent, in radians.
Output Atan(const Scope& s, Output x);
// The hyperbolic sine of x.
Output Sinh(const Scope& s, Output x);
// The hyperbolic cosine of x.
Output Cosh(const Scope& s, Output x);
// The hyperbolic tangent of x.
Output Tanh(const Scope& s, Output x);
// The inverse of the hyperbolic sine.
Output Asinh(const Scope& s, Output x);
// The inverse of the hyperbolic cosine, for x >= 1.
Output Acosh(const Scope& s, Output x);
// The inverse of the hyperbolic tangent, for |x| <= 1.
Output Atanh(const Scope& s, Output x);
// 1 / (1 + exp(-x)).
Output Sigmoid(const Scope& s, Output x);
// The error function of x.
Output Erf(const Scope& s, Output x);
// 1 - erf(x), exact for large x.
Output Erfc(const Scope& s, Output x);
// The inverse of the error function, for |x| <= 1.
Output Erfinv(const Scope& s, Output x);
// The quantile function of the normal distribution, for 0 <= x <= 1.
Output Ndtri(const Scope& s, Output x);
// The logarithm of |gamma(x)|.
Output Lgamma(const Scope& s, Output x);
// The derivative of Lgamma.
Output Digamma(const Scope& s, Output x);
// -1, 0 or 1; of a complex number, x / |x|.
Output Sign(const Scope& s, Output x);
// The largest integer that is not above x.
Output Floor(const Scope& s, Output x);
// The smallest integer that is not below x.
Output Ceil(const Scope& s, Output x);
// The nearest integer; halves go to the even one.
Output Round(const Scope& s, Output x);
// The nearest integer; halves go to the even one. For floating point only.
Output Rint(const Scope& s, Output x);
// True where x is NaN; gives bool.
Output IsNan(const Scope& s, Output x);
// True where x is infinite; gives bool.
Output IsInf(const Scope& s, Output x);
// True where x is neither infinite nor NaN; gives bool.
Output IsFinite(const Scope& s, Output x);
// Not x, of bool.
Output LogicalNot(const Scope& s, Output x);
// Every bit of the integer x inverted.
Output Invert(const Scope& s, Output x);
// The number of bits of the integer x that are set; gives uint8.
Output PopulationCount(const Scope& s, Output x);
// The modified Bessel function of order 0.
Output BesselI0(const Scope& s, Output x);
// The modified Bessel function of order 1.
Output BesselI1(const Scope& s, Output x);
// exp(-|x|) * BesselI0(x).
Output BesselI0e(const Scope& s, Output x);
// exp(-|x|) * BesselI1(x).
Output BesselI1e(const Scope& s, Output x);

// ---- complex numbers ----

// real + i * imag, of float or double tensors of one shape.
Output Complex(const Scope& s, Output real, Output imag);
// The real part.
Output Real(const Scope& s, Output input);
// The imaginary part.
Output Imag(const Scope& s, Output input);
// The conjugate; real numbers stay as they are.
Output Conj(const Scope& s, Output input);
// The absolute value, a real number.
Output ComplexAbs(const Scope& s, Output x);
// The argument, in radians.
Output Angle(const Scope& s, Output input);

// ---- two operands ----

// x + y; joins strings.
Output Add(const Scope& s, Output x, Output y);
// x - y.
Output Sub(const Scope& s, Output x, Output y);
// x * y, element by element.
Output Mul(const Scope& s, Output x, Output y);
// x * y, but 0 where y is 0, even if x is infinite or NaN.
Output MulNoNan(const Scope& s, Output x, Output y);
// x / y; of integers, truncated as in C++.
Output Div(const Scope& s, Output x, Output y);
// x / y, for floating point.
Output RealDiv(const Scope& s, Output x, Output y);
// x / y, rounded down.
Output FloorDiv(const Scope& s, Output x, Output y);
// x / y of integers, rounded towards 0.
Output TruncateDiv(const Scope& s, Output x, Output y);
// x / y, but 0 where y is 0.
Output DivNoNan(const Scope& s, Output x, Output y);
// The remainder of x / y with the sign of y.
Output FloorMod(const Scope& s, Output x, Output y);
// The remainder of x / y with the sign of x.
Output Mod(const Scope& s, Output x, Output y);
// The remainder of x / y with the sign of x.
Output TruncateMod(const Scope& s, Output x, Output y);
// x to the power of y.
Output Pow(const Scope& s, Output x, Output y);
// The larger of x and y.
Output Maximum(const Scope& s, Output x, Output y);
// The smaller of x and y.
Output Minimum(const Scope& s, Output x, Output y);
// (x - y)^2; of complex numbers, |x - y|^2.
Output SquaredDifference(const Scope& s, Output x, Output y);
// The angle of the point (x, y), in radians from -pi to pi.
Output Atan2(const Scope& s, Output y, Output x);
// x / y, but 0 where x is 0.
Output Xdivy(const Scope& s, Output x, Output y);
// x * log(y), but 0 where x is 0.
Output Xlogy(const Scope& s, Output x, Output y);
// x * log1p(y), but 0 where x is 0.
Output Xlog1py(const Scope& s, Output x, Output y);
// The next number after x1 in the direction of x2.
Output NextAfter(const Scope& s, Output x1, Output x2);
// The regularized lower incomplete gamma function P(a, x).
Output Igamma(const Scope& s, Output a, Output x);
// The regularized upper incomplete gamma function Q(a, x).
Output Igammac(const Scope& s, Output a, Output x);
// The regularized incomplete beta function I_x(a, b).
Output Betainc(const Scope& s, Output a, Output b, Output x);
// The Hurwitz zeta function: the sum of 1 / (k + q)^x over k >= 0.
Output Zeta(const Scope& s, Output x, Output q);
// The polygamma function: derivative a of Digamma at x.
Output Polygamma(const Scope& s, Output a, Output x);
// Bits of both integers.
Output BitwiseAnd(const Scope& s, Output x, Output y);
// Bits of either integer.
Output BitwiseOr(const Scope& s, Output x, Output y);
// Bits of one of the integers, not of both.
Output BitwiseXor(const Scope& s, Output x, Output y);
// The bits of x, moved up by y.
Output LeftShift(const Scope& s, Output x, Output y);
// The bits of x, moved down by y; signed integers keep their sign.
Output RightShift(const Scope& s, Output x, Output y);
// x < y; gives bool.
Output Less(const Scope& s, Output x, Output y);
// x <= y; gives bool.
Output LessEqual(const Scope& s, Output x, Output y);
// x > y; gives bool.
Output Greater(const Scope& s, Output x, Output y);
// x >= y; gives bool.
Output GreaterEqual(const Scope& s, Output x, Output y);
// True where elements are equal; gives bool.
Output Equal(const Scope& s, Output x, Output y);
// True where elements differ; gives bool.
Output NotEqual(const Scope& s, Output x, Output y);
// How far two elements may differ.
struct ApproximateEqualOptions {
  float tolerance = 1e-5f;  // the largest difference
};
// True where |x - y| is below the tolerance; gives bool.
Output ApproximateEqual(const Scope& s, Output x, Output y, const ApproximateEqualOptions& options = {});
// x and y, of bool.
Output LogicalAnd(const Scope& s, Output x, Output y);
// x or y, of bool.
Output LogicalOr(const Scope& s, Output x, Output y);

// ---- several operands ----

// The sum of tensors of one shape.
Output AddN(const Scope& s, const std::vector<Output>& inputs);
// The sum of tensors, whose common shape is `shape`.
Output AccumulateN(const Scope& s, const std::vector<Output>& inputs, const PartialShape& shape);
// Elements of `t` where the condition, a bool tensor, holds, else of `e`. Broadcasts all
// three.
Output Select(const Scope& s, Output condition, Output t, Output e);
// `t` with elements below the minimum or above the maximum set to it.
Output ClipByValue(const Scope& s, Output t, Output clip_value_min, Output clip_value_max);

// ---- types ----

// How Cast rounds.
struct CastOptions {
  bool truncate = false;  // cut mantissas instead of rounding
};
// The elements as another type. Floating point becomes an integer by truncation.
Output Cast(const Scope& s, Output x, DType dtype, const CastOptions& options = {});

// ---- reductions ----

// The shape of the result of a reduction.
struct ReduceOptions {
  bool keep_dims = false;  // reduced dimensions stay, with size 1
};
// The axes of a reduction: one, a list in braces or, known only when the graph runs, a
// tensor. Negative ones count from the end.
class Axes {
 public:
  // One axis.
  Axes(int axis) : known_(std::vector<int32_t>{axis}) {}  // NOLINT: implicit by design
  // Several axes: {0, 1}.
  Axes(std::initializer_list<int32_t> axes) : known_(axes) {}  // NOLINT: implicit by design
  // Axes that were computed while the graph is built.
  Axes(std::vector<int32_t> axes) : known_(std::move(axes)) {}  // NOLINT: implicit by design
  // An int32 or int64 vector of the graph.
  template <TensorLike T>
  Axes(const T& tensor) : tensor_(tensor) {}  // NOLINT: implicit by design
  // All axes: the result is a scalar.
  static Axes All() { return Axes(Kind::kAll); }

  // As a tensor, for `input`.
  Output AsTensor(const Scope& s, Output input) const;

 private:
  enum class Kind { kAll };
  explicit Axes(Kind) : all_(true) {}

  bool all_ = false;
  std::optional<std::vector<int32_t>> known_;
  Output tensor_;
};
// The sum of the elements along `axes`, all by default: ReduceSum(s, x, {0}) adds up rows.
Output ReduceSum(const Scope& s, Output input, const Axes& axes = Axes::All(), const ReduceOptions& options = {});
// The mean along `axes`.
Output ReduceMean(const Scope& s, Output input, const Axes& axes = Axes::All(), const ReduceOptions& options = {});
// The product along `axes`.
Output ReduceProd(const Scope& s, Output input, const Axes& axes = Axes::All(), const ReduceOptions& options = {});
// The largest element along `axes`.
Output ReduceMax(const Scope& s, Output input, const Axes& axes = Axes::All(), const ReduceOptions& options = {});
// The smallest element along `axes`.
Output ReduceMin(const Scope& s, Output input, const Axes& axes = Axes::All(), const ReduceOptions& options = {});
// True if all elements along `axes` are true; of bool.
Output ReduceAll(const Scope& s, Output input, const Axes& axes = Axes::All(), const ReduceOptions& options = {});
// True if an element along `axes` is true; of bool.
Output ReduceAny(const Scope& s, Output input, const Axes& axes = Axes::All(), const ReduceOptions& options = {});
// The root of the sum of squares along `axes`.
Output EuclideanNorm(const Scope& s, Output input, const Axes& axes = Axes::All(), const ReduceOptions& options = {});

// The type of the positions that ArgMax and ArgMin return.
struct ArgMaxOptions {
  DType output_type = kInt64;  // or kInt32
};
// The position of the largest element along a dimension, which the result does not have.
Output ArgMax(const Scope& s, Output input, const IntArg& dimension, const ArgMaxOptions& options = {});
// The position of the smallest element along a dimension, which the result does not have.
Output ArgMin(const Scope& s, Output input, const IntArg& dimension, const ArgMaxOptions& options = {});

// The direction of Cumsum and Cumprod, and whether an element counts for itself.
struct CumulativeOptions {
  bool exclusive = false;  // an element does not count itself
  bool reverse = false;    // from the end
};
// Sums of all elements up to each one along an axis: [1,2,3] gives [1,3,6].
Output Cumsum(const Scope& s, Output x, const IntArg& axis, const CumulativeOptions& options = {});
// Products of all elements up to each one along an axis.
Output Cumprod(const Scope& s, Output x, const IntArg& axis, const CumulativeOptions& options = {});

// How often each number below `size` occurs in the int32 tensor `arr`. With `weights` of
// the same shape, the sum of the weights of its occurrences.
Output Bincount(const Scope& s, Output arr, const IntArg& size, Output weights = {});
// The bucket of each number: how many of the sorted `boundaries` are not above it.
Output Bucketize(const Scope& s, Output input, const std::vector<float>& boundaries);
// Counts of values in `nbins` bins of one width over value_range, a vector of two; values
// outside count in the first or last bin.
Output HistogramFixedWidth(const Scope& s, Output values, Output value_range, const IntArg& nbins);
// Where each of `values` [b,m] belongs in the sorted rows `sorted_inputs` [b,n] so that
// they stay sorted: before equal elements (LowerBound), or after them (UpperBound):
Output LowerBound(const Scope& s, Output sorted_inputs, Output values, DType out_type = kInt32);
Output UpperBound(const Scope& s, Output sorted_inputs, Output values, DType out_type = kInt32);

// ---- matrix products ----

// Which operands of MatMul are transposed.
struct MatMulOptions {
  bool transpose_a = false;  // use the transpose of a
  bool transpose_b = false;  // use the transpose of b
};
// The product of matrices: [m,k] and [k,n] give [m,n].
Output MatMul(const Scope& s, Output a, Output b, const MatMulOptions& options = {});
// Which operands of BatchMatMul are replaced by their conjugate transpose.
struct BatchMatMulOptions {
  bool adj_x = false;  // use the conjugate transpose of the last two dimensions of x
  bool adj_y = false;  // use the conjugate transpose of the last two dimensions of y
};
// Products of the matrices in the last two dimensions; the others broadcast: [b,m,k] and
// [k,n] give [b,m,n].
Output BatchMatMul(const Scope& s, Output x, Output y, const BatchMatMulOptions& options = {});
// Einstein's sum. Einsum(s, "bij,bjk->bik", {x, y}) multiplies batches of matrices;
// "ii->i" takes a diagonal; "..." stands for dimensions that broadcast. One or two
// operands.
Output Einsum(const Scope& s, absl::string_view equation, const std::vector<Output>& inputs);
// The cross product of vectors of three elements, along the last dimension.
Output Cross(const Scope& s, Output a, Output b);

}  // namespace thalweg
