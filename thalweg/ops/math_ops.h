// Math: elementwise functions, reductions, matrix products. Elementwise ops of
// two operands broadcast them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "thalweg/graph/scope.h"

namespace thalweg {

// ---- one operand ----
Output Abs(const Scope& s, Output x);
Output Neg(const Scope& s, Output x);
Output Reciprocal(const Scope& s, Output x);
Output Square(const Scope& s, Output x);
Output Sqrt(const Scope& s, Output x);
Output Rsqrt(const Scope& s, Output x);
Output Exp(const Scope& s, Output x);
Output Expm1(const Scope& s, Output x);
Output Log(const Scope& s, Output x);
Output Log1p(const Scope& s, Output x);
Output Sin(const Scope& s, Output x);
Output Cos(const Scope& s, Output x);
Output Tan(const Scope& s, Output x);
Output Asin(const Scope& s, Output x);
Output Acos(const Scope& s, Output x);
Output Atan(const Scope& s, Output x);
Output Sinh(const Scope& s, Output x);
Output Cosh(const Scope& s, Output x);
Output Tanh(const Scope& s, Output x);
Output Asinh(const Scope& s, Output x);
Output Acosh(const Scope& s, Output x);
Output Atanh(const Scope& s, Output x);
Output Sigmoid(const Scope& s, Output x);
Output Erf(const Scope& s, Output x);
Output Erfc(const Scope& s, Output x);
Output Erfinv(const Scope& s, Output x);
Output Ndtri(const Scope& s, Output x);
Output Lgamma(const Scope& s, Output x);
Output Digamma(const Scope& s, Output x);
Output Sign(const Scope& s, Output x);
Output Floor(const Scope& s, Output x);
Output Ceil(const Scope& s, Output x);
Output Round(const Scope& s, Output x);  // halves to even
Output Rint(const Scope& s, Output x);
Output IsNan(const Scope& s, Output x);
Output IsInf(const Scope& s, Output x);
Output IsFinite(const Scope& s, Output x);
Output LogicalNot(const Scope& s, Output x);
Output Invert(const Scope& s, Output x);
Output PopulationCount(const Scope& s, Output x);

// ---- complex numbers ----
Output Complex(const Scope& s, Output real, Output imag);
Output Real(const Scope& s, Output input);
Output Imag(const Scope& s, Output input);
Output Conj(const Scope& s, Output input);  // of real numbers: the same
Output ComplexAbs(const Scope& s, Output x);
Output Angle(const Scope& s, Output input);

// ---- two operands ----
Output Add(const Scope& s, Output x, Output y);
Output Sub(const Scope& s, Output x, Output y);
Output Mul(const Scope& s, Output x, Output y);
Output MulNoNan(const Scope& s, Output x, Output y);  // 0 where y is 0
Output Div(const Scope& s, Output x, Output y);
Output RealDiv(const Scope& s, Output x, Output y);
Output FloorDiv(const Scope& s, Output x, Output y);
Output TruncateDiv(const Scope& s, Output x, Output y);
Output DivNoNan(const Scope& s, Output x, Output y);  // 0 where y is 0
Output FloorMod(const Scope& s, Output x, Output y);  // with the sign of y
Output Mod(const Scope& s, Output x, Output y);
Output TruncateMod(const Scope& s, Output x, Output y);  // with the sign of x
Output Pow(const Scope& s, Output x, Output y);
Output Maximum(const Scope& s, Output x, Output y);
Output Minimum(const Scope& s, Output x, Output y);
Output SquaredDifference(const Scope& s, Output x, Output y);
Output Atan2(const Scope& s, Output y, Output x);
Output Xdivy(const Scope& s, Output x, Output y);
Output Xlogy(const Scope& s, Output x, Output y);
Output Xlog1py(const Scope& s, Output x, Output y);
Output NextAfter(const Scope& s, Output x1, Output x2);
Output BitwiseAnd(const Scope& s, Output x, Output y);
Output BitwiseOr(const Scope& s, Output x, Output y);
Output BitwiseXor(const Scope& s, Output x, Output y);
Output LeftShift(const Scope& s, Output x, Output y);
Output RightShift(const Scope& s, Output x, Output y);
Output Less(const Scope& s, Output x, Output y);
Output LessEqual(const Scope& s, Output x, Output y);
Output Greater(const Scope& s, Output x, Output y);
Output GreaterEqual(const Scope& s, Output x, Output y);
Output Equal(const Scope& s, Output x, Output y);
Output NotEqual(const Scope& s, Output x, Output y);
struct ApproximateEqualOptions {
  float tolerance = 1e-5f;
};
Output ApproximateEqual(const Scope& s, Output x, Output y, ApproximateEqualOptions options = {});
Output LogicalAnd(const Scope& s, Output x, Output y);
Output LogicalOr(const Scope& s, Output x, Output y);

// ---- several operands ----
Output AddN(const Scope& s, const std::vector<Output>& inputs);
Output AccumulateN(const Scope& s, const std::vector<Output>& inputs, const PartialShape& shape);
// Elements of `t` where the condition holds, else of `e`; broadcasts all three.
Output Select(const Scope& s, Output condition, Output t, Output e);
Output ClipByValue(const Scope& s, Output t, Output clip_value_min, Output clip_value_max);

// ---- types ----
struct CastOptions {
  bool truncate = false;  // cut mantissas instead of rounding
};
Output Cast(const Scope& s, Output x, DType dtype, CastOptions options = {});

// ---- reductions ----
struct ReduceOptions {
  bool keep_dims = false;  // reduced dimensions stay, with size 1
};
// What is reduced: one axis, a list of them or, known only when it runs, a
// tensor; negative ones count from the end.
class Axes {
 public:
  Axes(int axis) : known_(std::vector<int32_t>{axis}) {}        // NOLINT: implicit by design
  Axes(std::initializer_list<int32_t> axes) : known_(axes) {}   // NOLINT
  Axes(std::vector<int32_t> axes) : known_(std::move(axes)) {}  // NOLINT
  template <typename T>
  requires std::is_convertible_v<T, Output> Axes(T tensor) : tensor_(tensor) {}  // NOLINT
  static Axes All() { return Axes(Kind::kAll); }

