// SPDX-License-Identifier: Apache-2.0
// How log lines look: glog's format, or JSON for programs that collect logs.
//
//   I1115 21:17:04.123456 4242 placer.cc:87] text
//   {"time":"2026-11-15T21:17:04.123456Z","level":"INFO","thread":4242,"file":"placer.cc","line":87,"task":"ps
//   0","session":"1f3a","step":"8c2e5d","text":"text"}
//
// Every program that parses its command line with absl::ParseCommandLine has the flag
// --log_format, which is SetLogFormat.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace thalweg {

enum class LogFormat { kGlog, kJson };

void SetLogFormat(LogFormat format);
// The task that JSON lines name; "" leaves it out.
void SetLogTask(std::string task);

// As long as it lives, JSON lines of this thread name a step, as traces do, and its session.
// Scopes nest: the innermost counts.
class LogStepScope {
 public:
  // `session` is borrowed.
  LogStepScope(int64_t step_id, const std::string& session);
  ~LogStepScope();
  LogStepScope(const LogStepScope&) = delete;
  LogStepScope& operator=(const LogStepScope&) = delete;

  static const LogStepScope* Current();  // nullptr: there is none
  int64_t step_id() const { return step_id_; }
  const std::string& session() const { return session_; }

 private:
  const int64_t step_id_;
  const std::string& session_;
  const LogStepScope* const outer_;
};

/// @cond INTERNAL
namespace internal {

// A line of glog's format, with its end of line, as JSON.
std::string JsonLogLine(absl::string_view line, absl::string_view task, int64_t unix_micros,
                        const LogStepScope* step = nullptr);

// Limits repetitions: of lines with the same place and text, the first few within some
// seconds are written. Not thread-safe.
class RepeatedLines {
 public:
  static constexpr int kAllowed = 3;
  static constexpr int64_t kWindowMicros = 10'000'000;

  // Whether to write the line. If others like it were left out before, `*omitted` is their
  // number.
  bool Allows(absl::string_view line, int64_t now_micros, int64_t* omitted);

 private:
  static constexpr int kLines = 64;
  struct Line {
    size_t hash = 0;
    int64_t since_micros = 0;
    int64_t count = 0;  // in this window
  };
  Line lines_[kLines];  // by hash
};

}  // namespace internal
/// @endcond
}  // namespace thalweg
