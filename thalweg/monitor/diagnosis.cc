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
#include "thalweg/monitor/status_text.h"

namespace thalweg {
namespace {

bool IsDown(const TaskStatus& task) { return task.state() == "down"; }
bool IsSilent(const TaskStatus& task) { return absl::StrContains(task.error(), "DEADLINE_EXCEEDED"); }
bool IsPs(const TaskStatus& task) { return absl::StartsWith(task.name(), "ps "); }

std::string Gigabytes(double bytes) { return absl::StrFormat("%.1f GB", bytes * 1e-9); }

// "host" of "host:port".
absl::string_view HostOf(absl::string_view address) { return address.substr(0, address.rfind(':')); }

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
    for (const TaskStatus& task : job_.tasks()) FindBusyOutsideOfSteps(task);
    for (const TaskStatus& task : job_.tasks()) FindExpelled(task);
    FindMachinesWithoutMemory();
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
    finding.set_stuck(stuck && ExpelledMember(culprit) == nullptr);  // the others go on without an expelled worker
    finding.set_culprit(culprit);
    finding.set_text(text);
    findings_.push_back(std::move(finding));
  }

  const MemberStatus* ExpelledMember(const std::string& worker) const {
    const MemberStatus* const member = FindMember(job_, worker);
    return member != nullptr && member->state() == "expelled" ? member : nullptr;
  }

  // "ps 0 waits for a gradient of worker 2 for step 17, since 12 s": the longest wait for a gradient of this worker;
  // "" if there is none.
  std::string WhoWaitsForGradient(const std::string& worker) const {
    std::pair<const TaskStatus*, const GradientWait*> longest;
    for (const TaskStatus& task : job_.tasks()) {
      for (const GradientWait& wait : task.gradient_waits()) {
        if (std::find(wait.missing().begin(), wait.missing().end(), worker) == wait.missing().end()) continue;
        if (longest.second == nullptr || longest.second->seconds() < wait.seconds()) longest = {&task, &wait};
      }
    }
    return longest.second == nullptr ? ""
                                     : absl::StrCat(longest.first->name(), " ", DescribeGradientWait(*longest.second));
  }

  // Whether parameter servers tell whose gradients they wait for.
  bool KnowsMissing() const {
    return std::any_of(job_.tasks().begin(), job_.tasks().end(), [](const TaskStatus& task) {
      return std::any_of(task.gradient_waits().begin(), task.gradient_waits().end(),
                         [](const GradientWait& wait) { return wait.missing_size() > 0; });
    });
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
    if (longest == nullptr) return WhoSynchronizesWith(name);
    return absl::StrCat(who->name(), " has waited ", ShortSeconds(longest->seconds()), " for ", name, ": ",
                        longest->kind() == "part" ? "RunGraph is not answered"
                                                  : absl::StrCat("the tensor for ", longest->node(), " has not come"));
  }

  // The longest wait for a contribution of this worker to a synchronous step, as a sentence; "" if there is none.
  std::string WhoSynchronizesWith(const std::string& name) const {
    const TaskStatus* const late = Find(name);
    if (late == nullptr || IsPs(*late)) return "";
    const RunningStep* step = nullptr;
    const StepWait* longest = nullptr;
    for (const TaskStatus& task : job_.tasks()) {
      for (const RunningStep& running : task.running()) {
        for (const StepWait& wait : running.waits()) {
          // A chief also waits for gradients, on behalf of all. The steps that train wait for tokens.
          if (wait.kind() != "token" && wait.kind() != "collective" && wait.kind() != "gradients") continue;
          const bool better = longest == nullptr || (longest->kind() == "gradients" && wait.kind() != "gradients") ||
                              (longest->kind() == wait.kind() && longest->seconds() < wait.seconds());
          if (running.master() == name || !better) continue;
          step = &running;
          longest = &wait;
        }
      }
    }
    if (longest == nullptr) return "";
    return absl::StrCat(step->master().empty() ? "a client" : step->master(), " has waited ",
                        ShortSeconds(longest->seconds()), " for ",
                        longest->on().empty() ? longest->node() : longest->on(), ", to which ", name, " contributes",
                        AfterSemicolon(WhoWaitsForGradient(name)));
  }

  static std::string AfterSemicolon(const std::string& clause) {
    return clause.empty() ? "" : absl::StrCat("; ", clause);
  }

