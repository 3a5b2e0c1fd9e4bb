// SPDX-License-Identifier: Apache-2.0
#include "thalweg/monitor/diagnosis.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace thalweg {
namespace {

std::string ShortSeconds(double seconds) {
  return seconds < 10 ? absl::StrFormat("%.1f s", seconds) : absl::StrFormat("%.0f s", seconds);
}

bool IsDown(const TaskStatus& task) { return task.state() == "down"; }
bool IsPs(const TaskStatus& task) { return absl::StartsWith(task.name(), "ps "); }

// The task that initializes and saves: a chief or master, else the first worker.
const TaskStatus* ChiefOf(const JobStatus& job) {
  for (const char* name : {"chief 0", "master 0", "worker 0"}) {
    for (const TaskStatus& task : job.tasks()) {
      if (task.name() == name) return &task;
    }
  }
  return nullptr;
}

class Diagnosis {
 public:
  Diagnosis(const JobStatus& job, const DiagnosisOptions& options) : job_(job), options_(options) {
    for (const TaskStatus& task : job.tasks()) by_name_[task.name()] = &task;
  }

  std::vector<Finding> Run() {
    for (const TaskStatus& task : job_.tasks()) FindDown(task);
    for (const TaskStatus& task : job_.tasks()) FindMemory(task);
    for (const TaskStatus& task : job_.tasks()) FindFullQueues(task);
    for (const TaskStatus& task : job_.tasks()) FindWaits(task);
    if (!AnyStuck()) FindStragglers();
    if (!AnyStuck()) FindSlowInput();
    std::stable_partition(findings_.begin(), findings_.end(), [](const Finding& f) { return f.stuck(); });
    return std::move(findings_);
  }

 private:
  bool AnyStuck() const {
    return std::any_of(findings_.begin(), findings_.end(), [](const Finding& f) { return f.stuck(); });
  }

  void Add(bool stuck, const std::string& culprit, const std::string& text) {
    const auto same = [&](const Finding& f) { return f.text() == text; };
    if (std::any_of(findings_.begin(), findings_.end(), same)) return;
    Finding finding;
    finding.set_stuck(stuck);
    finding.set_culprit(culprit);
    finding.set_text(text);
    findings_.push_back(std::move(finding));
  }

  // The longest wait of another task for this one, as a sentence; "" if there is none.
  std::string WhoWaitsFor(const std::string& name) const {
    const TaskStatus* who = nullptr;
    const StepWait* longest = nullptr;
    for (const TaskStatus& task : job_.tasks()) {
      for (const RunningStep& step : task.running()) {
        for (const StepWait& wait : step.waits()) {
          if (wait.on() != name || (longest != nullptr && longest->seconds() >= wait.seconds())) continue;
          who = &task;
          longest = &wait;
        }
      }
    }
    if (longest == nullptr) return "";
    return absl::StrCat(who->name(), " has waited ", ShortSeconds(longest->seconds()), " for ", name, ": ",
                        longest->kind() == "part" ? "RunGraph is not answered"
                                                  : absl::StrCat("the tensor for ", longest->node(), " has not come"));
  }

  void FindDown(const TaskStatus& task) {
    if (!IsDown(task)) return;
    std::string text = task.name();
    if (absl::StrContains(task.error(), "DEADLINE_EXCEEDED")) {
      absl::StrAppend(&text, " does not answer (its process is stopped, overloaded or cut off)");
    } else {
      absl::StrAppend(&text, " cannot be reached (its process is not running)");
    }
    if (task.seconds_silent() >= 0) {
      absl::StrAppend(&text, "; it last answered ", ShortSeconds(task.seconds_silent()), " ago");
    } else {
      absl::StrAppend(&text, "; it has not answered yet");
    }
    if (const TaskStatus* chief = ChiefOf(job_); chief == &task) {
      const bool uninitialized = std::any_of(job_.tasks().begin(), job_.tasks().end(),
                                             [](const TaskStatus& t) { return t.uninitialized_variables() > 0; });
      absl::StrAppend(&text, "; it is the chief",
                      uninitialized ? ", and the other workers wait for it to initialize the variables" : "");
    }
    if (const std::string waits = WhoWaitsFor(task.name()); !waits.empty()) absl::StrAppend(&text, "; ", waits);
    Add(true, task.name(), text);
  }

