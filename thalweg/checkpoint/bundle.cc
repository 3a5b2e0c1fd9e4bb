// SPDX-License-Identifier: Apache-2.0
#include "thalweg/checkpoint/bundle.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/file_path.h"
#include "thalweg/base/status.h"
#include "thalweg/checkpoint/bundle_index.h"
#include "thalweg/checkpoint/table.h"

namespace thalweg {

std::string IndexPath(absl::string_view prefix) { return absl::StrCat(prefix, ".index"); }

std::string DataPath(absl::string_view prefix, int shard, int num_shards) {
  return absl::StrFormat("%s.data-%05d-of-%05d", prefix, shard, num_shards);
}

namespace internal {

std::string CleanPath(absl::string_view path) {
  path.remove_prefix(FileSchemeLength(path));
  // Opening it fails later with an error about the file system.
  if (!SchemeOf(path).empty()) return std::string(path);
  std::vector<absl::string_view> names = absl::StrSplit(path, '/', absl::SkipEmpty());
  std::erase(names, ".");
  const std::string clean = absl::StrCat(absl::StartsWith(path, "/") ? "/" : "", absl::StrJoin(names, "/"));
  return clean.empty() ? "." : clean;
}

absl::Status MakeFolder(FileSystem& files, const std::string& folder) {
  if (files.FileExists(folder).ok()) return absl::OkStatus();
  if (absl::IsNotFound(files.FileExists(Folder(folder)))) {
    return NotFound(folder, "; No such file or directory: make ", Folder(folder), " first");
  }
  return files.CreateDirectories(folder);
}

std::string Folder(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return CleanPath(slash == absl::string_view::npos ? "" : path.substr(0, slash + 1));
}

std::string TemporaryPath(const std::string& path) {
  static std::atomic<uint64_t> next{0};
  std::random_device random;
  return absl::StrCat(path, kTemporarySuffix, (uint64_t{random()} << 32) + next.fetch_add(1));
}

absl::Status WriteIndex(FileSystem& files, const std::string& path, const tensorflow::BundleHeaderProto& header,
                        const std::vector<std::pair<std::string, const tensorflow::BundleEntryProto*>>& entries) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.NewWritableFile(path));
  TableWriter table(*file);
  table.Add("", header.SerializeAsString());
  for (const auto& [key, entry] : entries) table.Add(key, entry->SerializeAsString());
  RETURN_IF_ERROR(table.Finish());
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

absl::StatusOr<Publication> Publication::Plan(FileSystem& files, const std::string& prefix, int count) {
  Publication plan;
  plan.prefix_ = prefix;
  plan.num_shards_ = std::max(count, 1);
  plan.replaces_ = files.FileExists(IndexPath(prefix)).ok();
  if (!plan.replaces_) return plan;
  const auto taken = [&](int num_shards) {
    for (int i = 0; i < count; ++i) {
      if (files.FileExists(DataPath(prefix, i, num_shards)).ok()) return true;
    }
    return false;
  };
  while (taken(plan.num_shards_)) ++plan.num_shards_;
  // Other files with such a name belong to the checkpoint that is replaced, or to older ones.
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.ListDirectory(Folder(prefix)));
  const size_t slash = prefix.rfind('/');
  const std::string data = absl::StrCat(slash == std::string::npos ? prefix : prefix.substr(slash + 1), ".data-");
  for (const std::string& name : names) {
    if (absl::StartsWith(name, data) && name.size() == data.size() + std::strlen("00000-of-00001")) {
      plan.old_data_.push_back(absl::StrCat(Folder(prefix), "/", name));
    }
  }
  return plan;
}

absl::Status Publication::Commit(FileSystem& files, const std::vector<std::string>& data,
                                 const std::string& index) const {
  const std::string folder = Folder(prefix_);
  RETURN_IF_ERROR(FailPoint("save.before_rename"));
  for (size_t i = 0; i < data.size(); ++i) {
    RETURN_IF_ERROR(files.Rename(data[i], DataPath(prefix_, static_cast<int>(i), num_shards_)));
  }
  // A new index never comes to lie over names that are not there.
  if (replaces_) RETURN_IF_ERROR(files.SyncDirectory(folder));
  RETURN_IF_ERROR(FailPoint("save.between_renames"));
  RETURN_IF_ERROR(files.Rename(index, IndexPath(prefix_)));
  RETURN_IF_ERROR(files.SyncDirectory(folder));
  PassFailPoint("save.after_renames");
  for (const std::string& path : old_data_) files.DeleteFile(path).IgnoreError();  // if they stay they do no harm
  return absl::OkStatus();
}

