// SPDX-License-Identifier: Apache-2.0
// Checkpoints of the older format, for programs that still have them: Save and
// SaveSlices write tensors, or parts of them, into one file; Restore and
// RestoreSlice read one of them from the files that match a pattern.
#include "thalweg/checkpoint/v1_checkpoint.h"
#include "thalweg/graph/file_role.h"
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

class SaveKernel : public Kernel {
 public:
  explicit SaveKernel(bool slices) : slices_(slices) {}

  absl::Status Compute(KernelContext& c) override {
    const int fixed = slices_ ? 3 : 2;  // filename, tensor_names and maybe shapes_and_slices
    const Tensor& filename = c.input(0);
    const Tensor& names = c.input(1);
    if (filename.num_elements() != 1) {
      return InvalidArgument("Input 0 (filename) must be a string scalar; got a tensor of ", filename.num_elements(),
                             "elements");
    }
    if (slices_ && c.input(2).num_elements() != names.num_elements()) {
      return InvalidArgument("Expected ", names.num_elements(), " elements for the tensor shapes and slices but got ",
                             c.input(2).num_elements());
    }
    if (c.num_inputs() != names.num_elements() + fixed) {
      return InvalidArgument("Expected totally ", names.num_elements() + fixed,
                             " inputs as input #1 (which is a string tensor of saved names) contains ",
                             names.num_elements(), " names, but received ", c.num_inputs(), " inputs");
    }
    V1CheckpointWriter writer(PosixFileSystem(), filename.scalar<std::string>());
    for (int i = 0; i < names.num_elements(); ++i) {
      const Tensor& value = c.input(i + fixed);
      ShapeAndSlice part{value.shape(), TensorSlice::Full(value.rank()), value.shape()};
      if (const std::string text = slices_ ? c.input(2).data<std::string>()[i] : ""; !text.empty()) {
        ASSIGN_OR_RETURN(part, ParseShapeAndSlice(text));
        if (part.slice_shape != value.shape()) {
          return InvalidArgument(
              "Slice in shape_and_slice specification does not match the shape of the tensor to  save: ", text,
              ", tensor: ", value.shape());
        }
      }
      RETURN_IF_ERROR(writer.Add(names.data<std::string>()[i], part.shape, part.slice, value));
    }
    return writer.Finish();
  }

 private:
  const bool slices_;
};

class RestoreKernel : public Kernel {
 public:
  explicit RestoreKernel(bool slice) : slice_(slice) {}

  absl::Status Compute(KernelContext& c) override {
    constexpr const char* kInputs[] = {"file_pattern", "tensor_name", "shape_and_slice"};
    for (int i = 0; i < c.num_inputs(); ++i) {
      if (c.input(i).num_elements() != 1) {
        return InvalidArgument("Input ", i, " (", kInputs[i], ") must be a string scalar; got a tensor of ",
                               c.input(i).num_elements(), " elements");
      }
    }
    const std::string& name = c.input(1).scalar<std::string>();
    ASSIGN_OR_RETURN(const std::unique_ptr<V1CheckpointReader> reader,
                     V1CheckpointReader::Open(PosixFileSystem(), c.input(0).scalar<std::string>()));
    ASSIGN_OR_RETURN(const BundleReader::Info info, reader->Find(name));
    if (info.dtype != c.output_type(0)) {
      return InvalidArgument("Expected to restore a tensor of type ", c.output_type(0), ", got a tensor of type ",
                             info.dtype, " instead: tensor_name = ", name);
    }
    TensorSlice slice = TensorSlice::Full(info.shape.rank());
    if (const std::string text = slice_ ? c.input(2).scalar<std::string>() : ""; !text.empty()) {
      ASSIGN_OR_RETURN(const ShapeAndSlice part, ParseShapeAndSlice(text));
      if (part.shape != info.shape) {
        return InvalidArgument("Shape in shape_and_slice spec does not match the shape in the save file: ", part.shape,
                               ", save file shape: ", info.shape);
      }
      slice = part.slice;
    }
    ASSIGN_OR_RETURN(Tensor value, reader->Read(name, slice));
    c.set_output(0, std::move(value));
    return absl::OkStatus();
  }

 private:
  const bool slice_;
};

absl::Status RestoreSliceShape(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) RETURN_IF_ERROR(c.RequireScalar(i));
  const std::optional<Tensor> slice = c.Constant(2);
  if (!slice || slice->scalar<std::string>().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ShapeAndSlice part, ParseShapeAndSlice(slice->scalar<std::string>()));
  c.set_output(0, part.slice_shape);
  return absl::OkStatus();
}

const OpRegistration kSaveRestoreV1Ops[] = {
    Op("Save")
        .Input("filename: string")
        .Input("tensor_names: string")
        .Input("data: T")
        .Attr("T: list(type) >= 1")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Kernel<SaveKernel>(false)
        .NotDifferentiable(),
    Op("SaveSlices")
        .Input("filename: string")
        .Input("tensor_names: string")
        .Input("shapes_and_slices: string")
        .Input("data: T")
        .Attr("T: list(type) >= 1")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Kernel<SaveKernel>(true)
        .NotDifferentiable(),
    Op("Restore")
        .Input("file_pattern: string")
        .Input("tensor_name: string")
        .Output("tensor: dt")
        .Attr("dt: type")
        .Attr("preferred_shard: int = -1")
        .Stateful()
        .Shape(shapes::Unknown)
        .Kernel<RestoreKernel>(false)
        .NotDifferentiable(),
    Op("RestoreSlice")
        .Input("file_pattern: string")
        .Input("tensor_name: string")
        .Input("shape_and_slice: string")
        .Output("tensor: dt")
        .Attr("dt: type")
        .Attr("preferred_shard: int = -1")
        .Stateful()
        .Shape(RestoreSliceShape)
        .Kernel<RestoreKernel>(true)
        .NotDifferentiable(),
};

const FileRoleRegistration kSaveRestoreV1Roles[] = {
    {"Save", FileRole::kWrite},
    {"SaveSlices", FileRole::kSave},
    {"Restore", FileRole::kRestore},
    {"RestoreSlice", FileRole::kRestore},
};

}  // namespace
}  // namespace thalweg
