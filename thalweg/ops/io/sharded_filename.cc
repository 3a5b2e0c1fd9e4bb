// SPDX-License-Identifier: Apache-2.0
// ShardedFilename is the name of one of several files, "name-00001-of-00003";
// ShardedFilespec is a pattern for all of them, "name-?????-of-00003".
#include "absl/strings/str_format.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/io_ops.h"

namespace thalweg {
namespace {

absl::Status CheckScalars(const KernelContext& c, std::initializer_list<const char*> names) {
  int i = 0;
  for (const char* name : names) {
    const Shape& shape = c.input(i++).shape();
    if (!shape.is_scalar()) return InvalidArgument(name, " must be a scalar, got shape ", shape);
  }
  return absl::OkStatus();
}

absl::Status ComputeFilename(KernelContext& c) {
  RETURN_IF_ERROR(CheckScalars(c, {"basename", "shard", "num_shards"}));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
  *out->mutable_data<std::string>() = absl::StrFormat("%s-%05d-of-%05d", c.input(0).scalar<std::string>(),
                                                      c.input(1).scalar<int32_t>(), c.input(2).scalar<int32_t>());
  return absl::OkStatus();
}

absl::Status ComputeFilespec(KernelContext& c) {
  RETURN_IF_ERROR(CheckScalars(c, {"basename", "num_shards"}));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
  *out->mutable_data<std::string>() = absl::StrFormat(
      "%s-?????"
      "-of-%05d",
      c.input(0).scalar<std::string>(), c.input(1).scalar<int32_t>());
  return absl::OkStatus();
}

absl::Status ScalarsShape(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) RETURN_IF_ERROR(c.RequireScalar(i));
  return shapes::Scalar(c);
}

const OpRegistration kShardedFilenameOps[] = {
    Op("ShardedFilename")
        .Input("basename: string")
        .Input("shard: int32")
        .Input("num_shards: int32")
        .Output("filename: string")
        .Shape(ScalarsShape)
        .Compute(ComputeFilename)
        .NotDifferentiable(),
    Op("ShardedFilespec")
        .Input("basename: string")
        .Input("num_shards: int32")
        .Output("filename: string")
        .Shape(ScalarsShape)
        .Compute(ComputeFilespec)
        .NotDifferentiable(),
};

}  // namespace

Output ShardedFilename(const Scope& s, Output basename, const IntArg& shard, const IntArg& num_shards) {
  return s.Add("ShardedFilename", {basename, shard.AsTensor(s, "shard"), num_shards.AsTensor(s, "num_shards")});
}
Output ShardedFilespec(const Scope& s, Output basename, const IntArg& num_shards) {
  return s.Add("ShardedFilespec", {basename, num_shards.AsTensor(s, "num_shards")});
}

}  // namespace thalweg
