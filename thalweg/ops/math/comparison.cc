// SPDX-License-Identifier: Apache-2.0
// x < y and its kin, elementwise with broadcasting; results are bool.
#include <cmath>
#include <string>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

struct LessFn {
  template <typename T>
  bool operator()(T x, T y) const {
    return x < y;
  }
};
struct LessEqualFn {
  template <typename T>
  bool operator()(T x, T y) const {
    return x <= y;
  }
};
struct GreaterFn {
  template <typename T>
  bool operator()(T x, T y) const {
    return x > y;
  }
};
struct GreaterEqualFn {
  template <typename T>
  bool operator()(T x, T y) const {
    return x >= y;
  }
};
struct EqualFn {
  template <typename T>
  bool operator()(const T& x, const T& y) const {
    return x == y;
  }
};
struct NotEqualFn {
  template <typename T>
  bool operator()(const T& x, const T& y) const {
    return x != y;
  }
};
struct LogicalAndFn {
  bool operator()(bool x, bool y) const { return x & y; }
};
struct LogicalOrFn {
  bool operator()(bool x, bool y) const { return x | y; }
};

using Comparable = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                         std::complex<float>, std::complex<double>, bool, std::string>;

// Operands that do not fit are unequal if the node says so; nothing is known
// of the result then unless both shapes are.
absl::Status EqualShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const bool shape_error, c.Attr<bool>("incompatible_shape_error"));
  if (shape_error) return shapes::Broadcast(c);
  absl::StatusOr<PartialShape> shape = BroadcastShape(c.input(0), c.input(1));
  if (shape.ok() && c.input(0).fully_known() && c.input(1).fully_known()) c.set_output(0, *std::move(shape));
  return absl::OkStatus();
}

// |x - y| < tolerance; the shapes are equal.
class ApproximateEqualKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(tolerance_, init.Attr<float>("tolerance"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    const Tensor& y = context.input(1);
    if (x.shape() != y.shape()) {
      return InvalidArgument("x and y must be of the same shape. x shape: ", x.shape(), ". y shape: ", y.shape());
    }
    ASSIGN_OR_RETURN(Tensor * z, context.Allocate(0, x.shape()));
    bool* const out = z->mutable_data<bool>();
    return Dispatch(NumberTypes(), x.dtype(), [&]<typename T>() {
      const T* a = x.data<T>();
      const T* b = y.data<T>();
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        if constexpr (std::is_unsigned_v<T>) {
          out[i] = static_cast<double>(a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]) < tolerance_;
        } else if constexpr (kIsComplex<T>) {
          out[i] = std::abs(a[i] - b[i]) < tolerance_;
        } else {
          out[i] = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) < static_cast<double>(tolerance_);
        }
      }
      return absl::OkStatus();
    });
  }

 private:
  float tolerance_ = 0;
};