  void FindMemory(const TaskStatus& task) {
    for (const MonitorEvent& event : task.events()) {
      constexpr double kRecent = 60;
      if (task.time() - event.time() > kRecent || !absl::StrContains(event.text(), "RESOURCE_EXHAUSTED")) continue;
      // The error names the task that has no memory: "From /job:ps/replica:0/task:0:".
      std::string culprit = task.name();
      for (const TaskStatus& other : job_.tasks()) {
        if (absl::StrContains(event.text(), absl::StrCat("From ", other.task(), ":"))) culprit = other.name();
      }
      Add(true, culprit,
          absl::StrCat(culprit, " is out of memory; a step of ", task.name(), " failed ",
                       ShortSeconds(task.time() - event.time()), " ago: ", event.text()));
    }
  }

  void FindFullQueues(const TaskStatus& task) {
    for (const RunningStep& step : task.running()) {
      for (const StepWait& wait : step.waits()) {
        if (wait.kind() != "room" || wait.seconds() < options_.stuck_seconds) continue;
        // Producers are meant to be ahead of a consumer that takes something now and then.
        const TaskStatus* const master = Find(step.master());
        if (master != nullptr && master->seconds_since_step() >= 0 &&
            master->seconds_since_step() < options_.stuck_seconds) {
          continue;
        }
        std::string room;
        for (const QueueStatus& queue : task.queues()) {
          if (queue.name() == wait.on() && queue.capacity() > 0) {
            room = absl::StrFormat(" (%.0f of %.0f elements)", queue.size(), queue.capacity());
          }
        }
        Add(true, task.name(),
            absl::StrCat("the queue ", wait.on(), " of ", task.name(), " is full", room, ": ", wait.node(), " of ",
                         step.master().empty() ? "a client" : step.master(), " has waited ",
                         ShortSeconds(wait.seconds()), " to enqueue, and nothing dequeues"));
      }
    }
  }

  const TaskStatus* Find(const std::string& name) const {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : it->second;
  }
  const RunningStep* PartOf(const TaskStatus& task, uint64_t step_id) const {
    for (const RunningStep& step : task.running()) {
      if (step.step_id() == step_id && !step.whole()) return &step;
    }
    return nullptr;
  }

  void FindWaits(const TaskStatus& task) {
    for (const RunningStep& step : task.running()) {
      if (step.seconds() < options_.stuck_seconds) continue;
      for (const StepWait& wait : step.waits()) {
        if (wait.seconds() >= options_.stuck_seconds) Follow(task, step, wait);
      }
      if (step.waits_size() == 0 && !step.whole()) Computes(task, step);
    }
  }

  // Follows a wait of a step to the task that causes it.
  void Follow(const TaskStatus& task, const RunningStep& step, const StepWait& wait) {
    const std::string who = absl::StrCat(task.name(), step.master() == task.name() || step.master().empty()
                                                          ? ""
                                                          : absl::StrCat(", in a step of ", step.master(), ","));
    if (wait.kind() == "tensor" || wait.kind() == "part") {
      const TaskStatus* const on = Find(wait.on());
      if (on == nullptr || IsDown(*on)) return;  // FindDown() has said so
      const RunningStep* const part = PartOf(*on, step.step_id());
      if (part == nullptr || part->waits_size() > 0) return;  // what it waits for is found there
      Add(true, on->name(),
          absl::StrCat(who, " has waited ", ShortSeconds(wait.seconds()), " for ", on->name(), ", which computes (",
                       absl::StrFormat("%.1f", on->cpu_share()), " cores in use)"));
    } else if (wait.kind() == "token" || wait.kind() == "gradients") {
      FollowSynchronization(who, wait);
    } else if (wait.kind() == "collective") {
      FollowSynchronization(who, wait);
    } else if (wait.kind() == "input") {
      Add(true, task.name(),
          absl::StrCat(who, " has waited ", ShortSeconds(wait.seconds()), " for input: ", wait.node(),
                       wait.on().empty() ? "" : absl::StrCat(" gets nothing from ", wait.on())));
    } else if (wait.kind() == "python") {
      Add(true, task.name(),
          absl::StrCat(who, " has waited ", ShortSeconds(wait.seconds()), " for the Python function of ", wait.node()));
    }
  }

