// SPDX-License-Identifier: Apache-2.0
// A sparse matrix in compressed rows (CSR), or a batch of them: the value that the
// SparseMatrix ops pass on in a variant.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/tensor/resource_handle.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The attribute of the ops: the type of the elements.
inline constexpr char kCsrType[] = "type: {float, double, complex64, complex128}";

// Entries [row_ptrs[r], row_ptrs[r + 1]) of col_inds and of values are row r, by
// rising column. Immutable once it is in a variant.
class CsrMatrix final : public VariantValue {
 public:
  struct Part {  // one matrix
    std::vector<int32_t> row_ptrs;
    std::vector<int32_t> col_inds;
  };

  std::string TypeName() const override { return "tensorflow::CSRSparseMatrix"; }
  std::string ToString() const override;
  bool Encode(tensorflow::VariantTensorDataProto*) const override { return false; }

  int64_t batches() const { return static_cast<int64_t>(parts.size()); }
  int64_t rows() const { return dims[dims.size() - 2]; }
  int64_t cols() const { return dims[dims.size() - 1]; }
  int64_t count(int64_t batch) const { return static_cast<int64_t>(parts[batch].col_inds.size()); }

  Dims dims;  // [rows, columns] or [batches, rows, columns]
  std::vector<Part> parts;
  std::vector<Tensor> values;  // one vector per part
};

// The matrix in input i. INVALID_ARGUMENT unless it is one of this type.
absl::StatusOr<const CsrMatrix*> CsrInput(KernelContext& c, int i, DType dtype);
absl::StatusOr<const CsrMatrix*> CsrInput(KernelContext& c, int i);
void SetCsrOutput(KernelContext& c, int i, std::shared_ptr<const CsrMatrix> matrix);

// INVALID_ARGUMENT unless a matrix or a batch of them may have these dimensions.
absl::Status CheckCsrDims(absl::Span<const int64_t> dims);

// Elements of csr matrices.
using CsrTypes = Types<float, double, std::complex<float>, std::complex<double>>;

}  // namespace thalweg
