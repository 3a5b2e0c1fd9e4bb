// SPDX-License-Identifier: Apache-2.0
// SaveV2 writes tensors to a checkpoint, RestoreV2 reads them or slices of them, and MergeV2Checkpoints merges the
// checkpoints that several tasks have written. See checkpoint/bundle.h for the files. ThalwegSnapshot and the ops
// after it take a consistent cut of the variables for SaveV2.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "thalweg/base/faults/fail_point.h"
#include "thalweg/checkpoint/bundle.h"
#include "thalweg/checkpoint/bundle_reader.h"
#include "thalweg/checkpoint/bundle_writer.h"
#include "thalweg/checkpoint/v1_checkpoint.h"
#include "thalweg/graph/file_role.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/io_ops.h"

namespace thalweg {
namespace {

constexpr int kFixedInputs = 3;  // prefix, tensor_names, shape_and_slices

absl::Status CheckInputs(const KernelContext& c) {
  const Tensor& prefix = c.input(0);
  const Tensor& names = c.input(1);
  const Tensor& slices = c.input(2);
  if (prefix.num_elements() != 1) {
    return InvalidArgument("Input prefix should have a single element, got ", prefix.num_elements(), " instead.");
  }
  if (!names.shape().is_vector() || !slices.shape().is_vector()) {
    return InvalidArgument("Input tensor_names and shape_and_slices should be an 1-D tensors, got ", names.shape(),
                           " and ", slices.shape(), " instead.");
  }
  if (names.num_elements() != slices.num_elements()) {
    return InvalidArgument("tensor_names and shape_and_slices have different number of elements: ",
                           names.num_elements(), " vs. ", slices.num_elements());
  }
  return absl::OkStatus();
}

absl::Status ComputeSave(KernelContext& c) {
  RETURN_IF_ERROR(CheckInputs(c));
  const absl::Span<const std::string> names = c.input(1).flat<std::string>();
  const absl::Span<const std::string> slices = c.input(2).flat<std::string>();
  const int count = c.num_inputs() - kFixedInputs;
  if (static_cast<int>(names.size()) != count) {
    return InvalidArgument("Got ", names.size(), " tensor names but ", count, " tensors.");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer,
                   BundleWriter::Create(PosixFileSystem(), c.input(0).scalar<std::string>()));
  for (int i = 0; i < count; ++i) {
    const Tensor& value = c.input(i + kFixedInputs);
    if (slices[i].empty()) {
      RETURN_IF_ERROR(writer->Add(names[i], value));
      continue;
    }
    ASSIGN_OR_RETURN(const ShapeAndSlice part, ParseShapeAndSlice(slices[i]));
    if (part.slice_shape != value.shape()) {
      return InvalidArgument("Slice in shape_and_slice specification does not match the shape of the tensor to  save: ",
                             slices[i], ", tensor: ", value.shape());
    }
    RETURN_IF_ERROR(writer->AddSlice(names[i], part.shape, part.slice, value));
  }
  return writer->Finish();
}

// The specification of one output of RestoreV2.
struct Wanted {
  std::string name;
  std::string shape_and_slice;  // empty: all of it
  BundleReader::Info info;      // as it is stored
  int output;
};

// The slice, checked against the stored tensor; nothing for the whole tensor.
absl::StatusOr<std::optional<TensorSlice>> WantedSlice(const Wanted& wanted) {
  if (wanted.shape_and_slice.empty()) return std::optional<TensorSlice>();
  ASSIGN_OR_RETURN(ShapeAndSlice part, ParseShapeAndSlice(wanted.shape_and_slice));
  if (part.shape != wanted.info.shape) {
    return InvalidArgument("tensor_name = ", wanted.name, "; shape in shape_and_slice spec ", part.shape,
                           " does not match the shape stored in checkpoint: ", wanted.info.shape);
  }
  return std::optional<TensorSlice>(std::move(part.slice));
}

absl::Status RestoreBundle(KernelContext& c, const std::string& prefix, std::vector<Wanted> wanted) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(PosixFileSystem(), prefix));
  std::string mismatches;
  int64_t elements = 0;
  for (Wanted& w : wanted) {
    ASSIGN_OR_RETURN(w.info, reader->Find(w.name));
    elements += w.info.shape.num_elements();
    if (w.info.dtype == c.output_type(w.output)) continue;
    absl::StrAppend(&mismatches, mismatches.empty() ? "" : "\n", "tensor_name = ", w.name, "; expected dtype ",
                    ToString(c.output_type(w.output)), " does not equal original dtype ", ToString(w.info.dtype));
  }
  if (!mismatches.empty()) return InvalidArgument(mismatches);
  std::sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
    return std::tie(a.info.shard, a.info.offset) < std::tie(b.info.shard, b.info.offset);
  });
  // About a nanosecond an element: reading and the checksum.
  std::vector<absl::StatusOr<Tensor>> values(wanted.size());
  const int64_t count = static_cast<int64_t>(wanted.size());
  c.ParallelFor(count, static_cast<double>(elements) / static_cast<double>(count), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const absl::StatusOr<std::optional<TensorSlice>> slice = WantedSlice(wanted[i]);
      if (!slice.ok()) {
        values[i] = slice.status();
      } else {
        values[i] = *slice ? reader->ReadSlice(wanted[i].name, **slice) : reader->Read(wanted[i].name);
      }
    }
  });
  for (int64_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(values[i].status());
    c.set_output(wanted[i].output, *std::move(values[i]));
  }
  return absl::OkStatus();
}