  // For how long a step of `master` may take.
  double StuckAfter(const std::string& master, const std::string& purpose = "") const {
    constexpr double kLeast = 5, kUnknown = 30, kCheckpoint = 60;
    if (options_.stuck_after > 0) return options_.stuck_after;
    const TaskStatus* const task = Find(master);
    if (purpose == "checkpoint" || purpose == "restore") {
      return std::max(kCheckpoint, task == nullptr ? 0 : 5 * task->checkpoint().seconds());
    }
    const double usual = task == nullptr ? 0 : std::max(task->step_seconds_p99(), task->step_seconds_median());
    return usual > 0 ? std::max(kLeast, 3 * usual) : kUnknown;
  }
  double StuckAfter(const RunningStep& step) const { return StuckAfter(step.master(), PurposeOf(step)); }

  // Only the whole step knows it.
  std::string PurposeOf(const RunningStep& part) const {
    if (part.whole()) return part.purpose();
    const TaskStatus* const master = Find(part.master());
    if (master == nullptr) return "";
    for (const RunningStep& step : master->running()) {
      if (step.whole() && step.step_id() == part.step_id()) return step.purpose();
    }
    return "";
  }

  void FindDown(const TaskStatus& task) {
    if (!IsDown(task)) return;
    std::string text = task.name();
    // A busy task may miss one question.
    if (IsSilent(task) && task.missed_answers() == 1) {
      Add(false, task.name(), absl::StrCat(text, " has not answered in time once; it may be busy"));
      return;
    }
    if (IsSilent(task)) {
      absl::StrAppend(&text, " does not answer (its process is stopped, overloaded or cut off)");
    } else {
      absl::StrAppend(&text, " cannot be reached (its process is not running)");
    }
    if (task.seconds_silent() >= 0) {
      absl::StrAppend(&text, "; it last answered ", ShortSeconds(task.seconds_silent()), " ago", Where(task));
    } else {
      absl::StrAppend(&text, "; it has not answered yet", Where(task));
    }
    if (!IsSilent(task)) absl::StrAppend(&text, Killed(task));
    if (const TaskStatus* chief = ChiefOf(job_); chief == &task) {
      const bool uninitialized = std::any_of(job_.tasks().begin(), job_.tasks().end(),
                                             [](const TaskStatus& t) { return t.uninitialized_variables() > 0; });
      absl::StrAppend(&text, "; it is the chief",
                      uninitialized ? ", and the other workers wait for it to initialize the variables" : "");
    }
    if (const MemberStatus* const expelled = ExpelledMember(task.name()); expelled != nullptr) {
      absl::StrAppend(&text, "; it was expelled ", ShortSeconds(expelled->seconds()),
                      " ago, and the training goes on without it");
    }
    absl::StrAppend(&text, AfterSemicolon(WhoWaitsFor(task.name())));
    Add(true, task.name(), text);
  }

  void FindExpelled(const TaskStatus& counts) {
    for (const MemberStatus& member : counts.members()) {
      const TaskStatus* const task = Find(member.worker());
      if (member.state() != "expelled" || (task != nullptr && IsDown(*task))) continue;  // FindDown() has said so
      Add(false, member.worker(),
          absl::StrCat(member.worker(), " was expelled ", ShortSeconds(member.seconds()),
                       " ago because it held up the others; the training goes on without it",
                       AfterSemicolon(task == nullptr ? "" : WhatItDoes(*task))));
    }
  }

  // "worker 1 has been in its step for 12 s, which waits for examples".
  std::string WhatItDoes(const TaskStatus& task) const {
    const RunningStep* const step = OwnStep(task);
    if (step == nullptr) return absl::StrCat(task.name(), " runs no step (its program is busy outside of steps)");
    std::string does = absl::StrCat(task.name(), " has been in its step for ", ShortSeconds(step->seconds()));
    if (step->waits_size() > 0) {
      absl::StrAppend(&does, ", which waits for ",
                      step->waits(0).on().empty() ? step->waits(0).node() : step->waits(0).on());
    }
    return does;
  }

  // " at node7:2222 (process 4242)": where to look for a task.
  static std::string Where(const TaskStatus& task) {
    return absl::StrCat(task.address().empty() ? "" : absl::StrCat(" at ", task.address()),
                        task.pid() == 0 ? "" : absl::StrCat(" (process ", task.pid(), ")"));
  }

