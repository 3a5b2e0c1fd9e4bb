// SPDX-License-Identifier: Apache-2.0
// CIFAR-10 in its binary form: data_batch_1.bin to data_batch_5.bin and
// test_batch.bin. A record is a byte for the class and 32 x 32 pixels, first all
// red values, then green, then blue, row by row.
#pragma once

#include <string>

#include "thalweg/data/pipeline.h"

namespace thalweg::data {

inline constexpr int kCifar10Size = 32;                                          // pixels on each side
inline constexpr int kCifar10Classes = 10;                                       // labels
inline constexpr int kCifar10RecordBytes = 1 + 3 * kCifar10Size * kCifar10Size;  // in the files

// Options of DecodeCifar10.
struct Cifar10Decoding {
  int crop = 24;  // pixels on each side: the middle or, distorted, anywhere
  // A random crop, mirrored half of the time, of random brightness and contrast.
  bool distort = false;
};
// Gives the image, float [crop, crop, 3], of mean 0 and deviation 1, and the
// label, an int32 scalar.
Decoder DecodeCifar10(const Cifar10Decoding& options = {});

// Which images of CIFAR-10 a pipeline reads, and in which order.
struct Cifar10Options {
  bool train = true;         // the five files, shuffled, distorted, without end; else the test file, once
  int64_t batch_size = 128;  // images in a batch
  uint64_t seed = 1;         // seed of the order and the distortions
  int shard = 0;             // this worker takes every num_shards-th image, starting here
  int num_shards = 1;        // see shard
  int threads = 2;           // that decode
  FileSystem* file_system = &PosixFileSystem();  // where the files are
};
// Batches {images [n, 24, 24, 3], labels [n]} of the files in a folder, as
// TensorFlow's tutorial makes them. NOT_FOUND if one is missing.
absl::StatusOr<Pipeline> Cifar10(const std::string& folder, const Cifar10Options& options = {});

}  // namespace thalweg::data
