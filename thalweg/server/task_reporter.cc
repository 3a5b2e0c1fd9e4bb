// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/task_reporter.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/machine_memory.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/learning_rate.h"
#include "thalweg/kernel/resource_report.h"
#include "thalweg/kernel/summary_scalars.h"
#include "thalweg/kernel/variable.h"
#include "thalweg/monitor/status_json.h"
#include "thalweg/monitor/step_trace.h"

namespace thalweg {
namespace {

constexpr absl::Duration kSampleEvery = absl::Seconds(1);

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double ResidentBytes() {
  // The second number of statm is the resident set, in pages.
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// The ids of the threads of this process.
std::vector<std::string> ThreadIds() {
  std::vector<std::string> ids;
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr) return ids;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') ids.emplace_back(entry->d_name);
  }
  closedir(folder);
  return ids;
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// How many processes the kernel has killed on this machine for lack of memory since it was started.
double OomKills() {
  std::ifstream file("/proc/vmstat");
  std::string name;
  for (double value = 0; file >> name >> value;) {
    if (name == "oom_kill") return value;
  }
  return 0;  // before Linux 4.13
}

// What a thread waits for in the kernel, by its system call: containers hide "wchan".
std::string KernelWait(const std::string& folder) {
  std::string call = FirstLine(folder + "/syscall");
  int64_t number = -1;
  if (call.empty()) return FirstLine(folder + "/wchan");
  if (!absl::SimpleAtoi(call.substr(0, call.find(' ')), &number)) return call;  // "running"
  switch (number) {
    case SYS_futex:
      return "a lock, or work (futex)";
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return "connections (epoll)";
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
      return "files or connections (poll)";
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
      return "a file (read)";
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
      return "a file (write)";
    case SYS_recvfrom:
    case SYS_recvmsg:
      return "a connection (receive)";
    case SYS_sendto:
    case SYS_sendmsg:
      return "a connection (send)";
    case SYS_accept:
    case SYS_accept4:
      return "a new connection (accept)";
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return "time (sleep)";
    case SYS_rt_sigtimedwait:
    case SYS_rt_sigsuspend:
      return "a signal";
    case SYS_wait4:
    case SYS_waitid:
      return "a process";
    case SYS_fsync:
    case SYS_fdatasync:
      return "a disk (sync)";
    default:
      return absl::StrCat("system call ", number);
  }
}

// Keeps the newest dumps of a folder that no user looks after.
void RemoveOldDumps(const std::string& folder, size_t keep) {
  std::vector<std::pair<int64_t, std::string>> files;
  DIR* const opened = opendir(folder.c_str());
  if (opened == nullptr) return;
  while (const dirent* entry = readdir(opened)) {
    struct stat found {};
    const std::string path = absl::StrCat(folder, "/", entry->d_name);
    if (lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) continue;
    files.emplace_back(int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec, path);
  }
  closedir(opened);
  std::sort(files.rbegin(), files.rend());
  for (size_t i = keep; i < files.size(); ++i) unlink(files[i].second.c_str());  // another task may have done it
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace

std::string DefaultFlightFolder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  return absl::StrCat(error ? "/tmp" : folder.string(), "/thalweg-flight-", getuid());
}

TaskReporter::TaskReporter(TaskReporterOptions options)
    : options_(std::move(options)),
      oom_kills_(OomKills()),
      known_oom_kills_(oom_kills_),
      checkpoint_(options_.monitor, &PosixFileSystem()) {
  for (const TaskId& task : options_.cluster.tasks()) {
    names_[options_.cluster.Address(task).value_or("")] = ShortTaskName(task.ToString());
  }
  if (options_.sample) thread_ = std::make_unique<Thread>("monitor", [this] { Run(); });
}

TaskReporter::~TaskReporter() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
  }
  thread_.reset();
}

void TaskReporter::Run() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (!closing_) changed_.WaitWithTimeout(&mutex_, kSampleEvery);
      if (closing_) return;
    }
    Sample();
    checkpoint_.Look();
    if (!options_.flight_folder.empty()) DumpAfterFaults();
  }
}

