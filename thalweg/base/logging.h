// Log lines as glog writes them, to stderr:
//
//   I1115 21:17:04.123456 4242 placer.cc:87] text
//
//   LOG(INFO) << "registered " << n << " nodes";   INFO, WARNING, ERROR, FATAL
//   VLOG(1) << "detail";                           only at --v=1 and above
//   CHECK(slot >= 0) << "slot " << slot;           our own bugs, never user input
//
// A line is written by one write(2): lines of several threads and processes do
// not mix. FATAL and a failed CHECK abort.
//
// Every program that parses its command line with absl::ParseCommandLine has the
// flags --v and --minloglevel, which are SetVerbosity and SetMinLogLevel.
#pragma once

#include <sstream>
#include <string>

namespace thalweg {

enum class LogLevel { kInfo = 0, kWarning = 1, kError = 2, kFatal = 3 };

// Lines below `level` are dropped. FATAL is always written. Thread-safe.
void SetMinLogLevel(LogLevel level);
void SetVerbosity(int verbosity);
LogLevel MinLogLevel();
int Verbosity();

// Where lines go instead of stderr, for tests; nullptr is stderr again. The
// sink may be called from several threads at once.
using LogSink = void (*)(LogLevel level, const std::string& line);
void SetLogSink(LogSink sink);

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
}  // namespace thalweg

#define THALWEG_LOG_(level) ::thalweg::internal::LogLine(level, __FILE__, __LINE__).stream()

#define LOG(level)                                                                                                   \
  ::thalweg::internal::level < ::thalweg::MinLogLevel() && ::thalweg::internal::level != ::thalweg::LogLevel::kFatal \
      ? (void)0                                                                                                      \
      : ::thalweg::internal::Voidify() & THALWEG_LOG_(::thalweg::internal::level)

#define VLOG(n) \
  (n) > ::thalweg::Verbosity() ? (void)0 : ::thalweg::internal::Voidify() & THALWEG_LOG_(::thalweg::LogLevel::kInfo)

#define CHECK(condition) \
  (condition)            \
      ? (void)0          \
      : ::thalweg::internal::Voidify() & THALWEG_LOG_(::thalweg::LogLevel::kFatal) << "Check failed: " #condition " "
