// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/cli/command.h"
#include "thalweg/cli/proto_file.h"
#include "thalweg/client/session.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/proto/eval.pb.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/tensor/tensor_proto.h"

ABSL_FLAG(std::string, graph, "", "file with a GraphDef (.pb, or text as .pbtxt)");
ABSL_FLAG(std::string, feeds, "", "file with thalweg.NamedTensors: values to feed");
ABSL_FLAG(std::vector<std::string>, fetch, {}, "a tensor to fetch; may be given several times");
ABSL_FLAG(std::vector<std::string>, target, {}, "a node to run without fetching it; may be given several times");
ABSL_FLAG(int, runs, 1, "number of times to run the step; the values of the last run are written");
ABSL_FLAG(
    std::string, steps, "",
    "for eval: file with thalweg.EvalSteps, instead of --feeds, --fetch, --target and --runs; for trace: number of "
    "the last steps of each worker, 20 if not given");
ABSL_FLAG(bool, keep_going, false, "with --steps: if a step fails, record its error and run the next one");
ABSL_FLAG(std::string, out, "",
          "file for the values: thalweg.NamedTensors or, with --steps, thalweg.EvalResults; empty: print them");
ABSL_FLAG(std::string, trace, "",
          "file for the tensorflow.RunMetadata of the last step: when and where every node ran");
ABSL_FLAG(int, threads, 0, "compute threads; 0: one per core");
ABSL_FLAG(bool, optimize, true, "fold constants and merge common subexpressions before the first run");

namespace thalweg::cli {
namespace {

using Step = EvalSteps::Step;

absl::Status CheckFlags() {
  if (absl::GetFlag(FLAGS_graph).empty()) return InvalidArgument("--graph is missing");
  const bool single = !absl::GetFlag(FLAGS_feeds).empty() || !absl::GetFlag(FLAGS_fetch).empty() ||
                      !absl::GetFlag(FLAGS_target).empty() || absl::GetFlag(FLAGS_runs) != 1;
  if (single && !absl::GetFlag(FLAGS_steps).empty()) {
    return InvalidArgument("--steps cannot be combined with --feeds, --fetch, --target or --runs");
  }
  if (!single && absl::GetFlag(FLAGS_steps).empty())
    return InvalidArgument("nothing to run: give --fetch, --target or --steps");
  if (absl::GetFlag(FLAGS_keep_going) && absl::GetFlag(FLAGS_steps).empty()) {
    return InvalidArgument("--keep_going needs --steps");
  }
  if (absl::GetFlag(FLAGS_runs) < 1)
    return InvalidArgument("--runs: expected at least 1, got ", absl::GetFlag(FLAGS_runs));
  return absl::OkStatus();
}

// The one step that --feeds, --fetch and --target describe.
absl::StatusOr<Step> StepOfFlags() {
  Step step;
  if (const std::string path = absl::GetFlag(FLAGS_feeds); !path.empty()) {
    NamedTensors feeds;
    RETURN_IF_ERROR(ReadProto(path, &feeds));
    *step.mutable_feed() = feeds.tensor();
  }
  for (const std::string& name : absl::GetFlag(FLAGS_fetch)) step.add_fetch(name);
  for (const std::string& name : absl::GetFlag(FLAGS_target)) step.add_target(name);
  return step;
}

// Runs steps in one session and keeps the metadata of the last run.
class Evaluator {
 public:
  static absl::StatusOr<std::unique_ptr<Evaluator>> Create() {
    auto evaluator = std::unique_ptr<Evaluator>(new Evaluator);
    tensorflow::GraphDef def;
    RETURN_IF_ERROR(ReadProto(absl::GetFlag(FLAGS_graph), &def));
    RETURN_IF_ERROR(evaluator->graph_.Import(def));
    const bool optimize = absl::GetFlag(FLAGS_optimize);
    ASSIGN_OR_RETURN(evaluator->session_,
                     Session::Create(evaluator->graph_, {.threads = absl::GetFlag(FLAGS_threads),
                                                         .optimizer = {.fold_constants = optimize,
                                                                       .merge_common_subexpressions = optimize}}));
    return evaluator;
  }

