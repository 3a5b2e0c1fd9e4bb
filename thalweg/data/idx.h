// SPDX-License-Identifier: Apache-2.0
// IDX, the file format of MNIST and its kin, plain or gzipped; and image sets in
// it, served in shuffled batches.
//
// A file is: two zero bytes, a byte for the element type (8: uint8, 9: int8,
// 11: int16, 12: int32, 13: float, 14: double), a byte for the rank, the sizes
// as big-endian 32-bit numbers, and the elements, big-endian, row-major.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/base/file_system.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg::data {

// The file as a tensor. Errors name the file, what was found and what was
// expected: INVALID_ARGUMENT for a file that is no IDX, DATA_LOSS for one that
// is damaged (too short, too long, broken compression).
absl::StatusOr<Tensor> ReadIdx(const std::string& path, FileSystem& files = PosixFileSystem());

// Some images with their labels.
struct Batch {
  Tensor images;  // float [n, height * width], in [0, 1]
  Tensor labels;  // int32 [n]
};

// Images with their labels. The images stay in memory as bytes; batches are
// made one by one. Not thread-safe; copies share the images, but each goes its
// own way through them.
class ImageSet {
 public:
  ImageSet() = default;
  // REQUIRES: images uint8 [n, ...], labels uint8 [n].
  ImageSet(Tensor images, Tensor labels, uint64_t seed);

  int64_t size() const { return labels_.has_value() ? labels_.dim(0) : 0; }
  int64_t pixels() const { return pixels_; }  // of an image
  int64_t epoch() const { return epoch_; }    // how often all were served

  // The next n images. Every epoch has its own order, which follows from the
  // seed; a batch at its end goes on with the next. REQUIRES: size() > 0.
  Batch NextBatch(int64_t n);
  // Images [begin, end) in the order of the file. REQUIRES: they exist.
  Batch Slice(int64_t begin, int64_t end) const;

 private:
  void Shuffle();
  void CopyTo(int64_t from, Batch& batch, int64_t to) const;

  Tensor images_;
  Tensor labels_;
  int64_t pixels_ = 0;
  uint64_t seed_ = 0;
  int64_t epoch_ = 0;
  int64_t position_ = 0;         // in order_
  std::vector<uint32_t> order_;  // of this epoch; empty before the first batch
};

struct MnistOptions {
  uint64_t seed = 1;  // of the order; workers that share a set take different ones
  FileSystem* files = &PosixFileSystem();
};

// The four files of MNIST, or of a set made like it.
struct Mnist {
  ImageSet train;
  ImageSet test;

  // Debian's package dataset-fashion-mnist.
  static constexpr char kDefaultFolder[] = "/usr/share/datasets/fashion-mnist";

  // Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte from a folder, with or
  // without ".gz".
  static absl::StatusOr<Mnist> Load(const std::string& folder = kDefaultFolder, const MnistOptions& options = {});
};

}  // namespace thalweg::data
