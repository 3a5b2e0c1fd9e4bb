// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/logging.h"

#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "gtest/gtest.h"

namespace thalweg {
namespace {

std::vector<std::string>* lines = nullptr;

// Collects log lines, and puts levels and sink back afterwards.
class LoggingTest : public testing::Test {
 protected:
  LoggingTest() {
    lines = &lines_;
    SetLogSink([](LogLevel, const std::string& line) { lines->push_back(line); });
  }
  ~LoggingTest() override {
    SetLogSink(nullptr);
    SetMinLogLevel(LogLevel::kInfo);
    SetVerbosity(0);
  }

  std::vector<std::string> lines_;
};

TEST_F(LoggingTest, LinesLookLikeGlog) {
  LOG(INFO) << "registered " << 3 << " nodes";
  LOG(WARNING) << "slow";
  LOG(ERROR) << "lost";
  ASSERT_EQ(lines_.size(), 3);
  EXPECT_EQ(lines_[0].front(), 'I');
  EXPECT_EQ(lines_[1].front(), 'W');
  EXPECT_EQ(lines_[2].front(), 'E');
  // Lmmdd hh:mm:ss.uuuuuu thread file:line] text
  EXPECT_EQ(lines_[0][5], ' ');
  EXPECT_EQ(lines_[0][8], ':');
  EXPECT_EQ(lines_[0][14], '.');
  EXPECT_NE(lines_[0].find(" logging_test.cc:"), std::string::npos) << lines_[0];
  EXPECT_NE(lines_[0].find("] registered 3 nodes\n"), std::string::npos) << lines_[0];
}

TEST_F(LoggingTest, LevelsAreDroppedBeforeTheyAreComputed) {
  int computed = 0;
  const auto text = [&] {
    ++computed;
    return "text";
  };
  SetMinLogLevel(LogLevel::kError);
  LOG(INFO) << text();
  LOG(WARNING) << text();
  VLOG(1) << text();
  EXPECT_EQ(computed, 0);
  LOG(ERROR) << text();
  EXPECT_EQ(computed, 1);
  EXPECT_EQ(lines_.size(), 1);
}

TEST_F(LoggingTest, VerbosityOpensDetail) {
  SetVerbosity(1);
  VLOG(1) << "shown";
  VLOG(2) << "hidden";
  ASSERT_EQ(lines_.size(), 1);
  EXPECT_NE(lines_[0].find("shown"), std::string::npos);
}

// Programs that parse flags need do nothing for these.
TEST_F(LoggingTest, FlagsSetLevels) {
  const auto set = [](const char* name, const char* value) {
    absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    ASSERT_NE(flag, nullptr) << name;
    std::string error;
    EXPECT_TRUE(flag->ParseFrom(value, &error)) << error;
  };
  set("v", "2");
  EXPECT_EQ(Verbosity(), 2);
  set("minloglevel", "1");
  EXPECT_EQ(MinLogLevel(), LogLevel::kWarning);
  set("minloglevel", "7");
  EXPECT_EQ(MinLogLevel(), LogLevel::kFatal);
  set("minloglevel", "0");
  set("v", "0");
  EXPECT_EQ(MinLogLevel(), LogLevel::kInfo);
}

TEST_F(LoggingTest, MacrosAreOneStatement) {
  bool other = false;
  if (lines_.empty())
    LOG(INFO) << "first";
  else
    other = true;
  EXPECT_FALSE(other);
  EXPECT_EQ(lines_.size(), 1);
}

TEST(LoggingDeathTest, FatalAndFailedChecksAbort) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int slot = -1;
  CHECK(slot < 0) << "not reached";
  EXPECT_DEATH(LOG(FATAL) << "the end", "F.*logging_test.cc.*the end");
  EXPECT_DEATH(CHECK(slot >= 0) << "slot " << slot, "Check failed: slot >= 0 slot -1");
  SetMinLogLevel(LogLevel::kFatal);
  EXPECT_DEATH(LOG(FATAL) << "still written", "still written");
  SetMinLogLevel(LogLevel::kInfo);
}

}  // namespace
}  // namespace thalweg
