// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/log_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace thalweg {
namespace {

TEST(LogFormatTest, JsonHasTheFieldsOfALine) {
  EXPECT_EQ(internal::JsonLogLine("W1115 21:17:04.123456 4242 placer.cc:87] a \"b\"\tc\n", "ps 0", 1'000'002),
            "{\"time\":\"1970-01-01T00:00:01.000002Z\",\"level\":\"WARNING\",\"thread\":4242,\"file\":\"placer.cc\","
            "\"line\":87,\"task\":\"ps 0\",\"text\":\"a \\\"b\\\"\\u0009c\"}\n");
  const std::string session = "1f3a";
  const LogStepScope outer(0x8c2e, session);
  {
    const LogStepScope inner(7, session);
    EXPECT_EQ(LogStepScope::Current(), &inner);
  }
  EXPECT_EQ(LogStepScope::Current(), &outer);
  EXPECT_THAT(internal::JsonLogLine("W1115 21:17:04.123456 4242 placer.cc:87] a\n", "ps 0", 0, &outer),
              testing::HasSubstr("\"task\":\"ps 0\",\"session\":\"1f3a\",\"step\":\"8c2e\",\"text\":\"a\""));
  EXPECT_THAT(internal::JsonLogLine("nothing\n", "", 0), testing::HasSubstr("\"text\":\"\""));
}

TEST(LogFormatTest, RepeatedLinesAreLimitedAndCounted) {
  internal::RepeatedLines lines;
  int64_t omitted = 0;
  int written = 0;
  for (int i = 0; i < 43; ++i) {
    // Time and thread differ; the place and the text do not.
    const std::string line = absl::StrCat("W1115 21:17:04.", 100000 + i, " ", i, " a.cc:1] ps 0 is lost\n");
    written += lines.Allows(line, /*now_micros=*/1 + i, &omitted) ? 1 : 0;
    EXPECT_EQ(omitted, 0);
  }
  EXPECT_EQ(written, internal::RepeatedLines::kAllowed);
  EXPECT_TRUE(lines.Allows("W1115 21:17:04.1 1 a.cc:1] ps 1 is lost\n", 50, &omitted));
  const int64_t later = 2 * internal::RepeatedLines::kWindowMicros;
  EXPECT_TRUE(lines.Allows("W1115 21:17:30.1 9 a.cc:1] ps 0 is lost\n", later, &omitted));
  EXPECT_EQ(omitted, 40);
}

}  // namespace
}  // namespace thalweg
