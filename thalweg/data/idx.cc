// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/idx.h"

#include <algorithm>
#include <bit>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "thalweg/base/status.h"
#include "thalweg/data/byte_stream.h"

namespace thalweg::data {
namespace {

uint32_t BigEndian(const char* p) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(p[i]);
  return value;
}

absl::StatusOr<DType> ElementType(uint8_t code) {
  switch (code) {
    case 8:
      return kUint8;
    case 9:
      return kInt8;
    case 11:
      return kInt16;
    case 12:
      return kInt32;
    case 13:
      return kFloat;
    case 14:
      return kDouble;
    default:
      return InvalidArgument("unknown element type ", static_cast<int>(code), " in the magic number");
  }
}

void SwapBytes(char* data, int64_t count, size_t size) {
  for (int64_t i = 0; i < count; ++i) std::reverse(data + i * size, data + (i + 1) * size);
}

// The sizes of all dimensions, behind the magic number.
absl::StatusOr<Shape> ReadShape(ByteStream& bytes, int rank) {
  if (rank > Shape::kMaxRank) return InvalidArgument("rank ", rank, " is more than ", Shape::kMaxRank);
  char sizes[4 * Shape::kMaxRank];
  ASSIGN_OR_RETURN(const size_t got, bytes.Read(sizes, 4 * rank));
  if (got < static_cast<size_t>(4 * rank)) {
    return DataLoss("expected ", rank, " sizes in ", 4 * rank, " bytes, got ", got);
  }
  Dims dims;
  for (int i = 0; i < rank; ++i) dims.push_back(BigEndian(sizes + 4 * i));
  return Shape::Make(dims);
}

absl::StatusOr<Tensor> ParseIdx(ByteStream& bytes, uint64_t file_size, bool gzipped) {
  char magic[4];
  ASSIGN_OR_RETURN(size_t got, bytes.Read(magic, 4));
  if (got < 4) return DataLoss("expected a magic number of 4 bytes, got ", got);
  if (magic[0] != 0 || magic[1] != 0) {
    return InvalidArgument(
        absl::StrFormat("wrong magic number: expected 0x0000, a type and a rank, got 0x%08x", BigEndian(magic)));
  }
  ASSIGN_OR_RETURN(const DType dtype, ElementType(static_cast<uint8_t>(magic[2])));
  ASSIGN_OR_RETURN(const Shape shape, ReadShape(bytes, static_cast<uint8_t>(magic[3])));

  const uint64_t size = ElementSize(dtype);
  const uint64_t count = static_cast<uint64_t>(shape.num_elements());
  const uint64_t expected = count * size;
  // Not allocated before the file can have it: deflate shrinks by 1032 at best.
  if (count > (gzipped ? file_size * 1032 : file_size) / size) {
    return DataLoss("expected ", expected, " bytes of elements for shape ", shape, ", got a file of ", file_size,
                    gzipped ? ", gzipped" : "");
  }
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  char* const data = static_cast<char*>(tensor.raw());
  ASSIGN_OR_RETURN(got, bytes.Read(data, expected));
  if (got < expected) return DataLoss("expected ", expected, " bytes of elements for shape ", shape, ", got ", got);
  // Reading on also makes zlib verify its checksum.
  char more;
  ASSIGN_OR_RETURN(got, bytes.Read(&more, 1));
  if (got > 0) return DataLoss("expected ", expected, " bytes of elements for shape ", shape, ", but there are more");
  if (size > 1 && std::endian::native == std::endian::little) SwapBytes(data, shape.num_elements(), size);
  return tensor;
}

absl::StatusOr<Tensor> TryReadIdx(const std::string& path, FileSystem& files) {
  ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file, files.NewRandomAccessFile(path));
  ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  char scratch[2];
  ASSIGN_OR_RETURN(const absl::string_view magic, file->Read(0, sizeof(scratch), scratch));
  const bool gzipped = magic == "\x1f\x8b";
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> bytes,
                   OpenByteStream(path, gzipped ? Compression::kGzip : Compression::kNone, files));
  absl::StatusOr<Tensor> tensor = ParseIdx(*bytes, size, gzipped);
  // Errors of the compression name the file themselves.
  if (tensor.ok() || absl::StartsWith(tensor.status().message(), path)) return tensor;
  return Prepend(tensor.status(), absl::StrCat(path, ": "));
}

