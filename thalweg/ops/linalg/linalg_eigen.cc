// SPDX-License-Identifier: Apache-2.0
// Eigenvalues: SelfAdjointEigV2 of Hermitian matrices (from their lower
// triangles, values increasing) and Eig of any. In graphs from before 2016 the
// first is BatchSelfAdjointEigV2, or SelfAdjointEig and BatchSelfAdjointEig, which
// give the values as a row above the vectors.
#include <algorithm>

#include "thalweg/ops/linalg/linalg.h"

namespace thalweg {
namespace {

absl::Status Failed(absl::string_view what) {
  return InvalidArgument(what, " decomposition was not successful. The input might not be valid.");
}

// Eigenvalues of matrix i into scratch.reals, and vectors, by rows, into scratch.b.
template <typename S>
absl::Status FactorHermitian(const Tensor& x, int64_t i, int64_t n, bool vectors, MatrixScratch<S>& scratch) {
  scratch.a.resize(n * n);
  scratch.reals.resize(n);
  // By rows the lower triangle is to LAPACK the upper one of the conjugate, whose
  // eigenvectors are the conjugates.
  LoadRows(x, i, n * n, scratch.a.data());
  if (!AllFinite(scratch.a.data(), n * n) ||
      !lapack::HermitianEigen(vectors, static_cast<int>(n), scratch.a.data(), scratch.reals.data(), scratch.work)) {
    return Failed("Self-adjoint eigen");
  }
  if (!vectors) return absl::OkStatus();
  scratch.b.resize(n * n);
  Transpose(scratch.a.data(), n, n, scratch.b.data());
  for (S& element : scratch.b) element = lapack::Conj(element);
  return absl::OkStatus();
}

class EigKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(vectors_, init.Attr<bool>("compute_v"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
    ASSIGN_OR_RETURN(const Shape shape, m.With(m.rows));
    ASSIGN_OR_RETURN(Tensor * values, context.Allocate(0, shape));
    ASSIGN_OR_RETURN(Tensor * vectors, context.Allocate(1, vectors_ ? x.shape() : Shape()));
    if (!vectors_) std::fill_n(static_cast<char*>(vectors->raw()), ElementSize(vectors->dtype()), 0);
    if (x.num_elements() == 0) return absl::OkStatus();
    RETURN_IF_ERROR(CheckSides({m.rows}));
    return Factor(context, m, values, vectors);
  }

 protected:
  virtual absl::Status Factor(KernelContext& context, const MatrixBatch& m, Tensor* values, Tensor* vectors) = 0;

  bool vectors_ = true;
};

class SelfAdjointEigKernel : public EigKernel {
 protected:
  absl::Status Factor(KernelContext& context, const MatrixBatch& m, Tensor* values, Tensor* vectors) override {
    const Tensor& x = context.input(0);
    const int64_t n = m.rows;
    return ForEachMatrix(context, x.dtype(), m.count, LinalgCost(n, n, n, 20),
                         [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) -> absl::Status {
                           RETURN_IF_ERROR(FactorHermitian(x, i, n, vectors_, scratch));
                           scratch.c.assign(scratch.reals.begin(), scratch.reals.end());
                           StoreRows(scratch.c.data(), i, n, values);
                           if (vectors_) StoreRows(scratch.b.data(), i, n * n, vectors);
                           return absl::OkStatus();
                         });
  }
};

class GeneralEigKernel : public EigKernel {
 protected:
  absl::Status Factor(KernelContext& context, const MatrixBatch& m, Tensor* values, Tensor* vectors) override {
    const Tensor& x = context.input(0);
    const int64_t n = m.rows;
    const bool wide = x.dtype() == kDouble || x.dtype() == kComplex128;
    if (values->dtype() != (wide ? kComplex128 : kComplex64)) {
      return InvalidArgument("Tout must be ", wide ? kComplex128 : kComplex64, " for an input of type ", x.dtype(),
                             ", but is ", values->dtype());
    }
    return ForEachMatrix(
        context, x.dtype(), m.count, LinalgCost(n, n, n, 100),
        [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) -> absl::Status {
          using Complex = std::complex<lapack::Real<S>>;
          scratch.a.resize(n * n);
          LoadColumns(x, i, n, n, scratch.a.data());
          PoolVector<Complex> results(vectors_ ? n * n + n : n);
          Complex* const columns = vectors_ ? results.data() + n : nullptr;
          if (!AllFinite(scratch.a.data(), n * n) ||
              !lapack::Eigen(static_cast<int>(n), scratch.a.data(), results.data(), columns, scratch.work)) {
            return Failed("Eigen");
          }
          StoreRows(results.data(), i, n, values);
          if (vectors_) StoreColumns(columns, i, n, n, vectors);
          return absl::OkStatus();
        });
  }
};

// Values in the first row, vectors below.
absl::Status SelfAdjointEigInOne(KernelContext& context) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
  ASSIGN_OR_RETURN(const Shape shape, m.With(m.rows + 1, m.rows));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
  if (x.num_elements() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSides({m.rows}));
  const int64_t n = m.rows;
  return ForEachMatrix(context, x.dtype(), m.count, LinalgCost(n, n, n, 20),
                       [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) -> absl::Status {
                         RETURN_IF_ERROR(FactorHermitian(x, i, n, true, scratch));
                         scratch.c.assign(scratch.reals.begin(), scratch.reals.end());
                         scratch.c.insert(scratch.c.end(), scratch.b.begin(), scratch.b.end());
                         StoreRows(scratch.c.data(), i, n * n + n, out);
                         return absl::OkStatus();
                       });
}

absl::Status EigShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, MatrixShape(c, 0, true));
  ASSIGN_OR_RETURN(const bool vectors, c.Attr<bool>("compute_v"));
  if (!x.has_rank()) return absl::OkStatus();
  c.set_output(0, BatchWith(x, {x.dim(x.rank() - 1)}));
  if (vectors) c.set_output(1, x);
  return absl::OkStatus();
}