void TaskReporter::DumpAfterFaults() {
  // One fault often causes many: a lost task fails the steps of all others. They go into one dump, and pauses grow.
  constexpr int64_t kFirstPauseNanos = 10'000'000'000, kMaxPauseNanos = 60 * kFirstPauseNanos;
  const int64_t faults = options_.monitor->num_faults();
  if (faults == dumped_faults_ || (dumped_nanos_ != 0 && NowNanos() - dumped_nanos_ < dump_pause_nanos_)) return;
  dumped_faults_ = faults;
  dumped_nanos_ = NowNanos();
  dump_pause_nanos_ = std::clamp(2 * dump_pause_nanos_, kFirstPauseNanos, kMaxPauseNanos);
  if (const absl::StatusOr<std::string> path = Write(options_.collects); path.ok()) {
    const int64_t step = GlobalStep();
    LOG(INFO) << ShortTaskName(options_.monitor->task()) << (step < 0 ? "" : absl::StrCat(", global step ", step))
              << ": " << options_.monitor->last_fault() << ". The last steps and events of "
              << (options_.collects ? "all tasks" : "this task") << " are in " << *path;
  } else {
    LOG(WARNING) << "Cannot write the flight recorder: " << path.status().message();
  }
}

absl::StatusOr<std::string> TaskReporter::Dump() { return Write(/*whole_job=*/true); }

absl::Status TaskReporter::MakeDefaultFolder() const {
  const std::string& folder = options_.flight_folder;
  struct stat found {};
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return Unknown("Cannot make the folder ", folder, ": ", strerror(errno));
  }
  // In a folder that all users share, somebody else may have made it or put a link there.
  if (lstat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != getuid()) {
    return PermissionDenied(folder, " is not a folder of this user");
  }
  return absl::OkStatus();
}

JobStatus TaskReporter::Records(bool whole_job, int steps) const {
  GetMonitorRequest request;
  request.set_details(true);
  request.set_trace_steps(steps);
  JobStatus job;
  if (whole_job) {
    // So many tasks have less room each.
    constexpr int kAllSteps = 200'000;
    const auto tasks = std::max<int>(1, static_cast<int>(options_.cluster.tasks().size()));
    request.set_trace_steps(std::min(steps, std::max(100, kAllSteps / tasks)));
    request.set_whole_job(true);
    return options_.whole_job(request);
  }
  Fill(request, job.add_tasks());
  job.set_asked(options_.monitor->task());
  return job;
}

absl::StatusOr<std::string> TaskReporter::Write(bool whole_job) {
  if (options_.flight_folder.empty()) return FailedPrecondition("There is no folder for dumps of the flight recorder");
  int number = 0;
  {
    MutexLock lock(&mutex_);
    // The limit keeps a job that fails again and again from filling the disk.
    if (dumps_ >= kMaxDumps) return ResourceExhausted("The flight recorder was written ", kMaxDumps, " times already");
    number = dumps_++;
  }
  const bool is_default = options_.flight_folder == DefaultFlightFolder();
  if (is_default) RETURN_IF_ERROR(MakeDefaultFolder());
  // May ask other tasks, so no lock is held. A task that does not answer is marked as such in the result.
  const JobStatus job = Records(whole_job, static_cast<int>(TaskMonitor::kMaxSteps));
  const std::string task = absl::StrReplaceAll(ShortTaskName(options_.monitor->task()), {{" ", "-"}, {"/", "-"}});
  const std::string stem = absl::StrCat(options_.flight_folder, "/", task, "-", getpid(), "-", number);
  for (const auto& [end, text] : {std::pair<const char*, std::string>{".json", StatusJson(job, /*pretty=*/true)},
                                  std::pair<const char*, std::string>{".trace.json", ChromeTraceOfSteps(job)}}) {
    std::ofstream file(stem + end, std::ios::trunc);
    if (!(file << text << std::flush)) return Unknown("Cannot write ", stem, end);
  }
  if (is_default) RemoveOldDumps(options_.flight_folder, kMaxDefaultFiles);
  return stem + ".json";
}

