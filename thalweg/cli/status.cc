// SPDX-License-Identifier: Apache-2.0
// thalweg status, why, top and trace: what a running job does.
#include "thalweg/base/status.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "thalweg/cli/command.h"
#include "thalweg/cli/job_address.h"
#include "thalweg/monitor/diagnosis.h"
#include "thalweg/monitor/status_json.h"
#include "thalweg/monitor/status_text.h"
#include "thalweg/monitor/step_trace.h"
#include "thalweg/monitor/task_monitor.h"
#include "thalweg/server/job_monitor.h"
#include "thalweg/train/session/progress.h"

ABSL_FLAG(bool, json, false, "print the status as JSON");
ABSL_FLAG(absl::Duration, interval, absl::Seconds(1), "time between two updates");
ABSL_FLAG(int, updates, 0, "exit after this many updates; 0: never");
ABSL_DECLARE_FLAG(std::string, steps);  // defined in eval.cc
ABSL_FLAG(std::string, o, "",
          "file to write to; \"-\": standard output; default: trace.json, or flight.json with --dump");
ABSL_FLAG(bool, dump, false, "write all that the flight recorders of the job have, as JSON, instead of a trace");
ABSL_FLAG(absl::Duration, stuck_after, absl::ZeroDuration(),
          "a step that takes longer is stuck; 0: three times as long as the task's steps usually take, at least 5s");

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
  ASSIGN_OR_RETURN(std::string address, TakeAddress(rest, {"stuck_after"}));
  const absl::Duration stuck_after = absl::GetFlag(FLAGS_stuck_after);
  if (stuck_after < absl::ZeroDuration()) {
    return InvalidArgument("--stuck_after: expected at least 0, got ", absl::FormatDuration(stuck_after));
  }
  ASSIGN_OR_RETURN(JobStatus job, AskJobAt(&address, WholeJob()));
  // A busy task may miss one question, so a task that has missed one is asked again. The task that asks keeps its
  // answers for a moment.
  constexpr absl::Duration kOtherRound = absl::Milliseconds(500);
  const auto missed_once = [](const TaskStatus& task) { return task.missed_answers() == 1; };
  if (std::any_of(job.tasks().begin(), job.tasks().end(), missed_once)) {
    absl::SleepFor(kOtherRound);
    ASSIGN_OR_RETURN(job, AskJobAt(&address, WholeJob()));
  }
  if (stuck_after > absl::ZeroDuration()) {
    job.clear_findings();
    for (Finding& finding : Diagnose(job, {.stuck_after = absl::ToDoubleSeconds(stuck_after)})) {
      *job.add_findings() = std::move(finding);
    }
  }
  Print(out, FindingLines(job));
  return IsStuck(job) ? 1 : 0;
}

termios terminal_before_top;  // for the handler of signals

void RestoreTerminal(int signal_number) {
  tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before_top);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

// The keyboard and the size of the terminal of `top`. Without a terminal it only waits.
class Screen {
 public:
  explicit Screen(bool terminal)
      : terminal_(terminal && isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &terminal_before_top) == 0) {
    if (!terminal_) return;
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) signal(s, &RestoreTerminal);
    termios keys = terminal_before_top;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  ~Screen() {
    if (!terminal_) return;
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before_top);
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) signal(s, SIG_DFL);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Lines and columns.
  static std::pair<size_t, size_t> Size() {
    winsize size{};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    return known ? std::pair<size_t, size_t>(size.ws_row, size.ws_col) : std::pair<size_t, size_t>(24, 80);
  }

  // Waits for a key, 0 if none comes.
  char Key(absl::Duration wait) const {
    pollfd keyboard{.fd = terminal_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
    char key = 0;
    if (poll(&keyboard, 1, static_cast<int>(absl::ToInt64Milliseconds(wait))) <= 0) return 0;
    return read(STDIN_FILENO, &key, 1) == 1 ? key : 0;
  }

 private:
  const bool terminal_;
};

// What blocks the job stands first and is not cut off.
std::vector<std::string> TasksView(const JobStatus& job) {
  std::vector<std::string> lines = StatusLines(job), wrapped;
  const std::vector<std::string> findings = FindingLines(job);
  lines.resize(lines.size() - findings.size());  // StatusLines() ends with them
  for (const std::string& finding : findings) {
    for (std::string& line : WrapToColumns(finding, Screen::Size().second)) wrapped.push_back(std::move(line));
  }
  lines.insert(lines.begin() + 1, wrapped.begin(), wrapped.end());
  return lines;
}

// Shows the lines from `first` on, as many as the terminal has room for.
void ShowPage(std::ostream& out, const std::vector<std::string>& lines, size_t* first, char view) {
  const auto [height, width] = Screen::Size();
  const size_t room = std::max<size_t>(height, 4) - 2;  // without the line of keys and the cursor's
  *first = std::min(*first, lines.size() > room ? lines.size() - room : 0);
  std::string text = "\033[H\033[J";
  for (size_t i = *first; i < std::min(lines.size(), *first + room); ++i) {
    absl::StrAppend(&text, CutToColumns(lines[i], width), "\n");
  }
  const std::string place = lines.size() <= room ? ""
                                                 : absl::StrFormat("; lines %d-%d of %d: j, k", *first + 1,
                                                                   std::min(lines.size(), *first + room), lines.size());
  absl::StrAppend(&text, CutToColumns(absl::StrCat(view == 't' ? "[t]asks" : "t: tasks",
                                                   view == 'x' ? " [x]traffic" : " x: traffic",
                                                   view == 'e' ? " [e]vents" : " e: events", " q: quit", place),
                                      width));
  out << text << std::flush;
}

