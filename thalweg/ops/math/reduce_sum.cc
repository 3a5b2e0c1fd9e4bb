// SPDX-License-Identifier: Apache-2.0
// Sum, Mean, Prod and EuclideanNorm over any set of axes; keep_dims leaves the
// reduced dimensions in place with size 1. Integers wrap around, and a Mean of
// them is rounded towards zero.
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math/reduction.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

using SummedTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                          std::complex<float>, std::complex<double>>;

struct SumR {
  template <typename T>
  static T Identity() {
    return T(0);
  }
  template <typename T>
  T operator()(T a, T b) const {
    return WrapAdd(a, b);
  }
};
struct ProdR {
  template <typename T>
  static T Identity() {
    return T(1);
  }
  template <typename T>
  T operator()(T a, T b) const {
    return WrapMul(a, b);
  }
};

// `in` as another type, element by element.
template <typename To, typename From, typename F>
absl::StatusOr<Tensor> Mapped(KernelContext& context, const Tensor& in, F f) {
  ASSIGN_OR_RETURN(Tensor out, context.AllocateTemporary(DTypeOf<To>, in.shape()));
  const From* from = in.data<From>();
  To* to = out.mutable_data<To>();
  for (int64_t i = 0; i < in.num_elements(); ++i) to[i] = f(from[i]);
  return out;
}

template <typename To, typename From, typename F>
absl::Status MapInto(KernelContext& context, const Tensor& in, F f) {
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, in.shape()));
  const From* from = in.data<From>();
  To* to = out->mutable_data<To>();
  for (int64_t i = 0; i < in.num_elements(); ++i) to[i] = f(from[i]);
  return absl::OkStatus();
}

// The type in which sums of T for a mean or a norm are made.
template <typename T>
using Wide = std::conditional_t<
    kIsComplex<T> || std::is_same_v<T, double>, T,
    std::conditional_t<std::is_integral_v<T>, std::conditional_t<std::is_unsigned_v<T>, uint64_t, int64_t>, float>>;

template <typename T>
THALWEG_SIMD void DivideAll(T* values, int64_t n, T count) {
  for (int64_t i = 0; i < n; ++i) values[i] = values[i] / count;
}

class MeanKernel : public ReductionKernel {
 public:
  MeanKernel() : ReductionKernel(SelectReduce<SumR, SummedTypes>) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    ASSIGN_OR_RETURN(const Reduction reduction, Reduction::Make(in.shape(), context.input(1), keep_dims_));
    if (!reduction.reduces()) {
      context.set_output(0, in.WithShape(reduction.shape));
      return absl::OkStatus();
    }
    if (in.dtype() == kFloat) return InPlace<float>(context, reduction, in);
    if (in.dtype() == kDouble) return InPlace<double>(context, reduction, in);
    return Dispatch(NumberTypes(), in.dtype(), [&]<typename T>() -> absl::Status {
      using W = Wide<T>;
      ASSIGN_OR_RETURN(const Tensor wide, (Mapped<W, T>(context, in, [](T x) { return static_cast<W>(x); })));
      ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemporary(DTypeOf<W>, reduction.shape));
      RETURN_IF_ERROR(RunReduction(context, reduction, SelectReduce<SumR, SummedTypes>(DTypeOf<W>), wide, &sums));
      // No elements at all: 0/0 where there is such a thing, else 0.
      const bool none = std::is_integral_v<W> && reduction.count == 0;
      const W count = none ? W(1) : W(reduction.count);
      return MapInto<T, W>(context, sums, [count](W x) { return static_cast<T>(x / count); });
    });
  }

 private:
  template <typename T>
  absl::Status InPlace(KernelContext& context, const Reduction& reduction, const Tensor& in) {
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, reduction.shape));
    RETURN_IF_ERROR(RunReduction(context, reduction, loop_, in, out));
    DivideAll<T>(out->mutable_data<T>(), out->num_elements(), static_cast<T>(reduction.count));
    return absl::OkStatus();
  }
};

// The square root of the sum of |x|^2.
class EuclideanNormKernel : public ReductionKernel {
 public:
  EuclideanNormKernel() : ReductionKernel(SelectReduce<SumR, SummedTypes>) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    ASSIGN_OR_RETURN(const Reduction reduction, Reduction::Make(in.shape(), context.input(1), keep_dims_));
    return Dispatch(NumberTypes(), in.dtype(), [&]<typename T>() -> absl::Status {
      using W = std::conditional_t<std::is_integral_v<T>, T, Wide<T>>;
      ASSIGN_OR_RETURN(Tensor sums, (Mapped<W, T>(context, in, [](T x) {
                         const W w = static_cast<W>(x);
                         return WrapMul(w, Conjugate(w));
                       })));
      if (!reduction.reduces()) {
        sums = sums.WithShape(reduction.shape);
      } else {
        ASSIGN_OR_RETURN(Tensor reduced, context.AllocateTemporary(DTypeOf<W>, reduction.shape));
        RETURN_IF_ERROR(RunReduction(context, reduction, SelectReduce<SumR, SummedTypes>(DTypeOf<W>), sums, &reduced));
        sums = std::move(reduced);
      }
      return MapInto<T, W>(context, sums, [](W x) {
        if constexpr (std::is_integral_v<W>) {
          return static_cast<T>(x > W(0) ? std::sqrt(static_cast<double>(x)) : 0.0);
        } else {
          return static_cast<T>(std::sqrt(x));
        }
      });
    });
  }
};

absl::Status SumGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const Output dx, ToInputShape(g, g.dy()));
  g.set_dx(0, dx);
  return absl::OkStatus();
}

