// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/host_launcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "thalweg/base/free_ports.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/launch/child_process.h"
#include "thalweg/launch/fake_clock.h"
#include "thalweg/launch/fault_schedule.h"
#include "thalweg/launch/progress_table.h"
#include "thalweg/monitor/status_text.h"
#include "thalweg/server/job_watcher.h"

namespace thalweg {
namespace {

constexpr absl::Duration kRedraw = absl::Milliseconds(200);
constexpr absl::Duration kLookAgain = absl::Seconds(1);
constexpr absl::Duration kFirstPause = absl::Milliseconds(250);  // before a restart; it doubles

// The number of steps in the arguments, if they have a common flag for it.
int64_t StepsOf(const std::vector<std::string>& command) {
  for (size_t i = 0; i < command.size(); ++i) {
    absl::string_view arg = command[i];
    if (!absl::ConsumePrefix(&arg, "--")) continue;
    for (const absl::string_view flag : {"steps", "train_steps", "max_steps", "num_steps"}) {
      int64_t steps = 0;
      absl::string_view value = arg;
      if (arg == flag && i + 1 < command.size()) {
        value = command[i + 1];
      } else if (!absl::ConsumePrefix(&value, flag) || !absl::ConsumePrefix(&value, "=")) {
        continue;
      }
      if (absl::SimpleAtoi(value, &steps)) return steps;
    }
  }
  return 0;
}

// Whether another try may end better. 1 is the code of a Python script that raised an exception,
// whatever it was. Codes from 2 on say that the arguments or the program are wrong (ExitCode()
// in job.h).
bool IsWorthRestart(int code) { return code == 1 || code >= 128; }

struct Task {
  TaskId id;
  std::string name;     // "worker 0"
  std::string address;  // host:port of its server
  std::vector<std::string> args;
  std::map<std::string, std::string> variables;
  pid_t pid = -1;  // -1: it does not run
  bool ended = false;
  int code = 0;
  int restarts = 0;
  absl::Time start_at = absl::InfiniteFuture();  // when it is started again
};

// A task's output, as it comes. Children of a task may hold it open longer than
// the task lives.
struct Stream {
  int fd = -1;
  size_t task = 0;
  bool is_err = false;
  std::string rest;  // a line that has no end yet
};

class HostJob {
 public:
  HostJob(const HostJobOptions& options, const std::vector<std::string>& names)
      : options_(options), table_(names, StepsOf(options.command)) {
    for (const std::string& name : names) width_ = std::max(width_, name.size());
    sigset_t signals;
    sigemptyset(&signals);
    for (const int s : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, s);
    sigprocmask(SIG_BLOCK, &signals, &old_mask_);
    signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~HostJob() {
    KillAll();
    for (const Stream& stream : streams_) close(stream.fd);
    close(signals_);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }

  absl::Status Start(std::vector<Task> tasks) {
    tasks_ = std::move(tasks);
    if (!options_.faults.faults.empty()) Say(absl::StrCat("faults: ", options_.faults.ToString()));
    const bool has_clock = std::any_of(options_.faults.faults.begin(), options_.faults.faults.end(),
                                       [](const Fault& fault) { return fault.kind == Fault::Kind::kClock; });
    if (has_clock) {
      ASSIGN_OR_RETURN(FakeClock clock, FakeClock::Make());
      clock_.emplace(std::move(clock));
      for (Task& task : tasks_) task.variables.merge(clock_->variables());
    }
    faults_.emplace(options_.faults, absl::Now());
    for (size_t i = 0; i < tasks_.size(); ++i) RETURN_IF_ERROR(StartTask(i));
    if (!options_.terminal) return absl::OkStatus();
    ClusterSpec cluster;
    for (const Task& task : tasks_) RETURN_IF_ERROR(cluster.AddTask(task.id, task.address));
    watcher_.emplace(cluster);
    return absl::OkStatus();
  }

  int Run() {
    while (std::any_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return !task.ended; })) {
      Draw();
      Wait();
      ReadSignals();
      ReadStreams();
      InjectFaults();
      Reap();
      Advance();
    }
    ReadStreams();
    for (Stream& stream : streams_) {
      if (!stream.rest.empty()) Show(stream, stream.rest);
      stream.rest.clear();
    }
    Draw();
    drawn_ = 0;
    return signal_ > 0 ? 128 + signal_ : code_;
  }

