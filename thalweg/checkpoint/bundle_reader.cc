// SPDX-License-Identifier: Apache-2.0
#include "thalweg/checkpoint/bundle_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/escaping.h"
#include "thalweg/base/crc32c.h"
#include "thalweg/base/status.h"
#include "thalweg/base/varint.h"
#include "thalweg/checkpoint/bundle.h"
#include "thalweg/checkpoint/table.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

// Converts numbers of a big-endian file to this little-endian machine. The two halves of a
// complex number are swapped separately.
void SwapBytes(Tensor* value) {
  const size_t size = ElementSize(value->dtype()) / (IsComplex(value->dtype()) ? 2 : 1);
  char* const bytes = static_cast<char*>(value->raw());
  for (int64_t i = 0; i < value->TotalBytes(); i += size) std::reverse(bytes + i, bytes + i + size);
}

// Removes a checksum from the front; false if there are too few bytes.
bool TakeChecksum(absl::string_view* bytes, uint32_t* masked) {
  if (bytes->size() < sizeof(*masked)) return false;
  std::memcpy(masked, bytes->data(), sizeof(*masked));
  bytes->remove_prefix(sizeof(*masked));
  return true;
}

// Strings are stored as their lengths (varints), a checksum of the lengths, and the strings. The
// checksum of the whole covers the lengths as fixed-size integers, the stored checksum and the strings.
absl::StatusOr<Tensor> ParseStrings(absl::string_view bytes, const Shape& shape, uint32_t* crc) {
  if (shape.num_elements() > static_cast<int64_t>(bytes.size())) return DataLoss("too short for its strings");
  std::vector<uint64_t> lengths(shape.num_elements());
  *crc = 0;
  for (uint64_t& length : lengths) {
    if (!TakeVarint(&bytes, &length)) return DataLoss("the lengths of strings are cut off");
    const size_t width = length <= std::numeric_limits<uint32_t>::max() ? sizeof(uint32_t) : sizeof(uint64_t);
    *crc = ExtendCrc32c(*crc, &length, width);
  }
  uint32_t masked;
  if (!TakeChecksum(&bytes, &masked) || UnmaskCrc(masked) != *crc) {
    return DataLoss("The length checksum does not match");
  }
  *crc = ExtendCrc32c(*crc, &masked, sizeof(masked));
  *crc = ExtendCrc32c(*crc, bytes.data(), bytes.size());
  ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(kString, shape));
  std::string* const strings = value.mutable_data<std::string>();
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    if (lengths[i] > bytes.size()) return DataLoss("a string is cut off");
    strings[i].assign(bytes.data(), lengths[i]);
    bytes.remove_prefix(lengths[i]);
  }
  if (!bytes.empty()) return DataLoss("there are bytes left after its strings");
  return value;
}

// Each variant is stored as its length (a varint), its proto and the running checksum.
absl::StatusOr<Tensor> ParseVariants(absl::string_view bytes, const Shape& shape, uint32_t* crc) {
  if (shape.num_elements() > static_cast<int64_t>(bytes.size())) return DataLoss("too short for its variants");
  ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(kVariant, shape));
  *crc = 0;
  for (Variant& variant : value.flat<Variant>()) {
    uint64_t length;
    if (!TakeVarint(&bytes, &length) || length > bytes.size() || length > std::numeric_limits<int>::max()) {
      return DataLoss("a variant is cut off");
    }
    *crc = ExtendCrc32c(ExtendCrc32c(*crc, &length, sizeof(length)), bytes.data(), length);
    tensorflow::VariantTensorDataProto proto;
    if (!proto.ParseFromArray(bytes.data(), static_cast<int>(length))) return DataLoss("a variant is not parseable");
    bytes.remove_prefix(length);
    uint32_t masked;
    if (!TakeChecksum(&bytes, &masked) || UnmaskCrc(masked) != *crc) {
      return DataLoss("the checksum after a variant does not match");
    }
    *crc = ExtendCrc32c(*crc, &masked, sizeof(masked));
    variant = Variant::FromProto(proto);
  }
  return value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BundleReader>> BundleReader::Open(FileSystem& files, std::string prefix) {
  ASSIGN_OR_RETURN(BundleIndex index, BundleIndex::Read(files, prefix));
  return std::unique_ptr<BundleReader>(new BundleReader(files, std::move(prefix), std::move(index)));
}

