// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/progress.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace thalweg {
namespace {

std::string ShortDuration(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s < 60) return absl::StrFormat("%ds", s);
  if (s < 3600) return absl::StrFormat("%dm%02ds", s / 60, s % 60);
  return absl::StrFormat("%dh%02dm", s / 3600, s / 60 % 60);
}

}  // namespace

Progress::Progress(const ProgressOptions& options)
    : options_(options),
      interval_nanos_(absl::ToInt64Nanoseconds(options.interval > absl::ZeroDuration() ? options.interval
                                               : options.terminal                      ? absl::Milliseconds(100)
                                                                                       : absl::Seconds(2))),
      start_nanos_(options.clock->MonotonicNanos()),
      last_print_nanos_(start_nanos_),
      last_step_(options.first_step) {}

Progress::~Progress() {
  if (pending_) {
    std::fprintf(options_.out, "%s%s", options_.terminal ? "\r\033[K" : "",
                 Line(last_step_, last_loss_, options_.clock->MonotonicNanos()).c_str());
    if (!options_.terminal) std::fputc('\n', options_.out);
  }
  if (options_.terminal && last_step_ > options_.first_step) std::fputc('\n', options_.out);
  std::fflush(options_.out);
}

void Progress::Update(int64_t step, float loss) {
  last_step_ = step;
  last_loss_ = loss;
  pending_ = true;
  const int64_t now = options_.clock->MonotonicNanos();
  if (now - last_print_nanos_ < interval_nanos_) return;
  last_print_nanos_ = now;
  pending_ = false;
  const std::string line = Line(step, loss, now);
  std::fprintf(options_.out, options_.terminal ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(options_.out);
}

std::string Progress::Line(int64_t step, float loss, int64_t now_nanos) const {
  const double seconds = std::max(1e-9, static_cast<double>(now_nanos - start_nanos_) * 1e-9);
  const double rate = static_cast<double>(step - options_.first_step) / seconds;
  std::string line = absl::StrCat("step ", step);
  if (options_.total_steps > 0) absl::StrAppend(&line, "/", options_.total_steps);
  absl::StrAppendFormat(&line, "  loss %.4f  %.0f steps/s", loss, rate);
  if (rate > 0 && step < options_.total_steps) {
    line += "  ETA " + ShortDuration(static_cast<double>(options_.total_steps - step) / rate);
  }
  return line;
}

bool IsTerminal(std::FILE* file) { return isatty(fileno(file)) == 1; }

}  // namespace thalweg
