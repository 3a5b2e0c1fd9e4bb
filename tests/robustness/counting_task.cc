// SPDX-License-Identifier: Apache-2.0
// A task of a cluster that trains the tables of history.h: the program whose processes are killed, stopped and cut off.
//
//   thalweg run --ps 2 --workers 2 --restart on-failure --faults=kill=ps:0@2s
//     -- counting_task --dir=/tmp/x --steps=400
//   counting_task --check --dir=/tmp/x --workers=2
//
// The first command trains until the global step is --steps. The second checks the history in DIR/history against the
// checkpoints.
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "counting_worker.h"
#include "history.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/launch/run_cluster.h"
#include "thalweg/train/checkpoints/checkpoint_state.h"

ABSL_FLAG(std::string, dir, "", "folder for checkpoints and the history");
ABSL_FLAG(std::string, replication, "async", "async, sync, backup, staleness or allreduce");
ABSL_FLAG(int64_t, steps, 400, "global step at which the training stops");
ABSL_FLAG(int64_t, save_every, 20, "global steps between checkpoints");
ABSL_FLAG(absl::Duration, think_time, absl::Milliseconds(5), "pause after each step");
ABSL_FLAG(absl::Duration, peer_timeout, absl::Seconds(1), "a task that does not answer for this long is lost");
ABSL_FLAG(absl::Duration, max_wait, absl::Minutes(2), "how long a worker waits for other tasks before it fails");
ABSL_FLAG(bool, check, false, "check the history of a training that has ended");
ABSL_FLAG(bool, repeats, false, "with --check: the client repeats steps without numbers, so they may be applied twice");
ABSL_FLAG(bool, end_not_saved, false,
          "with --check: the job could not save its last checkpoint, so the steps after the one before are lost");
ABSL_FLAG(int, workers, 2, "with --check: the number of workers");

namespace thalweg {
namespace {

HistoryRecorder& Recorder() {
  static auto& recorder = *new HistoryRecorder;
  return recorder;
}

std::string HistoryPath() { return absl::StrCat(absl::GetFlag(FLAGS_dir), "/history"); }
std::string DonePath(int worker) { return absl::StrCat(absl::GetFlag(FLAGS_dir), "/done.", worker); }

absl::Status RunWorker(const Job& job, const Server& server) {
  ASSIGN_OR_RETURN(const Replication replication, ParseReplication(absl::GetFlag(FLAGS_replication)));
  const int worker = job.worker_index(), workers = job.num_workers();
  const int64_t steps = absl::GetFlag(FLAGS_steps);
  RETURN_IF_ERROR(Recorder().Open(HistoryPath()));
  SetLogSink([](LogLevel, const std::string& line) {
    Recorder().TakeLogLine(line);
    std::fputs(line.c_str(), stderr);
  });
  // A worker that was killed continues with a number that it has not used.
  int next_step = 0;
  ASSIGN_OR_RETURN(const TrainingHistory before, HistoryRecorder::Read(HistoryPath()));
  for (const auto& [id, step] : before.steps) {
    if (id.first == worker) next_step = std::max(next_step, id.second + 1);
  }
  // Where every worker makes updates of its own, the chief ends last: its checkpoint then has the steps of all.
  const bool alone = replication == Replication::kAsynchronous || replication == Replication::kBoundedStaleness;
  const auto others_are_done = [&] {
    for (int w = 1; w < workers; ++w) {
      if (!std::filesystem::exists(DonePath(w))) return false;
    }
    return true;
  };
  std::atomic<int64_t> global_step{0};
  RETURN_IF_ERROR(
      RunCountingWorker({.replication = replication,
                         .cluster = job.cluster,
                         .worker = worker,
                         .workers = workers,
                         .target = server.target(),
                         .folder = absl::GetFlag(FLAGS_dir),
                         .save_every = absl::GetFlag(FLAGS_save_every),
                         .think_time = absl::GetFlag(FLAGS_think_time),
                         .max_wait = absl::GetFlag(FLAGS_max_wait),
                         .last_global_step = [&] { return alone && worker == 0 ? INT64_MAX : steps; },
                         .stop = [&] { return alone && worker == 0 && global_step >= steps && others_are_done(); },
                         .next_step = [&] { return next_step++; },
                         .after_step = [&](int64_t now) { global_step = now; }},
                        Recorder()));
  std::ofstream(DonePath(worker)) << "done\n";
  return absl::OkStatus();
}

int Check() {
  const auto replication = ParseReplication(absl::GetFlag(FLAGS_replication));
  auto history = HistoryRecorder::Read(HistoryPath());
  const auto latest = LatestCheckpoint(absl::GetFlag(FLAGS_dir));
  if (absl::GetFlag(FLAGS_end_not_saved) && absl::IsNotFound(latest.status())) {
    std::printf("steps=0 lost=0 checkpoints=0 restores=0\n");  // the job could not save its first checkpoint
    return 0;
  }
  absl::Status status = replication.status();
  status.Update(history.status());
  status.Update(latest.status());
  const absl::StatusOr<TrainingState> end = status.ok() ? ReadCheckpointedState(*latest) : status;
  if (!end.ok()) {
    std::printf("WRONG: %s\n", end.status().ToString().c_str());
    return 1;
  }
  if (absl::GetFlag(FLAGS_end_not_saved)) history->restores.push_back({.begun = NowNanos(), .prefix = *latest});
  const HistoryVerdict verdict =
      CheckHistory(*replication, absl::GetFlag(FLAGS_workers), *history, absl::GetFlag(FLAGS_dir), *end, {},
                   {.repeats = absl::GetFlag(FLAGS_repeats)});
  for (const std::string& what : verdict.wrong) std::printf("WRONG: %s\n", what.c_str());
  std::printf("steps=%ld lost=%ld checkpoints=%ld restores=%zu\n", verdict.acknowledged, verdict.lost,
              verdict.checkpoints, history->restores.size());
  return verdict.wrong.empty() ? 0 : 1;
}

}  // namespace
}  // namespace thalweg

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("A task that trains tables of step numbers.");
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_check)) return thalweg::Check();
  return thalweg::RunCluster(argc, argv, thalweg::RunWorker,
                             {.server = {.peer_timeout = absl::GetFlag(FLAGS_peer_timeout)}});
}
