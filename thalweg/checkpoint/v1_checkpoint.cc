// SPDX-License-Identifier: Apache-2.0
#include "thalweg/checkpoint/v1_checkpoint.h"

#include <algorithm>

#include "thalweg/base/glob.h"
#include "thalweg/base/status.h"
#include "thalweg/checkpoint/bundle.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

constexpr int kVersion = 1;
// A message cannot be larger. Numbers take up to ten bytes.
constexpr int64_t kMaxMessageBytes = int64_t{1} << 31;
constexpr int64_t kMaxNumberBytes = 10;  // the longest varint

}  // namespace

V1CheckpointWriter::V1CheckpointWriter(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {
  meta_.mutable_meta()->mutable_versions()->set_producer(kVersion);
}

absl::Status V1CheckpointWriter::Add(const std::string& name, const Shape& shape, const TensorSlice& slice,
                                     const Tensor& value) {
  const DType dtype = value.dtype();
  if (dtype == kResource || dtype == kVariant) {
    return Unimplemented("Saving data type ", dtype, " not yet supported");
  }
  const int64_t bytes = value.num_elements() * kMaxNumberBytes + (dtype == kString ? value.TotalBytes() : 0);
  if (bytes > kMaxMessageBytes - 1024) {
    return InvalidArgument("Tensor slice is too large to serialize (conservative estimate: ", bytes, " bytes)");
  }
  tensorflow::TensorShapeProto shape_proto;
  shape.ToProto(&shape_proto);
  const auto type = static_cast<tensorflow::DataType>(dtype);
  const auto [place, is_new] = places_.try_emplace(name, meta_.meta().tensor_size());
  if (is_new) {
    tensorflow::SavedSliceMeta* const tensor = meta_.mutable_meta()->add_tensor();
    tensor->set_name(name);
    tensor->set_type(type);
    *tensor->mutable_shape() = std::move(shape_proto);
  } else if (const tensorflow::SavedSliceMeta& known = meta_.meta().tensor(place->second);
             known.type() != type || known.shape().SerializeAsString() != shape_proto.SerializeAsString()) {
    return Internal("Mismatching shapes or types: existing tensor = ", known.shape().ShortDebugString(),
                    ", trying to add name ", name, ", shape = ", shape);
  }
  slice.ToProto(meta_.mutable_meta()->mutable_tensor(place->second)->add_slice());
  // Type and shape are in the meta record only; the record of a slice has the name, the extents and the values.
  tensorflow::SavedTensorSlices record;
  record.mutable_data()->set_name(name);
  slice.ToProto(record.mutable_data()->mutable_slice());
  tensorflow::TensorProto* const data = record.mutable_data()->mutable_data();
  TensorToProtoFields(value, data);
  data->clear_dtype();
  data->clear_tensor_shape();
  if (!data_.try_emplace(slice.Key(name), record.SerializeAsString()).second) {
    return Internal("Overlapping slices: tensor ", name, ", slice = ", slice);
  }
  return absl::OkStatus();
}

absl::Status V1CheckpointWriter::Finish() {
  internal::TemporaryFiles temporary(files_);
  const std::string path = internal::TemporaryPath(path_);
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files_.NewWritableFile(path));
  temporary.Add(path);
  // The empty key sorts first, so the meta record is the first entry. data_ is sorted by key.
  TableWriter table(*file);
  table.Add("", meta_.SerializeAsString());
  for (const auto& [key, value] : data_) table.Add(key, value);
  RETURN_IF_ERROR(table.Finish());
  RETURN_IF_ERROR(file->Sync());
  RETURN_IF_ERROR(file->Close());
  RETURN_IF_ERROR(files_.Rename(path, path_));
  temporary.Keep();
  return files_.SyncDirectory(internal::Folder(path_));
}

absl::StatusOr<std::unique_ptr<V1CheckpointReader>> V1CheckpointReader::Open(FileSystem& files,
                                                                             const std::string& pattern) {
  absl::StatusOr<std::vector<std::string>> paths = MatchingPaths(files, pattern);
  if (!paths.ok()) {
    return InvalidArgument("Unsuccessful TensorSliceReader constructor: Failed to get matching files on ", pattern,
                           ": ", paths.status().ToString());
  }
  if (paths->empty()) {
    return NotFound("Unsuccessful TensorSliceReader constructor: Failed to find any matching files for ", pattern);
  }
  std::unique_ptr<V1CheckpointReader> reader(new V1CheckpointReader(pattern));
  for (const std::string& path : *paths) {
    absl::StatusOr<std::unique_ptr<Table>> table = Table::Open(files, path);
    if (!table.ok()) {
      return DataLoss("Unable to open table file ", path, ": ", table.status().ToString(),
                      ": perhaps your file is in a different file format and you need to use a different restore "
                      "operator?");
    }
    RETURN_IF_ERROR(reader->Add(path, *std::move(table)));
  }
  return reader;
}

