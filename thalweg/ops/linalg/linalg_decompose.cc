// SPDX-License-Identifier: Apache-2.0
// Orthogonal decompositions: Qr and Svd. BatchSvd is its name in graphs from
// before 2016.
#include <algorithm>

#include "thalweg/ops/linalg/linalg.h"

namespace thalweg {
namespace {

double Cost(const MatrixBatch& m, double factor) {
  return LinalgCost(m.rows, m.columns, std::min(m.rows, m.columns), factor);
}

// input = q r, where the columns of q are orthonormal and r is upper triangular.
// With full_matrices q is square.
class QrKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(full_, init.Attr<bool>("full_matrices"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::Of(x));
    const int64_t inner = full_ ? m.rows : std::min(m.rows, m.columns);
    ASSIGN_OR_RETURN(const Shape q_shape, m.With(m.rows, inner));
    ASSIGN_OR_RETURN(const Shape r_shape, m.With(inner, m.columns));
    ASSIGN_OR_RETURN(Tensor * q, context.Allocate(0, q_shape));
    ASSIGN_OR_RETURN(Tensor * r, context.Allocate(1, r_shape));
    if (q->num_elements() == 0) return absl::OkStatus();  // r is empty, too
    RETURN_IF_ERROR(CheckSides({m.rows, m.columns}));
    return ForEachMatrix(context, x.dtype(), m.count, Cost(m, 4),
                         [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) {
                           Factor(x, i, m, inner, scratch);
                           StoreColumns(scratch.b.data(), i, m.rows, inner, q);
                           StoreRows(scratch.c.data(), i, inner * m.columns, r);
                           return absl::OkStatus();
                         });
  }

 private:
  // q into scratch.b, by columns, and r into scratch.c, by rows.
  template <typename S>
  static void Factor(const Tensor& x, int64_t i, const MatrixBatch& m, int64_t inner, MatrixScratch<S>& scratch) {
    const int64_t rows = m.rows, columns = m.columns;
    scratch.a.resize(std::max<int64_t>(rows * columns, 1));
    scratch.b.resize(rows * inner);
    scratch.c.assign(inner * columns, S(0));
    S* const a = scratch.a.data();
    scratch.tau.clear();
    if (columns > 0) {
      LoadColumns(x, i, rows, columns, a);
      lapack::Qr(static_cast<int>(rows), static_cast<int>(columns), a, scratch.tau, scratch.work);
    }
    for (int64_t j = 0; j < inner; ++j) {
      for (int64_t k = j; k < columns; ++k) scratch.c[j * columns + k] = a[k * rows + j];
    }
    std::copy_n(a, rows * std::min(inner, columns), scratch.b.data());
    lapack::QOf(static_cast<int>(rows), static_cast<int>(inner), scratch.b.data(), scratch.tau, scratch.more_work);
  }

