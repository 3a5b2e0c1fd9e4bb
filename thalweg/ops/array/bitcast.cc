// SPDX-License-Identifier: Apache-2.0
// Bitcast: the same bytes as another type, in the same memory. Where an element
// of one type is as long as several of the other, those are the last dimension.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

absl::Status ComputeBitcast(KernelContext& c) {
  const Tensor& input = c.input(0);
  const DType type = c.output_type(0);
  const int64_t from = static_cast<int64_t>(ElementSize(input.dtype())), to = static_cast<int64_t>(ElementSize(type));
  if (from == 0 || to == 0) return Unimplemented("no kernel for types ", input.dtype(), " and ", type);
  Shape shape = input.shape();
  if (from > to) {
    if (shape.rank() == Shape::kMaxRank) return InvalidArgument("a tensor of rank ", shape.rank(), " cannot grow");
    Dims dims(shape.dims().begin(), shape.dims().end());
    dims.push_back(from / to);
    ASSIGN_OR_RETURN(shape, Shape::Make(dims));
  } else if (from < to) {
    if (shape.rank() == 0 || shape.dim(shape.rank() - 1) != to / from) {
      return InvalidArgument("Cannot bitcast from ", input.dtype(), " to ", type, ": shape ", input.shape());
    }
    shape.RemoveDim(shape.rank() - 1);
  }
  c.set_output(0, Tensor(type, std::move(shape), input.buffer(), input.raw()));
  return absl::OkStatus();
}

absl::Status BitcastShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return absl::OkStatus();
  const int64_t from = static_cast<int64_t>(ElementSize(RemoveRef(c.node().input_type(0))));
  const int64_t to = static_cast<int64_t>(ElementSize(c.node().output_type(0)));
  Dims dims(input.dims().begin(), input.dims().end());
  if (from > to && to > 0) dims.push_back(from / to);
  if (from < to && from > 0) {
    if (dims.empty() || (dims.back() >= 0 && dims.back() != to / from)) {
      return InvalidArgument("Cannot bitcast due to shape. The last dimension of ", input, " should be ", to / from);
    }
    dims.pop_back();
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

constexpr const char* kBitcastTypes =
    "{bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, complex64, complex128, "
    "qint8, quint8, qint16, quint16, qint32}";

const OpRegistration kBitcast = Op("Bitcast")
                                    .Input("input: T")
                                    .Output("output: type")
                                    .Attr(absl::StrCat("T: ", kBitcastTypes))
                                    .Attr(absl::StrCat("type: ", kBitcastTypes))
                                    .Shape(BitcastShape)
                                    .Compute(ComputeBitcast)
                                    .NotDifferentiable();

}  // namespace

Output Bitcast(const Scope& s, Output input, DType type) { return s.Add("Bitcast", {input}, {{"type", type}}); }

}  // namespace thalweg