absl::Status EigInOneShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, MatrixShape(c, 0, true));
  if (!x.has_rank()) return absl::OkStatus();
  const int64_t n = x.dim(x.rank() - 1);
  c.set_output(0, BatchWith(x, {n < 0 ? PartialShape::kUnknown : n + 1, n}));
  return absl::OkStatus();
}

Op SelfAdjointEigOp(absl::string_view name, absl::string_view types) {
  return Op(name)
      .Input("input: T")
      .Output("e: T")
      .Output("v: T")
      .Attr("compute_v: bool = true")
      .Attr(types)
      .Shape(EigShape)
      .Kernel<SelfAdjointEigKernel>();
}
Op SelfAdjointEigInOneOp(absl::string_view name, absl::string_view types) {
  return Op(name).Input("input: T").Output("output: T").Attr(types).Shape(EigInOneShape).Compute(SelfAdjointEigInOne);
}

const OpRegistration kLinalgEigenOps[] = {
    SelfAdjointEigOp("SelfAdjointEigV2", "T: {double, float, half, complex64, complex128}"),
    SelfAdjointEigOp("BatchSelfAdjointEigV2", "T: {double, float}"),
    SelfAdjointEigInOneOp("SelfAdjointEig", "T: {double, float, half}"),
    SelfAdjointEigInOneOp("BatchSelfAdjointEig", "T: {double, float}"),
    Op("Eig")
        .Input("input: T")
        .Output("e: Tout")
        .Output("v: Tout")
        .Attr("compute_v: bool = true")
        .Attr("T: {float, double, complex64, complex128}")
        .Attr("Tout: {complex64, complex128}")
        .Shape(EigShape)
        .Kernel<GeneralEigKernel>(),
};

}  // namespace
}  // namespace thalweg