 private:
  absl::Status StartTask(size_t i) {
    Task& task = tasks_[i];
    task.start_at = absl::InfiniteFuture();
    task.variables[kFaultsVariable] = faults_->ForTask(FaultName(task), task.restarts > 0, absl::Now());
    ASSIGN_OR_RETURN(const ChildProcess child, StartChild(task.args, task.variables));
    task.pid = child.pid;
    streams_.push_back({child.out, i, false, ""});
    streams_.push_back({child.err, i, true, ""});
    table_.SetState(i, "running");
    return absl::OkStatus();
  }

  void Wait() {
    std::vector<pollfd> fds{{.fd = signals_, .events = POLLIN, .revents = 0}};
    for (const Stream& stream : streams_) fds.push_back({.fd = stream.fd, .events = POLLIN, .revents = 0});
    absl::Time until = std::min(kill_at_, ps_told_ ? absl::InfiniteFuture() : end_ps_at_);
    if (options_.terminal) until = std::min(until, absl::Now() + kRedraw);
    until = std::min(until, faults_->next());
    for (const Task& task : tasks_) until = std::min(until, task.start_at);
    // In a process with other threads, SIGCHLD may have gone to one of them.
    const absl::Duration pause = std::clamp(until - absl::Now(), absl::ZeroDuration(), kLookAgain);
    poll(fds.data(), fds.size(), static_cast<int>(absl::ToInt64Milliseconds(pause)) + 1);
  }

