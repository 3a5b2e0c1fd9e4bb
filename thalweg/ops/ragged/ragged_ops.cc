// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/ragged_ops.h"

namespace thalweg {

RaggedTensor RaggedRange(const Scope& s, Output starts, Output limits, Output deltas) {
  Node* const node = s.Add("RaggedRange", {starts, limits, deltas});
  return {Output(node, 1), Output(node, 0)};
}

RaggedTensor RaggedGather(const Scope& s, const RaggedTensor& params, Output indices) {
  Node* const node = s.Add("RaggedGather", {std::vector<Output>{params.row_splits}, params.values, indices},
                           {{"OUTPUT_RAGGED_RANK", 1}});
  return {Output(node, 1), Output(node, 0)};
}

SparseTensor RaggedTensorToSparse(const Scope& s, const RaggedTensor& input) {
  Node* const node = s.Add("RaggedTensorToSparse", {std::vector<Output>{input.row_splits}, input.values});
  return {Output(node, 0), Output(node, 1), Output(node, 2)};
}

Output RaggedTensorToTensor(const Scope& s, const RaggedTensor& input, const IntsArg& shape,
                            const ScalarArg& default_value) {
  return s.Add("RaggedTensorToTensor",
               {shape.AsTensor(s, "shape"), input.values, default_value.AsTensor(s, "default_value"),
                std::vector<Output>{input.row_splits}},
               {{"row_partition_types", std::vector<std::string>{"ROW_SPLITS"}}});
}

Output RaggedBincount(const Scope& s, const RaggedTensor& input, const IntArg& size, Output weights) {
  if (!weights) {  // an empty tensor: each occurrence counts as 1
    const Tensor none = Tensor::Vector<int32_t>({});
    weights = s.Argument("weights").Add("Const", {}, {{"dtype", kInt32}, {"value", none}});
  }
  return s.Add("RaggedBincount",
               {input.row_splits, input.values, size.AsTensor(s, "size", input.values.dtype()), weights});
}

}  // namespace thalweg