absl::Status RunTop(std::ostream& out, const std::vector<std::string>& rest) {
  ASSIGN_OR_RETURN(std::string address, TakeAddress(rest, {"interval", "updates"}));
  const bool terminal = IsTerminal(stdout);
  const int updates = absl::GetFlag(FLAGS_updates);
  const absl::Duration interval = std::max(absl::GetFlag(FLAGS_interval), absl::Milliseconds(100));
  constexpr int kMaxFailures = 3;
  int failures = 0;
  const Screen screen(terminal);
  char view = 't';
  size_t first = 0;
  for (int i = 0; updates == 0 || i < updates; ++i) {
    const absl::StatusOr<JobStatus> job = AskJobAt(&address, WholeJob());
    if (!job.ok() && (i == 0 || ++failures == kMaxFailures)) return job.status();
    if (job.ok()) failures = 0;
    if (job.ok() && !terminal) {
      Print(out, StatusLines(*job));
      for (const std::string& line : TrafficLines(*job)) out << line << "\n";
      for (const std::string& line : EventLines(*job)) out << line << "\n";
      out << std::flush;
    }
    const absl::Time next = absl::Now() + interval;
    bool shown = !job.ok() || !terminal;
    while (!shown || (absl::Now() < next && i + 1 != updates)) {
      if (job.ok() && terminal) {
        ShowPage(out,
                 view == 'x'   ? TrafficLines(*job)
                 : view == 'e' ? EventLines(*job)
                               : TasksView(*job),
                 &first, view);
      }
      shown = true;
      if (i + 1 == updates) break;
      const char key = screen.Key(std::max(next - absl::Now(), absl::Milliseconds(1)));
      if (key == 'q') {
        out << "\n";
        return absl::OkStatus();
      }
      if (key == 't' || key == 'x' || key == 'e') {
        view = key;
        first = 0;
      }
      if (key == 'j') ++first;
      if (key == 'k' && first > 0) --first;
    }
  }
  if (terminal) out << "\n";
  return absl::OkStatus();
}

absl::Status WriteTo(std::ostream& out, const std::string& file, const std::string& text, absl::string_view advice) {
  if (file == "-") {
    out << text;
    return absl::OkStatus();
  }
  std::ofstream written(file, std::ios::trunc);
  if (!(written << text << std::flush)) return Unknown("Cannot write ", file);
  out << "Wrote " << file << advice << "\n";
  return absl::OkStatus();
}

// All that the recorders have.
absl::Status RunDump(std::ostream& out, std::string address) {
  GetMonitorRequest request = WholeJob();
  request.set_details(true);
  ASSIGN_OR_RETURN(const JobStatus tasks, AskJobAt(&address, request));  // how many there are
  constexpr int kAllSteps = 200'000;
  const int most = std::max(100, kAllSteps / std::max(1, tasks.tasks_size()));
  request.set_trace_steps(std::min(static_cast<int>(TaskMonitor::kMaxSteps), most));
  ASSIGN_OR_RETURN(const JobStatus job, AskJob(address, request, absl::Seconds(20)));
  const std::string file = absl::GetFlag(FLAGS_o);
  return WriteTo(out, file.empty() ? "flight.json" : file, StatusJson(job, /*pretty=*/true),
                 ": the steps, events and series of all tasks");
}

absl::Status RunTrace(std::ostream& out, const std::vector<std::string>& rest) {
  ASSIGN_OR_RETURN(std::string address, TakeAddress(rest, {"steps", "o", "dump"}));
  if (absl::GetFlag(FLAGS_dump)) return RunDump(out, std::move(address));
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
  return WriteTo(out, file.empty() ? "trace.json" : file, ChromeTraceOfSteps(job),
                 "; open it with https://ui.perfetto.dev or chrome://tracing");
}

constexpr char kAddress[] =
    "ADDRESS is \"host:port\" of any task of the job, as in its cluster specification. It may be left out if the\n"
    "tasks of one job run on this machine.";

constexpr char kTopDetails[] =
    "On a terminal, the keys t, x and e show the tasks, the traffic with the balance and the gradients, and the "
    "events;\n"
    "j and k scroll, and q quits.\n\n"
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
          .usage = "[ADDRESS] [--stuck_after 30s]",
          .flags = {"stuck_after"},
          .run_for_code = RunWhy};
}

Command TopCommand() {
  return {.name = "top",
          .summary = "Shows the status of a running job, updated every second, until Ctrl-C.",
          .details = kTopDetails,
          .usage = "[ADDRESS] [--interval 1s] [--updates N]",
          .flags = {"interval", "updates"},
          .run_with_rest = RunTop};
}

Command TraceCommand() {
  return {.name = "trace",
          .summary = "Writes the last steps of all tasks of a running job as a Chrome trace, or its flight recorders.",
          .details = kAddress,
          .usage = "[ADDRESS] [--steps 20] [--dump] [-o trace.json]",
          .flags = {"steps", "dump", "o"},
          .run_with_rest = RunTrace};
}

}  // namespace thalweg::cli
