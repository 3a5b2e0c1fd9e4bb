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

// A value. Entries stay encoded until somebody asks for them.
class BundleIndex {
 public:
  // DATA_LOSS, naming the file, if it is no index; NOT_FOUND if there is none;
  // INVALID_ARGUMENT if it wants a newer reader.
  static absl::StatusOr<BundleIndex> Read(FileSystem& files, absl::string_view prefix);

  const tensorflow::BundleHeaderProto& header() const { return header_; }
  // By key, in order, without the header. Among them are the parts of
  // partitioned tensors, whose keys begin with a 0.
  const std::vector<Table::Entry>& entries() const { return entries_; }

  // "Key x not found in checkpoint" (NOT_FOUND) if there is none.
  absl::StatusOr<tensorflow::BundleEntryProto> Find(absl::string_view key) const;
  absl::StatusOr<tensorflow::BundleEntryProto> Parse(absl::string_view key, absl::string_view value) const;

 private:
  std::string path_;
  tensorflow::BundleHeaderProto header_;
  std::vector<Table::Entry> entries_;
};

}  // namespace thalweg
