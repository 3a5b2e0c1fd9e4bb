// SPDX-License-Identifier: Apache-2.0
#include "thalweg/checkpoint/bundle_writer.h"

#include <limits>

#include "thalweg/base/crc32c.h"
#include "thalweg/base/status.h"
#include "thalweg/base/varint.h"
#include "thalweg/checkpoint/table.h"
#include "thalweg/tensor/resource_handle.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

constexpr int kWrittenVersion = 1;

// Bytes that are in the processor's cache when they are written, because their checksum has just been computed.
constexpr size_t kPieceBytes = size_t{1} << 20;

template <typename T>
absl::string_view BytesOf(const T& value) {
  return absl::string_view(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BundleWriter>> BundleWriter::Create(FileSystem& files, std::string prefix) {
  std::unique_ptr<BundleWriter> writer(new BundleWriter(files, std::move(prefix)));
  RETURN_IF_ERROR(internal::MakeFolder(files, internal::Folder(writer->prefix_)));
  writer->data_path_ = internal::TemporaryPath(DataPath(writer->prefix_, 0, 1));
  ASSIGN_OR_RETURN(writer->data_, files.NewWritableFile(writer->data_path_));
  writer->temporary_.Add(writer->data_path_);
  return writer;
}

absl::Status BundleWriter::Write(absl::string_view bytes) {
  size_ += static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const absl::string_view piece = bytes.substr(0, kPieceBytes);
    crc_ = ExtendCrc32c(crc_, piece.data(), piece.size());
    RETURN_IF_ERROR(data_->Append(piece));
    bytes.remove_prefix(piece.size());
  }
  return absl::OkStatus();
}

// The lengths (varints), a checksum of them, and the bytes of all strings. Into
// the checksums goes each length as a number of four bytes, eight if it is
// larger.
absl::Status BundleWriter::WriteStrings(const Tensor& value) {
  std::string lengths;
  uint32_t crc = 0;
  for (const std::string& text : value.flat<std::string>()) {
    const uint64_t length = text.size();
    AppendVarint(&lengths, length);
    const size_t width = length <= std::numeric_limits<uint32_t>::max() ? sizeof(uint32_t) : sizeof(uint64_t);
    crc = ExtendCrc32c(crc, &length, width);
  }
  RETURN_IF_ERROR(Write(lengths));
  crc_ = crc;
  RETURN_IF_ERROR(Write(BytesOf(MaskCrc(crc))));
  for (const std::string& text : value.flat<std::string>()) RETURN_IF_ERROR(Write(text));
  return absl::OkStatus();
}

// Each: its length (a varint), the message, the checksum of all so far, in which
// the length counts as eight bytes.
absl::Status BundleWriter::WriteVariants(const Tensor& value) {
  uint32_t crc = 0;
  for (const Variant& variant : value.flat<Variant>()) {
    tensorflow::VariantTensorDataProto proto;
    variant.ToProto(&proto);
    const std::string bytes = proto.SerializeAsString();
    const uint64_t length = bytes.size();
    std::string head;
    AppendVarint(&head, length);
    RETURN_IF_ERROR(Write(head));
    RETURN_IF_ERROR(Write(bytes));
    crc = ExtendCrc32c(ExtendCrc32c(crc, &length, sizeof(length)), bytes.data(), bytes.size());
    const uint32_t masked = MaskCrc(crc);
    RETURN_IF_ERROR(Write(BytesOf(masked)));
    crc = ExtendCrc32c(crc, &masked, sizeof(masked));
  }
  crc_ = crc;
  return absl::OkStatus();
}

absl::Status BundleWriter::TryAdd(absl::string_view name, const Tensor& value) {
  if (data_ == nullptr) return FailedPrecondition("the checkpoint ", prefix_, " is finished");
  if (name.empty()) return InvalidArgument("a tensor in a checkpoint must have a name");
  if (value.dtype() == kResource) return Unimplemented("a tensor of type resource cannot be saved: ", name);
  RETURN_IF_ERROR(Prepend(CheckEncodable(value), absl::StrCat("tensor ", name, " cannot be saved: ")));
  const auto [place, is_new] = entries_.try_emplace(std::string(name));
  if (!is_new) return InvalidArgument("Adding duplicate key: ", name);
  tensorflow::BundleEntryProto& entry = place->second;
  entry.set_dtype(static_cast<tensorflow::DataType>(value.dtype()));
  value.shape().ToProto(entry.mutable_shape());
  entry.set_offset(size_);
  crc_ = 0;
  switch (value.dtype()) {
    case kString:
      RETURN_IF_ERROR(WriteStrings(value));
      break;
    case kVariant:
      RETURN_IF_ERROR(WriteVariants(value));
      break;
    default:
      RETURN_IF_ERROR(Write(absl::string_view(static_cast<const char*>(value.raw()), value.TotalBytes())));
  }
  entry.set_size(size_ - entry.offset());
  entry.set_crc32c(MaskCrc(crc_));
  return absl::OkStatus();
}

absl::Status BundleWriter::Add(absl::string_view name, const Tensor& value) {
  if (status_.ok()) status_ = TryAdd(name, value);
  return status_;
}

absl::Status BundleWriter::AddSlice(absl::string_view name, const Shape& shape, const TensorSlice& slice,
                                    const Tensor& value) {
  RETURN_IF_ERROR(status_);
  if (slice.Covers(shape)) return Add(name, value);
  tensorflow::BundleEntryProto& whole = entries_[std::string(name)];
  const bool is_new = whole.dtype() == tensorflow::DT_INVALID;
  tensorflow::TensorShapeProto whole_shape;
  shape.ToProto(&whole_shape);
  const auto dtype = static_cast<tensorflow::DataType>(value.dtype());
  if (!is_new && (whole.slices().empty() || whole.dtype() != dtype ||
                  whole.shape().SerializeAsString() != whole_shape.SerializeAsString())) {
    return status_ = InvalidArgument("part ", slice.ToString(), " of tensor ", name, " (", value.dtype(), " of ", shape,
                                     ") does not belong to the tensor of this name that was added before");
  }
  whole.set_dtype(dtype);
  *whole.mutable_shape() = std::move(whole_shape);
  slice.ToProto(whole.add_slices());
  return Add(slice.Key(name), value);
}

absl::Status BundleWriter::TryFinish() {
  if (data_ == nullptr) return FailedPrecondition("the checkpoint ", prefix_, " is finished");
  RETURN_IF_ERROR(data_->Sync());
  RETURN_IF_ERROR(data_->Close());
  data_ = nullptr;
  ASSIGN_OR_RETURN(const internal::Publication publication, internal::Publication::Plan(files_, prefix_, 1));
  tensorflow::BundleHeaderProto header;
  header.set_num_shards(publication.num_shards());
  header.mutable_version()->set_producer(kWrittenVersion);
  std::vector<std::pair<std::string, const tensorflow::BundleEntryProto*>> entries;
  for (const auto& [key, entry] : entries_) entries.emplace_back(key, &entry);
  const std::string index = internal::TemporaryPath(IndexPath(prefix_));
  temporary_.Add(index);
  RETURN_IF_ERROR(internal::WriteIndex(files_, index, header, entries));
  RETURN_IF_ERROR(publication.Commit(files_, {data_path_}, index));
  temporary_.Keep();
  return absl::OkStatus();
}

absl::Status BundleWriter::Finish() {
  if (status_.ok()) status_ = TryFinish();
  return status_;
}

}  // namespace thalweg
