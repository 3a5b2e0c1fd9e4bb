// SPDX-License-Identifier: Apache-2.0
#include "thalweg/monitor/status_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace thalweg {
namespace {

std::string Amount(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", bytes < 10 && unit > 0 ? 1 : 0, bytes, kUnits[unit]);
}

// A training with a finding that blocks it makes no progress that would last.
bool HasStuckFinding(const JobStatus& job) {
  return std::any_of(job.findings().begin(), job.findings().end(), [](const Finding& f) { return f.stuck(); });
}

std::string Rate(double rate) { return rate == 0 ? "" : absl::StrFormat("%.*f", rate < 10 ? 1 : 0, rate); }

// Names come from clients: no control characters for the terminal.
std::string Printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

// The highest global step that a task has, and its rate. Only tasks with the variable know it.
std::pair<double, double> GlobalStep(const JobStatus& job) {
  std::pair<double, double> found{-1, 0};
  for (const TaskStatus& task : job.tasks()) {
    if (task.has_global_step()) found = std::max(found, {task.global_step(), task.global_steps_per_second()});
  }
  return found;
}

}  // namespace

std::string DescribeTime(const TaskStatus& task) {
  std::vector<std::pair<double, std::string>> shares;
  double busy = 0;
  for (const PhaseTime& phase : task.phases()) {
    busy += phase.share();
    if (phase.share() < 0.005) continue;
    shares.emplace_back(phase.share(), phase.phase() == "wait" ? absl::StrCat("wait for ", phase.on()) : phase.phase());
  }
  if (task.phases_size() > 0 && busy < 0.995) shares.emplace_back(1 - busy, "idle");
  std::sort(shares.rbegin(), shares.rend());
  // A task that runs several steps at a time: shares of the time of all of them.
  for (auto& [share, name] : shares) share /= std::max(busy, 1.0);
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(shares.size(), 4); ++i) {
    absl::StrAppendFormat(&text, "%s%.0f%% %s", i == 0 ? "" : ", ", shares[i].first * 100, shares[i].second);
  }
  return text;
}

std::string ShortSeconds(double seconds) {
  return seconds < 10 ? absl::StrFormat("%.1f s", seconds) : absl::StrFormat("%.0f s", seconds);
}

std::string DescribeGradientWait(const GradientWait& wait) {
  constexpr int kMaxNames = 5;
  const int missing = wait.missing_size();
  const double needed = std::max(1.0, wait.wanted() - wait.have());
  // Any of the missing workers will do if more are missing than needed: backup workers.
  const bool any = missing > needed;
  std::string names;
  for (int i = 0; i < std::min(missing, kMaxNames); ++i) {
    const bool last = i + 1 == missing;
    absl::StrAppend(&names, i == 0 ? "" : !last ? ", " : any ? " or " : " and ", wait.missing(i));
  }
  if (missing > kMaxNames) absl::StrAppend(&names, " and ", missing - kMaxNames, " others");
  const std::string what = needed == 1            ? "a gradient"
                           : any || names.empty() ? absl::StrFormat("%.0f gradients", needed)
                                                  : "gradients";
  return absl::StrFormat("waits for %s%s%s for step %.0f, since %s", what, names.empty() ? "" : " of ", names,
                         wait.step(), ShortSeconds(wait.seconds()));
}

const MemberStatus* FindMember(const JobStatus& job, const std::string& worker) {
  for (const TaskStatus& task : job.tasks()) {
    for (const MemberStatus& member : task.members()) {
      if (member.worker() == worker) return &member;
    }
  }
  return nullptr;
}

std::string DescribeState(const TaskStatus& task) {
  if (task.state() != "down") return task.state();
  const bool silent = absl::StrContains(task.error(), "DEADLINE_EXCEEDED");
  if (task.seconds_silent() < 0) return silent ? "not answering" : "not running";
  return absl::StrFormat("%s for %.0f s", silent ? "not answering" : "not running", task.seconds_silent());
}

std::vector<std::string> FindingLines(const JobStatus& job) {
  std::vector<std::string> lines;
  for (const Finding& finding : job.findings()) {
    lines.push_back(Printable(absl::StrCat(finding.stuck() ? "stuck: " : "slow: ", finding.text())));
  }
  if (lines.empty()) lines.emplace_back("Nothing blocks the job.");
  return lines;
}

bool IsStuck(const JobStatus& job) { return HasStuckFinding(job); }