// From the older format, in which programs still have files.
absl::Status RestoreV1Checkpoint(KernelContext& c, const std::string& pattern, std::vector<Wanted> wanted) {
  ASSIGN_OR_RETURN(const std::unique_ptr<V1CheckpointReader> reader,
                   V1CheckpointReader::Open(PosixFileSystem(), pattern));
  for (Wanted& w : wanted) {
    ASSIGN_OR_RETURN(w.info, reader->Find(w.name));
    if (w.info.dtype != c.output_type(w.output)) {
      return InvalidArgument("Expected to restore a tensor of type ", c.output_type(w.output),
                             ", got a tensor of type ", w.info.dtype, " instead: tensor_name = ", w.name);
    }
    ASSIGN_OR_RETURN(const std::optional<TensorSlice> slice, WantedSlice(w));
    ASSIGN_OR_RETURN(Tensor value, reader->Read(w.name, slice ? *slice : TensorSlice::Full(w.info.shape.rank())));
    c.set_output(w.output, std::move(value));
  }
  return absl::OkStatus();
}

absl::Status ComputeRestore(KernelContext& c) {
  const Tensor& names = c.input(1);
  if (names.num_elements() != c.num_outputs()) {
    return InvalidArgument("Got ", names.num_elements(), " tensor names, but ", c.num_outputs(), " expected dtypes.");
  }
  RETURN_IF_ERROR(CheckInputs(c));
  RETURN_IF_ERROR(FailPoint("restore"));
  const std::string& prefix = c.input(0).scalar<std::string>();
  std::vector<Wanted> wanted;
  for (int i = 0; i < c.num_outputs(); ++i) {
    wanted.push_back(
        {.name = names.data<std::string>()[i], .shape_and_slice = c.input(2).data<std::string>()[i], .output = i});
  }
  if (PosixFileSystem().FileExists(IndexPath(prefix)).ok()) return RestoreBundle(c, prefix, std::move(wanted));
  return RestoreV1Checkpoint(c, prefix, std::move(wanted));
}

absl::Status RestoreShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(0));
  RETURN_IF_ERROR(c.WithRank(1, 1).status());
  RETURN_IF_ERROR(c.WithRank(2, 1).status());
  const std::optional<Tensor> slices = c.Constant(2);
  if (!slices || slices->num_elements() != c.num_outputs()) return absl::OkStatus();
  for (int i = 0; i < c.num_outputs(); ++i) {
    const std::string& text = slices->data<std::string>()[i];
    if (text.empty() || text == "-") continue;
    ASSIGN_OR_RETURN(const ShapeAndSlice part, ParseShapeAndSlice(text));
    c.set_output(i, part.slice_shape);
  }
  return absl::OkStatus();
}

class MergeCheckpointsKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(delete_old_dirs_, init.Attr<bool>("delete_old_dirs"));
    ASSIGN_OR_RETURN(options_.allow_missing_files, init.Attr<bool>("allow_missing_files"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& prefixes = c.input(0);
    const Tensor& destination = c.input(1);
    if (!prefixes.shape().is_vector()) {
      return InvalidArgument("Input checkpoint_prefixes should be an 1-D tensor, got ", prefixes.shape(), " instead.");
    }
    if (!destination.shape().is_scalar()) {
      return InvalidArgument("Input destination_prefix should be a scalar tensor, got ", destination.shape(),
                             " instead.");
    }
    const absl::Span<const std::string> parts = prefixes.flat<std::string>();
    const std::string& merged = destination.scalar<std::string>();
    FileSystem& files = PosixFileSystem();
    RETURN_IF_ERROR(MergeBundles(files, std::vector<std::string>(parts.begin(), parts.end()), merged, options_));
    if (!delete_old_dirs_) return absl::OkStatus();
    for (const std::string& part : parts) DeleteFolder(files, part, internal::Folder(merged));
    return absl::OkStatus();
  }

 private:
  // Deletes the folder if it is empty. Errors are ignored: another task may have deleted it, and a left folder does
  // no harm.
  static void DeleteFolder(FileSystem& files, const std::string& part, const std::string& merged_folder) {
    const std::string folder = internal::Folder(part);
    if (folder == merged_folder) return;
    const absl::StatusOr<std::vector<std::string>> left = files.ListDirectory(folder);
    if (left.ok() && left->empty()) files.DeleteRecursively(folder).IgnoreError();
  }

  bool delete_old_dirs_ = true;
  MergeOptions options_;
};

// A snapshot of variables, for a checkpoint that is written while the training continues. ThalwegSnapshot keeps
// references to the values in the session; updates write to new memory from then on. ThalwegSnapshotValues returns
// the values once, in a later step, and ThalwegAllFinite tells whether all of them are finite.
constexpr char kSnapshots[] = "ThalwegSnapshot";

class KeptValues final : public Resource {
 public:
  explicit KeptValues(std::vector<Tensor> values) : values(std::move(values)) {}
  std::string Describe() const override { return "values that a checkpoint is written of"; }
  const std::vector<Tensor> values;
};

absl::StatusOr<ResourceManager*> SnapshotStore(KernelContext& c) {
  if (c.step().session_resources != nullptr) return c.step().session_resources;
  return FailedPrecondition(c.node().op(), " needs a session");
}

absl::Status KeepSnapshot(KernelContext& c) {
  ASSIGN_OR_RETURN(ResourceManager * store, SnapshotStore(c));
  ASSIGN_OR_RETURN(const std::string name, GetAttr<std::string>(c.node().def(), "snapshot"));
  std::vector<Tensor> values;
  values.reserve(c.num_inputs());
  for (int i = 0; i < c.num_inputs(); ++i) values.push_back(c.input(i));
  store->Delete<KeptValues>(kSnapshots, name).IgnoreError();  // one that nobody has written
  return store->Create<KeptValues>(kSnapshots, name, std::make_shared<KeptValues>(std::move(values)));
}

absl::Status GiveSnapshot(KernelContext& c) {
  ASSIGN_OR_RETURN(ResourceManager * store, SnapshotStore(c));
  ASSIGN_OR_RETURN(const std::string name, GetAttr<std::string>(c.node().def(), "snapshot"));
  const auto kept = store->Find<KeptValues>(kSnapshots, name);
  if (!kept.ok()) return FailedPrecondition("there is no snapshot '", name, "' in the session");
  const std::vector<Tensor>& values = (*kept)->values;
  if (static_cast<int>(values.size()) != c.num_outputs()) {
    return InvalidArgument("snapshot '", name, "' has ", values.size(), " values, expected ", c.num_outputs());
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (values[i].dtype() != c.output_type(i)) {
      return InvalidArgument("value ", i, " of snapshot '", name, "' is of ", values[i].dtype(), ", expected ",
                             c.output_type(i));
    }
    c.set_output(i, values[i]);
  }
  return store->Delete<KeptValues>(kSnapshots, name);
}

bool IsFinite(const Tensor& t) {
  bool finite = true;
  const absl::Status floating = Dispatch(FloatTypes(), t.dtype(), [&]<typename T>() {
    for (const T v : t.flat<T>()) finite = finite && std::isfinite(static_cast<float>(v));
    return absl::OkStatus();
  });
  return !floating.ok() || finite;  // every other type has only numbers
}

