// SPDX-License-Identifier: Apache-2.0
// Elements of a dataset in TensorFlow's files, as tf.data's save() and snapshot() write them:
//
//   snapshot.metadata                       which run is valid (SnapshotMetadataRecord)
//   <run>/<8 digits>.shard/<8 digits>.snapshot   TFRecords, one TensorProto per component
//
// A run that was not finished stays in the folder, and the next one ignores it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "thalweg/base/file_system.h"
#include "thalweg/data/tfrecord.h"
#include "thalweg/proto/snapshot.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg::data {

// The contents of snapshot.metadata, or none if there is no such file. DATA_LOSS if it is damaged.
absl::StatusOr<std::optional<tensorflow::data::experimental::SnapshotMetadataRecord>> ReadSnapshotMetadata(
    const std::string& folder, FileSystem& files = PosixFileSystem());

// The folders of a run's shards, sorted.
absl::StatusOr<std::vector<std::string>> SnapshotShards(const std::string& folder, const std::string& run,
                                                        FileSystem& files = PosixFileSystem());

// Writes a new run into a folder, which it creates. Not thread-safe.
class SnapshotWriter {
 public:
  struct Options {
    std::string graph_hash;  // see SnapshotMetadataRecord
    std::vector<DType> types;
    Compression compression = Compression::kNone;
  };
  static absl::StatusOr<std::unique_ptr<SnapshotWriter>> Create(const std::string& folder, const Options& options,
                                                                FileSystem& files = PosixFileSystem());

  // Appends an element to a shard.
  [[nodiscard]] absl::Status Write(int64_t shard, absl::Span<const Tensor> element);
  // Closes the shards, then replaces the folder's metadata: readers see the whole run or none of it.
  [[nodiscard]] absl::Status Finish();

 private:
  SnapshotWriter(std::string folder, const Options& options, FileSystem& files);
  absl::Status WriteMetadata(bool finalized);

  const std::string folder_;
  const Options options_;
  FileSystem& files_;
  const std::string run_;
  std::map<int64_t, std::unique_ptr<RecordWriter>> shards_;
  int64_t count_ = 0;
};

// Reads the elements of a shard. Not thread-safe.
class SnapshotShardReader {
 public:
  SnapshotShardReader(std::string folder, Compression compression, std::vector<DType> types,
                      FileSystem& files = PosixFileSystem())
      : folder_(std::move(folder)), compression_(compression), types_(std::move(types)), files_(files) {}

  // The next element; none at the end. DATA_LOSS if a file is damaged or has other components.
  absl::StatusOr<std::optional<std::vector<Tensor>>> Next();

 private:
  absl::StatusOr<bool> NextRecord(std::string* record);

  const std::string folder_;
  const Compression compression_;
  const std::vector<DType> types_;
  FileSystem& files_;
  int64_t file_ = 0;
  std::unique_ptr<RecordReader> reader_;
};

}  // namespace thalweg::data
