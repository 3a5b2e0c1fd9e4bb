// SPDX-License-Identifier: Apache-2.0
// Log lines as glog writes them, to stderr:
//
//   I1115 21:17:04.123456 4242 placer.cc:87] text
//
//   THALWEG_LOG(INFO) << "registered " << n << " nodes";   INFO, WARNING, ERROR, FATAL
//   THALWEG_VLOG(1) << "detail";                           only at --v=1 and above
//   THALWEG_CHECK(slot >= 0) << "slot " << slot;           own bugs, never user input
//
// thalweg/short_macros.h adds the short names LOG, VLOG and CHECK.
//
// A line is written with one write(2), so that lines of several threads and
// processes do not mix. FATAL and a failed CHECK abort.
//
// Every program that parses its command line with absl::ParseCommandLine has the
// flags --v and --minloglevel, which are SetVerbosity and SetMinLogLevel.
#pragma once

#include <sstream>
#include <string>

namespace thalweg {

// How important a line is. kFatal ends the program.
enum class LogLevel {
  kInfo = 0,     // I
  kWarning = 1,  // W
  kError = 2,    // E
  kFatal = 3,    // F
};

// Lines below `level` are dropped. FATAL is always written. Thread-safe.
void SetMinLogLevel(LogLevel level);
// VLOG lines of levels up to `verbosity` are written; 0 by default.
void SetVerbosity(int verbosity);
LogLevel MinLogLevel();  // what SetMinLogLevel has set
int Verbosity();         // what SetVerbosity has set

// A function that takes log lines. Called from several threads at once.
using LogSink = void (*)(LogLevel level, const std::string& line);
// Sends lines to `sink` instead of stderr, for tests. nullptr restores stderr.
void SetLogSink(LogSink sink);

/// @cond INTERNAL
namespace internal {

// One line: text is streamed in, the destructor writes it.
class LogLine {
 public:
  LogLine(LogLevel level, const char* file, int line);
  ~LogLine();
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  std::ostream& stream() { return text_; }

 private:
  const LogLevel level_;
  std::ostringstream text_;
};

// Makes `condition ? (void)0 : Voidify() & stream` a statement of type void.
struct Voidify {
  void operator&(std::ostream&) {}
};

inline constexpr LogLevel INFO = LogLevel::kInfo;
inline constexpr LogLevel WARNING = LogLevel::kWarning;
inline constexpr LogLevel ERROR = LogLevel::kError;
inline constexpr LogLevel FATAL = LogLevel::kFatal;

}  // namespace internal
/// @endcond

}  // namespace thalweg

/// @cond INTERNAL
#define THALWEG_LOG_(level) ::thalweg::internal::LogLine(level, __FILE__, __LINE__).stream()
/// @endcond

// A line of level INFO, WARNING, ERROR or FATAL; the text is streamed into it.
#define THALWEG_LOG(level)                                                                                           \
  ::thalweg::internal::level < ::thalweg::MinLogLevel() && ::thalweg::internal::level != ::thalweg::LogLevel::kFatal \
      ? (void)0                                                                                                      \
      : ::thalweg::internal::Voidify() & THALWEG_LOG_(::thalweg::internal::level)

// A line of level INFO that is written if n <= Verbosity().
#define THALWEG_VLOG(n) \
  (n) > ::thalweg::Verbosity() ? (void)0 : ::thalweg::internal::Voidify() & THALWEG_LOG_(::thalweg::LogLevel::kInfo)

// Writes a FATAL line and aborts unless `condition` holds. For bugs, never for input.
#define THALWEG_CHECK(condition) \
  (condition)                    \
      ? (void)0                  \
      : ::thalweg::internal::Voidify() & THALWEG_LOG_(::thalweg::LogLevel::kFatal) << "Check failed: " #condition " "

#ifdef THALWEG_SHORT_MACROS
#include "thalweg/base/short_macros.h"  // IWYU pragma: keep
#endif
