// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/log_format.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

namespace thalweg {
namespace {

thread_local const LogStepScope* innermost_step = nullptr;

}  // namespace

LogStepScope::LogStepScope(int64_t step_id, const std::string& session)
    : step_id_(step_id), session_(session), outer_(innermost_step) {
  innermost_step = this;
}
LogStepScope::~LogStepScope() { innermost_step = outer_; }
const LogStepScope* LogStepScope::Current() { return innermost_step; }

}  // namespace thalweg

namespace thalweg::internal {
namespace {

// The part of a line after level, time and thread: "placer.cc:87] text".
absl::string_view PlaceAndText(absl::string_view line) {
  for (int i = 0; i < 3; ++i) {
    const size_t space = line.find(' ');
    if (space == absl::string_view::npos) return line;
    line.remove_prefix(space + 1);
  }
  return line;
}

std::string JsonString(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", std::string(1, c));
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<int>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

const char* LevelName(char letter) {
  switch (letter) {
    case 'W':
      return "WARNING";
    case 'E':
      return "ERROR";
    case 'F':
      return "FATAL";
    default:
      return "INFO";
  }
}

}  // namespace

std::string JsonLogLine(absl::string_view line, absl::string_view task, int64_t unix_micros, const LogStepScope* step) {
  absl::ConsumeSuffix(&line, "\n");
  const std::vector<absl::string_view> head = absl::StrSplit(line, absl::MaxSplits(' ', 3));
  absl::string_view place = PlaceAndText(line);
  const size_t end = place.find("] ");
  const absl::string_view text = end == absl::string_view::npos ? "" : place.substr(end + 2);
  place = place.substr(0, end);
  const size_t colon = place.rfind(':');
  int64_t thread = 0, number = 0;
  if (head.size() > 2) (void)absl::SimpleAtoi(head[2], &thread);
  if (colon != absl::string_view::npos) (void)absl::SimpleAtoi(place.substr(colon + 1), &number);
  std::string json = absl::StrCat(
      "{\"time\":\"", absl::FormatTime("%Y-%m-%d%ET%H:%M:%E6S", absl::FromUnixMicros(unix_micros), absl::UTCTimeZone()),
      "Z\",\"level\":\"", LevelName(line.empty() ? 'I' : line[0]), "\",\"thread\":", thread,
      ",\"file\":", JsonString(place.substr(0, colon)), ",\"line\":", number);
  if (!task.empty()) absl::StrAppend(&json, ",\"task\":", JsonString(task));
  if (step != nullptr) {
    absl::StrAppend(&json, ",\"session\":", JsonString(step->session()), ",\"step\":\"", absl::Hex(step->step_id()),
                    "\"");
  }
  return absl::StrCat(json, ",\"text\":", JsonString(text), "}\n");
}

bool RepeatedLines::Allows(absl::string_view line, int64_t now_micros, int64_t* omitted) {
  const absl::string_view what = PlaceAndText(line);
  const size_t hash = std::hash<std::string_view>()(std::string_view(what.data(), what.size()));
  Line& known = lines_[hash % kLines];
  *omitted = 0;
  if (known.hash != hash || now_micros - known.since_micros > kWindowMicros) {
    if (known.hash == hash) *omitted = std::max<int64_t>(known.count - kAllowed, 0);
    known = {hash, now_micros, 0};
  }
  return ++known.count <= kAllowed;
}

}  // namespace thalweg::internal
