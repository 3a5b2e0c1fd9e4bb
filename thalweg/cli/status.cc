// SPDX-License-Identifier: Apache-2.0
// thalweg status, why, top and trace: what a running job does.
#include "thalweg/base/status.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "thalweg/cli/command.h"
#include "thalweg/cli/job_address.h"
#include "thalweg/monitor/status_json.h"
#include "thalweg/monitor/status_text.h"
#include "thalweg/monitor/step_trace.h"
#include "thalweg/monitor/task_monitor.h"
#include "thalweg/train/session/progress.h"

ABSL_FLAG(bool, json, false, "print the status as JSON");
ABSL_FLAG(absl::Duration, interval, absl::Seconds(1), "time between two updates");
ABSL_FLAG(int, updates, 0, "exit after this many updates; 0: never");
ABSL_DECLARE_FLAG(std::string, steps);  // defined in eval.cc
ABSL_FLAG(std::string, o, "trace.json", "file to write the trace to; \"-\": standard output");

namespace thalweg::cli {
namespace {

GetMonitorRequest WholeJob() {
  GetMonitorRequest request;
  request.set_whole_job(true);
  return request;
}

void Print(std::ostream& out, const std::vector<std::string>& lines) { out << absl::StrJoin(lines, "\n") << "\n"; }

absl::Status RunStatus(std::ostream& out, const std::vector<std::string>& rest) {
  ASSIGN_OR_RETURN(std::string address, TakeAddress(rest, {"json"}));
  GetMonitorRequest request = WholeJob();
  request.set_details(absl::GetFlag(FLAGS_json));
  ASSIGN_OR_RETURN(const JobStatus job, AskJobAt(&address, request));
  if (!absl::GetFlag(FLAGS_json)) {
    Print(out, StatusLines(job));
    return absl::OkStatus();
  }
  out << StatusJson(job, /*pretty=*/true);
  return absl::OkStatus();
}

absl::StatusOr<int> RunWhy(std::ostream& out, const std::vector<std::string>& rest) {
  ASSIGN_OR_RETURN(std::string address, TakeAddress(rest, {}));
  ASSIGN_OR_RETURN(const JobStatus job, AskJobAt(&address, WholeJob()));
  Print(out, FindingLines(job));
  return IsStuck(job) ? 1 : 0;
}

absl::Status RunTop(std::ostream& out, const std::vector<std::string>& rest) {
  ASSIGN_OR_RETURN(std::string address, TakeAddress(rest, {"interval", "updates"}));
  const bool terminal = IsTerminal(stdout);
  const int updates = absl::GetFlag(FLAGS_updates);
  constexpr int kMaxFailures = 3;
  int failures = 0;
  for (int i = 0; updates == 0 || i < updates; ++i) {
    if (i > 0) absl::SleepFor(std::max(absl::GetFlag(FLAGS_interval), absl::Milliseconds(100)));
    const absl::StatusOr<JobStatus> job = AskJobAt(&address, WholeJob());
    if (!job.ok() && (i == 0 || ++failures == kMaxFailures)) return job.status();
    if (!job.ok()) continue;
    failures = 0;
    if (terminal) out << "\033[H\033[J";
    Print(out, StatusLines(*job));
    out << std::flush;
  }
  return absl::OkStatus();
}

absl::Status RunTrace(std::ostream& out, const std::vector<std::string>& rest) {
  ASSIGN_OR_RETURN(std::string address, TakeAddress(rest, {"steps", "o"}));
  const std::string text_of_steps = absl::GetFlag(FLAGS_steps);
  int steps = 20;
  if (!text_of_steps.empty() && (!absl::SimpleAtoi(text_of_steps, &steps) || steps < 1)) {
    return InvalidArgument("--steps: expected a number of at least 1, got \"", text_of_steps, "\"");
  }
  GetMonitorRequest request = WholeJob();
  // A worker records a step and its own part of it; a parameter server a part per worker.
  constexpr int kRecordsPerStep = 8;
  request.set_trace_steps(std::min(steps, static_cast<int>(TaskMonitor::kMaxSteps) / kRecordsPerStep) *
                          kRecordsPerStep);
  ASSIGN_OR_RETURN(const JobStatus job, AskJobAt(&address, request));
  const std::string file = absl::GetFlag(FLAGS_o);
  const std::string text = ChromeTraceOfSteps(job);
  if (file == "-") {
    out << text;
    return absl::OkStatus();
  }
  std::ofstream written(file, std::ios::trunc);
  if (!(written << text << std::flush)) return Unknown("Cannot write ", file);
  out << "Wrote " << file << "; open it with https://ui.perfetto.dev or chrome://tracing\n";
  return absl::OkStatus();
}

constexpr char kAddress[] =
    "ADDRESS is \"host:port\" of any task of the job, as in its cluster specification. It may be left out if the\n"
    "tasks of one job run on this machine.";

}  // namespace

Command StatusCommand() {
  return {.name = "status",
          .summary = "Shows the tasks of a running job: steps, rates, where their time goes, memory.",
          .details = kAddress,
          .usage = "[ADDRESS] [--json]",
          .flags = {"json"},
          .run_with_rest = RunStatus};
}

Command WhyCommand() {
  return {.name = "why",
          .summary = "Says what blocks or slows a running job; exits with code 1 if it is stuck.",
          .details = kAddress,
          .usage = "[ADDRESS]",
          .run_for_code = RunWhy};
}

Command TopCommand() {
  return {.name = "top",
          .summary = "Shows the status of a running job, updated every second, until Ctrl-C.",
          .details = kAddress,
          .usage = "[ADDRESS] [--interval 1s] [--updates N]",
          .flags = {"interval", "updates"},
          .run_with_rest = RunTop};
}

Command TraceCommand() {
  return {.name = "trace",
          .summary = "Writes the last steps of all tasks of a running job as a Chrome trace.",
          .details = kAddress,
          .usage = "[ADDRESS] [--steps 20] [-o trace.json]",
          .flags = {"steps", "o"},
          .run_with_rest = RunTrace};
}

}  // namespace thalweg::cli
