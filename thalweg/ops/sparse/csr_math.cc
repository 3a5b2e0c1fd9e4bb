// SPDX-License-Identifier: Apache-2.0
// Transposes and products of CSR matrices.
#include <algorithm>
#include <complex>
#include <map>
#include <memory>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/sparse/csr_matrix.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

template <typename T>
T Conjugate(T x, bool conjugate) {
  if constexpr (kIsComplex<T>) {
    return conjugate ? std::conj(x) : x;
  } else {
    return x;
  }
}

// The transpose of one matrix of `cols` columns.
template <typename T>
absl::Status TransposePart(const CsrMatrix& m, int64_t b, bool conjugate, CsrMatrix* out) {
  const CsrMatrix::Part& from = m.parts[b];
  CsrMatrix::Part to;
  to.row_ptrs.assign(m.cols() + 1, 0);
  to.col_inds.resize(from.col_inds.size());
  for (const int32_t column : from.col_inds) ++to.row_ptrs[column + 1];
  for (size_t r = 1; r < to.row_ptrs.size(); ++r) to.row_ptrs[r] += to.row_ptrs[r - 1];
  std::vector<int32_t> next(to.row_ptrs.begin(), to.row_ptrs.end() - 1);
  ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(m.values[b].dtype(), m.values[b].shape()));
  for (int64_t r = 0; r < m.rows(); ++r) {
    for (int32_t k = from.row_ptrs[r]; k < from.row_ptrs[r + 1]; ++k) {
      const int32_t place = next[from.col_inds[k]]++;
      to.col_inds[place] = static_cast<int32_t>(r);
      values.mutable_data<T>()[place] = Conjugate(m.values[b].data<T>()[k], conjugate);
    }
  }
  out->parts.push_back(std::move(to));
  out->values.push_back(std::move(values));
  return absl::OkStatus();
}

// With rows and columns exchanged, or the same; conjugated or not.
template <typename T>
absl::StatusOr<std::shared_ptr<const CsrMatrix>> Turned(const CsrMatrix& m, bool transpose, bool conjugate) {
  auto out = std::make_shared<CsrMatrix>();
  out->dims = m.dims;
  if (transpose) {
    std::swap(out->dims[out->dims.size() - 1], out->dims[out->dims.size() - 2]);
    RETURN_IF_ERROR(CheckCsrDims(out->dims));
    for (int64_t b = 0; b < m.batches(); ++b) RETURN_IF_ERROR(TransposePart<T>(m, b, conjugate, out.get()));
    return out;
  }
  out->parts = m.parts;
  for (const Tensor& values : m.values) {
    ASSIGN_OR_RETURN(Tensor turned, Tensor::Allocate(values.dtype(), values.shape()));
    for (int64_t k = 0; k < values.num_elements(); ++k) {
      turned.mutable_data<T>()[k] = Conjugate(values.data<T>()[k], conjugate);
    }
    out->values.push_back(std::move(turned));
  }
  return out;
}

class TransposeKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(conjugate_, init.Attr<bool>("conjugate"));
    ASSIGN_OR_RETURN(dtype_, init.Attr<DType>("type"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const CsrMatrix* const m, CsrInput(c, 0, dtype_));
    return Dispatch(CsrTypes(), dtype_, [&]<typename T>() -> absl::Status {
      ASSIGN_OR_RETURN(std::shared_ptr<const CsrMatrix> out, Turned<T>(*m, true, conjugate_));
      SetCsrOutput(c, 0, std::move(out));
      return absl::OkStatus();
    });
  }

 private:
  bool conjugate_ = false;
  DType dtype_ = kInvalid;
};

