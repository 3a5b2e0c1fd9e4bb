// SPDX-License-Identifier: Apache-2.0
// Tridiagonal matrices, given by their three diagonals. TridiagonalSolve:
// diagonals [..., 3, n] are those above, on and below the diagonal, each aligned
// with its row; rhs [..., n, k]. TridiagonalMatMul: the product, with the
// diagonals as [..., 1, n] each.
#include <complex>
#include <limits>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/pool_vector.h"

namespace thalweg {
namespace {

using TridiagonalTypes = Types<float, double, std::complex<float>, std::complex<double>>;

// A row of the matrix from its diagonal on. Elimination with pivots fills a second diagonal above.
template <typename T>
struct UpperRow {
  T on, above, two_above;
};

// Gaussian elimination. With pivots, rows are swapped so that the larger of the two candidates leads. Returns false if
// a pivot is zero. `columns` is k, if it is known to the compiler, or 0.
template <typename T, int columns>
THALWEG_SIMD bool SolveColumns(const T* diagonals, const T* rhs, T* x, int64_t n, int64_t k, bool pivot,
                               PoolVector<UpperRow<T>>& rows) {
  if constexpr (columns != 0) k = columns;
  const T *const above = diagonals, *const on = diagonals + n, *const below = diagonals + 2 * n;
  UpperRow<T> row{on[0], n > 1 ? above[0] : T(0), T(0)};
  std::copy_n(rhs, k, x);
  for (int64_t i = 0; i + 1 < n; ++i) {
    T first = below[i + 1];
    UpperRow<T> next{on[i + 1], i + 2 < n ? above[i + 1] : T(0), T(0)};
    T *const y = x + i * k, *const z = y + k;
    const T* const from = rhs + (i + 1) * k;
    T factor;
    if (pivot && std::abs(first) > std::abs(row.on)) {
      const UpperRow<T> lower = row;
      row = {first, next.on, next.above};
      factor = lower.on / row.on;
      next = {lower.above - factor * row.above, lower.two_above - factor * row.two_above, T(0)};
      for (int64_t j = 0; j < k; ++j) {
        const T upper = y[j];
        y[j] = from[j];
        z[j] = upper - factor * y[j];
      }
    } else {
      if (row.on == T(0)) return false;
      factor = first / row.on;
      next.on -= factor * row.above;
      next.above -= factor * row.two_above;
      for (int64_t j = 0; j < k; ++j) z[j] = from[j] - factor * y[j];
    }
    rows[i] = row;
    row = next;
  }
  if (row.on == T(0)) return false;
  rows[n - 1] = row;
  for (int64_t i = n - 1; i >= 0; --i) {
    T* const y = x + i * k;
    for (int64_t j = 0; j < k; ++j) {
      T sum = y[j];
      if (i + 1 < n) sum -= rows[i].above * y[k + j];
      if (i + 2 < n) sum -= rows[i].two_above * y[2 * k + j];
      y[j] = sum / rows[i].on;
    }
  }
  return true;
}

template <typename T>
bool Solve(const T* diagonals, const T* rhs, T* x, int64_t n, int64_t k, bool pivot, PoolVector<UpperRow<T>>& rows) {
  switch (k) {
    case 1:
      return SolveColumns<T, 1>(diagonals, rhs, x, n, k, pivot, rows);
    case 4:
      return SolveColumns<T, 4>(diagonals, rhs, x, n, k, pivot, rows);
    default:
      return SolveColumns<T, 0>(diagonals, rhs, x, n, k, pivot, rows);
  }
}

class TridiagonalSolveKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(pivot_, init.Attr<bool>("partial_pivoting"));
    ASSIGN_OR_RETURN(const bool perturb, init.Attr<bool>("perturb_singular"));
    if (perturb) return InvalidArgument("perturb_singular is only supported on GPU");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &diagonals = context.input(0), &rhs = context.input(1);
    const int rank = diagonals.rank();
    if (rank < 2) return InvalidArgument("Input tensor 0 must have rank >= 2, got ", rank);
    if (rhs.rank() != rank) return InvalidArgument("All input tensors must have the same rank.");
    if (diagonals.shape().dims().subspan(0, rank - 2) != rhs.shape().dims().subspan(0, rank - 2)) {
      return InvalidArgument("All input tensors must have the same outer dimensions.");
    }
    if (diagonals.dim(rank - 2) != 3) {
      return InvalidArgument("Expected diagonals to be provided as a matrix with 3 rows, got ", diagonals.dim(rank - 2),
                             " rows.");
    }
    const int64_t n = diagonals.dim(rank - 1), k = rhs.dim(rank - 1);
    if (rhs.dim(rank - 2) != n) {
      return InvalidArgument("The length of diagonals must be equal to the rows of the right-hand side matrix, got ", n,
                             " and ", rhs.dim(rank - 2));
    }
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, rhs.shape()));
    if (rhs.num_elements() == 0) return absl::OkStatus();
    return Dispatch(TridiagonalTypes(), rhs.dtype(), [&]<typename T>() {
      PoolVector<UpperRow<T>> rows(n);
      for (int64_t b = 0; b < rhs.num_elements() / (n * k); ++b) {
        T* const x = out->mutable_data<T>() + b * n * k;
        if (!Solve(diagonals.data<T>() + b * 3 * n, rhs.data<T>() + b * n * k, x, n, k, pivot_, rows)) {
          std::fill_n(x, n * k, T(std::numeric_limits<double>::quiet_NaN()));
        }
      }
      return absl::OkStatus();
    });
  }

 private:
  bool pivot_ = true;
};