Op Comparison(absl::string_view name) {
  return Op(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: bool")
      .Attr("T: realnumbertype")
      .Shape(shapes::Broadcast)
      .NotDifferentiable();
}
Op Equality(absl::string_view name) {
  return Op(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: bool")
      .Attr("T: type")
      .Attr("incompatible_shape_error: bool = true")
      .Commutative()
      .Shape(EqualShape)
      .NotDifferentiable();
}
Op Logical(absl::string_view name) {
  return Op(name)
      .Input("x: bool")
      .Input("y: bool")
      .Output("z: bool")
      .Commutative()
      .Shape(shapes::Broadcast)
      .NotDifferentiable();
}

const OpRegistration kComparisonOps[] = {
    Comparison("Less").Kernel<BinaryKernel>(SelectBinary<LessFn, Reals>),
    Comparison("LessEqual").Kernel<BinaryKernel>(SelectBinary<LessEqualFn, Reals>),
    Comparison("Greater").Kernel<BinaryKernel>(SelectBinary<GreaterFn, Reals>),
    Comparison("GreaterEqual").Kernel<BinaryKernel>(SelectBinary<GreaterEqualFn, Reals>),
    Equality("Equal").Kernel<BinaryKernel>(SelectBinary<EqualFn, Comparable>),
    Equality("NotEqual").Kernel<BinaryKernel>(SelectBinary<NotEqualFn, Comparable>),
    Logical("LogicalAnd").Kernel<BinaryKernel>(SelectBinary<LogicalAndFn, Types<bool>>),
    Logical("LogicalOr").Kernel<BinaryKernel>(SelectBinary<LogicalOrFn, Types<bool>>),
    Op("ApproximateEqual")
        .Input("x: T")
        .Input("y: T")
        .Output("z: bool")
        .Attr("T: numbertype")
        .Attr("tolerance: float = 0.00001")
        .Commutative()
        .Shape(shapes::MergeInputs)
        .Kernel<ApproximateEqualKernel>()
        .NotDifferentiable(),
};

// CompareAndBitpack: whether elements are greater than a threshold, as the bits of bytes. The first of eight neighbours
// is the highest bit. Bools are packed as they are.
using PackedTypes = Types<bool, Half, float, double, int8_t, int16_t, int32_t, int64_t>;

template <typename T>
bool IsAbove(T x, T threshold) {
  if constexpr (std::is_same_v<T, bool>) {
    return x;
  } else if constexpr (std::is_same_v<T, Half>) {
    return static_cast<float>(x) > static_cast<float>(threshold);
  } else {
    return x > threshold;
  }
}

absl::Status ComputeBitpack(KernelContext& c) {
  const Tensor x = c.input(0), threshold = c.input(1);
  if (threshold.rank() != 0) return InvalidArgument("Compare must be a scalar, but saw shape: ", threshold.shape());
  if (x.rank() == 0) return InvalidArgument("Input should be at least a vector, but saw a scalar.");
  const int last = x.rank() - 1;
  if (x.dim(last) % 8 != 0) {
    return InvalidArgument("Inner dimension of input should be divisible by 8, but saw shape: ", x.shape());
  }
  Dims dims(x.shape().dims().begin(), x.shape().dims().end());
  dims[last] /= 8;
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  return Dispatch(PackedTypes(), x.dtype(), [&]<typename T>() {
    const T* const from = x.data<T>();
    const T limit = threshold.scalar<T>();
    uint8_t* const to = out->mutable_data<uint8_t>();
    constexpr double kNanosEach = 8;
    c.ParallelFor(out->num_elements(), kNanosEach, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        unsigned bits = 0;
        for (int64_t k = 0; k < 8; ++k) bits = bits << 1 | (IsAbove(from[8 * i + k], limit) ? 1u : 0u);
        to[i] = static_cast<uint8_t>(bits);
      }
    });
    return absl::OkStatus();
  });
}

absl::Status BitpackShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(1, 0).status());
  const PartialShape& x = c.input(0);
  if (!x.has_rank()) return absl::OkStatus();
  if (x.rank() == 0) return InvalidArgument("Input should be at least a vector, but saw a scalar.");
  Dims dims(x.dims().begin(), x.dims().end());
  if (dims.back() >= 0 && dims.back() % 8 != 0) {
    return InvalidArgument("Inner dimension of input should be divisible by 8, but saw shape: ", x);
  }
  if (dims.back() >= 0) dims.back() /= 8;
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

const OpRegistration kCompareAndBitpack = Op("CompareAndBitpack")
                                              .Input("input: T")
                                              .Input("threshold: T")
                                              .Output("output: uint8")
                                              .Attr("T: {bool, half, float, double, int8, int16, int32, int64}")
                                              .Shape(BitpackShape)
                                              .Compute(ComputeBitpack)
                                              .NotDifferentiable();

}  // namespace

Output Less(const Scope& s, Output x, Output y) { return s.Add("Less", {x, y}); }
Output LessEqual(const Scope& s, Output x, Output y) { return s.Add("LessEqual", {x, y}); }
Output Greater(const Scope& s, Output x, Output y) { return s.Add("Greater", {x, y}); }
Output GreaterEqual(const Scope& s, Output x, Output y) { return s.Add("GreaterEqual", {x, y}); }
Output Equal(const Scope& s, Output x, Output y) { return s.Add("Equal", {x, y}); }
Output NotEqual(const Scope& s, Output x, Output y) { return s.Add("NotEqual", {x, y}); }
Output LogicalAnd(const Scope& s, Output x, Output y) { return s.Add("LogicalAnd", {x, y}); }
Output LogicalOr(const Scope& s, Output x, Output y) { return s.Add("LogicalOr", {x, y}); }
Output ApproximateEqual(const Scope& s, Output x, Output y, const ApproximateEqualOptions& options) {
  return s.Add("ApproximateEqual", {x, y}, {{"tolerance", options.tolerance}});
}

}  // namespace thalweg
