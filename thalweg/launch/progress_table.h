// SPDX-License-Identifier: Apache-2.0
// The progress of a job as a table: a row per task with its state, step, rate and loss, and a
// row for the whole job.
//
// Tasks with a Thalweg server tell their progress themselves. For other tasks, steps are parsed
// from the lines that they print on their standard output: "step 1200/5000  loss 0.12",
// "Train step 100, loss: 0.5", "step=7 loss=2e-3".
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "thalweg/proto/monitor.pb.h"

namespace thalweg {

struct StepLine {
  int64_t step = 0;
  int64_t total = 0;  // 0: unknown
  std::optional<double> loss;
};

// Whether the line says nothing but the progress: "step 1200/5000  loss 0.12  980 steps/s  ETA 4s". A line with other
// words, such as a warning that names a step, is more than that.
bool IsPlainStepLine(absl::string_view line);

// The scalar that best stands for the loss: one named so, else one whose name has that word; nullopt if there is none.
std::optional<double> LossOf(const TaskStatus& task);

// nullopt if the line does not report a step.
std::optional<StepLine> ParseStepLine(absl::string_view line);

// The last report of a task.
struct TaskProgress {
  int64_t steps = 0;  // training steps of its program
  double rate = 0;    // steps per second
  std::optional<double> loss;
  std::string trouble;  // "not answering for 12 s"; "": none
  std::string http;     // address of its status page; "": none
};

// A value type that produces text; the caller draws it.
class ProgressTable {
 public:
  // `total_steps` is 0 if unknown; lines may report it.
  ProgressTable(std::vector<std::string> tasks, int64_t total_steps);

  void SetState(size_t task, std::string state) { rows_[task].state = std::move(state); }
  // Takes over from the lines of the task.
  void SetProgress(size_t task, TaskProgress progress) { rows_[task].told = std::move(progress); }
  // The global step and its rate, as the task that holds it tells. A negative rate: the task does not answer, so no
  // rate is known.
  void SetGlobalStep(int64_t step, double rate) { global_step_ = {step, rate}; }
  // The global step at which the programs say that they stop, and the time until then; 0: not known. It replaces the
  // number of steps that lines or the command line tell.
  void SetEnd(int64_t stop_step, double seconds_left) {
    stop_step_ = stop_step;
    seconds_left_ = seconds_left;
  }
  // Returns true if the line reports a step.
  bool AddLine(size_t task, absl::string_view line, absl::Time now);

  // One line per task, and "total" if any task has reported a step, each cut to `columns`. If
  // there are more than `max_lines` (at least 3), some tasks are omitted and their number is
  // shown.
  std::vector<std::string> Rows(absl::Time now, size_t columns, size_t max_lines = 1000) const;

 private:
  // Steps over time. The rate covers the last seconds.
  struct Track {
    void Add(int64_t step, absl::Time now);
    double rate(absl::Time now) const;
    std::deque<std::pair<absl::Time, int64_t>> samples;
  };
  struct Row {
    std::string name, state;
    Track track;
    std::optional<double> loss;
    std::optional<TaskProgress> told;
  };
  std::string Line(const Row& row, int name_width, int state_width, absl::Time now) const;
  // The row of the whole job; "" if no step is known.
  std::string TotalLine(int width, absl::Time now) const;
  std::string Steps(const Track& track, absl::Time now) const;

  std::vector<Row> rows_;
  Track total_;  // workers share a global step: the highest that any worker has reported
  std::optional<std::pair<int64_t, double>> global_step_;
  int64_t total_steps_;
  int64_t stop_step_ = 0;
  double seconds_left_ = 0;
};

}  // namespace thalweg