// Base of the products.
class ProductKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(transpose_a_, init.Attr<bool>("transpose_a"));
    ASSIGN_OR_RETURN(transpose_b_, init.Attr<bool>("transpose_b"));
    ASSIGN_OR_RETURN(adjoint_a_, init.Attr<bool>("adjoint_a"));
    ASSIGN_OR_RETURN(adjoint_b_, init.Attr<bool>("adjoint_b"));
    if (transpose_a_ && adjoint_a_) return InvalidArgument("Only one of adjoint_a and transpose_a may be true.");
    if (transpose_b_ && adjoint_b_) return InvalidArgument("Only one of adjoint_b and transpose_b may be true.");
    return absl::OkStatus();
  }

 protected:
  bool turns_a() const { return transpose_a_ || adjoint_a_; }
  bool turns_b() const { return transpose_b_ || adjoint_b_; }
  bool transpose_a_ = false, transpose_b_ = false, adjoint_a_ = false, adjoint_b_ = false;
};

class DenseProductKernel final : public ProductKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(transpose_output_, init.Attr<bool>("transpose_output"));
    ASSIGN_OR_RETURN(conjugate_output_, init.Attr<bool>("conjugate_output"));
    return ProductKernel::Init(init);
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& b = c.input(1);
    return Dispatch(CsrTypes(), b.dtype(), [&]<typename T>() -> absl::Status {
      ASSIGN_OR_RETURN(const CsrMatrix* const given, CsrInput(c, 0, b.dtype()));
      if (b.rank() != static_cast<int>(given->dims.size())) {
        return InvalidArgument("a and b must have the same rank, got ", given->dims.size(), " and ", b.rank());
      }
      if (b.rank() == 3 && b.dim(0) != given->batches()) {
        return InvalidArgument("a has ", given->batches(), " matrices and b ", b.dim(0));
      }
      ASSIGN_OR_RETURN(const std::shared_ptr<const CsrMatrix> a, Turned<T>(*given, turns_a(), adjoint_a_));
      const int last = b.rank() - 1;
      const int64_t inner = b.dim(turns_b() ? last : last - 1), n = b.dim(turns_b() ? last - 1 : last);
      if (a->cols() != inner) {
        return InvalidArgument("Matrix size-incompatible: a has ", a->cols(), " columns, b has ", inner, " rows");
      }
      Dims dims = a->dims;
      dims[dims.size() - 2] = transpose_output_ ? n : a->rows();
      dims[dims.size() - 1] = transpose_output_ ? a->rows() : n;
      ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
      ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
      std::fill_n(out->mutable_data<T>(), out->num_elements(), T());
      const int64_t b_row = turns_b() ? 1 : n, b_column = turns_b() ? inner : 1;
      const int64_t out_row = transpose_output_ ? 1 : n, out_column = transpose_output_ ? a->rows() : 1;
      for (int64_t batch = 0; batch < a->batches(); ++batch) {
        const CsrMatrix::Part& part = a->parts[batch];
        const T* const dense = b.data<T>() + batch * inner * n;
        T* const to = out->mutable_data<T>() + batch * a->rows() * n;
        for (int64_t r = 0; r < a->rows(); ++r) {
          for (int32_t k = part.row_ptrs[r]; k < part.row_ptrs[r + 1]; ++k) {
            const T value = a->values[batch].data<T>()[k];
            const T* const row = dense + part.col_inds[k] * b_row;
            for (int64_t j = 0; j < n; ++j)
              to[r * out_row + j * out_column] += value * Conjugate(row[j * b_column], adjoint_b_);
          }
        }
      }
      for (int64_t i = 0; conjugate_output_ && i < out->num_elements(); ++i) {
        out->mutable_data<T>()[i] = Conjugate(out->data<T>()[i], true);
      }
      return absl::OkStatus();
    });
  }

 private:
  bool transpose_output_ = false, conjugate_output_ = false;
};

