// What the ops of linear algebra share. Their matrices are the last two
// dimensions of tensors; all before is a batch. Half-precision matrices are
// computed as floats, the others in their own type.
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
  int64_t count = 1;  // matrices
  int64_t rows = 0;
  int64_t columns = 0;

  // INVALID_ARGUMENT unless the rank is 2 at least.
  static absl::StatusOr<MatrixBatch> Of(const Tensor& t, int input = 0);
  // INVALID_ARGUMENT ("Input matrix must be square.") if it is not.
  static absl::StatusOr<MatrixBatch> OfSquare(const Tensor& t);
  // The shape of as many matrices, vectors (columns < 0) or scalars (both).
  absl::StatusOr<Shape> With(int64_t rows = -1, int64_t columns = -1) const;
};

// INVALID_ARGUMENT if a side is longer than LAPACK can count.
absl::Status CheckSides(std::initializer_list<int64_t> sides);

// The elements of matrices [i, i + 1) of a tensor into `to`, and back; S is the
// type they are computed in. LoadColumns and StoreColumns change between the
// tensor's order, by rows, and LAPACK's, by columns.
template <typename S>
void LoadRows(const Tensor& t, int64_t i, int64_t size, S* to);
template <typename S>
void StoreRows(const S* from, int64_t i, int64_t size, Tensor* t);
template <typename S>
void LoadColumns(const Tensor& t, int64_t i, int64_t rows, int64_t columns, S* to);
template <typename S>
void StoreColumns(const S* from, int64_t i, int64_t rows, int64_t columns, Tensor* t);

// Where matrix i of a tensor lies, or a copy in `copy` if it is of another type.
template <typename S>
const S* RowsOf(const Tensor& t, int64_t i, int64_t size, PoolVector<S>& copy) {
  if (ElementSize(t.dtype()) == sizeof(S)) return t.data<S>() + i * size;
  copy.resize(size);
  LoadRows(t, i, size, copy.data());
  return copy.data();
}
// The same to write to; StoreIfCopied brings a copy to its place.
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

// Memory that one thread reuses for all matrices of its part of a batch.
template <typename S>
struct MatrixScratch {
  PoolVector<S> a, b, c;
  PoolVector<lapack::Real<S>> reals;
  std::vector<int> pivots;
  std::vector<S> tau, work, more_work;
};

// Runs f.operator()<S>(scratch, i), which returns a status, for every matrix of a
// batch, where S is the type to compute in for matrices of `type`; in parallel if
// it is worth it. The first error.
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

// Nanoseconds that so many elementary operations take, roughly.
double LinalgCost(int64_t a, int64_t b, int64_t c, double factor = 1);

// The known part of the shape of a batch of matrices: rank 2 at least, square if
// asked for. An unknown rank stays one.
absl::StatusOr<PartialShape> MatrixShape(ShapeContext& c, int i, bool square);
// Its batch dimensions with others behind. REQUIRES: it has a rank.
PartialShape BatchWith(const PartialShape& matrices, std::initializer_list<int64_t> dims);
// The output is like input 0, a batch of square matrices.
absl::Status SquareMatrixShape(ShapeContext& c);

}  // namespace thalweg
