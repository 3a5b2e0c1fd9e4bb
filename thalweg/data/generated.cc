// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/generated.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/data/cifar10.h"

namespace thalweg::data {
namespace {

std::string Cifar10File(int64_t images, std::mt19937_64& random) {
  std::string bytes;
  for (int64_t i = 0; i < images; ++i) {
    const int label = static_cast<int>(random() % kCifar10Classes);
    bytes.push_back(static_cast<char>(label));
    const int phase = static_cast<int>(random() % kCifar10Size);
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < kCifar10Size; ++y) {
        for (int x = 0; x < kCifar10Size; ++x) {
          // Stripes of one of five widths in one of two directions, bright in one channel.
          const int along = label % 2 == 0 ? x : y;
          const bool stripe = (along + phase) / (label / 2 + 1) % 2 == 0;
          const int level = (stripe ? 160 : 60) + (label % 3 == c ? 50 : 0);
          bytes.push_back(static_cast<char>(level + static_cast<int>(random() % 41) - 20));
        }
      }
    }
  }
  return bytes;
}

std::string PtbFile(int64_t words, std::mt19937_64& random) {
  constexpr int kWords = 50;
  std::string text;
  int word = 0;
  for (int64_t i = 0; i < words; ++i) {
    // Three times out of four the word follows from the last.
    word = random() % 4 != 0 ? (word * 7 + 3) % kWords : static_cast<int>(random() % kWords);
    absl::StrAppend(&text, " w", word, i % 20 == 19 ? " \n" : "");
  }
  return text + " \n";
}

}  // namespace

absl::Status GenerateCifar10(const std::string& folder, int64_t images_per_file, const GeneratedOptions& options) {
  FileSystem& files = *options.file_system;
  RETURN_IF_ERROR(files.CreateDirectories(folder));
  std::mt19937_64 random(options.seed);
  for (const char* name :
       {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}) {
    RETURN_IF_ERROR(
        files.WriteStringToFile(absl::StrCat(folder, "/", name, ".bin"), Cifar10File(images_per_file, random)));
  }
  return absl::OkStatus();
}

absl::Status GeneratePtb(const std::string& folder, int64_t words, const GeneratedOptions& options) {
  FileSystem& files = *options.file_system;
  RETURN_IF_ERROR(files.CreateDirectories(folder));
  std::mt19937_64 random(options.seed);
  for (const char* name : {"train", "valid", "test"}) {
    const int64_t count = std::string(name) == "train" ? 10 * words : words;
    RETURN_IF_ERROR(files.WriteStringToFile(absl::StrCat(folder, "/ptb.", name, ".txt"), PtbFile(count, random)));
  }
  return absl::OkStatus();
}

absl::Status GenerateText8(const std::string& path, int64_t words, const GeneratedOptions& options) {
  constexpr int kGroups = 20, kWordsOfGroup = 10;
  std::mt19937_64 random(options.seed);
  std::string text;
  int group = 0;
  for (int64_t i = 0; i < words; ++i) {
    if (i % 10 == 0) group = static_cast<int>(random() % kGroups);
    absl::StrAppend(&text, i == 0 ? "" : " ", "g", group, "w", random() % kWordsOfGroup);
  }
  return options.file_system->WriteStringToFile(path, text);
}

absl::StatusOr<TemporaryFolder> TemporaryFolder::Create() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "thalweg.XXXXXX").string();
  if (error) return InvalidArgument("no folder for temporary files: ", error.message());
  if (mkdtemp(path.data()) == nullptr) return FileError("mkdtemp", path, errno);
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace thalweg::data