class SparseProductKernel final : public ProductKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(dtype_, init.Attr<DType>("type"));
    return ProductKernel::Init(init);
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const CsrMatrix* const x, CsrInput(c, 0, dtype_));
    ASSIGN_OR_RETURN(const CsrMatrix* const y, CsrInput(c, 1, dtype_));
    if (x->dims.size() != y->dims.size() || x->batches() != y->batches()) {
      return InvalidArgument("a and b must have the same rank and as many matrices");
    }
    return Dispatch(CsrTypes(), dtype_, [&]<typename T>() -> absl::Status {
      ASSIGN_OR_RETURN(const std::shared_ptr<const CsrMatrix> a, Turned<T>(*x, turns_a(), adjoint_a_));
      ASSIGN_OR_RETURN(const std::shared_ptr<const CsrMatrix> b, Turned<T>(*y, turns_b(), adjoint_b_));
      if (a->cols() != b->rows()) {
        return InvalidArgument("Matrix size-incompatible: a has ", a->cols(), " columns, b has ", b->rows(), " rows");
      }
      auto out = std::make_shared<CsrMatrix>();
      out->dims = a->dims;
      out->dims.back() = b->cols();
      for (int64_t batch = 0; batch < a->batches(); ++batch) RETURN_IF_ERROR(Multiply<T>(*a, *b, batch, out.get()));
      SetCsrOutput(c, 0, std::move(out));
      return absl::OkStatus();
    });
  }

 private:
  // Two small matrices may have a product with very many.
  static constexpr size_t kMostEntries = size_t{1} << 28;

  template <typename T>
  static absl::Status Multiply(const CsrMatrix& a, const CsrMatrix& b, int64_t batch, CsrMatrix* out) {
    const CsrMatrix::Part &pa = a.parts[batch], &pb = b.parts[batch];
    CsrMatrix::Part part{.row_ptrs = {0}, .col_inds = {}};
    std::vector<T> values;
    for (int64_t r = 0; r < a.rows(); ++r) {
      std::map<int32_t, T> row;
      for (int32_t k = pa.row_ptrs[r]; k < pa.row_ptrs[r + 1]; ++k) {
        for (int32_t l = pb.row_ptrs[pa.col_inds[k]]; l < pb.row_ptrs[pa.col_inds[k] + 1]; ++l) {
          row[pb.col_inds[l]] += a.values[batch].data<T>()[k] * b.values[batch].data<T>()[l];
        }
      }
      for (const auto& [column, value] : row) {
        part.col_inds.push_back(column);
        values.push_back(value);
      }
      if (values.size() > kMostEntries) {
        return ResourceExhausted("the product of two sparse matrices has more than ", kMostEntries, " entries");
      }
      part.row_ptrs.push_back(static_cast<int32_t>(values.size()));
    }
    out->parts.push_back(std::move(part));
    ASSIGN_OR_RETURN(Tensor own, Tensor::Allocate(DTypeOf<T>, Shape({static_cast<int64_t>(values.size())})));
    std::copy(values.begin(), values.end(), own.mutable_data<T>());
    out->values.push_back(std::move(own));
    return absl::OkStatus();
  }

  DType dtype_ = kInvalid;
};

Op Product(Op op) {
  return op.Attr("transpose_a: bool = false")
      .Attr("transpose_b: bool = false")
      .Attr("adjoint_a: bool = false")
      .Attr("adjoint_b: bool = false")
      .NotDifferentiable();
}

const OpRegistration kCsrMathOps[] = {
    Op("SparseMatrixTranspose")
        .Input("input: variant")
        .Output("output: variant")
        .Attr("conjugate: bool = false")
        .Attr(kCsrType)
        .Shape(shapes::Scalar)
        .Kernel<TransposeKernel>()
        .NotDifferentiable(),
    Product(Op("SparseMatrixMatMul").Input("a: variant").Input("b: T").Output("output: T").Attr("T: type"))
        .Attr("transpose_output: bool = false")
        .Attr("conjugate_output: bool = false")
        .Shape(shapes::Unknown)
        .Kernel<DenseProductKernel>(),
    Product(Op("SparseMatrixSparseMatMul").Input("a: variant").Input("b: variant").Output("c: variant").Attr(kCsrType))
        .Shape(shapes::Scalar)
        .Kernel<SparseProductKernel>(),
};

}  // namespace
}  // namespace thalweg
