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

// Where and how often checkpoints are saved.
struct CheckpointSaverOptions {
  std::string checkpoint_dir;             // folder of the checkpoints; created if missing
  std::string basename = "model.ckpt";    // checkpoints are <basename>-<step>
  Every every = {.every_n_secs = 600};    // time or steps between two checkpoints
  std::shared_ptr<SummaryWriter> writer;  // records each save as an event; may be null
  // A checkpoint becomes the latest only when another step has run. For workers that make each step together: one of
  // them may not have learned that the step in the checkpoint has ended, and would repeat it after a restore.
  bool after_another_step = false;
};
// Saves a checkpoint when a session starts, regularly while it runs, and at the
// end. A failed save at the start or the end is an error. A failed save in between
// is logged and tried again at the next regular time; the latest checkpoint stays.
// `saver` is called when the first checkpoint is due.
std::shared_ptr<Hook> CheckpointSaver(std::function<std::shared_ptr<Saver>()> saver,
                                      const CheckpointSaverOptions& options);

// Fetches the summary that `summary_op` returns and writes it as an event.
// `summary_op` is called once the graph is complete; an empty Output means that
// the graph has no summaries.
std::shared_ptr<Hook> SummarySaver(std::function<Output()> summary_op, std::shared_ptr<SummaryWriter> writer,
                                   Every every = {.every_n_steps = 100});

// Logs the global steps per second of all workers together. With a writer it also
// records them as "global_step/sec".
std::shared_ptr<Hook> StepCounter(Every every = {.every_n_steps = 100}, std::shared_ptr<SummaryWriter> writer = {});

// Traces one step at each interval into `folder`/timeline-<step>.json, for Chrome's
// about:tracing and ui.perfetto.dev. Beside the nodes of each device it shows what the flight
// recorder of each task has of the step: its part, and where that spent its time.
std::shared_ptr<Hook> Profiler(std::string folder, Every every = {.every_n_steps = 1000});

}  // namespace thalweg
