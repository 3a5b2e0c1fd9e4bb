// SPDX-License-Identifier: Apache-2.0
// GatherTree of tf.contrib.seq2seq (TensorFlow 1): the sequences that a beam search has found, from the tokens of each
// step and the beam of the step before from which each was continued.
#include <algorithm>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

absl::Status ComputeGatherTree(KernelContext& c) {
  const Tensor &tokens = c.input(0), &parents = c.input(1), &lengths = c.input(2), &end = c.input(3);
  if (tokens.rank() != 3) return InvalidArgument("step_ids must be a 3-tensor, saw shape: ", tokens.shape());
  if (lengths.rank() != 1) {
    return InvalidArgument("max_sequence_lengths must be a vector, saw shape: ", lengths.shape());
  }
  if (end.rank() != 0) return InvalidArgument("end_token must be a scalar, saw shape: ", end.shape());
  if (tokens.shape() != parents.shape()) {
    return InvalidArgument("step_ids.shape must match parent_ids.shape.  but shapes are: ", tokens.shape(), " and ",
                           parents.shape());
  }
  if (tokens.dim(1) != lengths.dim(0)) {
    return InvalidArgument(
        "batch size dimensions step_ids.shape[1] and max_sequence_lengths.shape[0] must match.  but shapes are: ",
        tokens.shape(), " and ", lengths.shape());
  }
  const int64_t steps = tokens.dim(0), batch = tokens.dim(1), width = tokens.dim(2);
  const int32_t* const token = tokens.data<int32_t>();
  const int32_t* const parent_of = parents.data<int32_t>();
  const int32_t end_token = end.scalar<int32_t>();
  // The results are not written in place: a beam may be the parent of several others.
  ASSIGN_OR_RETURN(Tensor beams, Tensor::Allocate(kInt32, tokens.shape()));
  int32_t* const out = beams.mutable_data<int32_t>();
  std::fill_n(out, beams.num_elements(), end_token);
  const auto at = [&](int64_t step, int64_t b, int64_t beam) { return (step * batch + b) * width + beam; };
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = std::min<int64_t>(steps, lengths.data<int32_t>()[b]);
    for (int64_t beam = 0; beam < width && length > 0; ++beam) {
      int64_t from = beam;
      for (int64_t step = length - 1; step >= 0; --step) {
        if (from < 0 || from >= width) {
          return InvalidArgument("Saw invalid parent id ", from, " at (batch, time, beam) == (", b, ", ", step, ", ",
                                 beam, ")");
        }
        out[at(step, b, beam)] = token[at(step, b, from)];
        from = parent_of[at(step, b, from)];
      }
      // After the first end there are only ends.
      int64_t step = 0;
      while (step < length && out[at(step, b, beam)] != end_token) ++step;
      for (; step < length; ++step) out[at(step, b, beam)] = end_token;
    }
  }
  c.set_output(0, std::move(beams));
  return absl::OkStatus();
}

const OpRegistration kGatherTree = Op("GatherTree")
                                       .Input("step_ids: T")
                                       .Input("parent_ids: T")
                                       .Input("max_sequence_lengths: int32")
                                       .Input("end_token: T")
                                       .Output("beams: T")
                                       .Attr("T: {int32}")
                                       .Shape([](ShapeContext& c) {
                                         c.set_output(0, c.input(0));
                                         return absl::OkStatus();
                                       })
                                       .Compute(ComputeGatherTree)
                                       .NotDifferentiable();

}  // namespace
}  // namespace thalweg