// Elements per mean, as a scalar of type `dtype`.
Output CountPerResult(const GradientContext& g, DType dtype) {
  const Scope& s = g.scope();
  const int64_t in = g.input(0).shape().num_elements(), out = g.output(0).shape().num_elements();
  if (in >= 0 && out >= 0) return ScalarConst(s, dtype, static_cast<double>(in / std::max<int64_t>(out, 1)));
  const Output in_size = s.Add("Size", {g.input(0)}), out_size = s.Add("Size", {g.output(0)});
  return Cast(s, FloorDiv(s, in_size, Maximum(s, out_size, ScalarConst(s, kInt32, 1))), dtype);
}

absl::Status MeanGradient(GradientContext& g) {
  const Output dy = g.dy();
  if (!dy) return g.scope().status();
  // Divided before it is repeated: the same numbers with less work.
  ASSIGN_OR_RETURN(const Output dx, ToInputShape(g, RealDiv(g.scope(), dy, CountPerResult(g, dy.dtype()))));
  g.set_dx(0, dx);
  return absl::OkStatus();
}

absl::Status EuclideanNormGradient(GradientContext& g) {
  const Scope& s = g.scope();
  ASSIGN_OR_RETURN(const Output y, WithReducedDims(g, g.output(0)));
  ASSIGN_OR_RETURN(const Output dy, WithReducedDims(g, g.dy()));
  g.set_dx(0, Mul(s, g.input(0), RealDiv(s, dy, y)));
  return absl::OkStatus();
}

// The gradient of each factor is the product of the others. Because of zeros, this is not computed
// by division: the reduced elements are moved into rows, and for each element the product of the
// elements before it is multiplied with the product of those after it.
absl::Status ProdGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = g.input(0);
  ASSIGN_OR_RETURN(const Output dy, ToInputShape(g, g.dy()));
  if (!s.ok()) return s.status();
  if (!x.shape().has_rank()) return Unimplemented("gradient of Prod for an input of unknown rank");
  const Node* axes_node = g.input(1).node;
  if (axes_node->op() != "Const") return Unimplemented("gradient of Prod over axes that are not constant");
  ASSIGN_OR_RETURN(const Tensor axes, GetAttr<Tensor>(axes_node->def(), "value"));
  const int rank = x.shape().rank();
  std::vector<bool> goes(rank, false);
  RETURN_IF_ERROR(Dispatch(IndexTypes(), axes.dtype(), [&]<typename T>() {
    for (const T axis : axes.flat<T>()) goes[axis < 0 ? axis + rank : axis] = true;
    return absl::OkStatus();
  }));
  // Reduced dimensions first.
  std::vector<int32_t> order, inverse(rank);
  for (const bool reduced : {true, false}) {
    for (int i = 0; i < rank; ++i) {
      if (goes[i] == reduced) order.push_back(i);
    }
  }
  for (int i = 0; i < rank; ++i) inverse[order[i]] = i;
  const Output permuted = s.Add("Transpose", {x, IntsConst(s, order)});
  const Output permuted_shape = s.Add("Shape", {permuted});
  // [reduced, kept]
  const Output kept_count = s.Add("Size", {g.output(0)});
  const Output columns = Maximum(s, kept_count, ScalarConst(s, kInt32, 1));
  const Output rows = FloorDiv(s, s.Add("Size", {x}), columns);
  const Output matrix = s.Add("Reshape", {permuted, Output(s.Add("Pack", {std::vector<Output>{rows, kept_count}}))});
  const Output zero = ScalarConst(s, kInt32, 0);
  const Output before = Cumprod(s, matrix, zero, {.exclusive = true});
  const Output after = Cumprod(s, matrix, zero, {.exclusive = true, .reverse = true});
  const Output others = s.Add("Reshape", {Mul(s, Conj(s, before), Conj(s, after)), permuted_shape});
  g.set_dx(0, Mul(s, dy, s.Add("Transpose", {others, IntsConst(s, inverse)})));
  return absl::OkStatus();
}

Op Reduce(absl::string_view name) {
  return Op(name)
      .Input("input: T")
      .Input("reduction_indices: Tidx")
      .Output("output: T")
      .Attr("keep_dims: bool = false")
      .Attr("T: numbertype")
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .Shape(ReductionShape);
}

const OpRegistration kReduceSumOps[] = {
    Reduce("Sum").Kernel<ReductionKernel>(SelectReduce<SumR, SummedTypes>).Gradient(SumGradient),
    Reduce("Prod").Kernel<ReductionKernel>(SelectReduce<ProdR, SummedTypes>).Gradient(ProdGradient),
    Reduce("Mean").Kernel<MeanKernel>().Gradient(MeanGradient),
    Reduce("EuclideanNorm").Kernel<EuclideanNormKernel>().Gradient(EuclideanNormGradient),
};

}  // namespace

Output ReduceSum(const Scope& s, Output x, const Axes& axes, const ReduceOptions& o) {
  return AddReduce(s, "Sum", x, axes, o);
}
Output ReduceMean(const Scope& s, Output x, const Axes& axes, const ReduceOptions& o) {
  return AddReduce(s, "Mean", x, axes, o);
}
Output ReduceProd(const Scope& s, Output x, const Axes& axes, const ReduceOptions& o) {
  return AddReduce(s, "Prod", x, axes, o);
}
Output EuclideanNorm(const Scope& s, Output x, const Axes& axes, const ReduceOptions& o) {
  return AddReduce(s, "EuclideanNorm", x, axes, o);
}

}  // namespace thalweg
