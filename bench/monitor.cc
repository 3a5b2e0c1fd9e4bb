// SPDX-License-Identifier: Apache-2.0
// The cost of recording a step in the flight recorder of a task (monitor/task_monitor.h).
#include <benchmark/benchmark.h>

#include <array>

#include "thalweg/monitor/task_monitor.h"

namespace {

class Step : public thalweg::MonitoredStep {
 public:
  void Describe(thalweg::RunningStep* description) const override {}
};

// Records a worker's step with two parameter servers: the step, and its own part with
// two waits. Both are listed while they run.
void BM_RecordStep(benchmark::State& state) {
  static thalweg::TaskMonitor* const monitor = new thalweg::TaskMonitor("/job:worker/replica:0/task:0");
  const std::array<thalweg::StepRecord::Wait, 2> waits = {
      {{"/job:ps/replica:0/task:0", 1000}, {"/job:ps/replica:0/task:1", 2000}}};
  int64_t id = 0;
  for (auto _ : state) {
    Step whole, part;
    monitor->Add(&whole);
    monitor->Add(&part);
    monitor->Remove(&part);
    monitor->AddStep(
        {.step_id = ++id, .end_nanos = 1'000'000, .compute_nanos = 900'000, .transfer_nanos = 10'000, .waits = waits});
    monitor->Remove(&whole);
    monitor->AddStep({.step_id = id,
                      .whole = true,
                      .trains = true,
                      .end_nanos = 1'100'000,
                      .waits = absl::MakeConstSpan(waits).subspan(0, 1)});
  }
}
BENCHMARK(BM_RecordStep)->Threads(1)->Threads(2);

}  // namespace

BENCHMARK_MAIN();
