// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/linalg/linalg.h"

#include <limits>

namespace thalweg {

absl::StatusOr<MatrixBatch> MatrixBatch::Of(const Tensor& t, int input) {
  if (t.rank() < 2) return InvalidArgument("Input tensor ", input, " must have rank >= 2, got ", t.rank());
  MatrixBatch m;
  m.batch.assign(t.shape().dims().begin(), t.shape().dims().end() - 2);
  m.count = t.shape().Product(0, t.rank() - 2);
  m.rows = t.dim(t.rank() - 2);
  m.columns = t.dim(t.rank() - 1);
  return m;
}

absl::StatusOr<MatrixBatch> MatrixBatch::OfSquare(const Tensor& t) {
  ASSIGN_OR_RETURN(MatrixBatch m, Of(t));
  if (m.rows != m.columns) return InvalidArgument("Input matrix must be square.");
  return m;
}

absl::StatusOr<Shape> MatrixBatch::With(int64_t rows, int64_t columns) const {
  Dims dims = batch;
  if (rows >= 0) dims.push_back(rows);
  if (columns >= 0) dims.push_back(columns);
  return Shape::Make(dims);
}

absl::Status CheckSides(std::initializer_list<int64_t> sides) {
  for (const int64_t side : sides) {
    if (side > std::numeric_limits<int>::max()) {
      return InvalidArgument("A matrix has a side of ", side, ", which is more than ", std::numeric_limits<int>::max());
    }
  }
  return absl::OkStatus();
}

double LinalgCost(int64_t a, int64_t b, int64_t c, double factor) {
  return 50 + factor * static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c) / 10;
}

template <typename S>
void Transpose(const S* x, int64_t rows, int64_t columns, S* y) {
  constexpr int64_t kBlock = 16;  // both sides of a block stay in the cache
  for (int64_t i = 0; i < rows; i += kBlock) {
    for (int64_t j = 0; j < columns; j += kBlock) {
      const int64_t i_end = std::min(rows, i + kBlock), j_end = std::min(columns, j + kBlock);
      for (int64_t k = j; k < j_end; ++k) {
        for (int64_t l = i; l < i_end; ++l) y[k * rows + l] = x[l * columns + k];
      }
    }
  }
}

template <typename S>
bool AllFinite(const S* x, int64_t size) {
  // Infinities and NaN times zero are NaN, and stay so in the sum.
  lapack::Real<S> sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += 0 * std::real(x[i]) + 0 * std::imag(x[i]);
  return sum == 0;
}

template <typename S>
void LoadRows(const Tensor& t, int64_t i, int64_t size, S* to) {
  if constexpr (std::is_same_v<S, float>) {
    const auto convert = [&]<typename T>(const T* from) {
      for (int64_t k = 0; k < size; ++k) to[k] = static_cast<float>(from[k]);
    };
    if (t.dtype() == kHalf) return convert(t.data<Half>() + i * size);
    if (t.dtype() == kBfloat16) return convert(t.data<BFloat16>() + i * size);
  }
  std::copy_n(t.data<S>() + i * size, size, to);
}

template <typename S>
void StoreRows(const S* from, int64_t i, int64_t size, Tensor* t) {
  if constexpr (std::is_same_v<S, float>) {
    const auto convert = [&]<typename T>(T* to) {
      for (int64_t k = 0; k < size; ++k) to[k] = T(from[k]);
    };
    if (t->dtype() == kHalf) return convert(t->mutable_data<Half>() + i * size);
    if (t->dtype() == kBfloat16) return convert(t->mutable_data<BFloat16>() + i * size);
  }
  std::copy_n(from, size, t->mutable_data<S>() + i * size);
}

template <typename S>
void LoadColumns(const Tensor& t, int64_t i, int64_t rows, int64_t columns, S* to) {
  const int64_t size = rows * columns;
  if (ElementSize(t.dtype()) == sizeof(S)) return Transpose(t.data<S>() + i * size, rows, columns, to);
  PoolVector<S> by_rows(size);
  LoadRows(t, i, size, by_rows.data());
  Transpose(by_rows.data(), rows, columns, to);
}

template <typename S>
void StoreColumns(const S* from, int64_t i, int64_t rows, int64_t columns, Tensor* t) {
  const int64_t size = rows * columns;
  if (ElementSize(t->dtype()) == sizeof(S)) return Transpose(from, columns, rows, t->mutable_data<S>() + i * size);
  PoolVector<S> by_rows(size);
  Transpose(from, columns, rows, by_rows.data());
  StoreRows(by_rows.data(), i, size, t);
}

#define THALWEG_LINALG_(S)                                                 \
  template void Transpose(const S*, int64_t, int64_t, S*);                 \
  template bool AllFinite(const S*, int64_t);                              \
  template void LoadRows(const Tensor&, int64_t, int64_t, S*);             \
  template void StoreRows(const S*, int64_t, int64_t, Tensor*);            \
  template void LoadColumns(const Tensor&, int64_t, int64_t, int64_t, S*); \
  template void StoreColumns(const S*, int64_t, int64_t, int64_t, Tensor*);
THALWEG_LINALG_(float)
THALWEG_LINALG_(double)
THALWEG_LINALG_(std::complex<float>)
THALWEG_LINALG_(std::complex<double>)
#undef THALWEG_LINALG_

absl::StatusOr<PartialShape> MatrixShape(ShapeContext& c, int i, bool square) {
  const PartialShape& shape = c.input(i);
  if (!shape.has_rank()) return shape;
  if (shape.rank() < 2) return InvalidArgument("Shape must be at least rank 2 but is rank ", shape.rank());
  if (!square) return shape;
  Dims dims(shape.dims().begin(), shape.dims().end());
  int64_t &rows = dims[dims.size() - 2], &columns = dims.back();
  if (rows >= 0 && columns >= 0 && rows != columns) {
    return InvalidArgument("Dimensions must be equal, but are ", rows, " and ", columns);
  }
  rows = columns = std::max(rows, columns);
  return PartialShape(std::move(dims));
}

PartialShape BatchWith(const PartialShape& matrices, std::initializer_list<int64_t> dims) {
  Dims all(matrices.dims().begin(), matrices.dims().end() - 2);
  all.insert(all.end(), dims.begin(), dims.end());
  return PartialShape(std::move(all));
}

absl::Status SquareMatrixShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, MatrixShape(c, 0, true));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

}  // namespace thalweg