  // The first is passed on; the second ends everything.
  void ReadSignals() {
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo == SIGCHLD) continue;
      if (signal_ > 0) {
        Say(absl::StrCat("again ", strsignal(static_cast<int>(info.ssi_signo)), ": all tasks are killed"));
        KillAll();
        continue;
      }
      signal_ = static_cast<int>(info.ssi_signo);
      Say(absl::StrCat(strsignal(signal_), ": passed on to the workers; once more kills all tasks"));
      EndWorkers(signal_);
    }
  }

  void ReadStreams() {
    for (size_t i = 0; i < streams_.size();) {
      Stream& stream = streams_[i];
      char buffer[1 << 16];
      ssize_t n = 0;
      while ((n = read(stream.fd, buffer, sizeof(buffer))) > 0) {
        stream.rest.append(buffer, static_cast<size_t>(n));
        size_t begin = 0;
        for (size_t end = 0; (end = stream.rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
          Show(stream, absl::StripSuffix(absl::string_view(stream.rest).substr(begin, end - begin), "\r"));
        }
        stream.rest.erase(0, begin);
      }
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        ++i;
        continue;
      }
      if (!stream.rest.empty()) Show(stream, stream.rest);
      close(stream.fd);
      streams_.erase(streams_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  // Signals reach all processes of the task: with a script go its servers.
  void InjectFaults() {
    using Kind = FaultSchedule::Action::Kind;
    for (const FaultSchedule::Action& action : faults_->Take(absl::Now())) {
      Say(absl::StrCat(action.kind == Kind::kContinue ? "end of injected fault: " : "injected fault: ", action.text));
      if (action.kind == Kind::kClock) {
        if (const absl::Status set = clock_->Set(action.jump); !set.ok()) Say(std::string(set.message()));
      }
      for (const Task& task : tasks_) {
        if (task.pid < 0 || FaultName(task) != action.task) continue;
        if (action.kind == Kind::kKill) kill(-task.pid, SIGKILL);
        if (action.kind == Kind::kTerminate) kill(task.pid, SIGTERM);
        if (action.kind == Kind::kStop) kill(-task.pid, SIGSTOP);
        if (action.kind == Kind::kContinue) kill(-task.pid, SIGCONT);
      }
    }
  }
  static std::string FaultName(const Task& task) { return absl::StrCat(task.id.job, ":", task.id.index); }

  void Reap() {
    for (size_t i = 0; i < tasks_.size(); ++i) {
      Task& task = tasks_[i];
      int status = 0;
      if (task.pid < 0 || waitpid(task.pid, &status, WNOHANG) != task.pid) continue;
      kill(-task.pid, SIGKILL);  // ends processes that the task may have left behind
      task.pid = -1;
      task.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      Ended(i, WIFSIGNALED(status)
                   ? absl::StrCat("was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")")
                   : absl::StrCat("ended with code ", task.code));
    }
  }

  void Ended(size_t i, const std::string& how) {
    Task& task = tasks_[i];
    const bool expected = ending_ || (IsPs(task) && end_ps_at_ != absl::InfiniteFuture());
    if (task.code == 0 || expected) {
      task.ended = true;
      table_.SetState(i, task.code == 0 ? "done" : "ended");
      return;
    }
    if (IsWorthRestart(task.code) && task.restarts < options_.max_restarts) {
      const absl::Duration pause = kFirstPause * (1 << std::min(task.restarts, 6));
      ++task.restarts;
      task.start_at = absl::Now() + pause;
      table_.SetState(i, absl::StrCat("restart ", task.restarts));
      Say(absl::StrCat(task.name, " ", how, "; restarting it (", task.restarts, " of ", options_.max_restarts, ")"));
      return;
    }
    task.ended = true;
    table_.SetState(i, absl::StrCat("failed: ", task.code));
    std::string why;
    if (options_.max_restarts > 0) {
      why = IsWorthRestart(task.code) ? absl::StrCat(", after ", task.restarts, " restarts")
                                      : ", which a restart would not change";
    }
    if (!IsPs(task) && task.id.index > 0 && lost_workers_ < options_.max_lost_workers) {
      ++lost_workers_;
      Say(absl::StrCat(task.name, " ", how, why, "; the others go on (", lost_workers_, " of at most ",
                       options_.max_lost_workers, " lost workers)"));
      return;
    }
    Say(absl::StrCat(task.name, " ", how, why, "; the job ends"));
    code_ = task.code;
    EndWorkers(SIGTERM);
  }

  // Handles everything that is due: restarts, SIGTERM for parameter servers, SIGKILL.
  void Advance() {
    const absl::Time now = absl::Now();
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].start_at > now) continue;
      if (!IsPs(tasks_[i]) && tasks_[i].restarts > 1 && ServersHaveLeft()) {
        GiveUpRestart(i);
        continue;
      }
      if (const absl::Status started = StartTask(i); !started.ok()) {
        tasks_[i].code = 126;
        Ended(i, absl::StrCat("could not be started: ", started.message()));
      }
    }
    const bool workers_ended =
        std::all_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.ended || IsPs(task); });
    if (workers_ended && end_ps_at_ == absl::InfiniteFuture()) {
      end_ps_at_ = ending_ ? now : now + options_.ps_grace;
      for (Task& task : tasks_) {
        if (task.pid < 0) task.ended = true;  // a parameter server that waits for a restart is not needed any more
        task.start_at = absl::InfiniteFuture();
      }
    }
    if (now >= end_ps_at_ && !ps_told_) {
      ps_told_ = true;
      kill_at_ = std::min(kill_at_, now + options_.kill_after);
      for (const Task& task : tasks_) {
        if (task.ended) continue;
        if (!ending_) Say(absl::StrCat(task.name, " still runs although the workers have exited: sending SIGTERM"));
        kill(task.pid, SIGTERM);
      }
    }
    if (now >= kill_at_) {
      for (const Task& task : tasks_) {
        if (!task.ended) Say(absl::StrCat(task.name, " does not exit: sending SIGKILL"));
      }
      KillAll();
      kill_at_ = absl::InfiniteFuture();
    }
  }

  static bool IsPs(const Task& task) { return task.id.job == "ps"; }

  // Parameter servers leave when all workers have announced their end. A worker that dies afterwards waits for them in
  // vain. It gets one try, because it may not need them.
  bool ServersHaveLeft() const {
    return std::any_of(tasks_.begin(), tasks_.end(), IsPs) &&
           std::all_of(tasks_.begin(), tasks_.end(),
                       [](const Task& t) { return !IsPs(t) || (t.ended && t.code == 0); });
  }
  void GiveUpRestart(size_t i) {
    Task& task = tasks_[i];
    task.start_at = absl::InfiniteFuture();
    task.ended = true;
    table_.SetState(i, "ended");
    Say(absl::StrCat(task.name, " is not started again: the parameter servers have left"));
    if (code_ == 0) code_ = task.code;
  }

  // Stops the workers first, because they may need the parameter servers to end properly.
  void EndWorkers(int with) {
    ending_ = true;
    kill_at_ = std::min(kill_at_, absl::Now() + options_.kill_after);
    for (Task& task : tasks_) {
      if (task.pid > 0 && !IsPs(task)) kill(task.pid, with);
      if (task.pid < 0) task.ended = true;
      task.start_at = absl::InfiniteFuture();
    }
  }

  void KillAll() {
    for (const Task& task : tasks_) {
      if (task.pid > 0) kill(-task.pid, SIGKILL);
    }
  }

  // Takes what the tasks have told about themselves into the table.
  void TakeStatus() {
    const JobStatus job = watcher_->status();
    for (const TaskStatus& status : job.tasks()) {
      const auto task =
          std::find_if(tasks_.begin(), tasks_.end(), [&](const Task& t) { return t.name == status.name(); });
      if (task == tasks_.end()) continue;
      const auto i = static_cast<size_t>(task - tasks_.begin());
      TaskProgress& progress = progress_[i];
      const bool down = status.state() == "down" || status.state() == "finished";
      // A task that has never answered starts up, or has no server of Thalweg's.
      if (status.state() == "tensorflow" || status.seconds_silent() < 0) continue;
      constexpr double kSilent = 2;
      progress.trouble =
          status.state() == "down" && task->pid > 0 && status.seconds_silent() > kSilent ? DescribeState(status) : "";
      progress.rate = down ? 0 : status.steps_per_second();
      if (!down) {
        progress.steps = static_cast<int64_t>(status.steps());
        progress.http = status.http();
        progress.loss = LossOf(status);
      }
      table_.SetProgress(i, progress);
    }
    TakeGlobalStep(job);
  }

  void TakeGlobalStep(const JobStatus& job) {
    double stop = 0, step = -1, rate = 0;
    for (const TaskStatus& status : job.tasks()) {
      stop = std::max(stop, status.stop_step());
      if (!status.has_global_step() || status.global_step() < step) continue;
      step = status.global_step();
      rate = status.global_steps_per_second();
    }
    if (step >= 0) global_step_ = static_cast<int64_t>(step);
    if (stop > 0) stop_step_ = static_cast<int64_t>(stop);
    // If the task that has it does not answer, its last step is still known.
    if (global_step_ >= 0) table_.SetGlobalStep(global_step_, step >= 0 ? rate : -1);
    table_.SetEnd(stop_step_, job.seconds_left());
  }

  // Prints a line of a task. On a terminal, lines of the standard output that only report steps do
  // not appear above the table. Other lines and what a task logs always do.
  void Show(const Stream& stream, absl::string_view line) {
    const bool told = !stream.is_err && table_.AddLine(stream.task, line, absl::Now());
    if (told && options_.terminal && IsPlainStepLine(line)) return;
    Erase();
    std::ostream& to = stream.is_err ? *options_.err : *options_.out;
    to << absl::StrFormat("%-*s | ", static_cast<int>(width_), tasks_[stream.task].name) << line << "\n" << std::flush;
  }
  void Say(const std::string& text) {
    Erase();
    *options_.err << absl::StrFormat("%-*s | ", static_cast<int>(width_), "run") << text << std::endl;
  }
  void Erase() {
    // From the first column: the terminal may have echoed a key, such as ^C.
    if (drawn_ > 0) *options_.out << "\r\033[" << drawn_ << "A\033[J" << std::flush;
    drawn_ = 0;
  }
  void Draw() {
    if (!options_.terminal) return;
    if (watcher_.has_value()) TakeStatus();
    winsize size{};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    const size_t columns = known ? size.ws_col : 80, lines = known ? size.ws_row : 24;
    const std::vector<std::string> rows = table_.Rows(absl::Now(), columns - 1, std::max<size_t>(lines - 1, 3));
    Erase();
    *options_.out << absl::StrJoin(rows, "\n") << "\n" << std::flush;
    drawn_ = rows.size();
  }

  const HostJobOptions& options_;
  ProgressTable table_;
  size_t width_ = 3;
  size_t drawn_ = 0;  // lines of the table that are on the terminal
  sigset_t old_mask_;
  int signals_ = -1;
  std::vector<Task> tasks_;
  std::optional<FaultSchedule> faults_;
  std::optional<FakeClock> clock_;
  std::vector<Stream> streams_;
  std::map<size_t, TaskProgress> progress_;  // by task
  std::optional<JobWatcher> watcher_;        // on a terminal
  int64_t global_step_ = -1;                 // the last that a task has told
  int64_t stop_step_ = 0;
  int signal_ = 0;  // the signal that was passed on
  int code_ = 0;    // the exit code of the task that failed
  int lost_workers_ = 0;
  bool ending_ = false;  // the workers were told to exit
  bool ps_told_ = false;
  absl::Time end_ps_at_ = absl::InfiniteFuture();
  absl::Time kill_at_ = absl::InfiniteFuture();
};

