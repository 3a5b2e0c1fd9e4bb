// SPDX-License-Identifier: Apache-2.0
// Small sets in the formats of the real ones, with something in them to be
// learnt: for tests, and to try a program where there are no data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "thalweg/base/file_system.h"

namespace thalweg::data {

// The seed of generated data, and where it is written.
struct GeneratedOptions {
  uint64_t seed = 1;                             // the same seed gives the same data
  FileSystem* file_system = &PosixFileSystem();  // file system to write to; borrowed
};

// Writes the six files of CIFAR-10 with `images_per_file` noisy images each. Classes differ
// in colours and stripes.
absl::Status GenerateCifar10(const std::string& folder, int64_t images_per_file = 200,
                             const GeneratedOptions& options = {});

// Writes the three files of the Penn Treebank. The test and validation files have `words`
// words, the training file ten times as many. Most words follow from the one before.
absl::Status GeneratePtb(const std::string& folder, int64_t words = 2000, const GeneratedOptions& options = {});

// Writes a text like text8: `words` words in one line. Words belong to groups, and words of a
// group are near each other.
absl::Status GenerateText8(const std::string& path, int64_t words = 50000, const GeneratedOptions& options = {});

// A new folder below the system's temporary folder. The destructor deletes it with its contents.
class TemporaryFolder {
 public:
  // Creates a folder with a unique name.
  static absl::StatusOr<TemporaryFolder> Create();
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;

  const std::string& path() const { return path_; }  // path of the folder

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace thalweg::data
