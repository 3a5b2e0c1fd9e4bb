// What the ops of linear algebra share. Their matrices are the last two
// dimensions of tensors; all before is a batch. They are computed in double
// precision whatever their type.
#pragma once

#include <complex>
#include <cstdint>

#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/linalg/dense_matrix.h"

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

// Matrix i of a batch of them, of any floating or complex type; and into one.
template <typename S>
Matrix<S> LoadMatrix(const Tensor& t, int64_t i, int64_t rows, int64_t columns);
template <typename S>
void StoreMatrix(const Matrix<S>& m, int64_t i, Tensor* t);

// Runs f.operator()<S>(i), which returns a status, for every matrix of a batch,
// where S is double or complex<double> by the type of input 0; in parallel if it
// is worth it. The first error.
template <typename F>
absl::Status ForEachMatrix(KernelContext& context, int64_t count, double nanos, const F& f) {
  const bool is_complex = IsComplex(context.input(0).dtype());
  Mutex mutex;
  absl::Status first;
  context.ParallelFor(count, nanos, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const absl::Status status =
          is_complex ? f.template operator()<std::complex<double>>(i) : f.template operator()<double>(i);
      if (status.ok()) continue;
      MutexLock lock(&mutex);
      first.Update(status);
    }
  });
  return first;
}

// The known part of the shape of a batch of matrices: rank 2 at least, square if
// asked for. An unknown rank stays one.
absl::StatusOr<PartialShape> MatrixShape(ShapeContext& c, int i, bool square);
// Its batch dimensions with others behind. REQUIRES: it has a rank.
PartialShape BatchWith(const PartialShape& matrices, std::initializer_list<int64_t> dims);

}  // namespace thalweg
