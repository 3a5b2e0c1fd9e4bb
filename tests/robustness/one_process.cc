// SPDX-License-Identifier: Apache-2.0
// Trains in clusters inside this process while faults strike at every fail point, and checks that nothing hangs and
// that every acknowledged step was applied once (history.h).
//
//   one_process --seed=1 --faults=200      200 faults, from seed 1 on
//   one_process --seed=17 --episodes=1     repeats the episode of seed 17
//
// An episode is a training with faults, one after the other, all drawn from its seed. The next fault comes when
// every worker has made steps after the last one.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "counting_worker.h"
#include "history.h"
#include "process_usage.h"
#include "report.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/faults/network_faults.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/client/cluster_testlib.h"

ABSL_FLAG(uint64_t, seed, 1, "seed of the first episode; the next ones have the next seeds");
ABSL_FLAG(int, faults, 200, "end after the episode in which this many faults have struck");
ABSL_FLAG(int, episodes, 0, "if not 0, run this many episodes, however many faults strike");
ABSL_FLAG(int, faults_per_episode, 10, "faults of one training");
ABSL_FLAG(std::string, replication, "", "only async, sync, backup, staleness or allreduce; empty: drawn from the seed");
ABSL_FLAG(std::string, dir, "", "folder for checkpoints; empty: a new one in /dev/shm or /tmp");
ABSL_FLAG(absl::Duration, hang_after, absl::Seconds(20), "a worker without progress for this long hangs");
ABSL_FLAG(absl::Duration, soak, absl::ZeroDuration(),
          "if not 0, train for this long, with sessions that come and go, and print how memory, descriptors and "
          "threads grow");
ABSL_FLAG(absl::Duration, fault_every, absl::ZeroDuration(), "pause between faults");
ABSL_FLAG(absl::Duration, peer_timeout, absl::Milliseconds(700),
          "a task that does not answer for this long is lost; partitions and hangs last shorter or longer than 700 ms");
ABSL_FLAG(std::string, results, "", "append one line per fault to this file");

namespace thalweg {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(1);

int64_t Millis(int64_t nanos) { return nanos / 1'000'000; }

// The log of the current episode.
struct Log {
  Mutex mutex;
  std::deque<std::string> lines ABSL_GUARDED_BY(mutex);
  std::atomic<HistoryRecorder*> recorder{nullptr};
  std::atomic<int64_t> first_error{0};  // when a task first reported another as lost since the last fault
};
Log& TheLog() {
  static auto& log = *new Log;
  return log;
}
void TakeLine(LogLevel level, const std::string& line) {
  Log& log = TheLog();
  if (HistoryRecorder* recorder = log.recorder.load()) recorder->TakeLogLine(line);
  if (level >= LogLevel::kWarning && absl::StrContains(line, "A task was lost")) {
    int64_t none = 0;
    log.first_error.compare_exchange_strong(none, NowNanos());
  }
  MutexLock lock(&log.mutex);
  log.lines.push_back(line);
  if (log.lines.size() > 4000) log.lines.pop_front();
  if (level == LogLevel::kFatal) {
    for (const std::string& l : log.lines) std::fputs(l.c_str(), stderr);
  }
}
void PrintLog() {
  MutexLock lock(&TheLog().mutex);
  for (const std::string& line : TheLog().lines) std::fputs(line.c_str(), stderr);
}

void PrintReport(const Report& report) {
  std::printf("%s", report.ToString().c_str());
  if (const std::string path = absl::GetFlag(FLAGS_results); !path.empty()) report.Append(path);
}

struct InjectedFault {
  // kCrash: the server ends without notice for its clients, and a new one starts. kDrain: the same, as on SIGTERM.
  // kRestartProgram: the program of a worker ends without closing its session.
  enum class Kind {
    kFail,
    kHang,
    kCrash,
    kDrain,
    kRestartProgram,
    kDrop,
    kDuplicate,
    kDelay,
    kPartition,
    kDiskFull,
    kDiskSlow
  };
  Kind kind = Kind::kFail;
  std::string point;  // where it strikes; "": at once
  TaskId task;        // whom
  int nth = 1;
  absl::Duration lasts;
  double probability = 0;
  bool needs_recovery = false;  // the point is passed only while the training recovers from something else

