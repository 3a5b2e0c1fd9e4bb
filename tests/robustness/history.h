// SPDX-License-Identifier: Apache-2.0
// The recorded history of a training, and the model that it is checked against.
//
// Every worker numbers its steps. Step k of worker w adds 1 to element (w, k) of each of two tables, which are
// variables on different parameter servers. The tables then say which steps were applied, and how often. The
// history says which steps began and which were acknowledged. CheckHistory compares both.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

// How the workers share the training.
enum class Replication { kAsynchronous, kSynchronous, kBackupWorkers, kBoundedStaleness, kAllReduce };
inline constexpr Replication kReplications[] = {Replication::kAsynchronous, Replication::kSynchronous,
                                                Replication::kBackupWorkers, Replication::kBoundedStaleness,
                                                Replication::kAllReduce};
std::string ToString(Replication replication);
absl::StatusOr<Replication> ParseReplication(absl::string_view text);

inline constexpr int kStepsPerWorker = 4096;  // columns of a table
// Mean of three gradients where two were required: each counts two thirds.
inline constexpr int kUnit = 3;

// The events of a training. Times are nanoseconds of the monotonic clock, which all processes of a machine share.
struct TrainingHistory {
  struct Step {
    int64_t begun = 0;
    int64_t acknowledged = 0;  // 0: never
  };
  // The chief has given the variables the values of a checkpoint; "" for their initial values.
  struct Restore {
    int64_t begun = 0;
    int64_t ended = 0;  // when the chief's session was ready; 0: never
    std::string prefix;
  };
  std::map<std::pair<int, int>, Step> steps;  // by worker and number
  std::vector<Restore> restores;              // in the order of time

  int64_t acknowledged() const;
};

// Records a history, in memory or in a file. A line is in the file before the call returns, so that it survives the
// process. Thread-safe.
class HistoryRecorder {
 public:
  HistoryRecorder() = default;
  ~HistoryRecorder();
  // Appends to the file. Several processes may share it.
  absl::Status Open(const std::string& path);

  void Begin(int worker, int step);
  void Acknowledge(int worker, int step);
  void BeginRestore(const std::string& prefix);
  void EndRestore();  // does nothing if none has begun
  // Takes the line of a log if it is about a restore.
  void TakeLogLine(absl::string_view line);

  TrainingHistory history() const;
  // When the worker's last step that was acknowledged began; 0 if there is none.
  int64_t LastProgress(int worker) const;
  static absl::StatusOr<TrainingHistory> Read(const std::string& path);

 private:
  static void Add(TrainingHistory& history, char event, int64_t time, absl::string_view rest);
  void Write(char event, const std::string& rest);

  int fd_ = -1;
  mutable Mutex mutex_;
  TrainingHistory history_ ABSL_GUARDED_BY(mutex_);
  std::map<int, int64_t> last_progress_ ABSL_GUARDED_BY(mutex_);  // by worker
};

// The variables at one moment.
struct TrainingState {
  // By table; element w * kStepsPerWorker + k is how often the step was applied, times kUnit.
  std::vector<std::vector<int>> tables;
  int64_t global_step = 0;
};

// Reads the tables of a checkpoint. Elements must be integers.
absl::StatusOr<TrainingState> ReadCheckpointedState(const std::string& prefix);
absl::StatusOr<TrainingState> MakeState(const std::vector<std::vector<float>>& tables, int64_t global_step);

struct HistoryCheckOptions {
  // The client repeats a failed step without saying so, as TensorFlow's does: a step may be applied more than once, and
  // on some parameter servers only if its worker died.
  bool repeats = false;
};

struct HistoryVerdict {
  std::vector<std::string> wrong;  // what contradicts the guarantees; empty if nothing does
  int64_t acknowledged = 0;
  int64_t lost = 0;  // acknowledged steps that a restore has undone, as documented
  int64_t checkpoints = 0;
};

// Checks all checkpoints of `folder` and the state at the end.
//
// In every mode:
//   - no step is applied twice, and none that did not begin.
// In every mode but with backup workers, whose late gradients are dropped:
//   - an acknowledged step is in the final state, unless a later restore used a checkpoint without it;
//   - a step that a restore has undone does not come back.
// Asynchronous training and bounded staleness:
//   - a checkpoint, and the end, is one moment: the global step fits both tables;
//   - both tables have the same acknowledged steps (a worker that dies may leave half of its last step).
// Synchronous training: every update has one step of each worker, or, with backup workers, of at least all but one. At
// every moment, all tables have the same number of updates, which is the global step.
// All-reduce: all workers hold the same values (`others`).
HistoryVerdict CheckHistory(Replication replication, int workers, const TrainingHistory& history,
                            const std::string& folder, const TrainingState& end,
                            const std::vector<TrainingState>& others = {}, const HistoryCheckOptions& options = {});

}  // namespace thalweg
