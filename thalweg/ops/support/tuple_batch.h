// SPDX-License-Identifier: Apache-2.0
// Tuples of tensors and batches of them, the elements of queues, barriers and staging areas.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Row `row` of every component, as a copy. RESOURCE_EXHAUSTED if memory is short.
absl::StatusOr<std::vector<Tensor>> CopyRow(const std::vector<Tensor>& batch, int64_t row);
absl::StatusOr<Tensor> CopyRow(const Tensor& batch, int64_t row);

// Row `row` of every component, in the batch's memory: the whole batch lives as long as one of its rows.
std::vector<Tensor> ShareRow(const std::vector<Tensor>& batch, int64_t row);
Tensor ShareRow(const Tensor& batch, int64_t row);

// Batches tuples: the rows of component i of the result are component i of every tuple. Dimensions that are
// unknown in shapes[i] are padded with zeros to the largest row. REQUIRES: types and shapes fit.
absl::StatusOr<std::vector<Tensor>> BatchTuples(const std::vector<std::vector<Tensor>>& tuples,
                                                const std::vector<DType>& types,
                                                const std::vector<PartialShape>& shapes);

// Copies `element` to row `row` of `batch`. REQUIRES: the types are the same, and no dimension of the
// element is larger than that of a row.
void CopyToRow(const Tensor& element, int64_t row, Tensor* batch);

// Concatenates the elements of all tensors in `out`, in parallel if that pays. REQUIRES: they have its type
// and fill it.
absl::Status JoinTensors(KernelContext& c, absl::Span<const Tensor> values, Tensor* out);

}  // namespace thalweg
