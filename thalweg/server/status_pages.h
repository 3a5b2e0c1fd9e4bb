// SPDX-License-Identifier: Apache-2.0
// The pages of a task's HTTP port.
#pragma once

#include "thalweg/server/http_port.h"
#include "thalweg/server/job_monitor.h"
#include "thalweg/server/task_reporter.h"

namespace thalweg {

// Answers
//
//   /             a page for people, which updates itself
//   /status.json  the status of all tasks; ?task=1 only of this one
//   /metrics      the metrics of this task, for Prometheus
//   /healthz      200: the process lives
//   /readyz       200: all tasks answer, and there are variables, which are all initialized; else 503 and why not
//   /trace        the last steps of all tasks as a Chrome trace; ?steps=N
//   /flight.json  all that the flight recorders of all tasks have; ?task=1 only of this one
//   /stacks       the steps and threads of this task, and what they wait for
HttpResponse ServeStatusPage(const HttpRequest& request, JobMonitor& job, const TaskReporter& task);

// Whether answering asks other tasks, which takes up to a second, or makes a long answer.
bool TakesLong(const HttpRequest& request);

}  // namespace thalweg