// A file with or without ".gz", of bytes and of this rank.
absl::StatusOr<Tensor> ReadPart(const std::string& folder, const std::string& name, int rank, FileSystem& files) {
  std::string path = absl::StrCat(folder, "/", name);
  if (!files.FileExists(path).ok()) {
    if (!files.FileExists(path + ".gz").ok()) return NotFound("neither ", path, " nor ", path, ".gz exists");
    path += ".gz";
  }
  ASSIGN_OR_RETURN(Tensor tensor, ReadIdx(path, files));
  if (tensor.dtype() != kUint8 || tensor.rank() != rank) {
    return InvalidArgument(path, ": expected uint8 of rank ", rank, ", got ", tensor.dtype(), " ", tensor.shape());
  }
  return tensor;
}

absl::StatusOr<ImageSet> ReadSet(const std::string& folder, const std::string& prefix, uint64_t seed,
                                 FileSystem& files) {
  ASSIGN_OR_RETURN(Tensor images, ReadPart(folder, prefix + "-images-idx3-ubyte", 3, files));
  ASSIGN_OR_RETURN(Tensor labels, ReadPart(folder, prefix + "-labels-idx1-ubyte", 1, files));
  if (images.dim(0) != labels.dim(0)) {
    return InvalidArgument(folder, "/", prefix, ": ", images.dim(0), " images, but ", labels.dim(0), " labels");
  }
  if (images.num_elements() == 0) return InvalidArgument(folder, "/", prefix, ": no images in ", images.shape());
  return ImageSet(std::move(images), std::move(labels), seed);
}

}  // namespace

absl::StatusOr<Tensor> ReadIdx(const std::string& path, FileSystem& files) { return TryReadIdx(path, files); }

ImageSet::ImageSet(Tensor images, Tensor labels, uint64_t seed)
    : images_(std::move(images)), labels_(std::move(labels)), seed_(seed) {
  CHECK(images_.dtype() == kUint8 && labels_.dtype() == kUint8 && labels_.rank() == 1 && images_.rank() >= 1 &&
        images_.dim(0) == labels_.dim(0))
      << images_.ToString(0) << " " << labels_.ToString(0);
  pixels_ = images_.shape().Product(1, images_.rank());
}

// Each epoch's order is its own function of the seed.
void ImageSet::Shuffle() {
  order_.resize(size());
  for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<uint32_t>(i);
  std::seed_seq seeds{static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32), static_cast<uint32_t>(epoch_)};
  std::mt19937_64 random(seeds);
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
  position_ = 0;
}

void ImageSet::CopyTo(int64_t from, Batch& batch, int64_t to) const {
  const uint8_t* const in = images_.data<uint8_t>() + from * pixels_;
  float* const out = batch.images.mutable_data<float>() + to * pixels_;
  for (int64_t i = 0; i < pixels_; ++i) out[i] = static_cast<float>(in[i]) * (1.0f / 255.0f);
  batch.labels.mutable_data<int32_t>()[to] = labels_.data<uint8_t>()[from];
}

Batch ImageSet::NextBatch(int64_t n) {
  CHECK(size() > 0) << "a batch of an empty set";
  Batch batch = {Tensor(kFloat, {n, pixels_}), Tensor(kInt32, {n})};
  if (order_.empty()) Shuffle();
  for (int64_t i = 0; i < n; ++i) {
    if (position_ == size()) {
      ++epoch_;
      Shuffle();
    }
    CopyTo(order_[position_++], batch, i);
  }
  return batch;
}

Batch ImageSet::Slice(int64_t begin, int64_t end) const {
  CHECK(0 <= begin && begin <= end && end <= size()) << begin << ", " << end << " of " << size();
  Batch batch = {Tensor(kFloat, {end - begin, pixels_}), Tensor(kInt32, {end - begin})};
  for (int64_t i = begin; i < end; ++i) CopyTo(i, batch, i - begin);
  return batch;
}

absl::StatusOr<Mnist> Mnist::Load(const std::string& folder, const MnistOptions& options) {
  Mnist mnist;
  ASSIGN_OR_RETURN(mnist.train, ReadSet(folder, "train", options.seed, *options.files));
  ASSIGN_OR_RETURN(mnist.test, ReadSet(folder, "t10k", options.seed, *options.files));
  if (mnist.train.pixels() != mnist.test.pixels()) {
    return InvalidArgument(folder, ": training images have ", mnist.train.pixels(), " pixels, test images ",
                           mnist.test.pixels());
  }
  return mnist;
}

}  // namespace thalweg::data
