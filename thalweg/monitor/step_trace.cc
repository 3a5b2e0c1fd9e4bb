// SPDX-License-Identifier: Apache-2.0
#include "thalweg/monitor/step_trace.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace thalweg {
namespace {

// A JSON string. Names come from clients.
std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", std::string(1, c));
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<int>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

class TraceText {
 public:
  void Name(const char* what, int process, int thread, const std::string& name) {
    Next();
    absl::StrAppendFormat(&text_, R"({"ph":"M","name":"%s","pid":%d,"tid":%d,"args":{"name":%s}})", what, process,
                          thread, Quoted(name));
  }
  void Slice(int process, int thread, const std::string& name, double start_us, double us, const std::string& args) {
    Next();
    absl::StrAppendFormat(&text_, R"({"ph":"X","pid":%d,"tid":%d,"name":%s,"ts":%.3f,"dur":%.3f,"args":{%s}})", process,
                          thread, Quoted(name), start_us, us, args);
  }
  std::string Finish() { return text_ + "\n]}\n"; }

 private:
  void Next() {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
  }
  std::string text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  bool first_ = true;
};

// Rows of one kind for slices that overlap in time: the slices of a row would have to be nested. A slice goes to the
// first row that is free.
class Lanes {
 public:
  // Slices come in the order of their starts.
  int Take(double start_us, double end_us) {
    size_t lane = 0;
    while (lane < ends_.size() && ends_[lane] > start_us) ++lane;
    if (lane == ends_.size()) ends_.push_back(0);
    ends_[lane] = end_us;
    return static_cast<int>(lane);
  }
  size_t size() const { return ends_.size(); }

 private:
  std::vector<double> ends_;
};

// The numbers of the first rows. More than a thousand steps do not overlap in a task.
constexpr int kWholeRow = 1, kPartRow = 1001;

}  // namespace

std::string ChromeTraceOfSteps(const JobStatus& job) {
  TraceText text;
  for (int process = 0; process < job.tasks_size(); ++process) {
    const TaskStatus& task = job.tasks(process);
    text.Name("process_name", process, 0,
              absl::StrFormat("%s (clock offset %.0f us, +- %.0f us)", task.name(), task.clock_offset_us(),
                              task.clock_error_us()));
    std::vector<const StepTrace*> steps;
    steps.reserve(static_cast<size_t>(task.trace_size()));
    for (const StepTrace& step : task.trace()) steps.push_back(&step);
    // They were recorded in the order of their ends.
    std::stable_sort(steps.begin(), steps.end(),
                     [](const StepTrace* a, const StepTrace* b) { return a->start_us() < b->start_us(); });
    Lanes whole, parts;
    for (const StepTrace* recorded : steps) {
      const StepTrace& step = *recorded;
      const double start = step.start_us() - task.clock_offset_us();
      const int row = step.whole() ? kWholeRow + whole.Take(step.start_us(), step.end_us())
                                   : kPartRow + parts.Take(step.start_us(), step.end_us());
      std::string args = absl::StrFormat(R"("step_id":"%x")", step.step_id());
      if (!step.error().empty()) absl::StrAppend(&args, ",\"error\":", Quoted(step.error()));
      text.Slice(process, row, absl::StrFormat("step %x", step.step_id()), start, step.end_us() - step.start_us(),
                 args);
      if (step.whole()) continue;
      double at = start;
      const auto phase = [&](const std::string& name, double us) {
        us = std::min(us, start + step.end_us() - step.start_us() - at);  // slices of a row are nested
        if (us <= 0) return;
        text.Slice(process, row, name, at, us, args);
        at += us;
      };
      for (const PhaseTime& wait : step.waits()) phase(absl::StrCat("wait for ", wait.on()), wait.seconds() * 1e6);
      phase("input", step.input_us());
      phase("compute", step.compute_us());
      phase("transfer", step.transfer_us());
    }
    for (size_t i = 0; i < std::max<size_t>(whole.size(), 1); ++i) {
      text.Name("thread_name", process, kWholeRow + static_cast<int>(i), "steps");
    }
    for (size_t i = 0; i < std::max<size_t>(parts.size(), 1); ++i) {
      text.Name("thread_name", process, kPartRow + static_cast<int>(i), "parts");
    }
  }
  return text.Finish();
}

}  // namespace thalweg