  bool is_of_calls() const { return kind >= Kind::kDrop && kind <= Kind::kPartition; }
  std::string kind_name() const {
    static const char* const kNames[] = {"fail", "hang",  "crash",     "drain",     "restart_program", "drop",
                                         "dup",  "delay", "partition", "disk_full", "disk_slow"};
    return kNames[static_cast<int>(kind)];
  }
  std::string ToString() const {
    std::string text = absl::StrCat(kind_name(), "=", task.job, ":", task.index);
    if (!point.empty()) absl::StrAppend(&text, "@", point, ":", nth);
    if (lasts > absl::ZeroDuration()) absl::StrAppend(&text, "+", absl::FormatDuration(lasts));
    if (probability > 0) absl::StrAppend(&text, " ", 100 * probability, "%");
    return text;
  }
};
using Kind = InjectedFault::Kind;

std::string FullName(const TaskId& task) { return task.ToString(); }

bool IsPassedInRecovery(absl::string_view point) {
  return absl::EndsWith(point, "create_session") || absl::EndsWith(point, "register_graph") || point == "restore";
}

// Strikes at a fail point.
class Trigger {
 public:
  explicit Trigger(InjectedFault fault) : fault_(std::move(fault)) {}

  absl::Status Pass(absl::string_view point, absl::string_view task) {
    if (fault_.kind == Kind::kDiskFull || fault_.kind == Kind::kDiskSlow) {
      if (point != "disk.write") return absl::OkStatus();
      Strike();
      if (fault_.kind == Kind::kDiskFull) return ResourceExhausted("No space left on device (injected)");
      absl::SleepFor(absl::Milliseconds(3));
      return absl::OkStatus();
    }
    if (point != fault_.point || (!task.empty() && task != FullName(fault_.task))) return absl::OkStatus();
    if (passed_.fetch_add(1) + 1 != fault_.nth) return absl::OkStatus();
    Strike();
    if (fault_.kind == Kind::kHang) absl::SleepFor(fault_.lasts);
    return fault_.kind == Kind::kFail ? Unavailable("injected fault: ", fault_.ToString()) : absl::OkStatus();
  }
  void Strike() {
    int64_t never = 0;
    struck_at_.compare_exchange_strong(never, NowNanos());
  }
  int64_t struck_at() const { return struck_at_; }

 private:
  const InjectedFault fault_;
  std::atomic<int> passed_{0};
  std::atomic<int64_t> struck_at_{0};
};

// One training with its faults.
class Episode {
 public:
  Episode(uint64_t seed, std::string folder) : seed_(seed), random_(seed), folder_(std::move(folder)) {
    replication_ = kReplications[Draw(0, 4)];
    if (const std::string only = absl::GetFlag(FLAGS_replication); !only.empty()) {
      replication_ = *ParseReplication(only);
    }
    workers_ = replication_ == Replication::kBackupWorkers ? 3 : 2;
    ps_ = replication_ == Replication::kAllReduce ? 0 : 2;
    links_ = Draw(0, 2) > 0;
    // Tensors of more than 16 MB are sent in pieces.
    if (ps_ > 0 && Draw(0, 39) == 0) padding_ = 5 << 20, links_ = false;
    // Collectives send large values while they arrive, small ones with the news of their members.
    if (ps_ == 0 && Draw(0, 2) == 0) padding_ = 1 << 18;
    tcp_links_ = !links_ && (ps_ == 0 || padding_ == 0) && Draw(0, 1) == 0;
  }

