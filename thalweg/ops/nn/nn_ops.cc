// SPDX-License-Identifier: Apache-2.0
// Constructors of nn_ops.h for temporal classification and ops with several outputs.
#include "thalweg/ops/nn_ops.h"

namespace thalweg {
namespace {

CtcDecoded Decoded(Node* node) { return {Output(node, 0), Output(node, 1), Output(node, 2), Output(node, 3)}; }

}  // namespace

Output Dilation2D(const Scope& s, Output input, Output filter, const std::vector<int64_t>& strides,
                  const std::vector<int64_t>& rates, Padding padding) {
  return s.Add("Dilation2D", {input, filter}, {{"strides", strides}, {"rates", rates}, {"padding", NameOf(padding)}});
}

MaxPoolWithArgmaxResult MaxPoolWithArgmax(const Scope& s, Output input, const std::vector<int64_t>& ksize,
                                          const std::vector<int64_t>& strides, Padding padding) {
  Node* const node =
      s.Add("MaxPoolWithArgmax", {input}, {{"ksize", ksize}, {"strides", strides}, {"padding", NameOf(padding)}});
  return {Output(node, 0), Output(node, 1)};
}

CtcLossResult CtcLoss(const Scope& s, Output inputs, Output labels_indices, Output labels_values,
                      Output sequence_length, const CtcLossOptions& options) {
  Node* const node = s.Add("CTCLoss", {inputs, labels_indices, labels_values, sequence_length},
                           {{"preprocess_collapse_repeated", options.preprocess_collapse_repeated},
                            {"ctc_merge_repeated", options.ctc_merge_repeated},
                            {"ignore_longer_outputs_than_inputs", options.ignore_longer_outputs_than_inputs}});
  return {Output(node, 0), Output(node, 1)};
}

CtcDecoded CtcGreedyDecoder(const Scope& s, Output inputs, Output sequence_length,
                            const CtcGreedyDecoderOptions& options) {
  return Decoded(s.Add("CTCGreedyDecoder", {inputs, sequence_length}, {{"merge_repeated", options.merge_repeated}}));
}

CtcDecoded CtcBeamSearchDecoder(const Scope& s, Output inputs, Output sequence_length, int beam_width,
                                const CtcBeamSearchDecoderOptions& options) {
  return Decoded(s.Add("CTCBeamSearchDecoder", {inputs, sequence_length},
                       {{"beam_width", beam_width}, {"top_paths", 1}, {"merge_repeated", options.merge_repeated}}));
}

Output NthElement(const Scope& s, Output input, const IntArg& n, const NthElementOptions& options) {
  return s.Add("NthElement", {input, n.AsTensor(s, "n")}, {{"reverse", options.reverse}});
}

}  // namespace thalweg