// The tasks with their arguments and environment variables.
absl::StatusOr<std::vector<Task>> MakeTasks(const HostJobOptions& options) {
  std::vector<std::string> command = options.command;
  ASSIGN_OR_RETURN(command[0], FindProgram(command[0]));
  ASSIGN_OR_RETURN(const std::vector<int> ports, FreePorts(options.ps + options.workers, options.base_port));
  std::vector<std::string> ps_hosts, worker_hosts;
  std::vector<Task> tasks;
  for (int i = 0; i < options.ps + options.workers; ++i) {
    const bool is_ps = i < options.ps;
    (is_ps ? ps_hosts : worker_hosts).push_back(absl::StrCat("localhost:", ports[i]));
    Task task{.id = is_ps ? TaskId{"ps", i} : TaskId{"worker", i - options.ps}};
    task.name = absl::StrCat(task.id.job, " ", task.id.index);
    task.address = absl::StrCat("localhost:", ports[i]);
    tasks.push_back(std::move(task));
  }
  const auto list = [](const std::vector<std::string>& hosts) {
    return absl::StrCat("[\"", absl::StrJoin(hosts, "\", \""), "\"]");
  };
  const std::string cluster = absl::StrCat("{", ps_hosts.empty() ? "" : absl::StrCat("\"ps\": ", list(ps_hosts), ", "),
                                           "\"worker\": ", list(worker_hosts), "}");
  for (Task& task : tasks) {
    task.variables = {{"TF_CONFIG", absl::StrCat("{\"cluster\": ", cluster, ", \"task\": {\"type\": \"", task.id.job,
                                                 "\", \"index\": ", task.id.index, "}}")},
                      {"PYTHONUNBUFFERED", "1"}};  // lines come when they are printed
    for (const std::string& arg : command) {
      task.args.push_back(absl::StrReplaceAll(arg, {{"{ps_hosts}", absl::StrJoin(ps_hosts, ",")},
                                                    {"{worker_hosts}", absl::StrJoin(worker_hosts, ",")},
                                                    {"{job_name}", task.id.job},
                                                    {"{task_index}", absl::StrCat(task.id.index)}}));
    }
  }
  return tasks;
}