std::vector<std::string> BundleReader::Names() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : index_.entries()) {
    if (key[0] != '\0') names.push_back(key);  // keys of slices begin with a zero byte
  }
  return names;
}

absl::StatusOr<BundleReader::Info> BundleReader::Describe(absl::string_view name, const Entry& entry) const {
  const DType dtype = static_cast<DType>(entry.dtype());
  absl::StatusOr<Shape> shape = Shape::FromProto(entry.shape());
  if (!tensorflow::DataType_IsValid(entry.dtype()) || !IsKnown(dtype) || IsRef(dtype) || dtype == kResource ||
      !shape.ok()) {
    return DataLoss("Invalid tensor type or shape of ", absl::Utf8SafeCEscape(name), " in ", IndexPath(prefix_), ": ",
                    static_cast<int>(entry.dtype()), " ", entry.shape().ShortDebugString());
  }
  return Info{dtype, *std::move(shape), entry.shard_id(), entry.offset()};
}

absl::StatusOr<BundleReader::Info> BundleReader::Find(absl::string_view name) const {
  ASSIGN_OR_RETURN(const Entry entry, index_.Find(name));
  return Describe(name, entry);
}

absl::StatusOr<const BundleReader::DataFile*> BundleReader::OpenShard(int shard) const {
  MutexLock lock(&mutex_);
  std::unique_ptr<DataFile>& file = shards_[shard];
  if (file == nullptr) {
    auto opened = std::make_unique<DataFile>();
    opened->path = DataPath(prefix_, shard, index_.header().num_shards());
    ASSIGN_OR_RETURN(opened->file, files_.NewRandomAccessFile(opened->path));
    ASSIGN_OR_RETURN(opened->size, opened->file->Size());
    file = std::move(opened);
  }
  return file.get();
}

absl::StatusOr<Tensor> BundleReader::ReadNumbers(const DataFile& file, const Info& info, const Entry& entry,
                                                 uint32_t* crc) const {
  const size_t size = ElementSize(info.dtype);
  if (info.shape.num_elements() > std::numeric_limits<int64_t>::max() / static_cast<int64_t>(size) ||
      info.shape.num_elements() * static_cast<int64_t>(size) != entry.size()) {
    return DataLoss("Invalid size in bundle entry: stored size ", entry.size(), "; expected ", info.dtype, " of ",
                    info.shape);
  }
  ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(info.dtype, info.shape));
  char* const memory = static_cast<char*>(value.raw());
  ASSIGN_OR_RETURN(const absl::string_view read, file.file->Read(entry.offset(), entry.size(), memory));
  if (static_cast<int64_t>(read.size()) != entry.size()) return DataLoss("the file is cut off");
  if (read.data() != memory) std::memcpy(memory, read.data(), read.size());
  *crc = Crc32c(memory, read.size());
  if (index_.header().endianness() == tensorflow::BundleHeaderProto::BIG) SwapBytes(&value);
  return value;
}

absl::StatusOr<Tensor> BundleReader::ReadEntry(absl::string_view name, const Entry& entry) const {
  ASSIGN_OR_RETURN(const Info info, Describe(name, entry));
  ASSIGN_OR_RETURN(const DataFile* const file, OpenShard(entry.shard_id()));
  const auto named = [&](const absl::Status& error) {
    return Prepend(error, absl::StrCat("tensor ", absl::Utf8SafeCEscape(name), " in ", file->path, ": "));
  };
  const auto in_file = [&](int64_t n) { return n >= 0 && static_cast<uint64_t>(n) <= file->size; };
  if (!in_file(entry.offset()) || !in_file(entry.size()) ||
      static_cast<uint64_t>(entry.size()) > file->size - entry.offset()) {
    return named(DataLoss(entry.size(), " bytes at ", entry.offset(), " are not in the file of ", file->size));
  }
  uint32_t crc = 0;
  absl::StatusOr<Tensor> value;
  if (info.dtype == kString || info.dtype == kVariant) {
    if (index_.header().endianness() == tensorflow::BundleHeaderProto::BIG) {
      return named(Unimplemented("strings and variants of a big-endian machine"));
    }
    ASSIGN_OR_RETURN(const Tensor bytes, Tensor::Allocate(kUint8, Shape({entry.size()})));
    ASSIGN_OR_RETURN(const absl::string_view read,
                     file->file->Read(entry.offset(), entry.size(), static_cast<char*>(bytes.raw())));
    value = info.dtype == kString ? ParseStrings(read, info.shape, &crc) : ParseVariants(read, info.shape, &crc);
  } else {
    value = ReadNumbers(*file, info, entry, &crc);
  }
  if (!value.ok()) return named(value.status());
  if (UnmaskCrc(entry.crc32c()) != crc) {
    return named(DataLoss("Checksum does not match: stored ", UnmaskCrc(entry.crc32c()),
                          " vs. calculated on the restored bytes ", crc));
  }
  return value;
}