  absl::StatusOr<EvalResults::Step> Run(const Step& step, int runs = 1) {
    std::vector<Feed> feeds;
    for (const tensorflow::NamedTensorProto& feed : step.feed()) {
      absl::StatusOr<Tensor> value = TensorFromProto(feed.tensor());
      if (!value.ok()) return Prepend(value.status(), absl::StrCat("feed '", feed.name(), "': "));
      feeds.emplace_back(feed.name(), *std::move(value));
    }
    std::vector<Fetch> fetches(step.fetch().begin(), step.fetch().end());
    for (const std::string& target : step.target()) fetches.emplace_back(target).is_node = true;

    const RunOptions options{.trace = !absl::GetFlag(FLAGS_trace).empty()};
    std::vector<Tensor> values;
    const absl::Time start = absl::Now();
    for (int i = 0; i < runs; ++i) {
      metadata_.Clear();
      ASSIGN_OR_RETURN(values, session_->Run(fetches, feeds, options, &metadata_));
    }
    if (runs > 1) LOG(INFO) << runs << " runs, " << absl::FormatDuration((absl::Now() - start) / runs) << " each";

    EvalResults::Step result;
    for (int i = 0; i < step.fetch_size(); ++i) {
      tensorflow::NamedTensorProto* named = result.add_tensor();
      named->set_name(step.fetch(i));
      if (!values[i].has_value()) continue;  // a node without outputs
      RETURN_IF_ERROR(CheckEncodable(values[i]));
      TensorToProto(values[i], named->mutable_tensor());
    }
    return result;
  }

  const RunMetadata& metadata() const { return metadata_; }

 private:
  Evaluator() = default;

  Graph graph_;
  std::unique_ptr<Session> session_;
  RunMetadata metadata_;
};

absl::Status RunSteps(Evaluator& evaluator, const std::string& path, EvalResults* results) {
  EvalSteps steps;
  RETURN_IF_ERROR(ReadProto(path, &steps));
  for (int i = 0; i < steps.step_size(); ++i) {
    absl::StatusOr<EvalResults::Step> result = evaluator.Run(steps.step(i));
    if (result.ok()) {
      *results->add_step() = *std::move(result);
      continue;
    }
    if (!absl::GetFlag(FLAGS_keep_going)) return Prepend(result.status(), absl::StrCat("step ", i, ": "));
    EvalResults::Step* failed = results->add_step();
    failed->set_code(static_cast<int>(result.status().code()));
    failed->set_message(std::string(result.status().message()));
  }
  return absl::OkStatus();
}

// Writes `message` to --out. Without --out, prints the values of `results`.
absl::Status Report(const google::protobuf::Message& message, const EvalResults& results, std::ostream& out) {
  if (const std::string path = absl::GetFlag(FLAGS_out); !path.empty()) return WriteProto(path, message);
  for (const EvalResults::Step& step : results.step()) {
    for (const tensorflow::NamedTensorProto& named : step.tensor()) {
      ASSIGN_OR_RETURN(const Tensor value, TensorFromProto(named.tensor()));
      out << named.name() << ": " << value.ToString(/*max_elements=*/20) << "\n";
    }
    if (step.code() != 0) {
      out << absl::Status(static_cast<absl::StatusCode>(step.code()), step.message()) << "\n";
    }
  }
  return absl::OkStatus();
}

absl::Status RunEval(std::ostream& out) {
  RETURN_IF_ERROR(CheckFlags());
  ASSIGN_OR_RETURN(const std::unique_ptr<Evaluator> evaluator, Evaluator::Create());
  EvalResults results;
  if (const std::string path = absl::GetFlag(FLAGS_steps); !path.empty()) {
    RETURN_IF_ERROR(RunSteps(*evaluator, path, &results));
    RETURN_IF_ERROR(Report(results, results, out));
  } else {
    ASSIGN_OR_RETURN(const Step step, StepOfFlags());
    ASSIGN_OR_RETURN(*results.add_step(), evaluator->Run(step, absl::GetFlag(FLAGS_runs)));
    NamedTensors values;
    *values.mutable_tensor() = results.step(0).tensor();
    RETURN_IF_ERROR(Report(values, results, out));
  }
  if (const std::string path = absl::GetFlag(FLAGS_trace); !path.empty())
    return WriteProto(path, evaluator->metadata().proto());
  return absl::OkStatus();
}

}  // namespace

Command EvalCommand() {
  return {.name = "eval",
          .summary = "Runs a graph in this process and prints or writes the values of some of its tensors.",
          .usage =
              "--graph FILE (--fetch NAME... [--feeds FILE] [--target NAME...] [--runs N] | --steps FILE) [--out FILE]",
          .flags = {"graph", "feeds", "fetch", "target", "runs", "steps", "keep_going", "out", "trace", "threads",
                    "optimize"},
          .run = RunEval};
}

}  // namespace thalweg::cli
