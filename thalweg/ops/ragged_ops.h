// SPDX-License-Identifier: Apache-2.0
// Ragged tensors: rows of different lengths, stored one after the other.
//
//   const RaggedTensor r{values, row_splits};    // row i is values[row_splits[i] .. row_splits[i + 1])
#pragma once

#include <cstdint>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"
#include "thalweg/ops/sparse_ops.h"

namespace thalweg {

// Rows of different lengths. A value.
struct RaggedTensor {
  Output values;      // [n, ...]: the rows, one after the other
  Output row_splits;  // int64 [rows + 1]: where each row begins; starts with 0, ends with n
};

// The rows start, start + delta, ... below limit, for each element of the vectors.
RaggedTensor RaggedRange(const Scope& s, Output starts, Output limits, Output deltas);
// Rows by number: row i of the result is row indices[i] of the input.
RaggedTensor RaggedGather(const Scope& s, const RaggedTensor& params, Output indices);
// A sparse matrix with the same elements.
SparseTensor RaggedTensorToSparse(const Scope& s, const RaggedTensor& input);
// A dense tensor of `shape`, in which -1 stands for as much as it takes; default_value fills
// up short rows.
Output RaggedTensorToTensor(const Scope& s, const RaggedTensor& input, const IntsArg& shape,
                            const ScalarArg& default_value);
// How often each number below `size` occurs in each row: [rows, size]. With `weights`, the
// sum of the weights of its occurrences.
Output RaggedBincount(const Scope& s, const RaggedTensor& input, const IntArg& size, Output weights = {});

}  // namespace thalweg