  bool full_ = false;
};

// input = u diag(s) v^H, s decreasing.
class SvdKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const bool full, init.Attr<bool>("full_matrices"));
    ASSIGN_OR_RETURN(const bool vectors, init.Attr<bool>("compute_uv"));
    vectors_ = !vectors ? lapack::SvdVectors::kNone : full ? lapack::SvdVectors::kAll : lapack::SvdVectors::kThin;
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::Of(x));
    const int64_t rank = std::min(m.rows, m.columns);
    const bool none = vectors_ == lapack::SvdVectors::kNone, full = vectors_ == lapack::SvdVectors::kAll;
    ASSIGN_OR_RETURN(const Shape s_shape, m.With(rank));
    ASSIGN_OR_RETURN(Tensor * s, context.Allocate(0, s_shape));
    Shape u_shape, v_shape;
    if (!none) {
      ASSIGN_OR_RETURN(u_shape, m.With(m.rows, full ? m.rows : rank));
      ASSIGN_OR_RETURN(v_shape, m.With(m.columns, full ? m.columns : rank));
    }
    ASSIGN_OR_RETURN(Tensor * u, context.Allocate(1, u_shape));
    ASSIGN_OR_RETURN(Tensor * v, context.Allocate(2, v_shape));
    if (none) {
      for (Tensor* t : {u, v}) std::fill_n(static_cast<char*>(t->raw()), ElementSize(t->dtype()), 0);
    }
    // Matrices of nothing may be many, and have any number of rows or columns.
    if (rank == 0 && (!full || u->num_elements() + v->num_elements() == 0)) return absl::OkStatus();
    RETURN_IF_ERROR(CheckSides({m.rows, m.columns}));
    return ForEachMatrix(context, x.dtype(), m.count, Cost(m, 40),
                         [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) {
                           Factor(x, i, m, scratch);
                           StoreValues<S>(scratch.reals, i, rank, s);
                           if (none) return absl::OkStatus();
                           StoreRows(scratch.b.data(), i, static_cast<int64_t>(scratch.b.size()), u);
                           StoreColumns(scratch.c.data(), i, m.columns, full ? m.columns : rank, v);
                           return absl::OkStatus();
                         });
  }

 private:
  template <typename S>
  static void StoreValues(const PoolVector<lapack::Real<S>>& values, int64_t i, int64_t rank, Tensor* s) {
    PoolVector<S> converted(values.begin(), values.begin() + rank);
    StoreRows(converted.data(), i, rank, s);
  }

  // u, by rows, into scratch.b; v, by columns, into scratch.c; the values into
  // scratch.reals. By rows A is to LAPACK A^T = u' s v'^H, so u = conj(v') and
  // v = conj(u'), and LAPACK's v'^H by columns is u by rows.
  template <typename S>
  void Factor(const Tensor& x, int64_t i, const MatrixBatch& m, MatrixScratch<S>& scratch) const {
    const int64_t size = m.rows * m.columns, rank = std::min(m.rows, m.columns);
    const bool none = vectors_ == lapack::SvdVectors::kNone, full = vectors_ == lapack::SvdVectors::kAll;
    const int64_t u_columns = full ? m.rows : rank, v_columns = full ? m.columns : rank;
    scratch.a.resize(size);
    scratch.b.resize(none ? 1 : m.rows * u_columns);
    scratch.c.resize(none ? 1 : m.columns * v_columns);
    scratch.reals.resize(rank);
    LoadRows(x, i, size, scratch.a.data());
    if (rank == 0) {
      SetIdentity(scratch.b.data(), m.rows, u_columns);
      SetIdentity(scratch.c.data(), m.columns, v_columns);
    } else if (!AllFinite(scratch.a.data(), size) ||
               !lapack::Svd(vectors_, static_cast<int>(m.columns), static_cast<int>(m.rows), scratch.a.data(),
                            scratch.reals.data(), scratch.c.data(), scratch.b.data(), scratch.work)) {
      std::fill(scratch.b.begin(), scratch.b.end(), NaN<S>());
      std::fill(scratch.c.begin(), scratch.c.end(), NaN<S>());
      std::fill(scratch.reals.begin(), scratch.reals.end(), NaN<lapack::Real<S>>());
    }
    for (S& element : scratch.c) element = lapack::Conj(element);
  }

  template <typename S>
  static void SetIdentity(S* a, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows * columns; ++i) a[i] = S(i % (rows + 1) == 0 ? 1 : 0);
  }

  lapack::SvdVectors vectors_ = lapack::SvdVectors::kThin;
};

int64_t Smaller(int64_t a, int64_t b) { return a < 0 || b < 0 ? PartialShape::kUnknown : std::min(a, b); }

absl::Status QrShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, MatrixShape(c, 0, false));
  ASSIGN_OR_RETURN(const bool full, c.Attr<bool>("full_matrices"));
  if (!x.has_rank()) return absl::OkStatus();
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1);
  const int64_t inner = full ? rows : Smaller(rows, columns);
  c.set_output(0, BatchWith(x, {rows, inner}));
  c.set_output(1, BatchWith(x, {inner, columns}));
  return absl::OkStatus();
}

absl::Status SvdShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape x, MatrixShape(c, 0, false));
  ASSIGN_OR_RETURN(const bool full, c.Attr<bool>("full_matrices"));
  ASSIGN_OR_RETURN(const bool vectors, c.Attr<bool>("compute_uv"));
  if (!x.has_rank()) return absl::OkStatus();
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1), rank = Smaller(rows, columns);
  c.set_output(0, BatchWith(x, {rank}));
  if (!vectors) return absl::OkStatus();
  c.set_output(1, BatchWith(x, {rows, full ? rows : rank}));
  c.set_output(2, BatchWith(x, {columns, full ? columns : rank}));
  return absl::OkStatus();
}

Op SvdOp(absl::string_view name, absl::string_view types) {
  return Op(name)
      .Input("input: T")
      .Output("s: T")
      .Output("u: T")
      .Output("v: T")
      .Attr("compute_uv: bool = true")
      .Attr("full_matrices: bool = false")
      .Attr(types)
      .Shape(SvdShape)
      .Kernel<SvdKernel>();
}

const OpRegistration kLinalgDecomposeOps[] = {
    Op("Qr")
        .Input("input: T")
        .Output("q: T")
        .Output("r: T")
        .Attr("full_matrices: bool = false")
        .Attr("T: {double, float, half, complex64, complex128}")
        .Shape(QrShape)
        .Kernel<QrKernel>(),
    SvdOp("Svd", "T: {double, float, half, complex64, complex128}"),
    SvdOp("BatchSvd", "T: {double, float, complex64, complex128}"),
};

}  // namespace
}  // namespace thalweg
