// SPDX-License-Identifier: Apache-2.0
#include "thalweg/monitor/step_trace.h"

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

constexpr int kWholeRow = 1, kPartRow = 2;

}  // namespace

std::string ChromeTraceOfSteps(const JobStatus& job) {
  TraceText text;
  for (int process = 0; process < job.tasks_size(); ++process) {
    const TaskStatus& task = job.tasks(process);
    text.Name("process_name", process, 0,
              absl::StrFormat("%s (clock offset %.0f us, +- %.0f us)", task.name(), task.clock_offset_us(),
                              task.clock_error_us()));
    text.Name("thread_name", process, kWholeRow, "steps");
    text.Name("thread_name", process, kPartRow, "parts");
    for (const StepTrace& step : task.trace()) {
      const double start = step.start_us() - task.clock_offset_us();
      std::string args = absl::StrFormat(R"("step_id":"%x")", step.step_id());
      if (!step.error().empty()) absl::StrAppend(&args, ",\"error\":", Quoted(step.error()));
      text.Slice(process, step.whole() ? kWholeRow : kPartRow, absl::StrFormat("step %x", step.step_id()), start,
                 step.end_us() - step.start_us(), args);
      if (step.whole()) continue;
      // Only the length of the phases is recorded, not their order: they follow each other.
      double at = start;
      const auto phase = [&](const std::string& name, double us) {
        if (us <= 0) return;
        text.Slice(process, kPartRow, name, at, us, args);
        at += us;
      };
      for (const PhaseTime& wait : step.waits()) phase(absl::StrCat("wait for ", wait.on()), wait.seconds() * 1e6);
      phase("input", step.input_us());
      phase("compute", step.compute_us());
      phase("transfer", step.transfer_us());
    }
  }
  return text.Finish();
}

}  // namespace thalweg
