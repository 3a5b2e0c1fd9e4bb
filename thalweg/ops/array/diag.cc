// SPDX-License-Identifier: Apache-2.0
// Diag makes a tensor of twice the rank with the input on its diagonal,
// output[i..., i...] = diagonal[i...], and zeros elsewhere. DiagPart takes it
// off again.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

absl::Status ComputeDiag(KernelContext& c) {
  const Tensor& diagonal = c.input(0);
  if (diagonal.rank() < 1) return InvalidArgument("Input must be at least rank 1, got 0");
  if (2 * diagonal.rank() > Shape::kMaxRank)
    return InvalidArgument("a tensor of rank ", diagonal.rank(), " has no Diag");
  Dims dims(diagonal.shape().dims().begin(), diagonal.shape().dims().end());
  dims.insert(dims.end(), diagonal.shape().dims().begin(), diagonal.shape().dims().end());
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  ClearElements(out);
  const int64_t n = diagonal.num_elements();
  return CopyStrided(c, {n}, diagonal, {.strides = {1}}, out, {.strides = {n + 1}});
}

absl::Status DiagShape(ShapeContext& c) {
  const PartialShape& diagonal = c.input(0);
  if (!diagonal.has_rank()) return absl::OkStatus();
  if (diagonal.rank() < 1) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  Dims dims(diagonal.dims().begin(), diagonal.dims().end());
  dims.insert(dims.end(), diagonal.dims().begin(), diagonal.dims().end());
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

absl::Status ComputeDiagPart(KernelContext& c) {
  const Tensor& input = c.input(0);
  const int half = input.rank() / 2;
  if (input.rank() % 2 != 0) {
    return InvalidArgument("The rank of the tensor should be even and positive, got shape ", input.shape());
  }
  for (int d = 0; d < half; ++d) {
    if (input.dim(d) == input.dim(d + half)) continue;
    return InvalidArgument("Invalid shape ", input.shape(), ": dimensions ", d, " and ", d + half, " do not match.");
  }
  const Shape shape(input.shape().dims().subspan(0, half));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  const int64_t n = shape.num_elements();
  return CopyStrided(c, {n}, input, {.strides = {n + 1}}, out, {.strides = {1}});
}

absl::Status DiagPartShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return absl::OkStatus();
  if (input.rank() == 0 || input.rank() % 2 != 0) {
    return InvalidArgument("Input must have even and non-zero rank, input rank is ", input.rank());
  }
  const int half = input.rank() / 2;
  const auto dims = input.dims();
  ASSIGN_OR_RETURN(PartialShape merged, PartialShape::Merge(PartialShape(Dims(dims.begin(), dims.begin() + half)),
                                                            PartialShape(Dims(dims.begin() + half, dims.end()))));
  c.set_output(0, std::move(merged));
  return absl::OkStatus();
}

absl::Status DiagGradient(GradientContext& c) {
  c.set_dx(0, DiagPart(c.scope(), c.dy()));
  return absl::OkStatus();
}

absl::Status DiagPartGradient(GradientContext& c) {
  c.set_dx(0, Diag(c.scope(), c.dy()));
  return absl::OkStatus();
}

constexpr const char* kDiagTypes = "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}";

const OpRegistration kDiagOps[] = {
    Op("Diag")
        .Input("diagonal: T")
        .Output("output: T")
        .Attr(kDiagTypes)
        .Shape(DiagShape)
        .Compute(ComputeDiag)
        .Gradient(DiagGradient),
    Op("DiagPart")
        .Input("input: T")
        .Output("diagonal: T")
        .Attr(kDiagTypes)
        .Shape(DiagPartShape)
        .Compute(ComputeDiagPart)
        .Gradient(DiagPartGradient),
};

}  // namespace

Output Diag(const Scope& s, Output diagonal) { return s.Add("Diag", {diagonal}); }
Output DiagPart(const Scope& s, Output input) { return s.Add("DiagPart", {input}); }

}  // namespace thalweg
