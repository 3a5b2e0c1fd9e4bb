// TensorFlow's checkpoints (V2), as a whole: a *tensor bundle* named by a path
// prefix. Tensors lie one after the other in data files, and an index says
// where:
//
//   model.ckpt-100.index                  a table: name -> type, shape, file, place, checksum
//   model.ckpt-100.data-00000-of-00002    bytes, little endian
//   model.ckpt-100.data-00001-of-00002
//
// The index is what makes a checkpoint: it comes last.
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
  bool allow_missing_files = false;  // skip bundles that are not there, if one is
};

// Makes one bundle of several by moving their data files and joining their
// indexes, which are then deleted. INVALID_ARGUMENT if two have the same tensor.
// All that can fail for want of space is done before the first file moves.
absl::Status MergeBundles(FileSystem& files, const std::vector<std::string>& prefixes, const std::string& merged_prefix,
                          const MergeOptions& options = {});

namespace internal {

// The one spelling of a path, for comparisons: "a/b" for "a//b/", "./a/b" and
// "a/./b", "." for "". What is before a ".." may be a link, and stays.
std::string CleanPath(absl::string_view path);
// "/a/b" for "/a/b/c", "." for "c"; clean.
std::string Folder(absl::string_view path);
// Makes a folder if it is not there. As in TensorFlow, the one it lies in must be:
// else NOT_FOUND, so that a wrong path is not taken for a new one.
absl::Status MakeFolder(FileSystem& files, const std::string& folder);
// A name beside `path` that nobody else uses: it, kTemporarySuffix and a number.
constexpr char kTemporarySuffix[] = ".tempstate";
std::string TemporaryPath(const std::string& path);
// Writes header and entries, synced, into a new file.
absl::Status WriteIndex(FileSystem& files, const std::string& path, const tensorflow::BundleHeaderProto& header,
                        const std::vector<std::pair<std::string, const tensorflow::BundleEntryProto*>>& entries);

// New data files beside those of a checkpoint of the same name that is there
// already, which stays whole until the new index takes the place of its own. For
// this the new files have other names: they speak of another number of files.
class Publication {
 public:
  // For `count` data files under the name `prefix`.
  static absl::StatusOr<Publication> Plan(FileSystem& files, const std::string& prefix, int count);

  int num_shards() const { return num_shards_; }  // for the header and the names
  // Gives the files their names, the index last, and deletes those that it
  // replaces. REQUIRES: all are synced; data[i] is shard i.
  absl::Status Commit(FileSystem& files, const std::vector<std::string>& data, const std::string& index) const;

 private:
  std::string prefix_;
  int num_shards_ = 1;
  bool replaces_ = false;
  std::vector<std::string> old_data_;
};

// Deletes the files that were added, unless they were kept: half-written ones
// of a save that failed.
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
