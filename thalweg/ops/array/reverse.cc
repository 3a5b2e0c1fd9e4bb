// SPDX-License-Identifier: Apache-2.0
// Reverse (by a flag for each dimension) and ReverseV2 (by axes) turn tensors
// around. ReverseSequence turns the first seq_lengths[b] elements of each
// sequence b around and leaves the others.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

using Flags = absl::InlinedVector<bool, 8>;

absl::Status ReverseAlong(KernelContext& c, const Flags& reversed) {
  const Tensor& input = c.input(0);
  bool any = false;
  StridedPlace from{.strides = RowMajorStrides(input.shape().dims())};
  const Dims to_strides = from.strides;
  for (int d = 0; d < input.rank(); ++d) {
    if (!reversed[d] || input.dim(d) <= 1) continue;
    any = true;
    from.offset += (input.dim(d) - 1) * from.strides[d];
    from.strides[d] = -from.strides[d];
  }
  if (!any || input.num_elements() == 0) {
    c.set_output(0, c.TakeInput(0));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
  return CopyStrided(c, input.shape().dims(), input, from, out, {.strides = to_strides});
}

absl::Status ComputeReverse(KernelContext& c) {
  const Tensor& input = c.input(0);
  const Tensor& dims = c.input(1);
  if (input.rank() == 0) {
    c.set_output(0, c.TakeInput(0));
    return absl::OkStatus();
  }
  if (dims.rank() != 1) return InvalidArgument("'dims' must be 1-dimension, not ", dims.rank());
  if (dims.num_elements() != input.rank()) {
    return InvalidArgument("'dims' must have the same number of values as 'input' has dimensions. 'input' has ",
                           input.rank(), "'dims' has ", dims.num_elements(), " values");
  }
  return ReverseAlong(c, Flags(dims.flat<bool>().begin(), dims.flat<bool>().end()));
}

absl::Status ComputeReverseV2(KernelContext& c) {
  const Tensor& input = c.input(0);
  if (input.rank() == 0) {
    c.set_output(0, c.TakeInput(0));
    return absl::OkStatus();
  }
  const Dims axes = ReadIntegers(c.input(1));
  Flags reversed(input.rank(), false);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + input.rank() : axes[i];
    if (axis < 0 || axis >= input.rank()) {
      return InvalidArgument("'axis'[", i, "] = ", axes[i], " is out of valid range [", 0, ", ", input.rank() - 1);
    }
    if (reversed[axis]) return InvalidArgument("axis ", axis, " specified more than once.");
    reversed[axis] = true;
  }
  return ReverseAlong(c, reversed);
}

absl::Status ReverseShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(1, 1).status());
  return shapes::LikeInput0(c);
}

absl::Status ReverseGradient(GradientContext& c) {
  c.set_dx(0, Output(c.scope().Add(c.node()->op(), {c.dy(), c.input(1)})));
  return absl::OkStatus();
}

class ReverseSequenceKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(batch_dim_, init.Attr<int64_t>("batch_dim"));
    ASSIGN_OR_RETURN(seq_dim_, init.Attr<int64_t>("seq_dim"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Tensor& lengths = c.input(1);
    if (lengths.rank() != 1) return InvalidArgument("seq_lens input must be 1-dim, not ", lengths.rank());
    if (batch_dim_ == seq_dim_) return InvalidArgument("batch_dim == seq_dim == ", seq_dim_);
    if (seq_dim_ < 0 || seq_dim_ >= input.rank()) {
      return InvalidArgument("seq_dim must be < input rank ( ", seq_dim_, " vs. ", input.rank(), ")");
    }
    if (batch_dim_ < 0 || batch_dim_ >= input.rank()) {
      return InvalidArgument("batch_dim must be < input rank ( ", batch_dim_, " vs. ", input.rank(), ")");
    }
    const int batch_dim = static_cast<int>(batch_dim_), seq_dim = static_cast<int>(seq_dim_);
    if (lengths.num_elements() != input.dim(batch_dim)) {
      return InvalidArgument("Length of seq_lens != input.dims(", batch_dim, "), (", lengths.num_elements(), " vs. ",
                             input.dim(batch_dim), ")");
    }
    for (int64_t b = 0; b < lengths.num_elements(); ++b) {
      const int64_t length = ReadInteger(lengths, b);
      if (length < 0) return InvalidArgument("seq_lens(", b, ") < 0");
      if (length > input.dim(seq_dim)) return InvalidArgument("seq_lens(", b, ") > input.dims(", seq_dim, ")");
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    const StridedPlace plain{.strides = RowMajorStrides(input.shape().dims())};
    const int64_t seq_stride = plain.strides[seq_dim];
    Dims dims(input.shape().dims().begin(), input.shape().dims().end());
    dims[batch_dim] = 1;
    for (int64_t b = 0; b < lengths.num_elements(); ++b) {
      const int64_t length = ReadInteger(lengths, b);
      StridedPlace to = plain;
      to.offset = b * plain.strides[batch_dim];
      StridedPlace from = to;
      from.offset += (length - 1) * seq_stride;
      from.strides[seq_dim] = -seq_stride;
      dims[seq_dim] = length;
      RETURN_IF_ERROR(CopyStrided(c, dims, input, from, out, to));
      to.offset += length * seq_stride;
      dims[seq_dim] = input.dim(seq_dim) - length;
      RETURN_IF_ERROR(CopyStrided(c, dims, input, to, out, to));
    }
    return absl::OkStatus();
  }

 private:
  int64_t batch_dim_ = 0;
  int64_t seq_dim_ = 0;
};

absl::Status ReverseSequenceShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const int64_t batch_dim, c.Attr<int64_t>("batch_dim"));
  ASSIGN_OR_RETURN(const int64_t seq_dim, c.Attr<int64_t>("seq_dim"));
  ASSIGN_OR_RETURN(const PartialShape lengths, c.WithRank(1, 1));
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return absl::OkStatus();
  if (batch_dim < 0 || batch_dim >= input.rank()) {
    return InvalidArgument("batch_dim must be < input rank: ", batch_dim, " vs. ", input.rank());
  }
  if (seq_dim < 0 || seq_dim >= input.rank()) {
    return InvalidArgument("seq_dim must be < input rank: ", seq_dim, " vs. ", input.rank());
  }
  Dims dims(input.dims().begin(), input.dims().end());
  ASSIGN_OR_RETURN(dims[batch_dim], MergeDims(dims[batch_dim], lengths.dim(0)));
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

absl::Status ReverseSequenceGradient(GradientContext& c) {
  ASSIGN_OR_RETURN(const int64_t batch_dim, c.Attr<int64_t>("batch_dim"));
  ASSIGN_OR_RETURN(const int64_t seq_dim, c.Attr<int64_t>("seq_dim"));
  c.set_dx(0, Output(c.scope().Add("ReverseSequence", {c.dy(), c.input(1)},
                                   {{"batch_dim", batch_dim}, {"seq_dim", seq_dim}})));
  return absl::OkStatus();
}

const OpRegistration kReverseOps[] = {
    Op("Reverse")
        .Input("tensor: T")
        .Input("dims: bool")
        .Output("output: T")
        .Attr("T: {uint8, int8, uint16, int16, uint32, int32, uint64, int64, bool, bfloat16, half, float, double, "
              "complex64, complex128, string}")
        .Shape(ReverseShape)
        .Compute(ComputeReverse)
        .Gradient(ReverseGradient),
    Op("ReverseV2")
        .Input("tensor: T")
        .Input("axis: Tidx")
        .Output("output: T")
        .Attr("Tidx: {int32, int64} = DT_INT32")
        .Attr("T: {uint8, int8, uint16, int16, int32, uint32, int64, uint64, bool, bfloat16, half, float, double, "
              "complex64, complex128, string}")
        .Shape(ReverseShape)
        .Compute(ComputeReverseV2)
        .Gradient(ReverseGradient),
    Op("ReverseSequence")
        .Input("input: T")
        .Input("seq_lengths: Tlen")
        .Output("output: T")
        .Attr("seq_dim: int")
        .Attr("batch_dim: int = 0")
        .Attr("T: type")
        .Attr("Tlen: {int32, int64} = DT_INT64")
        .Shape(ReverseSequenceShape)
        .Kernel<ReverseSequenceKernel>()
        .Gradient(ReverseSequenceGradient),
};

}  // namespace

Output Reverse(const Scope& s, Output tensor, const IntsArg& axis) {
  return s.Add("ReverseV2", {tensor, axis.AsTensor(s, "axis")});
}
Output ReverseSequence(const Scope& s, Output input, Output seq_lengths, const ReverseSequenceOptions& options) {
  return s.Add("ReverseSequence", {input, seq_lengths},
               {{"seq_dim", options.seq_dim}, {"batch_dim", options.batch_dim}});
}

}  // namespace thalweg
