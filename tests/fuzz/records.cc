// SPDX-License-Identifier: Apache-2.0
// Files of records, plain and compressed, and the messages in them.
#include "fuzz_target.h"
#include "thalweg/base/logging.h"
#include "thalweg/data/tfrecord.h"
#include "thalweg/proto/event.pb.h"
#include "thalweg/proto/example.pb.h"

namespace thalweg::fuzz {
namespace {

constexpr data::Compression kCompressions[] = {data::Compression::kNone, data::Compression::kZlib,
                                               data::Compression::kGzip};

std::string Written(const std::vector<std::string>& records, data::Compression compression) {
  MemoryFileSystem files;
  const auto writer = data::RecordWriter::Open("f", compression, files);
  CHECK(writer.ok()) << writer.status();
  for (const std::string& record : records) CHECK((*writer)->Write(record).ok());
  CHECK((*writer)->Close().ok());
  return files.files["f"];
}

void ReadAll(MemoryFileSystem& files, data::Compression compression) {
  const auto reader = data::RecordReader::Open("f", compression, files);
  if (!reader.ok()) return;
  std::string record;
  for (int i = 0; i < 1000; ++i) {
    const auto more = (*reader)->Next(&record);
    if (!more.ok() || !*more) return;
    tensorflow::Event event;
    event.ParseFromString(record);
    tensorflow::Example example;
    example.ParseFromString(record);
  }
}

}  // namespace

void TestOneInput(absl::string_view input) {
  InputReader reader(input);
  const int which = reader.Byte() % 6;
  MemoryFileSystem files;
  if (which < 3) {  // the file itself
    files.files["f"] = std::string(reader.Rest());
  } else {  // records with valid checksums
    std::vector<std::string> records;
    while (!reader.empty()) records.emplace_back(reader.Part());
    files.files["f"] = Written(records, kCompressions[which % 3]);
  }
  ReadAll(files, kCompressions[which % 3]);
}

std::vector<std::string> Seeds() {
  tensorflow::Event event;
  event.set_wall_time(1);
  event.set_step(3);
  const std::vector<std::string> records = {"", "ab", event.SerializeAsString(), std::string(300, 'x')};
  std::vector<std::string> seeds;
  for (int i = 0; i < 3; ++i)
    seeds.push_back(std::string(1, static_cast<char>(i)) + Written(records, kCompressions[i]));
  std::string parts(1, '\x03');
  for (const std::string& record : records) parts += MakePart(record);
  seeds.push_back(parts);
  return seeds;
}

}  // namespace thalweg::fuzz