  // Whether all is well. Adds to the report.
  bool Run(Report& report) {
    std::map<std::string, int> jobs{{"worker", workers_}};
    if (ps_ > 0) jobs["ps"] = ps_;
    cluster_.emplace(jobs, std::vector<TaskId>{}, TasksIn::kThisProcess,
                     ServerOptions{.threads = 2,
                                   .peer_timeout = absl::GetFlag(FLAGS_peer_timeout),
                                   .local_links = links_,
                                   .tcp_links = tcp_links_});
    TheLog().recorder = &recorder_;
    std::vector<std::thread> threads;
    for (int w = 0; w < workers_; ++w) threads.emplace_back([this, w] { RunProgram(w); });
    bool progress = AwaitProgress(NowNanos(), "at the start");
    const int faults = absl::GetFlag(FLAGS_faults_per_episode);
    const absl::Duration pause = absl::GetFlag(FLAGS_fault_every);
    for (int i = 0; i < faults && progress && !full_; ++i) {
      const absl::Time next = absl::Now() + pause;
      progress = Inflict(DrawFault(), report);
      while (progress && absl::Now() < next) Visit();
    }
    if (progress) progress = End();
    if (!progress) {
      ++report.hangs;
      Complain(absl::StrCat("HANG: ", what_hangs_));
      PrintReport(report);
      std::fflush(nullptr);
      std::_Exit(1);  // the threads cannot be ended
    }
    for (std::thread& thread : threads) thread.join();
    const bool ok = Check(report);
    TheLog().recorder = nullptr;
    cluster_.reset();
    return ok;
  }

  std::string name() const {
    return absl::StrCat("seed ", seed_, ": ", ToString(replication_), ", ", ps_, " ps, ", workers_, " workers",
                        links_       ? ""
                        : tcp_links_ ? ", over TCP links"
                                     : ", over gRPC",
                        padding_ > 0 ? ", large tensors" : "");
  }

 private:
  int Draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  TaskId DrawTask() {
    const int i = Draw(0, ps_ + workers_ - 1);
    return i < ps_ ? TaskId{"ps", i} : TaskId{"worker", i - ps_};
  }

  InjectedFault DrawFault() {
    InjectedFault fault{.task = DrawTask()};
    if (Draw(0, 99) < 65) {  // at a point
      const auto points = FailPoints();
      do {
        fault.point = points[Draw(0, static_cast<int>(points.size()) - 1)].name;
      } while (!IsReachable(fault.point));
      const bool can_fail = FindFailPoint(fault.point)->can_fail;
      const int kind = Draw(can_fail ? 0 : 1, 2);
      fault.kind = kind == 0 ? Kind::kFail : kind == 1 ? Kind::kHang : Kind::kCrash;
      if (fault.point == "server.drain" || fault.point == "server.stop") fault.kind = Kind::kHang;
      fault.needs_recovery = IsPassedInRecovery(fault.point);
      if (fault.kind == Kind::kHang) fault.lasts = absl::Milliseconds(Draw(0, 4) == 0 ? Draw(800, 1200) : Draw(5, 150));
      fault.nth = fault.needs_recovery || absl::StartsWith(fault.point, "s") ? Draw(1, 2) : Draw(1, 12);
      // Saves have files of both parameter servers, and the place does not know its task.
      if (fault.point == "restore" && fault.kind == Kind::kCrash) fault.task = {"ps", Draw(0, ps_ - 1)};
      return fault;
    }
    switch (Draw(0, 8)) {
      case 0:
        fault.kind = Kind::kCrash;
        break;
      case 1:
        fault.kind = Kind::kDrain;
        break;
      case 2:
        fault.kind = Kind::kRestartProgram;
        fault.task = {"worker", Draw(0, workers_ - 1)};
        break;
      case 3:
        fault.kind = Kind::kDrop;
        fault.probability = Draw(1, 10) / 100.0;
        fault.lasts = absl::Milliseconds(Draw(20, 150));
        break;
      case 4:
        fault.kind = Kind::kDuplicate;
        fault.probability = Draw(5, 50) / 100.0;
        fault.lasts = absl::Milliseconds(Draw(20, 150));
        break;
      case 5:
        fault.kind = Kind::kDelay;
        fault.lasts = absl::Milliseconds(Draw(20, 150));
        break;
      case 6:
        fault.kind = Kind::kPartition;
        fault.lasts = absl::Milliseconds(Draw(0, 3) == 0 ? Draw(900, 1300) : Draw(20, 300));
        break;
      case 7:
        fault.kind = Kind::kDiskFull;
        fault.lasts = absl::Milliseconds(Draw(20, 100));
        break;
      default:
        fault.kind = Kind::kDiskSlow;
        fault.lasts = absl::Milliseconds(Draw(20, 100));
    }
    return fault;
  }