  // Whether a task that is gone may have been killed for lack of memory, as a clause.
  std::string Killed(const TaskStatus& gone) const {
    for (const TaskStatus& task : job_.tasks()) {
      if (task.oom_kills() <= 0 || HostOf(task.address()) != HostOf(gone.address())) continue;
      // A task that has answered after the last kill was not killed.
      constexpr double kTolerance = 2;
      if (gone.seconds_silent() >= 0 && gone.seconds_silent() + kTolerance < task.seconds_since_oom_kill()) continue;
      return absl::StrFormat("; the kernel has killed %s on its machine for lack of memory, the last one %s ago",
                             task.oom_kills() == 1 ? "a process" : absl::StrFormat("%.0f processes", task.oom_kills()),
                             ShortSeconds(task.seconds_since_oom_kill()));
    }
    return "";
  }

  // The tasks of a machine share its memory, or the limit of their container.
  void FindMachinesWithoutMemory() {
    constexpr double kAlmostAll = 0.9;
    struct Machine {
      double used = 0, limit = 0;
      const TaskStatus* largest = nullptr;
      int tasks = 0;
    };
    std::map<std::string, Machine> machines;
    for (const TaskStatus& task : job_.tasks()) {
      if (IsDown(task) || task.memory_limit_bytes() <= 0) continue;
      Machine& machine = machines[task.host()];
      machine.used += task.memory_bytes();
      machine.limit = std::max(machine.limit, task.memory_limit_bytes());
      ++machine.tasks;
      if (machine.largest == nullptr || machine.largest->memory_bytes() < task.memory_bytes()) machine.largest = &task;
    }
    for (const auto& [host, machine] : machines) {
      if (machine.used < kAlmostAll * machine.limit) continue;
      const TaskStatus& task = *machine.largest;
      std::string text = absl::StrCat(task.name(), " is close to the limit of its memory: it has ",
                                      Gigabytes(task.memory_bytes()), " of ", Gigabytes(machine.limit));
      if (machine.tasks > 1) {
        absl::StrAppend(&text, "; the ", machine.tasks, " tasks of its machine have ", Gigabytes(machine.used));
      }
      Add(false, task.name(), text);
    }
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
        const double limit = StuckAfter(step);
        if (wait.kind() != "room" || wait.seconds() < limit) continue;
        // Producers are meant to be ahead of a consumer that takes something now and then.
        const TaskStatus* const master = Find(step.master());
        if (master != nullptr && master->seconds_since_step() >= 0 && master->seconds_since_step() < limit) continue;
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

  // "worker 0", or "ps 1, in a step of worker 0,".
  static std::string WhoRuns(const TaskStatus& task, const RunningStep& step) {
    if (step.master() == task.name() || step.master().empty()) return task.name();
    return absl::StrCat(task.name(), ", in a step of ", step.master(), ",");
  }

  void FindWaits(const TaskStatus& task) {
    for (const RunningStep& step : task.running()) {
      const double limit = StuckAfter(step);
      if (step.seconds() < limit) continue;
      for (const StepWait& wait : step.waits()) {
        if (wait.seconds() >= limit) Follow(task, step, wait);
      }
      if (step.waits_size() == 0 && !step.whole()) Computes(task, step);
    }
  }

  // Follows a wait of a step to the task that causes it.
  void Follow(const TaskStatus& task, const RunningStep& step, const StepWait& wait) {
    const std::string who = WhoRuns(task, step);
    if (wait.kind() == "tensor" || wait.kind() == "part") {
      const TaskStatus* const on = Find(wait.on());
      if (on == nullptr || IsDown(*on)) return;  // FindDown() has said so
      const RunningStep* const part = PartOf(*on, step.step_id());
      if (part == nullptr || part->waits_size() > 0) return;  // what it waits for is found there
      Add(true, on->name(),
          absl::StrCat(who, " has waited ", ShortSeconds(wait.seconds()), " for ", on->name(), ", which computes (",
                       absl::StrFormat("%.1f", on->cpu_share()), " cores in use)", Usually(step.master())));
    } else if (wait.kind() == "token" || wait.kind() == "gradients" || wait.kind() == "collective") {
      FollowSynchronization(who, wait);
    } else if (wait.kind() == "input") {
      Add(true, task.name(),
          absl::StrCat(who, " has waited ", ShortSeconds(wait.seconds()), " for input: ", wait.node(),
                       wait.on().empty() ? "" : absl::StrCat(" gets nothing from ", wait.on()),
                       Usually(step.master())));
    } else if (wait.kind() == "python") {
      Add(true, task.name(),
          absl::StrCat(who, " has waited ", ShortSeconds(wait.seconds()), " for the Python function of ", wait.node(),
                       Usually(step.master())));
    }
  }

  // "; a step of worker 0 usually takes 0.012 s".
  std::string Usually(const std::string& master) const {
    const TaskStatus* const task = Find(master);
    if (task == nullptr || task->step_seconds_median() <= 0) return "";
    return absl::StrFormat("; a step of %s usually takes %.3g s", master, task->step_seconds_median());
  }

  // Whether a step of this worker waits for the next synchronous step itself.
  bool WaitsForOthers(const std::string& worker) const {
    for (const TaskStatus& task : job_.tasks()) {
      for (const RunningStep& step : task.running()) {
        for (const StepWait& wait : step.waits()) {
          if (step.master() == worker && (wait.kind() == "token" || wait.kind() == "collective")) return true;
        }
      }
    }
    return false;
  }

  const RunningStep* OwnStep(const TaskStatus& task) const {
    const RunningStep* own = nullptr;
    for (const RunningStep& step : task.running()) {
      // Queue runners run steps beside the one that trains, and wait in them. The step that began last is a training
      // step.
      if (step.whole() && step.master() == task.name() && (own == nullptr || step.seconds() < own->seconds())) {
        own = &step;
      }
    }
    return own;
  }

  // Synchronous steps wait for the workers that have not contributed: those that do not wait for the same thing
  // themselves, and whose own step takes too long.
  void FollowSynchronization(const std::string& who, const StepWait& wait) {
    for (const TaskStatus& task : job_.tasks()) {
      if (IsPs(task) || IsDown(task) || task.master_sessions() == 0 || WaitsForOthers(task.name())) continue;
      const std::string gradient = WhoWaitsForGradient(task.name());
      if (gradient.empty() && wait.kind() != "collective" && KnowsMissing()) continue;
      if (const RunningStep* const step = OwnStep(task); step != nullptr) {
        if (step->seconds() < StuckAfter(*step)) continue;
      } else if (task.seconds_since_any_step() >= 0 && task.seconds_since_any_step() < StuckAfter(task.name())) {
        continue;
      }
      // Every parameter server has such waits, and one is enough.
      if (!synchronized_.insert(task.name()).second) continue;
      Add(true, task.name(),
          absl::StrCat(who, " has waited ", ShortSeconds(wait.seconds()), " for ", wait.on(), ": ",
                       gradient.empty() ? absl::StrCat(task.name(), " has not contributed") : gradient, "; ",
                       WhatItDoes(task), Usually(task.name())));
    }
  }

  void Computes(const TaskStatus& task, const RunningStep& step) {
    Add(true, task.name(),
        absl::StrCat(WhoRuns(task, step), " has computed one step for ", ShortSeconds(step.seconds()),
                     absl::StrFormat(" (%.1f cores in use)", task.cpu_share()), Usually(step.master())));
  }

  // A program that trains, and then does nothing that this task can see.
  void FindBusyOutsideOfSteps(const TaskStatus& task) {
    // Programs do other things between steps, such as to evaluate.
    constexpr double kPatience = 4;
    if (IsDown(task) || task.state() == "finished" || task.master_sessions() == 0 || task.steps() < 2) return;
    if (OwnStep(task) != nullptr || task.seconds_since_any_step() < 0) return;
    if (task.stop_step() > 0 && LastGlobalStep() >= task.stop_step()) return;  // it is done
    const double limit = StuckAfter(task.name()) * (options_.stuck_after > 0 ? 1 : kPatience);
    if (task.seconds_since_any_step() < limit) return;
    // In synchronous training, others wait for it: that has been said.
    const auto named = [&](const Finding& f) { return f.stuck() && f.culprit() == task.name(); };
    if (std::any_of(findings_.begin(), findings_.end(), named)) return;
    Add(true, task.name(),
        absl::StrCat(task.name(), " has run no step for ", ShortSeconds(task.seconds_since_any_step()),
                     ": its program is busy or waits outside of steps", Usually(task.name())));
  }

  double LastGlobalStep() const {
    double last = -1;
    for (const TaskStatus& task : job_.tasks()) {
      if (task.has_global_step()) last = std::max(last, task.global_step());
    }
    return last;
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
  std::set<std::string> synchronized_;  // workers that synchronous steps wait for, and that findings_ names as such
};

}  // namespace

std::vector<Finding> Diagnose(const JobStatus& job, const DiagnosisOptions& options) {
  return Diagnosis(job, options).Run();
}

}  // namespace thalweg
