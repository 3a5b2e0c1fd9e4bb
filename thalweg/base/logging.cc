// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/logging.h"

#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "absl/base/thread_annotations.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "thalweg/base/log_format.h"
#include "thalweg/base/mutex.h"

namespace thalweg {
namespace {

std::atomic<LogLevel> min_level{LogLevel::kInfo};
std::atomic<int> verbosity{0};
std::atomic<LogSink> sink{nullptr};

std::atomic<LogFormat> format{LogFormat::kGlog};

// Shared by all threads. Never destroyed: threads may log while the program exits.
struct Shared {
  Mutex mutex;
  internal::RepeatedLines repeated ABSL_GUARDED_BY(mutex);
  std::string task ABSL_GUARDED_BY(mutex);
};
Shared& SharedState() {
  static Shared* const shared = new Shared;
  return *shared;
}

void WriteToStderr(const std::string& line) {
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t n = write(STDERR_FILENO, line.data() + written, line.size() - written);
    if (n <= 0) return;  // nowhere left to complain
    written += n;
  }
}

}  // namespace

void SetMinLogLevel(LogLevel level) { min_level.store(level, std::memory_order_relaxed); }
void SetVerbosity(int level) { verbosity.store(level, std::memory_order_relaxed); }
LogLevel MinLogLevel() { return min_level.load(std::memory_order_relaxed); }
int Verbosity() { return verbosity.load(std::memory_order_relaxed); }
void SetLogSink(LogSink s) { sink.store(s); }
void SetLogFormat(LogFormat f) { format.store(f, std::memory_order_relaxed); }
void SetLogTask(std::string task) {
  Shared& shared = SharedState();
  MutexLock lock(&shared.mutex);
  shared.task = std::move(task);
}

namespace {

// Writes a line to stderr, in the format that was set, unless it repeats others too often.
void WriteLine(LogLevel level, std::string line) {
  const int64_t now = absl::GetCurrentTimeNanos() / 1000;
  Shared& shared = SharedState();
  int64_t omitted = 0;
  bool allowed = true;
  std::string task;
  {
    MutexLock lock(&shared.mutex);
    allowed = shared.repeated.Allows(line, now, &omitted) || level == LogLevel::kFatal;
    if (allowed) task = shared.task;
  }
  if (!allowed) return;
  if (omitted > 0) line.insert(line.size() - 1, absl::StrCat(" (", omitted, " more such lines were left out)"));
  if (format.load(std::memory_order_relaxed) == LogFormat::kJson)
    line = internal::JsonLogLine(line, task, now, LogStepScope::Current());
  WriteToStderr(line);
}

}  // namespace

namespace internal {

LogLine::LogLine(LogLevel level, const char* file, int line) : level_(level) {
  timeval now;
  gettimeofday(&now, nullptr);
  tm local;
  localtime_r(&now.tv_sec, &local);
  const char* slash = std::strrchr(file, '/');
  char prefix[128];
  std::snprintf(prefix, sizeof(prefix), "%c%02d%02d %02d:%02d:%02d.%06ld %ld %.60s:%d] ",
                "IWEF"[static_cast<int>(level)], local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min,
                local.tm_sec, static_cast<long>(now.tv_usec), syscall(SYS_gettid), slash != nullptr ? slash + 1 : file,
                line);
  text_ << prefix;
}

LogLine::~LogLine() {
  text_ << '\n';
  const std::string line = text_.str();
  if (const LogSink s = sink.load(); s != nullptr) {
    s(level_, line);
    if (level_ == LogLevel::kFatal) WriteToStderr(line);
  } else {
    WriteLine(level_, line);
  }
  if (level_ == LogLevel::kFatal) std::abort();
}

}  // namespace internal
}  // namespace thalweg

ABSL_FLAG(int, v, 0, "verbosity: VLOG lines up to this level are logged").OnUpdate([] {
  thalweg::SetVerbosity(absl::GetFlag(FLAGS_v));
});
ABSL_FLAG(int, minloglevel, 0, "lowest level that is logged: 0 everything, 1 warnings, 2 errors, 3 fatal errors")
    .OnUpdate([] {
      thalweg::SetMinLogLevel(static_cast<thalweg::LogLevel>(std::clamp(absl::GetFlag(FLAGS_minloglevel), 0, 3)));
    });

namespace thalweg {
bool AbslParseFlag(absl::string_view text, LogFormat* format, std::string* error) {
  if (text != "glog" && text != "json") {
    *error = "expected glog or json";
    return false;
  }
  *format = text == "json" ? LogFormat::kJson : LogFormat::kGlog;
  return true;
}
std::string AbslUnparseFlag(LogFormat format) { return format == LogFormat::kJson ? "json" : "glog"; }
}  // namespace thalweg

ABSL_FLAG(thalweg::LogFormat, log_format, thalweg::LogFormat::kGlog,
          "format of log lines: \"glog\", or \"json\": an object per line")
    .OnUpdate([] { thalweg::SetLogFormat(absl::GetFlag(FLAGS_log_format)); });