absl::Status CheckFaults(const FaultPlan& plan, const std::vector<Task>& tasks) {
  const auto check = [&](const std::string& name, const Fault& fault) {
    const bool known = name.empty() || std::any_of(tasks.begin(), tasks.end(), [&](const Task& task) {
                         return name == absl::StrCat(task.id.job, ":", task.id.index);
                       });
    if (known) return absl::OkStatus();
    return InvalidArgument("--faults: \"", fault.ToString(), "\": the job has no task ", name);
  };
  for (const Fault& fault : plan.faults) {
    RETURN_IF_ERROR(check(fault.task, fault));
    for (const auto& side : fault.sides) {
      for (const std::string& name : side) RETURN_IF_ERROR(check(name, fault));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunHostJob(const HostJobOptions& options) {
  if (options.command.empty())
    return InvalidArgument("Expected a program: thalweg run --ps 1 --workers 2 -- ./program");
  if (options.ps < 0 || options.workers < 1) {
    return InvalidArgument("Expected --ps of at least 0 and --workers of at least 1, got ", options.ps, " and ",
                           options.workers);
  }
  ASSIGN_OR_RETURN(std::vector<Task> tasks, MakeTasks(options));
  RETURN_IF_ERROR(CheckFaults(options.faults, tasks));
  std::vector<std::string> names;
  for (const Task& task : tasks) names.push_back(task.name);
  HostJob job(options, names);
  RETURN_IF_ERROR(job.Start(std::move(tasks)));
  return job.Run();
}

}  // namespace thalweg
