// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/event_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace thalweg::data {
namespace {

using testing::HasSubstr;

std::vector<tensorflow::Event> Read(const std::string& path) {
  std::vector<tensorflow::Event> events;
  auto reader = RecordReader::Open(path);
  std::string record;
  while (reader.ok() && *(*reader)->Next(&record)) EXPECT_TRUE(events.emplace_back().ParseFromString(record));
  return events;
}

TEST(EventFileTest, KeepsTheTimeThatAnEventHas) {
  const std::string folder = testing::TempDir() + "event_file_test/logs";
  auto file = EventFile::Open(folder, {.suffix = ".x"});
  ASSERT_TRUE(file.ok()) << file.status();
  tensorflow::Event event;
  event.set_step(3);
  ASSERT_TRUE((*file)->Add(event).ok());
  event.set_wall_time(4);
  ASSERT_TRUE((*file)->Add(event).ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*file)->Add(event)));
  const std::vector<tensorflow::Event> events = Read((*file)->path());
  ASSERT_EQ(events.size(), 3);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_GT(events[1].wall_time(), 1e9);
  EXPECT_EQ(events[2].wall_time(), 4);
  EXPECT_TRUE(PosixFileSystem().DeleteRecursively(testing::TempDir() + "event_file_test").ok());
}

// The folder before the byte exists, whatever number follows.
TEST(EventFileTest, NamesWithAByteOfZeroAreErrors) {
  const std::string folder = testing::TempDir() + std::string("a\0b", 3);
  EXPECT_THAT(EventFile::Open(folder).status().message(), HasSubstr("byte 0"));
  EXPECT_THAT(EventFile::Open(testing::TempDir(), {.suffix = std::string(1, '\0')}).status().message(),
              HasSubstr("byte 0"));
}

}  // namespace
}  // namespace thalweg::data
