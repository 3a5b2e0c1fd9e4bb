// SPDX-License-Identifier: Apache-2.0
// The status of a job as text for a terminal.
#pragma once

#include <string>
#include <vector>

#include "thalweg/proto/monitor.pb.h"

namespace thalweg {

// "ps 0 computes, 12 % of the time; waits for worker 1": where the time of the last seconds
// went, the largest share first.
std::string DescribeTime(const TaskStatus& task);

// The state of a task: "up", "not answering for 12 s", "not running", ...
std::string DescribeState(const TaskStatus& task);

// "12 s", "3.4 s".
std::string ShortSeconds(double seconds);

// "waits for a gradient of worker 2 for step 17, since 12 s".
std::string DescribeGradientWait(const GradientWait& wait);

// How a worker takes part in synchronous or bounded-staleness training; nullptr if no task counts it.
const MemberStatus* FindMember(const JobStatus& job, const std::string& worker);

// A line for the job, a table with a row per task, and the findings.
std::vector<std::string> StatusLines(const JobStatus& job);

// Who exchanges how much with whom, how evenly the variables are spread, the gradients by worker and their staleness.
std::vector<std::string> TrafficLines(const JobStatus& job);

// The events of all tasks, the latest first.
std::vector<std::string> EventLines(const JobStatus& job);

// The beginning of a line that fits into a terminal of so many columns. Characters of UTF-8 stay whole.
std::string CutToColumns(const std::string& line, size_t columns);
// The line as lines of at most so many characters, broken at spaces. All but the first are indented.
std::vector<std::string> WrapToColumns(const std::string& line, size_t columns);

// The findings as lines, or one that says that nothing is wrong.
std::vector<std::string> FindingLines(const JobStatus& job);
bool IsStuck(const JobStatus& job);

}  // namespace thalweg