int64_t TaskReporter::GlobalStep() const {
  for (const auto& device : options_.devices) {
    const auto variable = device->resources().Find<Variable>("", "global_step");
    if (!variable.ok()) continue;
    int64_t step = -1;
    (*variable)
        ->Inspect([&](const Tensor& value) {
          if (value.has_value() && value.dtype() == kInt64 && value.rank() == 0) step = value.scalar<int64_t>();
          return absl::OkStatus();
        })
        .IgnoreError();
    if (step >= 0) return step;
  }
  return -1;
}

double TaskReporter::LastLearningRate() const {
  double rate = std::numeric_limits<double>::quiet_NaN();
  for (const auto& device : options_.devices) {
    const auto found = device->resources().Find<LearningRate>("", LearningRate::kName);
    if (found.ok() && !std::isnan((*found)->Get())) rate = (*found)->Get();
  }
  return rate;
}

void TaskReporter::NoteMembers() {
  ResourceReport report;
  for (const auto& device : options_.devices) {
    for (const std::shared_ptr<Resource>& resource : device->resources().All()) {
      if (const auto* const reported = dynamic_cast<const ReportedResource*>(resource.get())) reported->Report(&report);
    }
  }
  for (const auto& [number, member] : report.members) {
    const auto known = members_.find(number);
    // It may have come and been expelled since the last look.
    const ResourceReport::Member before = known == members_.end() ? ResourceReport::Member() : known->second;
    if (before == member) continue;
    const std::string worker = WorkerName(absl::StrCat("worker ", number));
    if (member.expelled) {
      options_.monitor->AddEvent("worker expelled",
                                 absl::StrCat(worker, " held up the others: the training goes on without it"));
    } else if (!member.present) {
      options_.monitor->AddEvent("worker left", absl::StrCat(worker, " has ended its part of the training",
                                                             before.expelled ? ", after it was expelled" : ""));
    } else {
      options_.monitor->AddEvent("worker back", absl::StrCat(worker, " takes part in the training again"));
    }
  }
  members_ = std::move(report.members);
}

double TaskReporter::NoteOomKills() const {
  const double kills = OomKills();
  MutexLock lock(&mutex_);
  if (kills > known_oom_kills_) oom_kill_nanos_ = NowNanos();
  known_oom_kills_ = kills;
  return std::max(0.0, kills - oom_kills_);
}

void TaskReporter::Sample() {
  NoteMembers();
  NoteOomKills();
  const int64_t global_step = GlobalStep();
  // A series is made of it where the global step is known.
  if (const double rate = LastLearningRate(); global_step >= 0 && !std::isnan(rate)) {
    options_.monitor->SetScalar("learning rate", rate);
  }
  for (const auto& device : options_.devices) {
    const auto found = device->resources().Find<SummaryScalars>("", SummaryScalars::kName);
    if (!found.ok()) continue;
    for (const auto& [tag, value] : (*found)->Take()) options_.monitor->SetScalar(tag, value);
  }
  options_.monitor->Sample(global_step, CpuSeconds());
  const int64_t now = NowNanos();
  MutexLock lock(&mutex_);
  for (const Traffic* traffic : options_.traffic()) {
    for (int path = 0; path < Traffic::kPaths; ++path) {
      const int64_t bytes = traffic->sent(path) + traffic->received(path);
      int64_t& before = bytes_[{traffic, path}];
      const double seconds = static_cast<double>(now - sampled_nanos_) * 1e-9;
      // The first sample has no sample before it to compare with.
      rates_[{traffic, path}] = sampled_nanos_ == 0 ? 0 : static_cast<double>(bytes - before) / seconds;
      before = bytes;
    }
  }
  sampled_nanos_ = now;
}

std::string TaskReporter::PeerName(const std::string& address) const {
  const auto it = names_.find(address);
  return it == names_.end() ? address : it->second;
}

