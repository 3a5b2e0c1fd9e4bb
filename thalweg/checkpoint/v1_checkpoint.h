// SPDX-License-Identifier: Apache-2.0
// TensorFlow's V1 checkpoints: each file is one table that contains the tensors.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/file_system.h"
#include "thalweg/checkpoint/bundle_reader.h"
#include "thalweg/checkpoint/table.h"
#include "thalweg/checkpoint/tensor_slice.h"

namespace thalweg {

// Collects tensors. Finish() writes them to a temporary file and renames it. Not thread-safe.
class V1CheckpointWriter {
 public:
  explicit V1CheckpointWriter(FileSystem& files, std::string path);

  // Adds a slice, or the whole, of a tensor of `shape`. REQUIRES: slice.SliceShape(shape) is
  // value.shape().
  [[nodiscard]] absl::Status Add(const std::string& name, const Shape& shape, const TensorSlice& slice,
                                 const Tensor& value);
  [[nodiscard]] absl::Status Finish();

 private:
  FileSystem& files_;
  const std::string path_;
  tensorflow::SavedTensorSlices meta_;
  absl::flat_hash_map<std::string, int> places_;  // indices of the tensors in meta_
  std::map<std::string, std::string> data_;       // by key
};

// The tensors of all files that match a pattern. Thread-safe.
class V1CheckpointReader {
 public:
  // NOT_FOUND if no file matches, DATA_LOSS if a file is not a checkpoint. `files` must
  // outlive the reader.
  static absl::StatusOr<std::unique_ptr<V1CheckpointReader>> Open(FileSystem& files, const std::string& pattern);

  // NOT_FOUND if there is no such tensor.
  absl::StatusOr<BundleReader::Info> Find(absl::string_view name) const;
  // REQUIRES: the slice fits.
  absl::StatusOr<Tensor> Read(absl::string_view name, const TensorSlice& slice) const;

 private:
  struct Part {
    TensorSlice slice;
    int table;
  };
  struct Whole {
    BundleReader::Info info;
    std::vector<Part> parts;
  };

  explicit V1CheckpointReader(std::string pattern) : pattern_(std::move(pattern)) {}
  absl::Status Add(const std::string& path, std::unique_ptr<Table> table);
  absl::StatusOr<const Whole*> FindWhole(absl::string_view name) const;
  absl::StatusOr<Tensor> ReadPart(absl::string_view name, const Whole& whole, const Part& part) const;

  const std::string pattern_;
  std::vector<std::unique_ptr<Table>> tables_;
  absl::flat_hash_map<std::string, Whole> tensors_;
};

}  // namespace thalweg
