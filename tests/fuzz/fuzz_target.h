// SPDX-License-Identifier: Apache-2.0
// A fuzz target: one function that must return, whatever bytes it gets.
//
// Each target is linked twice. With libFuzzer (`make fuzz`), which looks for inputs that reach new code; and with
// replay_main.cc, which runs the corpus and seeded mutations of it and needs no particular compiler.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "thalweg/base/file_system.h"

namespace thalweg::fuzz {

// Defined by each target.
void TestOneInput(absl::string_view input);
// Valid inputs to start from.
std::vector<std::string> Seeds();

// Reads the parts of an input.
class InputReader {
 public:
  explicit InputReader(absl::string_view input) : input_(input) {}
  uint8_t Byte() {
    if (input_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(input_[0]);
    input_.remove_prefix(1);
    return byte;
  }
  // Two bytes of length, then so many bytes or what is left.
  absl::string_view Part() {
    size_t n = Byte();
    n |= static_cast<size_t>(Byte()) << 8;
    const absl::string_view part = input_.substr(0, n);
    input_.remove_prefix(part.size());
    return part;
  }
  absl::string_view Rest() { return std::exchange(input_, {}); }
  bool empty() const { return input_.empty(); }

 private:
  absl::string_view input_;
};
// As Part() reads it.
std::string MakePart(absl::string_view bytes);

// Files in memory.
class MemoryFileSystem : public FileSystem {
 public:
  std::map<std::string, std::string> files;

  absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path, WriteMode mode) override;
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status DeleteFile(const std::string& path) override;
  absl::Status DeleteRecursively(const std::string& path) override;
  absl::Status FileExists(const std::string& path) override;
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override;
  absl::Status CreateDirectories(const std::string&) override { return absl::OkStatus(); }
  absl::Status SyncDirectory(const std::string&) override { return absl::OkStatus(); }
};

}  // namespace thalweg::fuzz
