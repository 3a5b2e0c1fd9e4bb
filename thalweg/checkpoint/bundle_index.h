// SPDX-License-Identifier: Apache-2.0
// The index of a bundle, in memory.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/file_system.h"
#include "thalweg/checkpoint/table.h"
#include "thalweg/proto/tensor_bundle.pb.h"

namespace thalweg {

// A value type. Entries are decoded on demand.
class BundleIndex {
 public:
  // DATA_LOSS, naming the file, if it is not a valid index; NOT_FOUND if it does not exist;
  // INVALID_ARGUMENT if it needs a newer reader.
  static absl::StatusOr<BundleIndex> Read(FileSystem& files, absl::string_view prefix);

  const tensorflow::BundleHeaderProto& header() const { return header_; }
  // The entries in key order, without the header. They include the slices of partitioned
  // tensors, whose keys begin with a zero byte.
  const std::vector<Table::Entry>& entries() const { return entries_; }

  // NOT_FOUND ("Key x not found in checkpoint") if there is no such key.
  absl::StatusOr<tensorflow::BundleEntryProto> Find(absl::string_view key) const;
  absl::StatusOr<tensorflow::BundleEntryProto> Parse(absl::string_view key, absl::string_view value) const;

 private:
  std::string path_;
  tensorflow::BundleHeaderProto header_;
  std::vector<Table::Entry> entries_;
};

}  // namespace thalweg
