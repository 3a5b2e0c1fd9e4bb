// SPDX-License-Identifier: Apache-2.0
// A line that says how training goes: step, loss, steps per second, time left.
// On a terminal it is redrawn in place; elsewhere plain lines are printed, some
// seconds apart.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/time/time.h"
#include "thalweg/base/clock.h"

namespace thalweg {

// Which steps a Progress shows, where, and how often.
struct ProgressOptions {
  int64_t first_step = 0;                          // global step at which this run starts
  int64_t total_steps = 0;                         // 0: not known
  std::FILE* out = stdout;                         // where the lines go
  bool terminal = false;                           // redraw the line in place; see IsTerminal()
  absl::Duration interval = absl::ZeroDuration();  // time between lines; 0: 100 ms on a terminal, 2 s otherwise
  Clock* clock = &RealClock();                     // borrowed; tests set their own
};

// Prints the progress of a training loop. Not thread-safe.
class Progress {
 public:
  explicit Progress(const ProgressOptions& options);  // prints nothing yet
  ~Progress();  // prints the last step if it was not printed yet, and ends the line

  // Call it after each step. Prints only when the interval has passed.
  void Update(int64_t step, float loss);

  // The line that is printed: "step 1200/5000  loss 0.1234  980 steps/s  ETA 4s"
  std::string Line(int64_t step, float loss, int64_t now_nanos) const;

 private:
  const ProgressOptions options_;
  const int64_t interval_nanos_;
  const int64_t start_nanos_;
  int64_t last_print_nanos_;
  int64_t last_step_;
  float last_loss_ = 0;
  bool pending_ = false;  // the last step is not shown yet
};

// True if `file` is a terminal that can redraw a line.
bool IsTerminal(std::FILE* file);

}  // namespace thalweg
