// SPDX-License-Identifier: Apache-2.0
// TaskMonitor: what a task records about itself while it runs.
//
// It keeps totals, and the last steps and events in rings of fixed size (the flight
// recorder). Recording a step takes one short lock and allocates nothing, except when a
// name appears for the first time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "thalweg/base/mutex.h"
#include "thalweg/monitor/step_histogram.h"
#include "thalweg/proto/monitor.pb.h"

namespace thalweg {

// "worker 1" for "/job:worker/replica:0/task:1"; other names stay as they are.
std::string ShortTaskName(absl::string_view task);

// The text, with escapes if it is not UTF-8. Names of queues and summaries may be any bytes, and a message with such
// a name could not be parsed.
std::string Utf8Text(absl::string_view text);

// A step that has ended: the whole step, or the part of it that ran in this task.
struct StepRecord {
  // The time that a step waited for another task. `on` is borrowed during the call.
  struct Wait {
    absl::string_view on;
    int64_t nanos = 0;
  };
  int64_t step_id = 0;
  bool whole = false;   // recorded by its master
  bool trains = false;  // it updates variables or contributes a gradient
  int64_t start_nanos = 0, end_nanos = 0;
  int64_t compute_nanos = 0, input_nanos = 0, transfer_nanos = 0;
  absl::Span<const Wait> waits;
  absl::string_view master;  // of a part: the task whose program runs the step; borrowed
  absl::StatusCode code = absl::StatusCode::kOk;
};

// Adds up the waits of a step by task. Its memory serves for the next step, too. Not thread-safe.
class WaitSums {
 public:
  void Clear() { waits_.clear(); }
  // `on` is borrowed.
  void Add(absl::string_view on, int64_t nanos) {
    for (StepRecord::Wait& wait : waits_) {
      if (wait.on != on) continue;
      wait.nanos += nanos;
      return;
    }
    waits_.push_back({on, nanos});
  }
  absl::Span<const StepRecord::Wait> waits() const { return waits_; }

 private:
  std::vector<StepRecord::Wait> waits_;
};

// A step that runs now. It must unregister before it is destroyed.
class MonitoredStep {
 public:
  virtual ~MonitoredStep() = default;
  // Called on any thread while the step is registered. Must not call the monitor.
  virtual void Describe(RunningStep* description) const = 0;

 private:
  friend class TaskMonitor;
  MonitoredStep* previous_ = nullptr;
  MonitoredStep* next_ = nullptr;
};

// Thread-safe.
class TaskMonitor {
 public:
  static constexpr size_t kMaxSteps = 16384;  // about 2 MB
  static constexpr size_t kMaxEvents = 200;
  static constexpr size_t kMaxScalars = 200;  // series
  static constexpr size_t kMaxPoints = 256;   // per series; older points are thinned out
  static constexpr size_t kMaxPeers = 2048;   // names that waits refer to

  explicit TaskMonitor(std::string task);  // "/job:worker/replica:0/task:1"

  const std::string& task() const { return task_; }

  void Add(MonitoredStep* step);
  void Remove(MonitoredStep* step);

  void AddStep(const StepRecord& step);
  // Adds to the events. A repetition only renews the time of the earlier event.
  void AddEvent(absl::string_view kind, absl::string_view text);
  // Adds an event for which the flight recorder is dumped.
  void AddFault(absl::string_view kind, absl::string_view text);
  // Number of calls of AddFault() so far.
  int64_t num_faults() const;
  // "kind: text" of the last AddFault(), "" if there was none.
  std::string last_fault() const;
  // The last value of a number that the program has fetched or summarized.
  void SetScalar(absl::string_view name, double value);
  // The program has saved a checkpoint.
  void SetCheckpoint(absl::string_view path, int64_t start_nanos, int64_t end_nanos);
  // The path of the last checkpoint; "": there is none.
  std::string checkpoint() const;
  // The size of the checkpoint `path`. Ignored if there is a newer one.
  void SetCheckpointBytes(const std::string& path, double bytes);
  // A checkpoint was read back. `damage` says what is wrong with it; "": nothing.
  void SetCheckpointVerified(const std::string& path, const std::string& damage);
  // The global step at which the program stops.
  void SetStopStep(int64_t step) { stop_step_.store(step, std::memory_order_relaxed); }

  // Takes a sample of totals and scalars, from which rates and series are made. Call it
  // about once a second. `global_step` is negative if this task does not have it.
  void Sample(int64_t global_step, double cpu_seconds);

  // Fills in everything that is recorded here. Adds up to `trace_steps` of the last steps.
  void Fill(TaskStatus* status, int trace_steps = 0, bool details = false) const;
  // Fills in the steps that run now.
  void FillRunning(TaskStatus* status) const;

 private:
  static constexpr int kMaxWaits = 4;  // per recorded step; the longest are kept
  enum Phase { kCompute, kInput, kTransfer, kWait, kTotal, kPhases };

  struct Recorded {
    int64_t step_id = 0, start_nanos = 0, end_nanos = 0;
    int64_t compute_nanos = 0, input_nanos = 0, transfer_nanos = 0;
    std::array<int64_t, kMaxWaits> wait_nanos{};
    std::array<int32_t, kMaxWaits> wait_on{};
    int8_t code = 0;
    bool whole = false;
    bool trains = false;
  };
  struct Totals {
    int64_t nanos = 0;  // when the sample was taken
    int64_t steps = 0;
    int64_t global_step = -1;
    double cpu_seconds = 0;
    int64_t compute = 0, input = 0, transfer = 0;
    std::vector<int64_t> waits;  // by peer
  };
  struct Series {
    double last = 0;
    bool fresh = false;
    int stride = 1;   // samples per point
    int skipped = 0;  // samples since the last point
    std::vector<double> steps, values;
  };

  int32_t PeerIndex(absl::string_view task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillRates(TaskStatus* status) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillQuantiles(TaskStatus* status) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Recorded> LastSteps(int steps) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void FillTrace(absl::Span<const Recorded> steps, absl::Span<const std::string> peers, TaskStatus* status);

  const std::string task_;
  const int64_t start_nanos_;
  std::atomic<int64_t> stop_step_{0};  // 0: not known

  mutable Mutex running_mutex_;
  MonitoredStep* running_ ABSL_GUARDED_BY(running_mutex_) = nullptr;  // a list

  mutable Mutex mutex_;
  std::vector<Recorded> ring_ ABSL_GUARDED_BY(mutex_);  // kMaxSteps
  uint64_t recorded_ ABSL_GUARDED_BY(mutex_) = 0;       // steps since the start; modulo kMaxSteps: the next place
  Totals totals_ ABSL_GUARDED_BY(mutex_);
  int64_t failed_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_step_nanos_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_any_step_nanos_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<DurationHistogram, kPhases> histograms_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> peers_ ABSL_GUARDED_BY(mutex_);  // short names
  std::vector<int64_t> updates_ ABSL_GUARDED_BY(mutex_);    // parts that train, by the peer that is their master
  absl::flat_hash_map<std::string, int32_t> peer_index_ ABSL_GUARDED_BY(mutex_);
  std::deque<Totals> samples_ ABSL_GUARDED_BY(mutex_);  // the last seconds, oldest first
  std::deque<MonitorEvent> events_ ABSL_GUARDED_BY(mutex_);
  int64_t num_faults_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string last_fault_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<std::string, Series>> scalars_ ABSL_GUARDED_BY(mutex_);
  CheckpointStatus checkpoint_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
