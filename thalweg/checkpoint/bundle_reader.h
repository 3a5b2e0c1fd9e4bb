// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/mutex.h"
#include "thalweg/checkpoint/bundle_index.h"
#include "thalweg/checkpoint/tensor_slice.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Open() reads the index. Tensors are read on demand, directly into their memory, and checked
// against their sizes and checksums. Damage is DATA_LOSS, naming the file and the tensor.
// Thread-safe.
class BundleReader {
 public:
  struct Info {
    DType dtype = kInvalid;
    Shape shape;
    int shard = 0;  // shard and offset allow to read tensors in file order
    int64_t offset = 0;
  };

  // `files` must outlive the reader. Errors are those of BundleIndex::Read.
  static absl::StatusOr<std::unique_ptr<BundleReader>> Open(FileSystem& files, std::string prefix);

  // The names of all tensors in order. A partitioned tensor appears once.
  std::vector<std::string> Names() const;
  // NOT_FOUND ("Key x not found in checkpoint") if there is no such tensor.
  absl::StatusOr<Info> Find(absl::string_view name) const;
  // Reads a whole tensor. A partitioned tensor is assembled from its slices.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  // Reads a slice, assembled from the saved slices. INVALID_ARGUMENT if they do not cover it.
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const;

 private:
  using Entry = tensorflow::BundleEntryProto;
  struct DataFile {
    std::string path;
    std::unique_ptr<RandomAccessFile> file;
    uint64_t size = 0;
  };

  BundleReader(FileSystem& files, std::string prefix, BundleIndex index)
      : files_(files), prefix_(std::move(prefix)), index_(std::move(index)) {}

  absl::StatusOr<const DataFile*> OpenShard(int shard) const;
  absl::StatusOr<Info> Describe(absl::string_view name, const Entry& entry) const;
  absl::StatusOr<Tensor> ReadEntry(absl::string_view name, const Entry& entry) const;
  absl::StatusOr<Tensor> ReadParts(absl::string_view name, const Entry& whole, const TensorSlice& slice) const;
  absl::StatusOr<Tensor> ReadNumbers(const DataFile& file, const Info& info, const Entry& entry, uint32_t* crc) const;

  FileSystem& files_;
  const std::string prefix_;
  const BundleIndex index_;
  mutable Mutex mutex_;
  mutable absl::flat_hash_map<int, std::unique_ptr<DataFile>> shards_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