  // Whether the training of this episode passes the point at all.
  bool IsReachable(absl::string_view point) const {
    if (absl::StartsWith(point, "collective.")) return replication_ == Replication::kAllReduce;
    if (point == "transfer.piece") return padding_ > 0 && ps_ > 0;
    if (ps_ == 0) {  // every worker runs its own graph
      return point != "transfer.push" && point != "worker.wait" && point != "restore";
    }
    if (point == "worker.wait") return replication_ != Replication::kAsynchronous;
    return true;
  }

  // A client that comes, reads, and goes: every other one without a word.
  void Visit() {
    const int worker = Draw(0, workers_ - 1);
    if (ps_ > 0) ReadState(Options(worker), Draw(0, 1) == 0).status().IgnoreError();
    absl::SleepFor(absl::Milliseconds(100));
  }

  // A worker's program, started again whenever it ends with an error.
  void RunProgram(int worker) {
    Worker& own = state_[worker];
    while (!own.done) {
      CountingWorkerOptions options = Options(worker);
      if (ps_ == 0) options.end = &own.end;
      const absl::Status status = RunCountingWorker(options, recorder_);
      if (own.restart.exchange(false)) continue;
      if (status.ok()) break;
      if (absl::IsOutOfRange(status)) {
        full_ = true;
        break;
      }
      LOG(WARNING) << "worker " << worker << " starts again: " << status;
      ++restarts_;
      absl::SleepFor(absl::Milliseconds(5));
    }
    own.done = true;
  }
  CountingWorkerOptions Options(int worker) {
    Worker& own = state_[worker];
    return {
        .replication = replication_,
        .cluster = cluster_->spec(),
        .worker = worker,
        .workers = workers_,
        .target = cluster_->target({"worker", worker}),
        .folder = folder_,
        .padding = padding_,
        .think_time = absl::GetFlag(FLAGS_soak) > absl::ZeroDuration() ? absl::Milliseconds(25) : absl::Milliseconds(1),
        .last_global_step = [this] { return last_global_step_.load(); },
        .stop = [this, &own] { return own.stop.load() || full_; },
        .abandon = [&own] { return own.restart.load(); },
        .next_step = [&own] { return own.next_step++; },
        .after_step = [this](int64_t global_step) { global_step_ = std::max(global_step_.load(), global_step); }};
  }

  // Waits until every worker that trains has acknowledged a step that began after `since`.
  bool AwaitProgress(int64_t since, const std::string& after) {
    const int64_t deadline = NowNanos() + absl::ToInt64Nanoseconds(absl::GetFlag(FLAGS_hang_after));
    while (true) {
      std::vector<std::string> behind;
      for (int w = 0; w < workers_; ++w) {
        if (state_[w].done || full_) continue;
        if (recorder_.LastProgress(w) < since) behind.push_back(absl::StrCat("worker ", w));
      }
      if (behind.empty()) return true;
      if (NowNanos() > deadline) {
        what_hangs_ = absl::StrCat(absl::StrJoin(behind, " and "), " made no step after ", after);
        return false;
      }
      absl::SleepFor(kPoll);
    }
  }

  // The program of a worker ends with its server, as it would in one process.
  void Restart(const TaskId& task, bool drain) {
    if (drain) cluster_->server(task).Drain(absl::Milliseconds(200));
    cluster_->Stop(task);
    if (task.job == "worker") state_[task.index].restart = true;  // no step of it ends before the next server starts
    cluster_->Start(task);
  }

