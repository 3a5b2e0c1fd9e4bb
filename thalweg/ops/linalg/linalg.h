// SPDX-License-Identifier: Apache-2.0
// Shared by the linear algebra ops. Matrices are the last two dimensions of tensors, all
// dimensions before are batch dimensions. Half precision is computed in float, other types in
// their own type.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>

#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/linalg/lapack.h"
#include "thalweg/ops/support/pool_vector.h"

namespace thalweg {

// Shapes of a batch of matrices.
struct MatrixBatch {
  Dims batch;
  int64_t count = 1;  // number of matrices
  int64_t rows = 0;
  int64_t columns = 0;

  // INVALID_ARGUMENT unless the rank is at least 2.
  static absl::StatusOr<MatrixBatch> Of(const Tensor& t, int input = 0);
  // INVALID_ARGUMENT ("Input matrix must be square.") if it is not.
  static absl::StatusOr<MatrixBatch> OfSquare(const Tensor& t);
  // The shape of a batch of `count` matrices, vectors (columns < 0) or scalars (both < 0).
  absl::StatusOr<Shape> With(int64_t rows = -1, int64_t columns = -1) const;
};

// INVALID_ARGUMENT if a side does not fit into LAPACK's int.
absl::Status CheckSides(std::initializer_list<int64_t> sides);

// Copy matrix i of a tensor to `to`, and back. S is the type of the computation. LoadColumns and
// StoreColumns convert between the tensor's row-major and LAPACK's column-major order.
template <typename S>
void LoadRows(const Tensor& t, int64_t i, int64_t size, S* to);
template <typename S>
void StoreRows(const S* from, int64_t i, int64_t size, Tensor* t);
template <typename S>
void LoadColumns(const Tensor& t, int64_t i, int64_t rows, int64_t columns, S* to);
template <typename S>
void StoreColumns(const S* from, int64_t i, int64_t rows, int64_t columns, Tensor* t);

// A pointer to matrix i of a tensor, or to a converted copy in `copy` if its type is not S.
template <typename S>
const S* RowsOf(const Tensor& t, int64_t i, int64_t size, PoolVector<S>& copy) {
  if (ElementSize(t.dtype()) == sizeof(S)) return t.data<S>() + i * size;
  copy.resize(size);
  LoadRows(t, i, size, copy.data());
  return copy.data();
}
// The same for writing; StoreIfCopied() copies the result back.
template <typename S>
S* MutableRowsOf(Tensor* t, int64_t i, int64_t size, PoolVector<S>& copy) {
  if (ElementSize(t->dtype()) == sizeof(S)) return t->mutable_data<S>() + i * size;
  copy.resize(size);
  return copy.data();
}
template <typename S>
void StoreIfCopied(const S* rows, int64_t i, int64_t size, Tensor* t) {
  if (ElementSize(t->dtype()) != sizeof(S)) StoreRows(rows, i, size, t);
}

// y (columns x rows) = x^T (rows x columns), both by rows.
template <typename S>
void Transpose(const S* x, int64_t rows, int64_t columns, S* y);
template <typename S>
bool AllFinite(const S* x, int64_t size);
template <typename S>
S NaN() {
  return S(std::numeric_limits<lapack::Real<S>>::quiet_NaN());
}

// Memory that one thread reuses for all matrices of its share of a batch.
template <typename S>
struct MatrixScratch {
  PoolVector<S> a, b, c;
  PoolVector<lapack::Real<S>> reals;
  std::vector<int> pivots;
  std::vector<S> tau, work, more_work;
};

// Runs f.operator()<S>(scratch, i), which returns a status, for every matrix of a batch, in
// parallel if that pays. S is the type of the computation for matrices of `type`. Returns the
// first error.
template <typename F>
absl::Status ForEachMatrix(KernelContext& context, DType type, int64_t count, double nanos, const F& f) {
  Mutex mutex;
  absl::Status first;
  const auto run = [&]<typename S>() {
    context.ParallelFor(count, nanos, [&](int64_t begin, int64_t end) {
      MatrixScratch<S> scratch;
      for (int64_t i = begin; i < end; ++i) {
        const absl::Status status = f.template operator()<S>(scratch, i);
        if (status.ok()) continue;
        MutexLock lock(&mutex);
        first.Update(status);
      }
    });
  };
  switch (type) {
    case kDouble:
      run.template operator()<double>();
      break;
    case kComplex64:
      run.template operator()<std::complex<float>>();
      break;
    case kComplex128:
      run.template operator()<std::complex<double>>();
      break;
    default:
      run.template operator()<float>();
  }
  return first;
}

// Estimated nanoseconds for factor * a * b * c elementary operations.
double LinalgCost(int64_t a, int64_t b, int64_t c, double factor = 1);

// The inferred shape of a batch of matrices: at least rank 2, square if requested. An unknown
// rank stays unknown.
absl::StatusOr<PartialShape> MatrixShape(ShapeContext& c, int i, bool square);
// The batch dimensions of `matrices` followed by `dims`. REQUIRES: it has a rank.
PartialShape BatchWith(const PartialShape& matrices, std::initializer_list<int64_t> dims);
// The output is like input 0, a batch of square matrices.
absl::Status SquareMatrixShape(ShapeContext& c);

}  // namespace thalweg
