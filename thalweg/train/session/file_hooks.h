// SPDX-License-Identifier: Apache-2.0
// The hooks that write files: checkpoints, summaries, traces. A
// MonitoredTrainingSession makes the first three by itself, for the chief.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "thalweg/observe/summary_writer.h"
#include "thalweg/train/checkpoints/saver.h"
#include "thalweg/train/session/hooks.h"

namespace thalweg {

struct CheckpointSaverOptions {
  std::string checkpoint_dir;
  std::string basename = "model.ckpt";
  Every every = {.every_n_secs = 600};
  std::shared_ptr<SummaryWriter> writer;  // where saves are noted; may be none
};
// Saves when a session starts, from time to time, and at the end, so that there
// always is something to go back to. A save that fails in between is logged, the
// latest checkpoint stays, and the next try comes when it is time again; one that
// fails at the start or the end is an error. `saver` is asked for once it is
// needed.
std::shared_ptr<Hook> CheckpointSaver(std::function<std::shared_ptr<Saver>()> saver, CheckpointSaverOptions options);

// Writes what `summary_op` gives. It is asked for once the graph is complete; an
// empty one is no summaries.
std::shared_ptr<Hook> SummarySaver(std::function<Output()> summary_op, std::shared_ptr<SummaryWriter> writer,
                                   Every every = {.every_n_steps = 100});

// Logs how many global steps a second all workers do together, and writes it,
// under "global_step/sec", if there is a writer.
std::shared_ptr<Hook> StepCounter(Every every = {.every_n_steps = 100}, std::shared_ptr<SummaryWriter> writer = {});

// Traces a step now and then into `folder`/timeline-<step>.json, for Chrome's
// about:tracing and ui.perfetto.dev.
std::shared_ptr<Hook> Profiler(std::string folder, Every every = {.every_n_steps = 1000});

}  // namespace thalweg
