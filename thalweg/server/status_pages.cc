// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/status_pages.h"

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "thalweg/monitor/prometheus_text.h"
#include "thalweg/monitor/status_json.h"
#include "thalweg/monitor/step_trace.h"

namespace thalweg {
namespace {

constexpr char kPage[] =
#include "thalweg/server/page.inc"
    ;

constexpr char kJson[] = "application/json";

HttpResponse Json(const google::protobuf::Message& message) { return {.type = kJson, .body = StatusJson(message)}; }

// Ready: the cluster was reached and its variables have values.
HttpResponse Ready(const JobStatus& job) {
  std::string problems;
  int variables = 0;
  for (const TaskStatus& task : job.tasks()) {
    if (task.state() == "down") absl::StrAppend(&problems, task.name(), " does not answer\n");
    variables += task.variables();
    if (task.uninitialized_variables() > 0) {
      absl::StrAppend(&problems, task.name(), " has ", task.uninitialized_variables(), " uninitialized variables\n");
    }
  }
  if (problems.empty() && variables == 0) problems = "No task has variables yet\n";
  if (problems.empty()) return {.body = "ready\n"};
  return {.code = 503, .body = problems};
}

int Count(const HttpRequest& request, const std::string& name, int otherwise, int most) {
  const auto it = request.query.find(name);
  int count = 0;
  if (it == request.query.end() || !absl::SimpleAtoi(it->second, &count)) return otherwise;
  return std::clamp(count, 0, most);
}

}  // namespace

bool TakesLong(const HttpRequest& request) {
  if (request.path == "/status.json") return !request.query.contains("task");
  return request.path == "/readyz" || request.path == "/trace" || request.path == "/flight.json";
}

HttpResponse ServeStatusPage(const HttpRequest& request, JobMonitor& job, const TaskReporter& task) {
  GetMonitorRequest ask;
  ask.set_whole_job(true);
  if (request.path == "/") return {.type = "text/html; charset=utf-8", .body = kPage};
  if (request.path == "/healthz") return {.body = "ok\n"};
  if (request.path == "/status.json") {
    ask.set_details(true);
    if (request.query.contains("task")) {
      TaskStatus status;
      task.Fill(ask, &status);
      return Json(status);
    }
    return Json(job.Ask(ask));
  }
  if (request.path == "/metrics") {
    TaskStatus status;
    task.Fill(ask, &status);
    return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = PrometheusText(status)};
  }
  if (request.path == "/readyz") return Ready(job.Ask(ask));
  if (request.path == "/trace") {
    // A step is up to a kilobyte of text.
    constexpr int kDefault = 100, kAllSteps = 100'000;
    const int most = std::min(static_cast<int>(TaskMonitor::kMaxSteps), kAllSteps / static_cast<int>(job.num_tasks()));
    ask.set_trace_steps(Count(request, "steps", kDefault, std::max(kDefault, most)));
    return {.type = kJson, .body = ChromeTraceOfSteps(job.Ask(ask))};
  }
  if (request.path == "/flight.json") {
    return Json(task.Records(/*whole_job=*/!request.query.contains("task"), static_cast<int>(TaskMonitor::kMaxSteps)));
  }
  if (request.path == "/stacks") return {.body = task.DescribeThreads()};
  return {
      .code = 404,
      .body = "No such page. There are /, /status.json, /metrics, /healthz, /readyz, /trace, /flight.json, /stacks\n"};
}

}  // namespace thalweg
