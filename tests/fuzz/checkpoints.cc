// SPDX-License-Identifier: Apache-2.0
// Checkpoints: an index and a data file, as bytes, or as an index whose blocks have valid checksums.
#include <map>

#include "fuzz_target.h"
#include "thalweg/base/logging.h"
#include "thalweg/checkpoint/bundle_reader.h"
#include "thalweg/checkpoint/bundle_writer.h"
#include "thalweg/checkpoint/table.h"
#include "thalweg/checkpoint/v1_checkpoint.h"

namespace thalweg::fuzz {
namespace {

constexpr char kPrefix[] = "m";
constexpr char kIndex[] = "m.index";
constexpr char kData[] = "m.data-00000-of-00001";

std::string WriteTable(const std::map<std::string, std::string>& entries) {
  MemoryFileSystem files;
  const auto file = files.NewWritableFile("t", WriteMode::kTruncate);
  TableWriter writer(**file);
  for (const auto& [key, value] : entries) writer.Add(key, value);
  CHECK(writer.Finish().ok());
  return files.files["t"];
}

void ReadBundle(MemoryFileSystem& files) {
  const auto reader = BundleReader::Open(files, kPrefix);
  if (!reader.ok()) return;
  int left = 50;
  for (const std::string& name : (*reader)->Names()) {
    if (--left == 0) return;
    const auto info = (*reader)->Find(name);
    if (info.ok() && info->shape.num_elements() < (1 << 20)) (*reader)->Read(name).status().IgnoreError();
  }
}

void ReadV1(MemoryFileSystem& files) {
  const auto table = Table::Open(files, kIndex);
  if (!table.ok()) return;
  const auto entries = (*table)->ReadAll();
  if (entries.ok() && !entries->empty()) (*table)->Find(entries->front().first).status().IgnoreError();
}

}  // namespace

void TestOneInput(absl::string_view input) {
  InputReader reader(input);
  const int which = reader.Byte() % 3;
  MemoryFileSystem files;
  if (which == 0) {
    files.files[kIndex] = std::string(reader.Part());
    files.files[kData] = std::string(reader.Rest());
  } else {
    files.files[kData] = std::string(reader.Part());
    std::map<std::string, std::string> entries;
    while (!reader.empty()) {
      const std::string key(reader.Part());
      entries[key] = std::string(reader.Part());
    }
    files.files[kIndex] = WriteTable(entries);
  }
  which == 2 ? ReadV1(files) : ReadBundle(files);
}

std::vector<std::string> Seeds() {
  MemoryFileSystem files;
  {
    const auto writer = BundleWriter::Create(files, kPrefix);
    CHECK(writer.ok()) << writer.status();
    CHECK((*writer)->Add("a", Tensor::Scalar<float>(3)).ok());
    CHECK((*writer)->Add("b", Tensor::Of<int32_t>({2, 2}, {1, 2, 3, 4})).ok());
    CHECK((*writer)->Add("text", Tensor::Vector<std::string>({"one", "", "three"})).ok());
    CHECK((*writer)->Finish().ok());
  }
  const std::string& index = files.files[kIndex];
  const std::string& data = files.files[kData];
  std::vector<std::string> seeds = {std::string(1, '\0') + MakePart(index) + data};
  const auto table = Table::Open(files, kIndex);
  CHECK(table.ok()) << table.status();
  const auto entries = (*table)->ReadAll();
  CHECK(entries.ok()) << entries.status();
  for (const char which : {'\x01', '\x02'}) {
    std::string seed = std::string(1, which) + MakePart(data);
    for (const auto& [key, value] : *entries) seed += MakePart(key) + MakePart(value);
    seeds.push_back(seed);
  }
  return seeds;
}

}  // namespace thalweg::fuzz
