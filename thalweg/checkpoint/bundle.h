// SPDX-License-Identifier: Apache-2.0
// TensorFlow's V2 checkpoints: a *tensor bundle*, named by a path prefix. Data files hold
// the tensors one after the other, and the index says where each of them is:
//
//   model.ckpt-100.index                  a table: name -> type, shape, file, offset, checksum
//   model.ckpt-100.data-00000-of-00002    bytes, little endian
//   model.ckpt-100.data-00001-of-00002
//
// The checkpoint exists once its index does, so the index is written last.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/file_system.h"
#include "thalweg/proto/tensor_bundle.pb.h"

namespace thalweg {

std::string IndexPath(absl::string_view prefix);
std::string DataPath(absl::string_view prefix, int shard, int num_shards);

struct MergeOptions {
  bool allow_missing_files = false;  // skip bundles that do not exist, as long as one does
};

// Merges bundles by renaming their data files and merging their indexes, which are then
// deleted. INVALID_ARGUMENT if two bundles contain the same tensor. Everything that can fail
// for lack of space is done before the first file is renamed.
absl::Status MergeBundles(FileSystem& files, const std::vector<std::string>& prefixes, const std::string& merged_prefix,
                          const MergeOptions& options = {});

namespace internal {

// Normalizes a path for comparisons: "a/b" for "a//b/", "./a/b" and "a/./b", "." for "".
// Does not resolve "..", because the component before it may be a link.
std::string CleanPath(absl::string_view path);
// The normalized folder of a path: "/a/b" for "/a/b/c", "." for "c".
std::string Folder(absl::string_view path);
// Creates a folder if it does not exist. As in TensorFlow, its parent must exist; otherwise
// NOT_FOUND, so that a mistyped path is noticed.
absl::Status MakeFolder(FileSystem& files, const std::string& folder);
// A unique temporary name beside `path`: `path`, kTemporarySuffix and a number.
constexpr char kTemporarySuffix[] = ".tempstate";
std::string TemporaryPath(const std::string& path);
// Writes header and entries into a new file and syncs it.
absl::Status WriteIndex(FileSystem& files, const std::string& path, const tensorflow::BundleHeaderProto& header,
                        const std::vector<std::pair<std::string, const tensorflow::BundleEntryProto*>>& entries);

// Replaces a checkpoint of the same name atomically. The old data files must stay intact
// until the new index replaces the old one, so the new data files need different names. They
// get them by stating a different number of shards.
class Publication {
 public:
  // Plans the names of `count` data files of checkpoint `prefix`.
  static absl::StatusOr<Publication> Plan(FileSystem& files, const std::string& prefix, int count);

  int num_shards() const { return num_shards_; }  // for the header and the names
  // Renames the temporary files to their final names, the index last, and deletes the files
  // that they replace. REQUIRES: all files are synced; data[i] is shard i.
  absl::Status Commit(FileSystem& files, const std::vector<std::string>& data, const std::string& index) const;

 private:
  std::string prefix_;
  int num_shards_ = 1;
  bool replaces_ = false;
  std::vector<std::string> old_data_;
};

// Deletes the added files in its destructor, unless Keep() was called. Cleans up after a
// failed save.
class TemporaryFiles {
 public:
  explicit TemporaryFiles(FileSystem& files) : files_(files) {}
  ~TemporaryFiles();
  void Add(std::string path) { paths_.push_back(std::move(path)); }
  void Keep() { paths_.clear(); }

 private:
  FileSystem& files_;
  std::vector<std::string> paths_;
};

}  // namespace internal
}  // namespace thalweg