  // Those of `input`.
  Output AsTensor(const Scope& s, Output input) const;

 private:
  enum class Kind { kAll };
  explicit Axes(Kind) : all_(true) {}

  bool all_ = false;
  std::optional<std::vector<int32_t>> known_;
  Output tensor_;
};
// Over all axes: a scalar.
Output ReduceSum(const Scope& s, Output input, const Axes& axes = Axes::All(), ReduceOptions options = {});
Output ReduceMean(const Scope& s, Output input, const Axes& axes = Axes::All(), ReduceOptions options = {});
Output ReduceProd(const Scope& s, Output input, const Axes& axes = Axes::All(), ReduceOptions options = {});
Output ReduceMax(const Scope& s, Output input, const Axes& axes = Axes::All(), ReduceOptions options = {});
Output ReduceMin(const Scope& s, Output input, const Axes& axes = Axes::All(), ReduceOptions options = {});
Output ReduceAll(const Scope& s, Output input, const Axes& axes = Axes::All(), ReduceOptions options = {});
Output ReduceAny(const Scope& s, Output input, const Axes& axes = Axes::All(), ReduceOptions options = {});
Output EuclideanNorm(const Scope& s, Output input, const Axes& axes = Axes::All(), ReduceOptions options = {});

struct ArgMaxOptions {
  DType output_type = kInt64;
};
Output ArgMax(const Scope& s, Output input, Output dimension, ArgMaxOptions options = {});
Output ArgMin(const Scope& s, Output input, Output dimension, ArgMaxOptions options = {});
Output ArgMax(const Scope& s, Output input, int dimension, ArgMaxOptions options = {});
Output ArgMin(const Scope& s, Output input, int dimension, ArgMaxOptions options = {});

struct CumulativeOptions {
  bool exclusive = false;
  bool reverse = false;
};
Output Cumsum(const Scope& s, Output x, Output axis, CumulativeOptions options = {});
Output Cumprod(const Scope& s, Output x, Output axis, CumulativeOptions options = {});
Output Cumsum(const Scope& s, Output x, int axis, CumulativeOptions options = {});
Output Cumprod(const Scope& s, Output x, int axis, CumulativeOptions options = {});

// ---- matrix products ----
struct MatMulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};
Output MatMul(const Scope& s, Output a, Output b, MatMulOptions options = {});
// Of vectors of three elements, along the last dimension.
Output Cross(const Scope& s, Output a, Output b);
struct BatchMatMulOptions {
  bool adj_x = false;  // conjugate transpose of the last two dimensions
  bool adj_y = false;
};
Output BatchMatMul(const Scope& s, Output x, Output y, BatchMatMulOptions options = {});

}  // namespace thalweg
