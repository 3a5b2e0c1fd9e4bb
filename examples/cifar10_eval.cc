// SPDX-License-Identifier: Apache-2.0
// cifar10_eval.cc - evaluates the checkpoints of cifar10_train as they are
// written, using the moving averages of the weights. It exits after the checkpoint
// of the last step, or when no new checkpoint appears for --idle.
//
//   cifar10_eval --data_dir=cifar-10-batches-bin --checkpoint_dir=/tmp/cifar10
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/time/time.h"
#include "cifar10_model.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(std::string, data_dir, "cifar-10-batches-bin", "folder with test_batch.bin");
ABSL_FLAG(bool, generated, false, "test on a small data set generated for this run");
ABSL_FLAG(std::string, checkpoint_dir, "/tmp/cifar10", "folder to watch for checkpoints");
ABSL_FLAG(int64_t, steps, 10000, "global step at which the training stops");
ABSL_FLAG(absl::Duration, idle, absl::Minutes(10), "exit if no new checkpoint appears for this long");
ABSL_FLAG(double, require_accuracy, 0, "exit with code 1 if the last test accuracy is below this");

namespace {

absl::Status Follow(const std::string& data) {
  tw::Graph graph;
  const auto s = graph.root();
  const auto c = cifar10::BuildCnn(s);
  const auto global_step = tw::GetOrCreateGlobalStep(s);
  // The saver restores each weight from the moving average stored beside it.
  const tw::ExponentialMovingAverage averages(cifar10::kAverageDecay);
  tw::Saver saver(s, {.names = averages.VariablesToRestore(graph)});
  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph));

  const std::string folder = absl::GetFlag(FLAGS_checkpoint_dir);
  ASSIGN_OR_RETURN(auto writer, tw::SummaryWriter::Open(folder + "/eval"));
  std::string last;
  double accuracy = 0;
  for (int64_t step = -1; step < absl::GetFlag(FLAGS_steps);) {
    const auto next = tw::WaitForCheckpoint(folder, last, absl::GetFlag(FLAGS_idle));
    if (absl::IsDeadlineExceeded(next.status()) && step >= 0) {
      std::printf("no new checkpoint for %s\n", absl::FormatDuration(absl::GetFlag(FLAGS_idle)).c_str());
      break;
    }
    RETURN_IF_ERROR(next.status());
    last = *next;
    if (const auto restored = saver.Restore(*session, last); !restored.ok()) {
      if (absl::IsNotFound(tw::CheckpointExists(last))) continue;  // the training has deleted it: a newer one exists
      return restored;
    }
    ASSIGN_OR_RETURN(const auto out, session->Run({global_step}));
    step = out[0].scalar<int64_t>();
    ASSIGN_OR_RETURN(accuracy, cifar10::TestAccuracy(*session, c, data));
    std::printf("step %ld: test accuracy %.2f %%\n", step, 100 * accuracy);
    std::fflush(stdout);
    RETURN_IF_ERROR(writer->AddScalar("test_accuracy", static_cast<float>(accuracy), step));
    RETURN_IF_ERROR(writer->Flush());
  }
  if (accuracy < absl::GetFlag(FLAGS_require_accuracy)) {
    return tw::FailedPrecondition("test accuracy ", accuracy, " is below ", absl::GetFlag(FLAGS_require_accuracy));
  }
  return writer->Close();
}

absl::Status Run() {
  if (!absl::GetFlag(FLAGS_generated)) return Follow(absl::GetFlag(FLAGS_data_dir));
  ASSIGN_OR_RETURN(const auto folder, tw::data::TemporaryFolder::Create());
  RETURN_IF_ERROR(tw::data::GenerateCifar10(folder.path()));
  return Follow(folder.path());
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Evaluates the checkpoints of cifar10_train as they are written.");
  absl::ParseCommandLine(argc, argv);
  return tw::ExitCode(Run());
}
