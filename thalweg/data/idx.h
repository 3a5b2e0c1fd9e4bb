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

// Reads a file as a tensor. Errors name the file, what was found and what was expected:
// INVALID_ARGUMENT if the file is not in the IDX format, DATA_LOSS if it is damaged (too
// short, too long, or with broken compression).
absl::StatusOr<Tensor> ReadIdx(const std::string& path, FileSystem& files = PosixFileSystem());

// Some images with their labels.
struct Batch {
  Tensor images;  // float [n, height * width], in [0, 1]
  Tensor labels;  // int32 [n]
};

// Images with their labels. The images stay in memory as bytes and are converted batch by
// batch. Not thread-safe. Copies share the images, but each has its own position in them.
class ImageSet {
 public:
  // An empty set.
  ImageSet() = default;
  // REQUIRES: images uint8 [n, ...], labels uint8 [n].
  ImageSet(Tensor images, Tensor labels, uint64_t seed);

  int64_t size() const { return labels_.has_value() ? labels_.dim(0) : 0; }  // number of images
  int64_t pixels() const { return pixels_; }                                 // number of pixels of an image
  int64_t epoch() const { return epoch_; }                                   // how many times all images were returned

  // Returns the next n images. Every epoch has an order of its own, which depends on the seed. A
  // batch at the end of an epoch is completed from the next one. REQUIRES: size() > 0.
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
  std::vector<uint32_t> order_;  // order of this epoch; empty before the first batch
};

// The order of the training images, and where Mnist reads its files.
struct MnistOptions {
  uint64_t seed = 1;  // order of the training images; workers that share a set should use different ones
  FileSystem* files = &PosixFileSystem();  // file system to read from; borrowed
};

// The training and test images of MNIST, or of a set in its format.
struct Mnist {
  ImageSet train;  // 60,000 images in MNIST
  ImageSet test;   // 10,000 images in MNIST

  // Debian's package dataset-fashion-mnist.
  static constexpr char kDefaultFolder[] = "/usr/share/datasets/fashion-mnist";

  // Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte from a folder, with or
  // without ".gz".
  static absl::StatusOr<Mnist> Load(const std::string& folder = kDefaultFolder, const MnistOptions& options = {});
};

}  // namespace thalweg::data
