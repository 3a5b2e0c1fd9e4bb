// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/job_monitor.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/monitor/diagnosis.h"
#include "thalweg/monitor/task_monitor.h"
#include "thalweg/rpc/monitor_stub.h"

namespace thalweg {
namespace {

// For how long the result of a round serves other callers.
constexpr absl::Duration kFresh = absl::Milliseconds(400);

// Programs tell where they stop, and the task that holds the global step how fast it grows.
double SecondsLeft(const JobStatus& job) {
  double stop = 0, step = -1, rate = 0;
  for (const TaskStatus& task : job.tasks()) {
    stop = std::max(stop, task.stop_step());
    if (!task.has_global_step() || task.global_step() < step) continue;
    step = task.global_step();
    rate = task.global_steps_per_second();
  }
  return step >= 0 && stop > step && rate > 0 ? (stop - step) / rate : 0;
}

}  // namespace

// The questions of one round. Answers that come late hold a reference.
struct JobMonitor::Round {
  struct Question {
    TaskId task;
    std::shared_ptr<JobStatus> answer = std::make_shared<JobStatus>();
    absl::Status status = absl::DeadlineExceededError("not answered");
    int64_t sent_nanos = 0, answered_nanos = 0;
  };
  std::vector<Question> questions;
  Mutex mutex;
  CondVar changed;
  size_t left ABSL_GUARDED_BY(mutex) = 0;
};

JobMonitor::JobMonitor(ClusterSpec cluster, TaskId self, RpcClient* client, Own own)
    : cluster_(std::move(cluster)), self_(std::move(self)), client_(client), own_(std::move(own)) {}

std::shared_ptr<RpcChannel> JobMonitor::ChannelTo(const TaskId& task) {
  const absl::StatusOr<std::string> address = cluster_.Address(task);
  CHECK(address.ok()) << address.status();
  MutexLock lock(&mutex_);
  std::shared_ptr<RpcChannel>& channel = channels_[task];
  if (channel == nullptr) channel = client_->Connect(*address);
  return channel;
}

// A round of questions for equal requests, and its result.
struct JobMonitor::Result {
  bool known = false;
  int64_t nanos = 0;  // when it was
  JobStatus job;
};

JobStatus JobMonitor::Ask(const GetMonitorRequest& request) {
  constexpr size_t kMaxResults = 8;
  const std::string key = request.SerializeAsString();
  std::shared_ptr<Result> result;
  {
    MutexLock lock(&mutex_);
    const auto fresh = [&](const Result& r) {
      return !r.known || NowNanos() - r.nanos < absl::ToInt64Nanoseconds(kFresh);
    };
    if (const auto it = results_.find(key); it != results_.end() && fresh(*it->second)) {
      const std::shared_ptr<Result> other = it->second;
      while (!other->known) changed_.Wait(&mutex_);  // at most the time of one round
      return other->job;
    }
    // Those who wait for a result hold it.
    if (results_.size() >= kMaxResults) results_.clear();
    result = results_[key] = std::make_shared<Result>();
  }
  JobStatus job = AskAll(request);
  MutexLock lock(&mutex_);
  result->known = true;
  result->nanos = NowNanos();
  result->job = job;
  changed_.SignalAll();
  return job;
}

absl::Duration JobMonitor::TimeFor(const GetMonitorRequest& request) {
  constexpr int kManySteps = 1000;  // megabytes
  return request.trace_steps() > kManySteps ? kLongTimeout : kTimeout;
}

// The other tasks know what this one has not seen: when a task last answered one of their calls, and whether its
// program has said that it is done.
void JobMonitor::AddWhatOthersKnow(JobStatus* job) {
  for (TaskStatus& down : *job->mutable_tasks()) {
    if (down.state() != "down") continue;
    for (const TaskStatus& other : job->tasks()) {
      for (const std::string& name : other.finished_tasks()) {
        if (name == down.name()) down.set_state("finished");
      }
      for (const PeerTraffic& traffic : other.traffic()) {
        if (traffic.peer() != down.name() || traffic.seconds_since_answer() < 0) continue;
        const double silent = traffic.seconds_since_answer();
        down.set_seconds_silent(down.seconds_silent() < 0 ? silent : std::min(down.seconds_silent(), silent));
      }
    }
  }
}

JobStatus JobMonitor::AskAll(const GetMonitorRequest& request) {
  GetMonitorRequest for_one = request;
  for_one.set_whole_job(false);
  const absl::Duration timeout = TimeFor(request);
  const auto round = std::make_shared<Round>();
  for (const TaskId& task : cluster_.tasks()) {
    if (own_ == nullptr || task != self_) round->questions.push_back({.task = task});
  }
  const size_t n = round->questions.size();
  {
    MutexLock lock(&round->mutex);
    round->left = n;
  }
  for (size_t i = 0; i < n; ++i) {
    Round::Question& question = round->questions[i];
    const std::shared_ptr<RpcChannel> channel = ChannelTo(question.task);
    question.sent_nanos = NowNanos();
    CallGetStatus(*channel, {.timeout = timeout, .cancellation = &stop_}, for_one, question.answer,
                  [round, i](const absl::Status& status) {
                    MutexLock lock(&round->mutex);
                    round->questions[i].status = status;
                    round->questions[i].answered_nanos = NowNanos();
                    if (--round->left == 0) round->changed.SignalAll();
                  });
  }
  JobStatus job;
  job.set_asked(self_.ToString());
  std::map<std::string, TaskStatus> by_task;
  if (own_ != nullptr) own_(for_one, &by_task[self_.ToString()]);
  {
    // The calls have a deadline. Without a limit here, one that ends late would keep the page waiting.
    const absl::Time deadline = absl::Now() + timeout + absl::Milliseconds(100);
    MutexLock lock(&round->mutex);
    while (round->left > 0 && !round->changed.WaitWithDeadline(&round->mutex, deadline)) {
    }
    const int64_t now = NowNanos();
    for (Round::Question& question : round->questions) {
      const std::string name = question.task.ToString();
      TaskStatus& status = by_task[name];
      const bool answered = question.answered_nanos > 0 && question.status.ok() && question.answer->tasks_size() > 0;
      MutexLock own_lock(&mutex_);
      if (answered) {
        status = question.answer->tasks(0);
        const int64_t middle = question.sent_nanos + (question.answered_nanos - question.sent_nanos) / 2;
        status.set_clock_offset_us(status.now_us() - static_cast<double>(middle) * 1e-3);
        status.set_clock_error_us(static_cast<double>(question.answered_nanos - question.sent_nanos) * 0.5e-3);
      } else {
        status.set_task(name);
        status.set_name(ShortTaskName(name));
        status.set_state(absl::IsUnimplemented(question.status) ? "tensorflow" : "down");
        status.set_error(question.status.ToString());
      }
      Missed& missed = missed_[name];
      if (status.state() != "down") {
        missed = {};
      } else if (question.sent_nanos > missed.nanos) {  // rounds at the same time count once
        ++missed.count;
        missed.nanos = now;
      }
      status.set_missed_answers(missed.count);
      Answered& last = answered_[name];
      if (answered || absl::IsUnimplemented(question.status)) {
        last = {.nanos = question.answered_nanos, .pid = status.pid(), .host = status.host()};
      } else {
        status.set_pid(last.pid);
        status.set_host(last.host);
      }
      status.set_seconds_silent(last.nanos == 0 ? -1 : static_cast<double>(now - last.nanos) * 1e-9);
    }
  }
  for (const TaskId& task : cluster_.tasks()) {
    TaskStatus* const status = job.add_tasks();
    *status = std::move(by_task[task.ToString()]);
    status->set_address(cluster_.Address(task).value_or(""));
  }
  AddWhatOthersKnow(&job);
  job.set_seconds_left(SecondsLeft(job));
  for (Finding& finding : Diagnose(job)) *job.add_findings() = std::move(finding);
  return job;
}

absl::StatusOr<JobStatus> AskJob(const std::string& address, const GetMonitorRequest& request, absl::Duration timeout) {
  RETURN_IF_ERROR(HostPort::Parse(address).status());
  RpcClient client;
  const std::shared_ptr<RpcChannel> channel = client.Connect(address);
  const auto answer = std::make_shared<JobStatus>();
  Notification done;
  absl::Status result;
  CallGetStatus(*channel, {.timeout = timeout}, request, answer, [&](const absl::Status& status) {
    result = status;
    done.Notify();
  });
  done.WaitForNotification();  // the call has a deadline
  if (absl::IsUnimplemented(result)) {
    return Unimplemented("The server at ", address, " is not one of Thalweg's: it does not tell its status");
  }
  if (!result.ok()) return Prepend(result, absl::StrCat("The server at ", address, " does not answer: "));
  return std::move(*answer);
}

std::vector<std::string> FindLocalServers() {
  // Abstract sockets, "@thalweg-rpc-127.0.0.1:2222", as ListenLocally() names them.
  const std::string prefix = "@thalweg-rpc-";
  std::set<std::string> found;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const size_t at = line.find(prefix);
    if (at == std::string::npos) continue;
    std::string name = line.substr(at + prefix.size());
    name = name.substr(0, name.find('@'));  // the kernel shows trailing zeros like this
    int port = 0;
    if (absl::SimpleAtoi(name, &port)) name = absl::StrCat("localhost:", port);  // it listens on all addresses
    if (HostPort::Parse(name).ok()) found.insert(std::move(name));
  }
  return {found.begin(), found.end()};
}

}  // namespace thalweg