  bool Inflict(const InjectedFault& fault, Report& report) {
    LOG(INFO) << "FAULT " << fault.ToString();
    const auto trigger = std::make_shared<Trigger>(fault);
    TheLog().first_error = 0;
    if (!fault.point.empty() || fault.kind >= Kind::kDiskFull) {
      SetFailPointHandler(
          [trigger](absl::string_view point, absl::string_view task) { return trigger->Pass(point, task); });
    }
    if (fault.is_of_calls()) SetNetworkFaults(CallFaults(fault));
    const bool waits = !fault.point.empty() || fault.kind >= Kind::kDiskFull;
    const bool provoked = fault.needs_recovery || fault.point == "server.stop" || fault.point == "server.drain";
    if (!waits) trigger->Strike();
    if (provoked) Restart(fault.task, fault.point == "server.drain");
    const int64_t armed = NowNanos();
    while (trigger->struck_at() == 0 && NowNanos() - armed < 300'000'000 && !full_) absl::SleepFor(kPoll);
    const bool struck = trigger->struck_at() != 0;
    const int64_t since = struck ? trigger->struck_at() : armed;
    if (struck) {
      if (fault.kind == Kind::kCrash || fault.kind == Kind::kDrain) Restart(fault.task, fault.kind == Kind::kDrain);
      if (fault.kind == Kind::kRestartProgram) state_[fault.task.index].restart = true;
      if (fault.is_of_calls() || fault.kind >= Kind::kDiskFull) absl::SleepFor(fault.lasts);
    }
    SetFailPointHandler(nullptr);
    SetNetworkFaults(nullptr);
    if (!AwaitProgress(since, fault.ToString())) return false;
    const int64_t recovered = NowNanos(), noticed = TheLog().first_error;
    // Two more steps of everyone, so that the next fault does not meet a session that has just been made.
    if (!AwaitProgress(recovered, fault.ToString())) return false;
    if (!struck) {
      ++report.not_reached;
      return true;
    }
    report.Add({.where = "one process",
                .kind = fault.kind_name(),
                .point = fault.point,
                .replication = ToString(replication_),
                .detection_ms = noticed == 0 ? -1 : static_cast<double>(Millis(noticed - since)),
                .recovery_ms = static_cast<double>(Millis(recovered - since))});
    return true;
  }

  std::shared_ptr<NetworkFaults> CallFaults(const InjectedFault& fault) {
    FaultPlan plan{.seed = random_()};
    Fault call{.lasts = fault.lasts};
    switch (fault.kind) {
      case Kind::kDrop:
        call.kind = Fault::Kind::kDrop;
        break;
      case Kind::kDuplicate:
        call.kind = Fault::Kind::kDuplicate;
        break;
      case Kind::kDelay:
        call.kind = Fault::Kind::kDelay;
        call.max_delay = absl::Milliseconds(20);
        break;
      default:
        call.kind = Fault::Kind::kPartition;
        call.sides[0] = {absl::StrCat(fault.task.job, ":", fault.task.index)};
    }
    call.probability = fault.probability;
    plan.faults.push_back(call);
    std::map<std::string, std::string> addresses;
    for (const TaskId& task : cluster_->spec().tasks()) {
      addresses[absl::StrCat(task.job, ":", task.index)] = *cluster_->spec().Address(task);
    }
    return std::make_shared<NetworkFaults>(plan, addresses);
  }

  // The workers end first, the chief last: it saves.
  bool End() {
    const bool together = replication_ != Replication::kAsynchronous && replication_ != Replication::kBoundedStaleness;
    if (together) {  // all see the same global steps
      last_global_step_ = global_step_ + 5;
    } else {
      for (int w = 1; w < workers_; ++w) state_[w].stop = true;
      if (!AwaitEnd(1)) return false;
      state_[0].stop = true;
    }
    return AwaitEnd(0);
  }
  bool AwaitEnd(int first) {
    const int64_t deadline = NowNanos() + absl::ToInt64Nanoseconds(absl::GetFlag(FLAGS_hang_after));
    for (int w = first; w < workers_; ++w) {
      while (!state_[w].done) {
        if (NowNanos() > deadline) {
          what_hangs_ = absl::StrCat("worker ", w, " does not end");
          return false;
        }
        absl::SleepFor(kPoll);
      }
    }
    return true;
  }

