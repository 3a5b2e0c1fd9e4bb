// SPDX-License-Identifier: Apache-2.0
// Between sparse tensors, dense ones and CSR matrices.
#include "thalweg/ops/sparse/csr_matrix.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/sparse/sparse.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {

std::string CsrMatrix::ToString() const {
  return absl::StrCat("a CSR matrix of shape [", absl::StrJoin(dims, ","), "]");
}

absl::StatusOr<const CsrMatrix*> CsrInput(KernelContext& c, int i) {
  const Tensor& t = c.input(i);
  if (t.rank() != 0) return InvalidArgument("input ", i, " must be a scalar variant, got shape ", t.shape());
  const CsrMatrix* const matrix = t.scalar<Variant>().As<CsrMatrix>();
  if (matrix == nullptr) return InvalidArgument("Input ", i, " is not a CSRSparseMatrix");
  return matrix;
}

absl::StatusOr<const CsrMatrix*> CsrInput(KernelContext& c, int i, DType dtype) {
  ASSIGN_OR_RETURN(const CsrMatrix* const matrix, CsrInput(c, i));
  if (matrix->values.empty() || matrix->values[0].dtype() == dtype) return matrix;
  return InvalidArgument("dtype of CSRSparseMatrix ", i, " is ", matrix->values[0].dtype(), ", expected ", dtype);
}

void SetCsrOutput(KernelContext& c, int i, std::shared_ptr<const CsrMatrix> matrix) {
  Tensor t(kVariant, Shape());
  *t.mutable_data<Variant>() = Variant(std::move(matrix));
  c.set_output(i, std::move(t));
}

absl::Status CheckCsrDims(absl::Span<const int64_t> dims) {
  if (dims.size() != 2 && dims.size() != 3)
    return InvalidArgument("sparse matrix must have rank 2 or 3; got ", dims.size());
  // Pointers to rows take memory even where rows are empty.
  constexpr int64_t kMostRows = int64_t{1} << 26, kMostBatches = 1 << 20;
  for (const int64_t dim : dims) {
    if (dim < 0 || dim > std::numeric_limits<int32_t>::max())
      return InvalidArgument("bad dimension ", dim, " of a sparse matrix");
  }
  const int64_t batches = dims.size() == 3 ? dims[0] : 1, rows = dims[dims.size() - 2];
  if (batches > kMostBatches || rows + 1 > kMostRows / std::max<int64_t>(1, batches)) {
    return ResourceExhausted("a sparse matrix of shape [", absl::StrJoin(dims, ","), "] has more than ", kMostRows,
                             " rows");
  }
  return absl::OkStatus();
}

namespace {

// Builds a matrix of `count` entries. place(k) gives batch, row and column of
// entry k, by rising place; `from` its value's position.
template <typename Place>
absl::StatusOr<std::shared_ptr<CsrMatrix>> Build(absl::Span<const int64_t> dims, int64_t count, const Place& place,
                                                 const Tensor& values, absl::Span<const int64_t> from) {
  auto matrix = std::make_shared<CsrMatrix>();
  matrix->dims.assign(dims.begin(), dims.end());
  matrix->parts.resize(dims.size() == 3 ? dims[0] : 1);
  for (CsrMatrix::Part& part : matrix->parts) part.row_ptrs.assign(matrix->rows() + 1, 0);
  for (int64_t k = 0; k < count; ++k) {
    const auto [batch, row, column] = place(k);
    ++matrix->parts[batch].row_ptrs[row + 1];
    matrix->parts[batch].col_inds.push_back(static_cast<int32_t>(column));
  }
  int64_t next = 0;
  for (CsrMatrix::Part& part : matrix->parts) {
    for (size_t r = 1; r < part.row_ptrs.size(); ++r) part.row_ptrs[r] += part.row_ptrs[r - 1];
    const int64_t n = static_cast<int64_t>(part.col_inds.size());
    ASSIGN_OR_RETURN(Tensor own, Tensor::Allocate(values.dtype(), Shape({n})));
    RETURN_IF_ERROR(DispatchBySize(values.dtype(), [&]<typename T>() {
      for (int64_t k = 0; k < n; ++k) MutableElementData<T>(&own)[k] = ElementData<T>(values)[from[next + k]];
      return absl::OkStatus();
    }));
    next += n;
    matrix->values.push_back(std::move(own));
  }
  return matrix;
}

struct Place {
  int64_t batch, row, column;
};

absl::Status FromSparse(KernelContext& c) {
  ASSIGN_OR_RETURN(const SparseValue x, SparseValue::Make(c.input(0), c.input(1), c.input(2), SparseValue::kOrdered));
  RETURN_IF_ERROR(CheckCsrDims(x.dims));
  const bool batched = x.rank() == 3;
  std::vector<int64_t> order(x.count());
  for (int64_t k = 0; k < x.count(); ++k) order[k] = k;
  ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> matrix,
                   Build(
                       x.dims, x.count(),
                       [&](int64_t k) {
                         const int64_t* const at = x.row(k);
                         return batched ? Place{at[0], at[1], at[2]} : Place{0, at[0], at[1]};
                       },
                       x.values, order));
  SetCsrOutput(c, 0, std::move(matrix));
  return absl::OkStatus();
}