TemporaryFiles::~TemporaryFiles() {
  for (const std::string& path : paths_) files_.DeleteFile(path).IgnoreError();  // the save has failed already
}

}  // namespace internal

namespace {

struct Merged {
  tensorflow::BundleHeaderProto header;  // the header of the first bundle
  bool has_header = false;
  std::map<std::string, tensorflow::BundleEntryProto> entries;
  std::map<std::string, int> shards;  // data files, by the path they have now
};

absl::Status CheckSameHeader(const tensorflow::BundleHeaderProto& a, const tensorflow::BundleHeaderProto& b) {
  if (a.endianness() != b.endianness()) {
    return InvalidArgument("Merging bundles with conflicting endianness; inputs corrupted?");
  }
  if (a.version().SerializeAsString() != b.version().SerializeAsString()) {
    return InvalidArgument("Merging bundles with different format versions: merged ", a.version().ShortDebugString(),
                           " vs. curr ", b.version().ShortDebugString());
  }
  return absl::OkStatus();
}

absl::Status MergeOne(FileSystem& files, const std::string& prefix, Merged* merged) {
  ASSIGN_OR_RETURN(const BundleIndex index, BundleIndex::Read(files, prefix));
  if (!merged->has_header) {
    merged->header = index.header();
    merged->has_header = true;
  }
  RETURN_IF_ERROR(CheckSameHeader(merged->header, index.header()));
  for (const auto& [key, value] : index.entries()) {
    ASSIGN_OR_RETURN(tensorflow::BundleEntryProto entry, index.Parse(key, value));
    const auto known = merged->entries.find(key);
    if (known == merged->entries.end()) {
      const std::string path = DataPath(prefix, entry.shard_id(), index.header().num_shards());
      entry.set_shard_id(merged->shards.try_emplace(path, merged->shards.size()).first->second);
      merged->entries.emplace(key, std::move(entry));
      continue;
    }
    // A key may occur twice only if both entries are slices of the same tensor.
    if (known->second.slices().empty()) {
      return InvalidArgument("Duplicate tensor keyed by ", key, " encountered, when merging prefix: ", prefix);
    }
    if (entry.slices().empty()) {
      return Internal("Duplicate tensor keyed by ", key, "; attempting to merge in a non-slice bundle entry");
    }
    if (known->second.dtype() != entry.dtype() ||
        known->second.shape().SerializeAsString() != entry.shape().SerializeAsString()) {
      return InvalidArgument("Parts of tensor ", key, " differ in type or shape, when merging prefix: ", prefix);
    }
    known->second.mutable_slices()->MergeFrom(entry.slices());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MergeBundles(FileSystem& files, const std::vector<std::string>& prefixes, const std::string& merged_prefix,
                          const MergeOptions& options) {
  const std::string folder = internal::Folder(merged_prefix);
  RETURN_IF_ERROR(internal::MakeFolder(files, folder));
  Merged merged;
  for (const std::string& prefix : prefixes) {
    const absl::Status exists = files.FileExists(IndexPath(prefix));
    if (!exists.ok()) {
      if (options.allow_missing_files) continue;
      return InvalidArgument("allow_missing_files was set to false and ", prefix, " did not exist.", exists.ToString());
    }
    RETURN_IF_ERROR(MergeOne(files, prefix, &merged));
  }
  if (!merged.has_header) {
    return InvalidArgument("At least one prefix checkpoint file must exist, but none existed.");
  }
  // Files in which no tensor lies are left behind.
  std::vector<std::string> data(merged.shards.size());
  for (const auto& [path, shard] : merged.shards) data[shard] = path;
  ASSIGN_OR_RETURN(const internal::Publication publication,
                   internal::Publication::Plan(files, merged_prefix, static_cast<int>(data.size())));
  merged.header.set_num_shards(publication.num_shards());
  std::vector<std::pair<std::string, const tensorflow::BundleEntryProto*>> entries;
  for (const auto& [key, entry] : merged.entries) entries.emplace_back(key, &entry);
  internal::TemporaryFiles temporary(files);
  const std::string index = internal::TemporaryPath(IndexPath(merged_prefix));
  temporary.Add(index);
  RETURN_IF_ERROR(internal::WriteIndex(files, index, merged.header, entries));
  RETURN_IF_ERROR(publication.Commit(files, data, index));
  temporary.Keep();
  for (const std::string& prefix : prefixes) {
    // Without its data it is nothing; if it stays it does no harm.
    if (prefix != merged_prefix) files.DeleteFile(IndexPath(prefix)).IgnoreError();
  }
  return absl::OkStatus();
}

}  // namespace thalweg