  // Synchronous steps wait for the workers that have not contributed: those without a step
  // for the longest time that do not wait for the same thing themselves.
  void FollowSynchronization(const std::string& who, const StepWait& wait) {
    std::vector<const TaskStatus*> late;
    for (const TaskStatus& task : job_.tasks()) {
      if (IsPs(task) || IsDown(task) || task.master_sessions() == 0) continue;
      const bool waits_too = std::any_of(job_.tasks().begin(), job_.tasks().end(), [&](const TaskStatus& other) {
        return std::any_of(other.running().begin(), other.running().end(), [&](const RunningStep& step) {
          return step.master() == task.name() &&
                 std::any_of(step.waits().begin(), step.waits().end(),
                             [](const StepWait& w) { return w.kind() == "token" || w.kind() == "collective"; });
        });
      });
      if (!waits_too) late.push_back(&task);
    }
    for (const TaskStatus* task : late) {
      std::string does = "runs no step (its program is busy outside of steps)";
      for (const RunningStep& step : task->running()) {
        if (step.whole() || step.master() != task->name()) continue;
        does = step.waits_size() == 0
                   ? absl::StrCat("has computed its step for ", ShortSeconds(step.seconds()))
                   : absl::StrCat("waits for ", step.waits(0).on().empty() ? step.waits(0).node() : step.waits(0).on());
      }
      Add(true, task->name(),
          absl::StrCat(who, " has waited ", ShortSeconds(wait.seconds()), " for ", wait.on(), ": ", task->name(),
                       " has not contributed; it ", does));
    }
  }

  void Computes(const TaskStatus& task, const RunningStep& step) {
    const double usual = task.own_seconds_median();
    if (usual > 0 && step.seconds() < 10 * usual) return;
    Add(true, task.name(),
        absl::StrCat(task.name(), " has computed one step for ", ShortSeconds(step.seconds()),
                     usual > 0 ? absl::StrFormat(", where it usually takes %.3g s", usual) : "",
                     absl::StrFormat(" (%.1f cores in use)", task.cpu_share())));
  }

  // Workers whose own part, without the time that they wait for others, takes much longer.
  void FindStragglers() {
    std::vector<std::pair<double, const TaskStatus*>> workers;
    for (const TaskStatus& task : job_.tasks()) {
      if (!IsPs(task) && !IsDown(task) && task.own_seconds_median() > 0) {
        workers.emplace_back(task.own_seconds_median(), &task);
      }
    }
    if (workers.size() < 2) return;
    std::sort(workers.begin(), workers.end());
    const double median = workers[(workers.size() - 1) / 2].first;
    for (const auto& [seconds, task] : workers) {
      if (seconds < options_.slow_factor * median) continue;
      double compute = 0, input = 0;
      for (const PhaseTime& phase : task->phases()) {
        if (phase.phase() == "compute") compute = phase.share();
        if (phase.phase() == "input") input = phase.share();
      }
      Add(false, task->name(),
          absl::StrFormat("%s is slow: its part of a step takes %.3g ms without the time that it waits for others, "
                          "where the median of the workers is %.3g ms; most of it is %s (%.1f cores in use)",
                          task->name(), seconds * 1e3, median * 1e3, input > compute ? "input" : "computing",
                          task->cpu_share()));
    }
  }

  void FindSlowInput() {
    for (const TaskStatus& task : job_.tasks()) {
      for (const PhaseTime& phase : task.phases()) {
        if (phase.phase() != "input" || phase.share() < 0.5) continue;
        Add(false, task.name(),
            absl::StrFormat("%s spends %.0f%% of its time waiting for input", task.name(), phase.share() * 100));
      }
    }
  }

  const JobStatus& job_;
  const DiagnosisOptions options_;
  std::map<std::string, const TaskStatus*> by_name_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> Diagnose(const JobStatus& job, const DiagnosisOptions& options) {
  return Diagnosis(job, options).Run();
}

}  // namespace thalweg