  bool Check(Report& report) {
    absl::StatusOr<TrainingState> end = ps_ > 0 ? ReadState(Options(0)) : state_[0].end;
    if (!end.ok()) {
      Complain(absl::StrCat("WRONG: the state at the end cannot be read: ", end.status().ToString()));
      ++report.wrong;
      return false;
    }
    std::vector<TrainingState> others;
    for (int w = 1; w < workers_ && ps_ == 0; ++w) others.push_back(state_[w].end);
    const HistoryVerdict verdict = CheckHistory(replication_, workers_, recorder_.history(), folder_, *end, others);
    report.steps += verdict.acknowledged;
    report.steps_lost += verdict.lost;
    report.checkpoints += verdict.checkpoints;
    if (verdict.wrong.empty()) return true;
    ++report.wrong;
    Complain(absl::StrCat("WRONG: ", absl::StrJoin(verdict.wrong, "\n  ")));
    return false;
  }

  void Complain(const std::string& what) {
    PrintLog();
    std::fprintf(stderr, "\n%s\n%s\nTo repeat: one_process --seed=%lu --episodes=1%s\n", name().c_str(), what.c_str(),
                 seed_,
                 absl::GetFlag(FLAGS_replication).empty()
                     ? ""
                     : absl::StrCat(" --replication=", absl::GetFlag(FLAGS_replication)).c_str());
  }

  struct Worker {
    std::atomic<bool> stop{false}, restart{false}, done{false};
    std::atomic<int> next_step{0};
    TrainingState end;
  };

  const uint64_t seed_;
  std::mt19937_64 random_;
  const std::string folder_;
  Replication replication_;
  int workers_ = 0, ps_ = 0;
  bool links_ = true;
  bool tcp_links_ = false;
  int64_t padding_ = 0;
  std::optional<TestCluster> cluster_;
  HistoryRecorder recorder_;
  Worker state_[3];
  std::atomic<int64_t> global_step_{0}, last_global_step_{INT64_MAX};
  std::atomic<bool> full_{false};
  std::atomic<int> restarts_{0};
  std::string what_hangs_;
};

int Main() {
  std::string dir = absl::GetFlag(FLAGS_dir);
  if (dir.empty()) {
    dir = std::filesystem::exists("/dev/shm") ? "/dev/shm/robustness.XXXXXX" : "/tmp/robustness.XXXXXX";
    CHECK(mkdtemp(dir.data()) != nullptr);
  }
  SetLogSink(TakeLine);
  Report report;
  bool ok = true;
  const int episodes = absl::GetFlag(FLAGS_episodes);
  const absl::Duration soak = absl::GetFlag(FLAGS_soak);
  const int64_t begun = NowNanos();
  const auto goes_on = [&](int episode) {
    if (soak > absl::ZeroDuration()) return absl::Nanoseconds(NowNanos() - begun) < soak;
    return episodes > 0 ? episode < episodes : report.faults() < absl::GetFlag(FLAGS_faults);
  };
  std::vector<ProcessUsage> usage;
  uint64_t seed = absl::GetFlag(FLAGS_seed);
  for (int i = 0; goes_on(i); ++i, ++seed) {
    const std::string folder = absl::StrCat(dir, "/", seed);
    {
      MutexLock lock(&TheLog().mutex);
      TheLog().lines.clear();
    }
    Episode episode(seed, folder);
    const int64_t start = NowNanos();
    const int before = report.faults();
    ok = episode.Run(report) && ok;
    std::printf("%s: %d faults in %.1f s\n", episode.name().c_str(), report.faults() - before,
                (NowNanos() - start) / 1e9);
    std::fflush(stdout);
    std::filesystem::remove_all(folder);
    if (soak > absl::ZeroDuration()) {
      usage.push_back(MeasureUsage(begun));
      PrintSlopes(usage);
    }
  }
  std::filesystem::remove_all(dir);
  PrintReport(report);
  return ok && report.wrong == 0 && report.hangs == 0 ? 0 : 1;
}

}  // namespace
}  // namespace thalweg

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Trains in clusters inside this process while faults strike, and checks the history.");
  absl::ParseCommandLine(argc, argv);
  return thalweg::Main();
}