std::vector<std::string> TrafficLines(const JobStatus& job) {
  std::vector<std::string> lines;
  const auto add = [&](std::string line) { lines.push_back(Printable(std::move(line))); };
  add(absl::StrFormat("%-10s %-10s %-13s %10s %10s %10s %8s %7s", "TASK", "CALLS", "PATH", "BYTES/S", "SENT",
                      "RECEIVED", "CALLS", "FAILED"));
  for (const TaskStatus& task : job.tasks()) {
    for (const PeerTraffic& t : task.traffic()) {
      add(absl::StrFormat("%-10s %-10s %-13s %10s %10s %10s %8.0f %7.0f", task.name(), t.peer(), t.path(),
                          Amount(t.bytes_per_second()), Amount(t.sent_bytes()), Amount(t.received_bytes()), t.calls(),
                          t.failed_calls()));
    }
  }
  double bytes = 0, most = 0;
  int servers = 0;
  for (const TaskStatus& task : job.tasks()) {
    if (!absl::StartsWith(task.name(), "ps ") || task.variables() == 0) continue;
    bytes += task.variable_bytes();
    most = std::max(most, task.variable_bytes());
    ++servers;
  }
  if (bytes > 0) {
    add("");
    add(absl::StrFormat("%s of variables on %d parameter servers; the largest has %.2f times the mean", Amount(bytes),
                        servers, most * servers / bytes));
  }
  std::map<std::string, std::array<double, 3>> gradients;
  std::map<std::string, double> applied;  // by steps without accumulators
  std::vector<double> ages;
  for (const TaskStatus& task : job.tasks()) {
    for (const GradientCount& g : task.gradients()) {
      if (g.accepted() + g.stale() + g.dropped() == 0) {
        // A step has a part on every parameter server.
        applied[g.worker()] = std::max(applied[g.worker()], g.applied());
        continue;
      }
      std::array<double, 3>& sums = gradients[g.worker()];
      sums[0] += g.accepted();
      sums[1] += g.stale();
      sums[2] += g.dropped();
    }
    ages.resize(std::max(ages.size(), static_cast<size_t>(task.staleness_size())));
    for (int i = 0; i < task.staleness_size(); ++i) ages[static_cast<size_t>(i)] += task.staleness(i);
  }
  if (!gradients.empty()) add("");
  for (const auto& [worker, counts] : gradients) {
    add(absl::StrFormat("%-10s %12.0f gradients accepted %10.0f stale %10.0f dropped", worker, counts[0], counts[1],
                        counts[2]));
  }
  if (gradients.empty() && !applied.empty()) {
    add("");
    for (const auto& [worker, steps] : applied) add(absl::StrFormat("%-10s %12.0f gradients applied", worker, steps));
  }
  std::string staleness;
  for (size_t i = 0; i < ages.size(); ++i) {
    if (ages[i] > 0) absl::StrAppendFormat(&staleness, "  %d: %.0f", i, ages[i]);
  }
  if (!staleness.empty()) add(absl::StrCat("Gradients by age in steps:", staleness));
  return lines;
}

