// SPDX-License-Identifier: Apache-2.0
#include "thalweg/monitor/prometheus_text.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace thalweg {
namespace {

using Labels = std::vector<std::pair<const char*, std::string>>;

// Seconds since 1970 have ten digits before the point.
std::string Number(double value) {
  return std::isfinite(value) && value == std::floor(value) && std::abs(value) < 1e15 ? absl::StrFormat("%.0f", value)
                                                                                      : absl::StrFormat("%.15g", value);
}

// Writes families of metrics, each with its help and its type.
class Writer {
 public:
  void Family(const char* name, const char* type, const char* help) {
    name_ = name;
    absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  void Value(const Labels& labels, double value, const char* suffix = "") {
    absl::StrAppend(&text_, name_, suffix);
    for (size_t i = 0; i < labels.size(); ++i) {
      const std::string escaped =
          absl::StrReplaceAll(labels[i].second, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
      absl::StrAppend(&text_, i == 0 ? "{" : ",", labels[i].first, "=\"", escaped, "\"");
    }
    absl::StrAppend(&text_, labels.empty() ? "" : "}", " ", Number(value), "\n");
  }
  std::string Take() { return std::move(text_); }

 private:
  const char* name_ = "";
  std::string text_;
};

}  // namespace

std::string PrometheusText(const TaskStatus& s) {
  Writer w;
  const auto task = std::make_pair("task", s.name());
  if (s.has_global_step()) {
    w.Family("thalweg_global_step", "gauge", "Global step of the training, in the task that holds it.");
    w.Value({task}, s.global_step());
  }
  if (s.stop_step() > 0) {
    w.Family("thalweg_stop_step", "gauge", "Global step at which this task's program stops.");
    w.Value({task}, s.stop_step());
  }
  if (s.has_learning_rate()) {
    w.Family("thalweg_learning_rate", "gauge", "Learning rate of the last update of a variable in this task.");
    w.Value({task}, s.learning_rate());
  }
  w.Family("thalweg_steps_total", "counter", "Training steps of this task's program.");
  w.Value({task}, s.steps());
  w.Family("thalweg_failed_steps_total", "counter", "Steps of this task's program that failed.");
  w.Value({task}, s.failed_steps());
  if (s.seconds_since_step() >= 0) {
    w.Family("thalweg_last_step_timestamp_seconds", "gauge", "Time of the last training step, since 1970.");
    w.Value({task}, s.time() - s.seconds_since_step());
  }
  w.Family("thalweg_step_seconds", "histogram", "Duration of steps: in total, and of the parts in this task by phase.");
  for (const StepHistogram& h : s.histograms()) {
    double count = 0;
    for (int i = 0; i < h.counts_size(); ++i) {
      count += h.counts(i);
      const std::string bound = i < h.bounds_size() ? absl::StrFormat("%.9g", h.bounds(i)) : "+Inf";
      w.Value({task, {"phase", h.phase()}, {"le", bound}}, count, "_bucket");
    }
    w.Value({task, {"phase", h.phase()}}, h.sum(), "_sum");
    w.Value({task, {"phase", h.phase()}}, count, "_count");
  }
  w.Family("thalweg_wait_seconds_total", "counter", "Time in which steps could not go on because of another task.");
  for (const PhaseTime& phase : s.phases()) {
    if (phase.phase() == "wait") w.Value({task, {"on", phase.on()}}, phase.seconds());
  }
  w.Family("thalweg_transfer_bytes_total", "counter", "Bytes of calls between tasks, counted by the calling task.");
  for (const PeerTraffic& t : s.traffic()) {
    w.Value({{"src", s.name()}, {"dst", t.peer()}, {"path", t.path()}}, t.sent_bytes());
    w.Value({{"src", t.peer()}, {"dst", s.name()}, {"path", t.path()}}, t.received_bytes());
  }
  w.Family("thalweg_gradients_total", "counter",
           "Gradients that this task applied at once, or that its accumulators accepted, refused as stale or dropped.");
  for (const GradientCount& g : s.gradients()) {
    if (g.applied() > 0 && g.accepted() + g.stale() + g.dropped() == 0) {
      w.Value({task, {"worker", g.worker()}, {"result", "applied"}}, g.applied());
      continue;
    }
    w.Value({task, {"worker", g.worker()}, {"result", "accepted"}}, g.accepted());
    w.Value({task, {"worker", g.worker()}, {"result", "stale"}}, g.stale());
    w.Value({task, {"worker", g.worker()}, {"result", "dropped"}}, g.dropped());
  }
  w.Family("thalweg_calls_total", "counter", "Calls that this task has answered.");
  for (const CallCount& c : s.calls()) w.Value({task, {"method", c.method()}, {"code", c.code()}}, c.count());
  w.Family("thalweg_variables", "gauge", "Variables in this task.");
  w.Value({task}, s.variables());
  w.Family("thalweg_variable_bytes", "gauge", "Size of the variables in this task.");
  w.Value({task}, s.variable_bytes());
  if (s.has_checkpoint()) {
    w.Family("thalweg_checkpoint_age_seconds", "gauge", "Time since this task's program last saved a checkpoint.");
    w.Value({task}, s.time() - s.checkpoint().time());
    w.Family("thalweg_checkpoint_seconds", "gauge", "How long the last checkpoint took to save.");
    w.Value({task}, s.checkpoint().seconds());
    w.Family("thalweg_checkpoint_bytes", "gauge", "Size of the last checkpoint; 0 if it is not known.");
    w.Value({task}, s.checkpoint().bytes());
    w.Family("thalweg_checkpoint_damaged", "gauge", "1 if the checkpoint that was last read back is damaged.");
    w.Value({task}, s.checkpoint().damage().empty() ? 0 : 1);
  }
  w.Family("thalweg_queue_elements", "gauge", "Elements in a queue.");
  for (const QueueStatus& q : s.queues()) w.Value({task, {"queue", q.name()}}, q.size());
  w.Family("thalweg_sessions", "gauge", "Open sessions by role of this task.");
  w.Value({task, {"role", "master"}}, s.master_sessions());
  w.Value({task, {"role", "worker"}}, s.worker_sessions());
  w.Family("thalweg_running_steps", "gauge", "Steps and parts of steps that run now.");
  w.Value({task}, s.running_size());
  w.Family("process_threads", "gauge", "Threads of the process.");
  w.Value({}, s.threads());
  w.Family("process_resident_memory_bytes", "gauge", "Resident memory of the process.");
  w.Value({}, s.memory_bytes());
  w.Family("process_cpu_seconds_total", "counter", "CPU time of the process.");
  w.Value({}, s.cpu_seconds());
  w.Family("process_start_time_seconds", "gauge", "When the server was started, since 1970.");
  w.Value({}, s.time() - s.uptime());
  return w.Take();
}

}  // namespace thalweg
