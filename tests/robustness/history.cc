// SPDX-License-Identifier: Apache-2.0
#include "history.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/checkpoint/bundle_reader.h"
#include "thalweg/train/checkpoints/checkpoint_state.h"

namespace thalweg {
namespace {

constexpr size_t kMaxComplaints = 10;

std::string StepName(int worker, int step) { return absl::StrCat("step ", step, " of worker ", worker); }

// Collects what is wrong; says no more than the first few.
class Complaints {
 public:
  explicit Complaints(std::vector<std::string>& out) : out_(out) {}
  template <typename... Args>
  void Add(const Args&... args) {
    if (out_.size() < kMaxComplaints) out_.push_back(absl::StrCat(args...));
  }

 private:
  std::vector<std::string>& out_;
};

// Checks a single moment, whatever came before it.
void CheckMoment(Replication replication, int workers, const TrainingHistory& history, const std::string& what,
                 const TrainingState& state, const HistoryCheckOptions& options, Complaints& wrong) {
  const bool each_alone = replication == Replication::kAsynchronous || replication == Replication::kBoundedStaleness;
  std::vector<std::vector<int64_t>> sums;  // by table and worker
  for (size_t t = 0; t < state.tables.size(); ++t) {
    const std::vector<int>& table = state.tables[t];
    sums.emplace_back(workers, 0);
    for (size_t i = 0; i < table.size(); ++i) {
      if (table[i] == 0) continue;
      const int worker = static_cast<int>(i) / kStepsPerWorker, step = static_cast<int>(i) % kStepsPerWorker;
      if (worker < workers) sums[t][worker] += each_alone ? 1 : table[i];
      // With backup workers the mean may have one gradient more than required.
      const bool once = table[i] == kUnit || (replication == Replication::kBackupWorkers && table[i] == kUnit - 1);
      if (!once && !options.repeats)
        wrong.Add(what, ": ", StepName(worker, step), " is ", table[i], "/", kUnit, " times in table ", t);
      if (!history.steps.contains({worker, step})) {
        wrong.Add(what, ": ", StepName(worker, step), " is in table ", t, " but never began");
      }
    }
  }
  const auto in = [&](size_t t, const std::pair<int, int>& id) {
    return state.tables[t][id.first * kStepsPerWorker + id.second] > 0;
  };
  std::vector<int64_t> acknowledged(state.tables.size(), 0), unacknowledged_not_in(state.tables.size(), 0);
  for (const auto& [id, step] : history.steps) {
    for (size_t t = 0; t < state.tables.size(); ++t) {
      if (step.acknowledged != 0) acknowledged[t] += in(t, id);
      if (step.acknowledged == 0) unacknowledged_not_in[t] += !in(t, id);
    }
  }
  bool fits = true;
  for (size_t t = 0; t < sums.size(); ++t) {
    const int64_t total = std::accumulate(sums[t].begin(), sums[t].end(), int64_t{0});
    if (each_alone) {
      // Acknowledged steps count in full. Others may have reached some of the parameter servers only, if their worker
      // died meanwhile.
      if (options.repeats) continue;
      if (state.global_step < acknowledged[t] || state.global_step > total + unacknowledged_not_in[t]) {
        wrong.Add(what, ": table ", t, " has ", acknowledged[t], " acknowledged and ", total - acknowledged[t],
                  " other steps, but the global step is ", state.global_step);
      }
      continue;
    }
    const int64_t per_update = replication == Replication::kBackupWorkers ? workers - 1 : workers;
    fits = fits && total == per_update * kUnit * state.global_step;
    for (int w = 0; w < workers && replication != Replication::kBackupWorkers; ++w) {
      fits = fits && sums[t][w] == kUnit * state.global_step;
    }
  }
  if (options.repeats) return;
  if (!fits) {
    std::vector<std::string> text;
    for (const std::vector<int64_t>& of_workers : sums) text.push_back(absl::StrJoin(of_workers, ", "));
    wrong.Add(what, ": the tables do not have the steps of ", state.global_step, " updates, but, in units of 1/", kUnit,
              ", ", absl::StrJoin(text, " and "));
  }
  if (!each_alone && replication != Replication::kAllReduce) return;
  for (const auto& [id, step] : history.steps) {
    for (size_t t = 1; t < state.tables.size(); ++t) {
      if (step.acknowledged != 0 && in(t, id) != in(0, id)) {
        wrong.Add(what, ": ", StepName(id.first, id.second), " is in table ", in(0, id) ? 0 : t, " only");
      }
    }
  }
}

}  // namespace

std::string ToString(Replication replication) {
  switch (replication) {
    case Replication::kAsynchronous:
      return "async";
    case Replication::kSynchronous:
      return "sync";
    case Replication::kBackupWorkers:
      return "backup";
    case Replication::kBoundedStaleness:
      return "staleness";
    case Replication::kAllReduce:
      return "allreduce";
  }
  return "?";
}

absl::StatusOr<Replication> ParseReplication(absl::string_view text) {
  for (const Replication replication : kReplications) {
    if (text == ToString(replication)) return replication;
  }
  return InvalidArgument("got replication \"", text, "\", expected async, sync, backup, staleness or allreduce");
}

int64_t TrainingHistory::acknowledged() const {
  return std::count_if(steps.begin(), steps.end(), [](const auto& entry) { return entry.second.acknowledged != 0; });
}

HistoryRecorder::~HistoryRecorder() {
  if (fd_ >= 0) close(fd_);
}

absl::Status HistoryRecorder::Open(const std::string& path) {
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return fd_ >= 0 ? absl::OkStatus() : Internal("cannot open ", path);
}

void HistoryRecorder::Begin(int worker, int step) { Write('B', absl::StrCat(worker, " ", step)); }
void HistoryRecorder::Acknowledge(int worker, int step) {
  Write('A', absl::StrCat(worker, " ", step));
  MutexLock lock(&mutex_);
  // A history in a file has no steps in memory.
  const auto it = history_.steps.find({worker, step});
  if (it != history_.steps.end()) last_progress_[worker] = std::max(last_progress_[worker], it->second.begun);
}
void HistoryRecorder::BeginRestore(const std::string& prefix) { Write('R', prefix); }
void HistoryRecorder::EndRestore() { Write('E', ""); }

void HistoryRecorder::TakeLogLine(absl::string_view line) {
  while (absl::EndsWith(line, "\n")) line.remove_suffix(1);
  constexpr absl::string_view kRestoring = "] Restoring ";
  if (const size_t at = line.find(kRestoring); at != line.npos) {
    BeginRestore(std::string(line.substr(at + kRestoring.size())));
  } else if (absl::StrContains(line, "] Initializing all variables again")) {
    BeginRestore("");
  }
}

void HistoryRecorder::Add(TrainingHistory& history, char event, int64_t time, absl::string_view rest) {
  if (event == 'R') {
    history.restores.push_back({.begun = time, .prefix = std::string(rest)});
    return;
  }
  if (event == 'E') {
    for (TrainingHistory::Restore& restore : history.restores) {
      if (restore.ended == 0) restore.ended = time;
    }
    return;
  }
  const std::vector<absl::string_view> numbers = absl::StrSplit(rest, ' ');
  int worker = 0, step = 0;
  CHECK(numbers.size() == 2 && absl::SimpleAtoi(numbers[0], &worker) && absl::SimpleAtoi(numbers[1], &step)) << rest;
  TrainingHistory::Step& entry = history.steps[{worker, step}];
  (event == 'B' ? entry.begun : entry.acknowledged) = time;
}

void HistoryRecorder::Write(char event, const std::string& rest) {
  MutexLock lock(&mutex_);
  const int64_t now = NowNanos();
  if (fd_ < 0) return Add(history_, event, now, rest);
  const std::string line = absl::StrCat(std::string(1, event), " ", now, " ", rest, "\n");
  CHECK(write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
}

TrainingHistory HistoryRecorder::history() const {
  MutexLock lock(&mutex_);
  return history_;
}

int64_t HistoryRecorder::LastProgress(int worker) const {
  MutexLock lock(&mutex_);
  const auto it = last_progress_.find(worker);
  return it == last_progress_.end() ? 0 : it->second;
}

absl::StatusOr<TrainingHistory> HistoryRecorder::Read(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFound("no history in ", path);
  TrainingHistory history;
  // Lines are in the order of time: each is written by one call, and only the chief restores.
  for (std::string line; std::getline(file, line);) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    int64_t time = 0;
    if (parts.size() != 3 || parts[0].size() != 1 || !absl::SimpleAtoi(parts[1], &time)) {
      return DataLoss(path, ": got the line \"", line, "\"");
    }
    Add(history, parts[0][0], time, parts[2]);
  }
  return history;
}

absl::StatusOr<TrainingState> MakeState(const std::vector<std::vector<float>>& tables, int64_t global_step) {
  TrainingState state{.global_step = global_step};
  for (const std::vector<float>& table : tables) {
    std::vector<int>& out = state.tables.emplace_back();
    for (const float value : table) {
      const float units = value * kUnit;
      if (!(std::abs(units - std::round(units)) < 1e-3) || std::abs(units) > 1e6) {
        return DataLoss("an element of a table is ", value, ", which is not a number of steps");
      }
      out.push_back(static_cast<int>(std::round(units)));
    }
  }
  return state;
}

absl::StatusOr<TrainingState> ReadCheckpointedState(const std::string& prefix) {
  ASSIGN_OR_RETURN(const auto reader, BundleReader::Open(PosixFileSystem(), prefix));
  ASSIGN_OR_RETURN(const Tensor global_step, reader->Read("global_step"));
  std::vector<std::vector<float>> tables;
  for (const char* name : {"table_0", "table_1"}) {
    ASSIGN_OR_RETURN(const Tensor table, reader->Read(name));
    const auto values = table.flat<float>();
    tables.emplace_back(values.begin(), values.end());
  }
  return MakeState(tables, global_step.scalar<int64_t>());
}

HistoryVerdict CheckHistory(Replication replication, int workers, const TrainingHistory& history,
                            const std::string& folder, const TrainingState& end,
                            const std::vector<TrainingState>& others, const HistoryCheckOptions& options) {
  HistoryVerdict verdict{.acknowledged = history.acknowledged()};
  Complaints wrong(verdict.wrong);
  std::map<std::string, TrainingState> saved;
  if (const auto state = ReadCheckpointState(folder); state.ok()) {
    for (const SavedCheckpoint& checkpoint : state->saved) {
      absl::StatusOr<TrainingState> values = ReadCheckpointedState(checkpoint.prefix);
      if (!values.ok()) {
        wrong.Add(checkpoint.prefix, " cannot be read: ", values.status().ToString());
        continue;
      }
      CheckMoment(replication, workers, history, checkpoint.prefix, *values, options, wrong);
      saved.emplace(checkpoint.prefix, *std::move(values));
    }
  }
  verdict.checkpoints = static_cast<int64_t>(saved.size());
  CheckMoment(replication, workers, history, "the end", end, options, wrong);
  for (size_t i = 0; i < others.size(); ++i) {
    if (others[i].tables != end.tables || others[i].global_step != end.global_step) {
      wrong.Add("worker ", i + 1, " ends with other values than the chief: global step ", others[i].global_step,
                " and ", end.global_step);
    }
  }
  // An update does not need the gradients of all backup workers.
  if (replication == Replication::kBackupWorkers) return verdict;

  // A restore undoes what its checkpoint does not have.
  const auto has = [](const TrainingState& state, int element) { return state.tables[0][element] > 0; };
  for (const auto& [id, step] : history.steps) {
    if (step.acknowledged == 0) continue;
    const int element = id.first * kStepsPerWorker + id.second;
    bool undone = false, may_be_undone = false;
    for (const TrainingHistory::Restore& restore : history.restores) {
      if (restore.ended != 0 && restore.ended < step.begun) continue;
      const auto it = saved.find(restore.prefix);
      if (!restore.prefix.empty() && it == saved.end()) {
        wrong.Add("restored ", restore.prefix, ", which is not in the list of checkpoints");
        continue;
      }
      if (it != saved.end() && has(it->second, element)) continue;
      may_be_undone = true;
      undone = undone || restore.begun > step.acknowledged;
    }
    if (has(end, element)) {
      if (undone && !options.repeats)
        wrong.Add(StepName(id.first, id.second), " was undone by a restore, and came back");
    } else if (may_be_undone) {
      ++verdict.lost;
    } else {
      wrong.Add(StepName(id.first, id.second), " was acknowledged, and is not there at the end");
    }
  }
  return verdict;
}

}  // namespace thalweg
