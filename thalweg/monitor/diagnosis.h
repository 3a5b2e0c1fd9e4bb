// SPDX-License-Identifier: Apache-2.0
// Finds out what blocks or slows a job.
#pragma once

#include <vector>

#include "thalweg/proto/monitor.pb.h"

namespace thalweg {

struct DiagnosisOptions {
  // A step that takes longer is stuck. 0: three times as long as the task's steps usually take (p99), but at least 5 s;
  // half a minute where that is not known; for checkpoints, a minute or five times as long as the last one took.
  double stuck_after = 0;
  double slow_factor = 2;  // a worker is slow if its own part takes so many times the median
};

// Each finding names a culprit and says in a sentence what is known: what blocks the job
// first, then what slows it. Empty if nothing is wrong.
//
// Waits are followed to their end: if worker 0 waits for ps 0, whose part waits for worker
// 1, which does not answer, the finding is about worker 1.
std::vector<Finding> Diagnose(const JobStatus& job, const DiagnosisOptions& options = {});

}  // namespace thalweg
