// SPDX-License-Identifier: Apache-2.0
// Transpose: y has dimension perm[i] of x as its dimension i.
// ConjugateTranspose also conjugates complex elements. InvertPermutation gives
// the permutation that undoes one.
#include <algorithm>
#include <complex>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// Each of [0, rank) once; negative ones count from the end.
absl::Status CheckPermutation(int rank, Dims* perm) {
  absl::InlinedVector<bool, 8> seen(rank, false);
  for (int64_t& p : *perm) {
    if (p < -rank || p >= rank) return InvalidArgument(p, " is out of range [0 .. ", rank, ")");
    if (p < 0) p += rank;
    seen[p] = true;
  }
  for (int d = 0; d < rank; ++d) {
    if (seen[d]) continue;
    std::string list;
    for (const int64_t p : *perm) absl::StrAppend(&list, list.empty() ? "" : ",", p);
    return InvalidArgument(d, " is missing from {", list, "}.");
  }
  return absl::OkStatus();
}

// True if the elements stay where they are: only dimensions of size 1 move.
bool KeepsOrder(const Shape& shape, const Dims& perm) {
  int64_t last = -1;
  for (const int64_t p : perm) {
    if (shape.dim(static_cast<int>(p)) == 1) continue;
    if (p < last) return false;
    last = p;
  }
  return true;
}

template <typename T>
void Conjugate(Tensor* t) {
  for (T& v : t->flat<T>()) v = std::conj(v);
}

absl::Status TransposeInput(KernelContext& c, bool conjugate) {
  const Tensor& x = c.input(0);
  const int rank = x.rank();
  conjugate = conjugate && IsComplex(x.dtype());
  if (c.input(1).rank() != 1) {
    return InvalidArgument("perm must be rank 1, got shape ", c.input(1).shape());
  }
  Dims perm = ReadIntegers(c.input(1));
  if (static_cast<int>(perm.size()) != rank) {
    return InvalidArgument("transpose expects a vector of size ", rank, ". But input(1) is a vector of size ",
                           perm.size());
  }
  RETURN_IF_ERROR(CheckPermutation(rank, &perm));
  Dims dims(rank);
  for (int d = 0; d < rank; ++d) dims[d] = x.dim(static_cast<int>(perm[d]));
  const Shape shape(dims);
  if (!conjugate && KeepsOrder(x.shape(), perm)) {
    Tensor input = c.TakeInput(0);
    c.set_output(0, input.shape() == shape ? std::move(input) : input.WithShape(shape));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  const Dims x_strides = RowMajorStrides(x.shape().dims());
  StridedPlace from;
  for (int d = 0; d < rank; ++d) from.strides.push_back(x_strides[perm[d]]);
  RETURN_IF_ERROR(CopyStrided(c, dims, x, from, out, {.strides = RowMajorStrides(dims)}));
  if (conjugate && x.dtype() == kComplex64) Conjugate<std::complex<float>>(out);
  if (conjugate && x.dtype() == kComplex128) Conjugate<std::complex<double>>(out);
  return absl::OkStatus();
}

absl::Status ComputeTranspose(KernelContext& c) { return TransposeInput(c, false); }
absl::Status ComputeConjugateTranspose(KernelContext& c) { return TransposeInput(c, true); }

absl::Status TransposeShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape perm_shape, c.WithRank(1, 1));
  ASSIGN_OR_RETURN(const int64_t rank, MergeDims(c.input(0).rank(), perm_shape.dim(0)));
  if (rank < 0 || rank > Shape::kMaxRank) return absl::OkStatus();
  Dims dims(rank, PartialShape::kUnknown);
  if (std::optional<Dims> perm = ConstantIntegers(c, 1)) {
    RETURN_IF_ERROR(CheckPermutation(static_cast<int>(rank), &*perm));
    for (int d = 0; d < rank; ++d) dims[d] = DimOf(c.input(0), static_cast<int>((*perm)[d]));
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

absl::Status TransposeGradient(GradientContext& c) {
  c.set_dx(0, Transpose(c.scope(), c.dy(), InvertPermutation(c.scope(), c.input(1))));
  return absl::OkStatus();
}

absl::Status ConjugateTransposeGradient(GradientContext& c) {
  c.set_dx(0, ConjugateTranspose(c.scope(), c.dy(), InvertPermutation(c.scope(), c.input(1))));
  return absl::OkStatus();
}

template <typename T>
absl::Status Invert(const Tensor& x, Tensor* y) {
  const T* const from = x.data<T>();
  T* const to = y->mutable_data<T>();
  const int64_t n = x.num_elements();
  std::fill_n(to, n, T(-1));
  for (int64_t i = 0; i < n; ++i) {
    if (from[i] < 0 || from[i] >= n) return InvalidArgument(from[i], " is not between 0 and ", n);
    if (to[from[i]] != T(-1)) return InvalidArgument(from[i], " is duplicated in the input.");
    to[from[i]] = static_cast<T>(i);
  }
  return absl::OkStatus();
}

absl::Status ComputeInvertPermutation(KernelContext& c) {
  const Tensor& x = c.input(0);
  if (x.rank() != 1) return InvalidArgument("invert_permutation expects a 1D vector.");
  ASSIGN_OR_RETURN(Tensor* const y, c.Allocate(0, x.shape()));
  return Dispatch(IndexTypes(), x.dtype(), [&]<typename T>() { return Invert<T>(x, y); });
}

absl::Status InvertPermutationShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.WithRank(0, 1));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

const OpRegistration kTransposeOps[] = {
    Op("Transpose")
        .Input("x: T")
        .Input("perm: Tperm")
        .Output("y: T")
        .Attr("T: type")
        .Attr("Tperm: {int32, int64} = DT_INT32")
        .Shape(TransposeShape)
        .Compute(ComputeTranspose)
        .Gradient(TransposeGradient),
    Op("ConjugateTranspose")
        .Input("x: T")
        .Input("perm: Tperm")
        .Output("y: T")
        .Attr("T: type")
        .Attr("Tperm: {int32, int64} = DT_INT32")
        .Shape(TransposeShape)
        .Compute(ComputeConjugateTranspose)
        .Gradient(ConjugateTransposeGradient),
    Op("InvertPermutation")
        .Input("x: T")
        .Output("y: T")
        .Attr("T: {int32, int64} = DT_INT32")
        .Shape(InvertPermutationShape)
        .Compute(ComputeInvertPermutation)
        .NotDifferentiable(),
};

}  // namespace

Output Transpose(const Scope& s, Output x, const IntsArg& perm) {
  return s.Add("Transpose", {x, perm.AsTensor(s, "perm")});
}
Output ConjugateTranspose(const Scope& s, Output x, const IntsArg& perm) {
  return s.Add("ConjugateTranspose", {x, perm.AsTensor(s, "perm")});
}
Output InvertPermutation(const Scope& s, Output x) { return s.Add("InvertPermutation", {x}); }

}  // namespace thalweg
