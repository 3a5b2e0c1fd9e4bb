// SPDX-License-Identifier: Apache-2.0
#include "thalweg/checkpoint/bundle_index.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "thalweg/base/status.h"
#include "thalweg/checkpoint/bundle.h"

namespace thalweg {
namespace {

constexpr int kReadVersion = 1;  // the newest version of the format that this reader supports

}  // namespace

absl::StatusOr<BundleIndex> BundleIndex::Read(FileSystem& files, absl::string_view prefix) {
  BundleIndex index;
  index.path_ = IndexPath(prefix);
  ASSIGN_OR_RETURN(const std::unique_ptr<Table> table, Table::Open(files, index.path_));
  ASSIGN_OR_RETURN(index.entries_, table->ReadAll());
  if (index.entries_.empty() || !index.entries_[0].first.empty() ||
      !index.header_.ParseFromString(index.entries_[0].second)) {
    return DataLoss("Unable to read file (", index.path_, "): the header is missing");
  }
  index.entries_.erase(index.entries_.begin());
  if (index.header_.version().min_consumer() > kReadVersion) {
    return InvalidArgument("Checkpoint min consumer version ", index.header_.version().min_consumer(),
                           " above current version ", kReadVersion, " for ", index.path_);
  }
  return index;
}

absl::StatusOr<tensorflow::BundleEntryProto> BundleIndex::Find(absl::string_view key) const {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), key,
                                      [](const Table::Entry& entry, absl::string_view k) { return entry.first < k; });
  if (found == entries_.end() || found->first != key) {
    return NotFound("Key ", absl::Utf8SafeCEscape(key), " not found in checkpoint");
  }
  return Parse(key, found->second);
}

absl::StatusOr<tensorflow::BundleEntryProto> BundleIndex::Parse(absl::string_view key, absl::string_view value) const {
  tensorflow::BundleEntryProto entry;
  if (!entry.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return DataLoss("Entry for key ", absl::Utf8SafeCEscape(key), " not parseable in ", path_);
  }
  return entry;
}

}  // namespace thalweg
