// Tuples of tensors and batches of them: what queues, barriers and staging
// areas hold.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Row `row` of every component. It has memory of its own unless `share`: then
// the whole batch lives as long as one of its rows.
std::vector<Tensor> RowOf(const std::vector<Tensor>& batch, int64_t row, bool share);

// Row `row` of one tensor.
Tensor RowOf(const Tensor& batch, int64_t row, bool share);

// Component i of the result has component i of every tuple as its rows. Where
// shapes[i] leaves a dimension open, rows are as large as the largest, and
// filled up with zeros. REQUIRES: types and shapes fit.
absl::StatusOr<std::vector<Tensor>> BatchTuples(const std::vector<std::vector<Tensor>>& tuples,
                                                const std::vector<DType>& types,
                                                const std::vector<PartialShape>& shapes);

// `element` as row `row` of `batch`. REQUIRES: the type is the same, and the
// element is as large as a row or smaller in some dimensions.
void CopyToRow(const Tensor& element, int64_t row, Tensor* batch);

// The elements of one tensor after those of the other, in `out`; in parallel if
// it is worth it. REQUIRES: they are of its type, and fill it.
absl::Status JoinTensors(KernelContext& c, absl::Span<const Tensor> values, Tensor* out);

}  // namespace thalweg