absl::Status TridiagonalMatMul(KernelContext& context) {
  const Tensor& rhs = context.input(3);
  const int rank = rhs.rank();
  if (rank < 2) return InvalidArgument("Input tensor 3 must have rank >= 2, got ", rank);
  const int64_t n = rhs.dim(rank - 2), k = rhs.dim(rank - 1);
  for (int i = 0; i < 3; ++i) {
    const Tensor& t = context.input(i);
    if (t.rank() != rank || t.dim(rank - 2) != 1 || t.dim(rank - 1) != n ||
        t.shape().dims().subspan(0, rank - 2) != rhs.shape().dims().subspan(0, rank - 2)) {
      return InvalidArgument("diagonal ", i, " of shape ", t.shape(), " does not fit a right-hand side of shape ",
                             rhs.shape());
    }
  }
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, rhs.shape()));
  return Dispatch(TridiagonalTypes(), rhs.dtype(), [&]<typename T>() {
    const int64_t rows = k == 0 ? 0 : rhs.num_elements() / k;
    const T* const x = rhs.data<T>();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < k; ++j) {
        T sum = context.input(1).data<T>()[r] * x[r * k + j];
        if (r % n + 1 < n) sum += context.input(0).data<T>()[r] * x[(r + 1) * k + j];
        if (r % n > 0) sum += context.input(2).data<T>()[r] * x[(r - 1) * k + j];
        out->mutable_data<T>()[r * k + j] = sum;
      }
    }
    return absl::OkStatus();
  });
}

template <int i>
absl::Status LikeInput(ShapeContext& c) {
  c.set_output(0, c.input(i));
  return absl::OkStatus();
}

const OpRegistration kTridiagonalOps[] = {
    Op("TridiagonalSolve")
        .Input("diagonals: T")
        .Input("rhs: T")
        .Output("output: T")
        .Attr("partial_pivoting: bool = true")
        .Attr("perturb_singular: bool = false")
        .Attr("T: {double, float, complex64, complex128}")
        .Shape(LikeInput<1>)
        .Kernel<TridiagonalSolveKernel>(),
    Op("TridiagonalMatMul")
        .Input("superdiag: T")
        .Input("maindiag: T")
        .Input("subdiag: T")
        .Input("rhs: T")
        .Output("output: T")
        .Attr("T: {double, float, complex64, complex128}")
        .Shape(LikeInput<3>)
        .Compute(TridiagonalMatMul),
};

}  // namespace
}  // namespace thalweg
