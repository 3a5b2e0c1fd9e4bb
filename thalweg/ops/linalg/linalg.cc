#include "thalweg/ops/linalg/linalg.h"

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

namespace {

using LinearTypes = Types<float, double, Half, BFloat16, std::complex<float>, std::complex<double>>;

template <typename S, typename T>
S Convert(const T& x) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    if constexpr (std::is_same_v<S, double>) {
      return static_cast<double>(x.real());
    } else {
      return S(x.real(), x.imag());
    }
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return S(static_cast<double>(static_cast<float>(x)));
  } else {
    return S(static_cast<double>(x));
  }
}

template <typename T, typename S>
T Narrow(const S& x) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    using R = typename T::value_type;
    return T(static_cast<R>(std::real(x)), static_cast<R>(std::imag(x)));
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(std::real(x)));
  } else {
    return static_cast<T>(std::real(x));
  }
}

}  // namespace

template <typename S>
Matrix<S> LoadMatrix(const Tensor& t, int64_t i, int64_t rows, int64_t columns) {
  Matrix<S> m(rows, columns);
  const absl::Status status = Dispatch(LinearTypes(), t.dtype(), [&]<typename T>() {
    const T* const from = t.data<T>() + i * rows * columns;
    for (int64_t k = 0; k < rows * columns; ++k) m.data()[k] = Convert<S>(from[k]);
    return absl::OkStatus();
  });
  CHECK(status.ok()) << status;  // types are the op's
  return m;
}

template <typename S>
void StoreMatrix(const Matrix<S>& m, int64_t i, Tensor* t) {
  const absl::Status status = Dispatch(LinearTypes(), t->dtype(), [&]<typename T>() {
    T* const to = t->mutable_data<T>() + i * m.size();
    for (int64_t k = 0; k < m.size(); ++k) to[k] = Narrow<T>(m.data()[k]);
    return absl::OkStatus();
  });
  CHECK(status.ok()) << status;
}

template Matrix<double> LoadMatrix(const Tensor& t, int64_t i, int64_t rows, int64_t columns);
template Matrix<std::complex<double>> LoadMatrix(const Tensor& t, int64_t i, int64_t rows, int64_t columns);
template void StoreMatrix(const Matrix<double>& m, int64_t i, Tensor* t);
template void StoreMatrix(const Matrix<std::complex<double>>& m, int64_t i, Tensor* t);

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

}  // namespace thalweg