// The elements of a dense tensor at some places.
absl::Status FromDense(KernelContext& c) {
  const Tensor &dense = c.input(0), &indices = c.input(1);
  RETURN_IF_ERROR(CheckCsrDims(dense.shape().dims()));
  const int rank = dense.rank();
  if (indices.rank() != 2 || indices.dim(1) != rank) {
    return InvalidArgument("indices must be a matrix of ", rank, " columns, got ", indices.shape());
  }
  RETURN_IF_ERROR(CheckSparseIndices(indices.flat<int64_t>(), dense.shape().dims(), SparseValue::kOrdered));
  const Dims strides = RowMajorStrides(dense.shape().dims());
  const int64_t* const places = indices.data<int64_t>();
  std::vector<int64_t> from(indices.dim(0));
  for (size_t k = 0; k < from.size(); ++k) {
    for (int d = 0; d < rank; ++d) from[k] += places[k * rank + d] * strides[d];
  }
  ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> matrix,
                   Build(
                       dense.shape().dims(), indices.dim(0),
                       [&](int64_t k) {
                         const int64_t* const at = places + k * rank;
                         return rank == 3 ? Place{at[0], at[1], at[2]} : Place{0, at[0], at[1]};
                       },
                       dense, from));
  SetCsrOutput(c, 0, std::move(matrix));
  return absl::OkStatus();
}

absl::Status ToSparse(KernelContext& c) {
  ASSIGN_OR_RETURN(const CsrMatrix* const m, CsrInput(c, 0, c.output_type(1)));
  const int64_t rank = static_cast<int64_t>(m->dims.size());
  int64_t count = 0;
  for (int64_t b = 0; b < m->batches(); ++b) count += m->count(b);
  ASSIGN_OR_RETURN(Tensor* const indices, c.Allocate(0, Shape({count, rank})));
  ASSIGN_OR_RETURN(Tensor* const values, c.Allocate(1, Shape({count})));
  ASSIGN_OR_RETURN(Tensor* const shape, c.Allocate(2, Shape({rank})));
  std::copy(m->dims.begin(), m->dims.end(), shape->mutable_data<int64_t>());
  int64_t* index = indices->mutable_data<int64_t>();
  int64_t begin = 0;
  for (int64_t b = 0; b < m->batches(); ++b) {
    const CsrMatrix::Part& part = m->parts[b];
    for (int64_t r = 0; r < m->rows(); ++r) {
      for (int32_t k = part.row_ptrs[r]; k < part.row_ptrs[r + 1]; ++k) {
        if (rank == 3) *index++ = b;
        *index++ = r;
        *index++ = part.col_inds[k];
      }
    }
    const size_t size = ElementSize(values->dtype());
    std::memcpy(static_cast<char*>(values->raw()) + begin * size, m->values[b].raw(), m->count(b) * size);
    begin += m->count(b);
  }
  return absl::OkStatus();
}