// SyncReplicas counts a chief as the last of the workers.
std::string TaskReporter::WorkerName(const std::string& reported) const {
  std::string name = reported.empty() ? "any worker" : Utf8Text(ShortTaskName(reported));
  const auto has = [&](const char* task) {
    return std::any_of(names_.begin(), names_.end(), [&](const auto& known) { return known.second == task; });
  };
  if (!absl::StartsWith(name, "worker ") || has(name.c_str())) return name;
  for (const char* chief : {"chief 0", "master 0"}) {
    if (has(chief)) return chief;
  }
  return name;
}

void TaskReporter::FillTraffic(TaskStatus* status) const {
  const int64_t now = NowNanos();
  for (const Traffic* traffic : options_.traffic()) {
    const int64_t answer = traffic->last_answer_nanos();
    for (int path = 0; path < Traffic::kPaths; ++path) {
      if (traffic->calls(path) == 0) continue;
      PeerTraffic* const peer = status->add_traffic();
      peer->set_peer(PeerName(traffic->address()));
      peer->set_path(Traffic::NameOf(path));
      peer->set_sent_bytes(static_cast<double>(traffic->sent(path)));
      peer->set_received_bytes(static_cast<double>(traffic->received(path)));
      peer->set_calls(static_cast<double>(traffic->calls(path)));
      peer->set_failed_calls(static_cast<double>(traffic->failures(path)));
      peer->set_seconds_since_answer(answer == 0 ? -1 : static_cast<double>(now - answer) * 1e-9);
      MutexLock lock(&mutex_);
      if (const auto it = rates_.find({traffic, path}); it != rates_.end()) peer->set_bytes_per_second(it->second);
    }
  }
}

double TaskReporter::BytesOf(Variable& variable, std::map<const Variable*, double>* sizes) const {
  double bytes = -1;
  if (variable.mutex().TryLock()) {
    bytes = variable.value().has_value() ? static_cast<double>(variable.value().TotalBytes()) : -1;
    variable.mutex().Unlock();
  } else {
    // A whole update may run under the lock, and a scrape does not wait for it.
    MutexLock lock(&mutex_);
    const auto it = sizes_.find(&variable);
    bytes = it == sizes_.end() || it->second < 0 ? 0 : it->second;  // what is updated has a value
  }
  (*sizes)[&variable] = bytes;
  return bytes;
}

void TaskReporter::FillResources(TaskStatus* status) const {
  constexpr size_t kMaxQueues = 200;
  ResourceReport report;
  std::map<const Variable*, double> sizes;
  for (const auto& device : options_.devices) {
    for (const std::shared_ptr<Resource>& resource : device->resources().All()) {
      if (auto* const variable = dynamic_cast<Variable*>(resource.get())) {
        status->set_variables(status->variables() + 1);
        const double bytes = BytesOf(*variable, &sizes);
        if (bytes < 0) {
          status->set_uninitialized_variables(status->uninitialized_variables() + 1);
        } else {
          status->set_variable_bytes(status->variable_bytes() + bytes);
        }
      } else if (const auto* const reported = dynamic_cast<const ReportedResource*>(resource.get())) {
        reported->Report(&report);
      }
    }
  }
  {
    MutexLock lock(&mutex_);
    sizes_ = std::move(sizes);
  }
  for (size_t i = 0; i < std::min(report.queues.size(), kMaxQueues); ++i) {
    QueueStatus* const queue = status->add_queues();
    queue->set_name(Utf8Text(report.queues[i].name));
    queue->set_size(static_cast<double>(report.queues[i].size));
    queue->set_capacity(static_cast<double>(report.queues[i].capacity));
  }
  for (const auto& [worker, gradients] : report.gradients) {
    const std::string name = WorkerName(worker);
    GradientCount* count = nullptr;
    for (GradientCount& known : *status->mutable_gradients()) {
      if (known.worker() == name) count = &known;  // it has updated variables directly, too
    }
    if (count == nullptr) count = status->add_gradients();
    count->set_worker(name);
    count->set_accepted(static_cast<double>(gradients.accepted));
    count->set_stale(static_cast<double>(gradients.stale));
    count->set_dropped(static_cast<double>(gradients.dropped));
  }
  FillSynchronization(report, status);
  if (const double rate = LastLearningRate(); !std::isnan(rate)) {
    status->set_has_learning_rate(true);
    status->set_learning_rate(rate);
  }
  if (report.accumulators > 0) {
    for (const int64_t n : report.staleness) status->add_staleness(static_cast<double>(n));
  }
}