std::vector<std::string> EventLines(const JobStatus& job) {
  std::vector<std::pair<double, std::string>> events;
  for (const TaskStatus& task : job.tasks()) {
    for (const MonitorEvent& event : task.events()) {
      const std::string when = absl::FormatTime("%H:%M:%S", absl::FromUnixSeconds(static_cast<int64_t>(event.time())),
                                                absl::LocalTimeZone());
      events.emplace_back(event.time(),
                          Printable(absl::StrCat(when, " ", task.name(), ", ", event.kind(), ": ", event.text())));
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> lines;
  for (auto& [time, line] : events) lines.push_back(std::move(line));
  if (lines.empty())
    lines.emplace_back("No events: no step has failed or lost a task, and no task was restarted or expelled.");
  return lines;
}

std::string CutToColumns(const std::string& line, size_t columns) {
  size_t shown = 0, i = 0;
  for (; i < line.size(); ++i) {
    if ((static_cast<unsigned char>(line[i]) & 0xc0) == 0x80) continue;  // within a character
    if (shown++ == columns) break;
  }
  return line.substr(0, i);
}

std::vector<std::string> WrapToColumns(const std::string& line, size_t columns) {
  constexpr size_t kLeast = 20;
  const std::string indent = "  ";
  std::vector<std::string> lines;
  std::string rest = line;
  while (true) {
    const size_t most = CutToColumns(rest, std::max(columns, kLeast)).size();
    if (most == rest.size()) {
      lines.push_back(rest);
      return lines;
    }
    // The last space that may end the line. A word that is too long is broken.
    const size_t space = rest.rfind(' ', most);
    const bool has_space = space != std::string::npos && space >= indent.size();
    lines.push_back(rest.substr(0, has_space ? space : most));
    rest = absl::StrCat(indent, rest.substr(has_space ? space + 1 : most));
  }
}

std::vector<std::string> StatusLines(const JobStatus& job) {
  std::vector<std::string> lines;
  const auto [step, rate] = GlobalStep(job);
  const auto up = std::count_if(job.tasks().begin(), job.tasks().end(),
                                [](const TaskStatus& task) { return task.state() != "down"; });
  std::string first = absl::StrFormat("%d of %d tasks answer", up, job.tasks_size());
  if (step >= 0) absl::StrAppendFormat(&first, "; global step %.0f, %.1f steps/s", step, rate);
  if (HasStuckFinding(job)) {
    absl::StrAppend(&first, "; stuck");
  } else if (job.seconds_left() > 0) {
    absl::StrAppend(&first, "; done in ", absl::FormatDuration(absl::Seconds(std::ceil(job.seconds_left()))));
  }
  lines.push_back(std::move(first));
  const auto state_of = [&](const TaskStatus& task) {
    const MemberStatus* const member = FindMember(job, task.name());
    return absl::StrCat(DescribeState(task), member != nullptr && member->state() == "expelled" ? ", expelled" : "");
  };
  size_t name_width = 4, state_width = 5;
  for (const TaskStatus& task : job.tasks()) {
    name_width = std::max(name_width, task.name().size());
    state_width = std::max(state_width, state_of(task).size());
  }
  const auto row = [&](const std::string& name, const std::string& state, const std::string& steps,
                       const std::string& step_rate, const std::string& cpu, const std::string& memory,
                       const std::string& variables, const std::string& time) {
    std::string line =
        absl::StrFormat("%-*s  %-*s  %8s %8s %6s %8s %9s  %s", static_cast<int>(name_width), name,
                        static_cast<int>(state_width), state, steps, step_rate, cpu, memory, variables, time);
    lines.push_back(Printable(std::move(line)));
  };
  row("TASK", "STATE", "STEPS", "STEPS/S", "CORES", "MEMORY", "VARIABLES", "TIME");
  for (const TaskStatus& task : job.tasks()) {
    if (task.state() == "down" || task.state() == "finished" || task.state() == "tensorflow") {
      row(task.name(), state_of(task), "", "", "", "", "", "");
      continue;
    }
    row(task.name(), state_of(task), task.steps() > 0 ? absl::StrFormat("%.0f", task.steps()) : "",
        Rate(task.steps_per_second()), absl::StrFormat("%.1f", task.cpu_share()), Amount(task.memory_bytes()),
        task.variables() > 0 ? Amount(task.variable_bytes()) : "", DescribeTime(task));
  }
  for (const TaskStatus& task : job.tasks()) {
    for (const GradientWait& wait : task.gradient_waits()) {
      constexpr double kWorthTelling = 1;  // every synchronous step waits for a moment
      if (wait.seconds() < kWorthTelling) continue;
      lines.push_back(Printable(absl::StrCat(task.name(), " ", DescribeGradientWait(wait))));
    }
  }
  for (const TaskStatus& task : job.tasks()) {
    for (const ScalarSeries& scalar : task.scalars()) {
      if (scalar.values_size() == 0) continue;
      lines.push_back(Printable(
          absl::StrFormat("%s: %s = %.6g", task.name(), scalar.name(), scalar.values(scalar.values_size() - 1))));
    }
  }
  for (const TaskStatus& task : job.tasks()) {
    if (!task.has_checkpoint()) continue;
    const CheckpointStatus& saved = task.checkpoint();
    const std::string took =
        saved.seconds() < 0.1 ? absl::StrFormat("%.0f ms", saved.seconds() * 1e3) : ShortSeconds(saved.seconds());
    std::string line = absl::StrFormat("checkpoint %s: saved by %s %.0f s ago in %s", saved.path(), task.name(),
                                       task.time() - saved.time(), took);
    if (saved.bytes() > 0) absl::StrAppend(&line, ", ", Amount(saved.bytes()));
    if (saved.verified() == saved.path()) absl::StrAppend(&line, ", verified");
    if (!saved.damage().empty()) absl::StrAppend(&line, "; damaged: ", saved.damage());
    lines.push_back(Printable(std::move(line)));
  }
  for (std::string& line : FindingLines(job)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace thalweg