absl::Status ComputeAllFinite(KernelContext& c) {
  bool finite = true;
  for (int i = 0; i < c.num_inputs() && finite; ++i) finite = IsFinite(c.input(i));
  c.set_output(0, Tensor::Scalar<bool>(finite));
  return absl::OkStatus();
}

const OpRegistration kSaveRestoreOps[] = {
    Op("SaveV2")
        .Input("prefix: string")
        .Input("tensor_names: string")
        .Input("shape_and_slices: string")
        .Input("tensors: dtypes")
        .Attr("dtypes: list(type) >= 1")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Compute(ComputeSave)
        .NotDifferentiable(),
    Op("RestoreV2")
        .Input("prefix: string")
        .Input("tensor_names: string")
        .Input("shape_and_slices: string")
        .Output("tensors: dtypes")
        .Attr("dtypes: list(type) >= 1")
        .Stateful()
        .Shape(RestoreShape)
        .Compute(ComputeRestore)
        .NotDifferentiable(),
    Op("MergeV2Checkpoints")
        .Input("checkpoint_prefixes: string")
        .Input("destination_prefix: string")
        .Attr("delete_old_dirs: bool = true")
        .Attr("allow_missing_files: bool = false")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Kernel<MergeCheckpointsKernel>()
        .NotDifferentiable(),
    Op("ThalwegSnapshot")
        .Input("values: T")
        .Attr("T: list(type) >= 1")
        .Attr("snapshot: string")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Compute(KeepSnapshot)
        .NotDifferentiable(),
    Op("ThalwegSnapshotValues")
        .Output("values: T")
        .Attr("T: list(type) >= 1")
        .Attr("snapshot: string")
        .Stateful()
        .Shape(shapes::Unknown)
        .Compute(GiveSnapshot)
        .NotDifferentiable(),
    Op("ThalwegAllFinite")
        .Input("values: T")
        .Output("finite: bool")
        .Attr("T: list(type) >= 1")
        .Shape(shapes::Scalar)
        .Compute(ComputeAllFinite)
        .NotDifferentiable(),
};

const FileRoleRegistration kSaveRestoreRoles[] = {
    {"SaveV2", FileRole::kSave},
    {"RestoreV2", FileRole::kRestore},
    {"MergeV2Checkpoints", FileRole::kWrite},
    {"ThalwegSnapshotValues", FileRole::kSnapshot},
};

}  // namespace

Output Save(const Scope& s, Output prefix, Output tensor_names, Output shape_and_slices,
            const std::vector<Output>& tensors) {
  return s.Add("SaveV2", {prefix, tensor_names, shape_and_slices, tensors});
}

std::vector<Output> Restore(const Scope& s, Output prefix, Output tensor_names, Output shape_and_slices,
                            const std::vector<DType>& dtypes) {
  Node* const node = s.Add("RestoreV2", {prefix, tensor_names, shape_and_slices}, {{"dtypes", dtypes}});
  std::vector<Output> outputs;
  for (size_t i = 0; i < dtypes.size(); ++i) outputs.push_back(Output(node, static_cast<int>(i)));
  return outputs;
}

Output MergeCheckpoints(const Scope& s, Output checkpoint_prefixes, Output destination_prefix,
                        const MergeCheckpointsOptions& options) {
  return s.Add("MergeV2Checkpoints", {checkpoint_prefixes, destination_prefix},
               {{"delete_old_dirs", options.delete_old_dirs}, {"allow_missing_files", options.allow_missing_files}});
}

Output SnapshotVariables(const Scope& s, const std::vector<Output>& values, const std::string& name) {
  return s.Add("ThalwegSnapshot", {values}, {{"snapshot", name}});
}

std::vector<Output> SnapshotValues(const Scope& s, const std::vector<DType>& types, const std::string& name) {
  Node* const node = s.Add("ThalwegSnapshotValues", {}, {{"T", types}, {"snapshot", name}});
  std::vector<Output> values;
  for (size_t i = 0; i < types.size(); ++i) values.push_back(Output(node, static_cast<int>(i)));
  return values;
}

Output AllFinite(const Scope& s, const std::vector<Output>& values) { return s.Add("ThalwegAllFinite", {values}); }

}  // namespace thalweg
