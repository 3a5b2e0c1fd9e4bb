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