absl::Status V1CheckpointReader::Add(const std::string& path, std::unique_ptr<Table> table) {
  const absl::StatusOr<std::string> value = table->Find("");
  tensorflow::SavedTensorSlices record;
  if (!value.ok() || !record.ParseFromString(*value)) {
    return Internal("Failed to find the saved tensor slices at the beginning of the checkpoint file: ", path);
  }
  if (record.meta().versions().min_consumer() > kVersion) {
    return InvalidArgument("Checkpoint min consumer version ", record.meta().versions().min_consumer(),
                           " above current version ", kVersion, " for ", path);
  }
  for (const tensorflow::SavedSliceMeta& tensor : record.meta().tensor()) {
    ASSIGN_OR_RETURN(const Shape shape, Shape::FromProto(tensor.shape()));
    const DType dtype = static_cast<DType>(tensor.type());
    if (!tensorflow::DataType_IsValid(tensor.type()) || !IsKnown(dtype) || IsRef(dtype) || dtype == kResource ||
        dtype == kVariant) {
      return DataLoss("Invalid type of tensor ", tensor.name(), " in ", path, ": ", static_cast<int>(tensor.type()));
    }
    const auto [place, is_new] = tensors_.try_emplace(tensor.name(), Whole{.info = {.dtype = dtype, .shape = shape}});
    if (place->second.info.dtype != dtype || place->second.info.shape != shape) {
      return Internal("Incompatible tensor shapes or types detected for tensor ", tensor.name(),
                      ": existing = ", place->second.info.shape, ", new = ", shape);
    }
    for (const tensorflow::TensorSliceProto& proto : tensor.slice()) {
      ASSIGN_OR_RETURN(TensorSlice slice, TensorSlice::FromProto(proto));
      RETURN_IF_ERROR(slice.SliceShape(shape).status());
      place->second.parts.push_back({std::move(slice), static_cast<int>(tables_.size())});
    }
  }
  tables_.push_back(std::move(table));
  return absl::OkStatus();
}

absl::StatusOr<const V1CheckpointReader::Whole*> V1CheckpointReader::FindWhole(absl::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    return NotFound("Tensor name \"", name, "\" not found in checkpoint files ", pattern_);
  }
  return &found->second;
}

absl::StatusOr<BundleReader::Info> V1CheckpointReader::Find(absl::string_view name) const {
  ASSIGN_OR_RETURN(const Whole* const whole, FindWhole(name));
  return whole->info;
}

absl::StatusOr<Tensor> V1CheckpointReader::ReadPart(absl::string_view name, const Whole& whole,
                                                    const Part& part) const {
  absl::StatusOr<std::string> bytes = tables_[part.table]->Find(part.slice.Key(name));
  tensorflow::SavedTensorSlices record;
  if (!bytes.ok() || !record.ParseFromString(*bytes)) {
    return DataLoss("Failed to seek to the record for tensor ", name, ", slice ", part.slice, " in ", pattern_);
  }
  // Complete the proto with the type and shape that the writer left out.
  ASSIGN_OR_RETURN(const Shape shape, part.slice.SliceShape(whole.info.shape));
  tensorflow::TensorProto* const data = record.mutable_data()->mutable_data();
  data->set_dtype(static_cast<tensorflow::DataType>(whole.info.dtype));
  shape.ToProto(data->mutable_tensor_shape());
  absl::StatusOr<Tensor> value = TensorFromProto(*data);
  if (!value.ok()) {
    return DataLoss("tensor ", name, ", slice ", part.slice, " in ", pattern_, ": ", value.status().message());
  }
  return value;
}

absl::StatusOr<Tensor> V1CheckpointReader::Read(absl::string_view name, const TensorSlice& slice) const {
  ASSIGN_OR_RETURN(const Whole* const whole, FindWhole(name));
  const Shape& whole_shape = whole->info.shape;
  ASSIGN_OR_RETURN(const Shape shape, slice.SliceShape(whole_shape));
  // Usually the slice was saved as it is requested. Otherwise it is assembled from the saved slices.
  std::vector<TensorSlice> parts;
  for (const Part& part : whole->parts) {
    if (part.slice == slice) return ReadPart(name, *whole, part);
    parts.push_back(part.slice);
  }
  if (!Tile(whole_shape, slice, parts)) {
    return InvalidArgument("Does not have sufficient slices for partitioned tensor ", name,
                           " to restore in slice_spec: ", slice);
  }
  ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(whole->info.dtype, shape));
  for (const Part& part : whole->parts) {
    if (CountIntersection(whole_shape, part.slice, slice) == 0) continue;
    ASSIGN_OR_RETURN(const Tensor from, ReadPart(name, *whole, part));
    CopyIntersection(whole_shape, part.slice, from, slice, &value);
  }
  return value;
}

}  // namespace thalweg