absl::Status ToDense(KernelContext& c) {
  ASSIGN_OR_RETURN(const CsrMatrix* const m, CsrInput(c, 0, c.output_type(0)));
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(m->dims));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  ClearElements(out);
  return DispatchBySize(out->dtype(), [&]<typename T>() {
    for (int64_t b = 0; b < m->batches(); ++b) {
      T* const matrix = MutableElementData<T>(out) + b * m->rows() * m->cols();
      for (int64_t r = 0; r < m->rows(); ++r) {
        for (int32_t k = m->parts[b].row_ptrs[r]; k < m->parts[b].row_ptrs[r + 1]; ++k) {
          matrix[r * m->cols() + m->parts[b].col_inds[k]] = ElementData<T>(m->values[b])[k];
        }
      }
    }
    return absl::OkStatus();
  });
}

absl::Status Components(KernelContext& c) {
  ASSIGN_OR_RETURN(const CsrMatrix* const m, CsrInput(c, 0, c.output_type(2)));
  if (c.input(1).rank() != 0) return InvalidArgument("index should be a scalar, saw shape: ", c.input(1).shape());
  const int32_t b = c.input(1).scalar<int32_t>();
  if (b < 0 || b >= m->batches()) return InvalidArgument("index (", b, ") not in [0, ", m->batches(), ")");
  const CsrMatrix::Part& part = m->parts[b];
  c.set_output(0, Tensor::Vector<int32_t>(part.row_ptrs));
  c.set_output(1, Tensor::Vector<int32_t>(part.col_inds));
  c.set_output(2, m->values[b]);
  return absl::OkStatus();
}

absl::Status CountEntries(KernelContext& c) {
  ASSIGN_OR_RETURN(const CsrMatrix* const m, CsrInput(c, 0));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, m->dims.size() == 3 ? Shape({m->batches()}) : Shape()));
  for (int64_t b = 0; b < m->batches(); ++b) out->mutable_data<int32_t>()[b] = static_cast<int32_t>(m->count(b));
  return absl::OkStatus();
}

constexpr char kT[] = "T: {float, double, complex64, complex128}";

const OpRegistration kCsrMatrixOps[] = {
    Op("SparseTensorToCSRSparseMatrix")
        .Input("indices: int64")
        .Input("values: T")
        .Input("dense_shape: int64")
        .Output("sparse_matrix: variant")
        .Attr(kT)
        .Shape(shapes::Scalar)
        .Compute(FromSparse)
        .NotDifferentiable(),
    Op("DenseToCSRSparseMatrix")
        .Input("dense_input: T")
        .Input("indices: int64")
        .Output("sparse_output: variant")
        .Attr(kT)
        .Shape(shapes::Scalar)
        .Compute(FromDense)
        .NotDifferentiable(),
    Op("CSRSparseMatrixToSparseTensor")
        .Input("sparse_matrix: variant")
        .Output("indices: int64")
        .Output("values: type")
        .Output("dense_shape: int64")
        .Attr(kCsrType)
        .Shape(shapes::Unknown)
        .Compute(ToSparse)
        .NotDifferentiable(),
    Op("CSRSparseMatrixToDense")
        .Input("sparse_input: variant")
        .Output("dense_output: type")
        .Attr(kCsrType)
        .Shape(shapes::Unknown)
        .Compute(ToDense)
        .NotDifferentiable(),
    Op("CSRSparseMatrixComponents")
        .Input("csr_sparse_matrix: variant")
        .Input("index: int32")
        .Output("row_ptrs: int32")
        .Output("col_inds: int32")
        .Output("values: type")
        .Attr(kCsrType)
        .Shape(shapes::Unknown)
        .Compute(Components)
        .NotDifferentiable(),
    Op("SparseMatrixNNZ")
        .Input("sparse_matrix: variant")
        .Output("nnz: int32")
        .Shape(shapes::Unknown)
        .Compute(CountEntries)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