absl::StatusOr<Tensor> BundleReader::ReadParts(absl::string_view name, const Entry& whole,
                                               const TensorSlice& slice) const {
  ASSIGN_OR_RETURN(const Info info, Describe(name, whole));
  if (info.dtype == kVariant) return Unimplemented("parts of a variant tensor: ", name);
  ASSIGN_OR_RETURN(const Shape shape, slice.SliceShape(info.shape));
  std::vector<TensorSlice> parts;
  for (const tensorflow::TensorSliceProto& proto : whole.slices()) {
    absl::StatusOr<TensorSlice> part = TensorSlice::FromProto(proto);
    if (!part.ok() || !part->SliceShape(info.shape).ok()) {
      return DataLoss("Invalid part of tensor ", name, " in ", IndexPath(prefix_), ": ", proto.ShortDebugString());
    }
    parts.push_back(*std::move(part));
  }
  const auto read_part = [&](const TensorSlice& part) -> absl::StatusOr<Tensor> {
    const std::string key = part.Key(name);
    ASSIGN_OR_RETURN(const Entry entry, index_.Find(key));
    ASSIGN_OR_RETURN(Tensor value, ReadEntry(key, entry));
    if (value.dtype() != info.dtype || value.shape() != *part.SliceShape(info.shape)) {
      return DataLoss("part ", part, " of tensor ", name, " in ", IndexPath(prefix_), " has another type or shape");
    }
    return value;
  };
  // Usually the slice was saved as it is requested. Otherwise it is assembled from the saved slices.
  if (std::find(parts.begin(), parts.end(), slice) != parts.end()) return read_part(slice);
  if (!Tile(info.shape, slice, parts)) {
    return InvalidArgument("Does not have sufficient slices for partitioned tensor ", name,
                           " to restore in slice_spec: ", slice);
  }
  ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(info.dtype, shape));
  for (const TensorSlice& part : parts) {
    if (CountIntersection(info.shape, part, slice) == 0) continue;
    ASSIGN_OR_RETURN(const Tensor from, read_part(part));
    CopyIntersection(info.shape, part, from, slice, &value);
  }
  return value;
}

absl::StatusOr<Tensor> BundleReader::Read(absl::string_view name) const {
  ASSIGN_OR_RETURN(const Entry entry, index_.Find(name));
  if (entry.slices().empty()) return ReadEntry(name, entry);
  return ReadParts(name, entry, TensorSlice::Full(entry.shape().dim_size()));
}

absl::StatusOr<Tensor> BundleReader::ReadSlice(absl::string_view name, const TensorSlice& slice) const {
  ASSIGN_OR_RETURN(const Entry entry, index_.Find(name));
  if (!entry.slices().empty()) return ReadParts(name, entry, slice);
  ASSIGN_OR_RETURN(const Info info, Describe(name, entry));
  ASSIGN_OR_RETURN(const Shape shape, slice.SliceShape(info.shape));
  ASSIGN_OR_RETURN(const Tensor whole, ReadEntry(name, entry));
  if (slice.Covers(info.shape)) return whole;
  if (info.dtype == kVariant) return Unimplemented("parts of a variant tensor: ", name);
  ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(info.dtype, shape));
  CopyIntersection(info.shape, TensorSlice::Full(info.shape.rank()), whole, slice, &value);
  return value;
}

}  // namespace thalweg
