// What a job that runs on this host looks like: a row for each task with its
// state, step, rate and loss, and one for the whole.
//
// Steps are read from the lines that tasks print: "step 1200/5000  loss 0.12",
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

namespace thalweg {

struct StepLine {
  int64_t step = 0;
  int64_t total = 0;  // 0: not said
  std::optional<double> loss;
};

// nullopt if the line tells no step.
std::optional<StepLine> ParseStepLine(absl::string_view line);

// A value: it draws nothing by itself.
class ProgressTable {
 public:
  // `total_steps`: 0 if it is not known; lines may tell it.
  ProgressTable(std::vector<std::string> tasks, int64_t total_steps);

  void SetState(size_t task, std::string state) { rows_[task].state = std::move(state); }
  // True if the line told a step.
  bool AddLine(size_t task, absl::string_view line, absl::Time now);

  // One line for each task, and "total" if any has told a step; each is cut to
  // `columns`. Of more than `max_lines`, which is at least 3, some tasks are left
  // out, and their number is told.
  std::vector<std::string> Rows(absl::Time now, size_t columns, size_t max_lines = 1000) const;

 private:
  // Steps over time. The rate is that of the last seconds.
  struct Track {
    void Add(int64_t step, absl::Time now);
    double rate(absl::Time now) const;
    std::deque<std::pair<absl::Time, int64_t>> samples;
  };
  struct Row {
    std::string name, state;
    Track track;
    std::optional<double> loss;
  };
  std::string Steps(const Track& track, absl::Time now) const;

  std::vector<Row> rows_;
  Track total_;  // workers share a global step: the highest that any has told
  int64_t total_steps_;
};

}  // namespace thalweg