double TaskReporter::SecondsSinceOomKill() const {
  MutexLock lock(&mutex_);
  return oom_kill_nanos_ == 0 ? -1 : static_cast<double>(NowNanos() - oom_kill_nanos_) * 1e-9;
}

void TaskReporter::FillSynchronization(const ResourceReport& report, TaskStatus* status) const {
  const int64_t now = NowNanos();
  for (const auto& [number, member] : report.members) {
    MemberStatus* const out = status->add_members();
    out->set_worker(WorkerName(absl::StrCat("worker ", number)));
    out->set_state(member.present ? "present" : member.expelled ? "expelled" : "left");
    if (!member.present) out->set_seconds(static_cast<double>(now - member.left_nanos) * 1e-9);
  }
  for (const auto& [step, wait] : report.gradient_waits) {
    GradientWait* const out = status->add_gradient_waits();
    out->set_step(static_cast<double>(step));
    out->set_have(static_cast<double>(wait.have));
    out->set_wanted(static_cast<double>(wait.wanted));
    for (const std::string& worker : wait.missing) out->add_missing(WorkerName(worker));
    out->set_seconds(static_cast<double>(now - wait.since_nanos) * 1e-9);
  }
}

void TaskReporter::Fill(const GetMonitorRequest& request, TaskStatus* status) const {
  options_.monitor->Fill(status, request.trace_steps(), request.details());
  status->set_pid(getpid());
  status->set_host(HostName());
  status->set_memory_bytes(ResidentBytes());
  status->set_memory_limit_bytes(static_cast<double>(MachineMemoryBytes()));
  status->set_cpu_seconds(CpuSeconds());
  status->set_oom_kills(NoteOomKills());
  status->set_seconds_since_oom_kill(SecondsSinceOomKill());
  status->set_threads(static_cast<int>(ThreadIds().size()));
  options_.sessions(status);
  FillTraffic(status);
  FillResources(status);
  for (const auto& [method, counts] : options_.calls) {
    for (int code = 0; code < CallCounts::kCodes; ++code) {
      if (counts->count(code) == 0) continue;
      CallCount* const count = status->add_calls();
      count->set_method(std::string(absl::StripPrefix(method, "/")));
      count->set_code(absl::StatusCodeToString(static_cast<absl::StatusCode>(code)));
      count->set_count(static_cast<double>(counts->count(code)));
    }
  }
}

std::string TaskReporter::DescribeThreads() const {
  TaskStatus status;
  options_.monitor->FillRunning(&status);
  std::string text = absl::StrCat(options_.monitor->task(), ": ", status.running_size(), " running steps\n");
  for (const RunningStep& step : status.running()) {
    absl::StrAppendFormat(&text, "  step %x of %s, %s, for %.3f s: ", step.step_id(), step.master(),
                          step.whole() ? "whole" : "part", step.seconds());
    if (step.waits_size() == 0) text += "computes";
    for (const StepWait& wait : step.waits()) {
      absl::StrAppendFormat(&text, "waits %.3f s for %s %s (%s); ", wait.seconds(), wait.kind(), wait.on(),
                            wait.node());
    }
    text += "\n";
  }
  const std::vector<std::string> ids = ThreadIds();
  absl::StrAppend(&text, "\n", ids.size(), " threads: id, name, state, what it waits for\n");
  for (const std::string& id : ids) {
    const std::string folder = absl::StrCat("/proc/self/task/", id);
    const std::string stat = FirstLine(folder + "/stat");  // "id (name) S ..."
    const size_t end = stat.rfind(')');                    // the last one: the name may contain parentheses
    absl::StrAppendFormat(&text, "  %-8s %-16s %s %s\n", id, FirstLine(folder + "/comm"),
                          end == std::string::npos ? "?" : stat.substr(end + 2, 1), KernelWait(folder));
  }
  return text;
}

}  // namespace thalweg
