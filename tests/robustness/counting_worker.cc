// SPDX-License-Identifier: Apache-2.0
#include "counting_worker.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/train/checkpoints/checkpoint_state.h"
#include "thalweg/train/layers/variable.h"
#include "thalweg/train/optimizers/optimizers.h"
#include "thalweg/train/replicas/all_reduce.h"
#include "thalweg/train/replicas/bounded_staleness.h"
#include "thalweg/train/replicas/replica_device_setter.h"
#include "thalweg/train/replicas/sync_replicas.h"
#include "thalweg/train/session/hooks.h"
#include "thalweg/train/session/monitored_session.h"

namespace thalweg {
namespace {

constexpr int kSlack = 3;

// The gradient of step k of worker w is -1 at element (w, k) of each table, or that times the number of gradients
// in a mean. The learning rate is 1.
struct Model {
  Model(const Scope& s, const CountingWorkerOptions& options, int gradients_per_mean) {
    const int64_t elements = int64_t{options.workers} * kStepsPerWorker + options.padding;
    element = Placeholder(s, kInt32, Shape());
    const Output direction = OneHot(s, element, static_cast<int>(elements), -1.0f * gradients_per_mean, 0.0f);
    for (int t = 0; t < 2; ++t) {
      const Output start = Fill(s, {elements}, 0.0f);
      tables[t] = MakeVariable(s, absl::StrCat("table_", t), start);
      const Output term = ReduceSum(s, Mul(s, tables[t], direction));
      loss = t == 0 ? term : Add(s, loss, term);
    }
    global_step = GetOrCreateGlobalStep(s);
  }
  Output element, loss;
  Var tables[2], global_step;
};

int GradientsPerMean(const CountingWorkerOptions& options) {
  switch (options.replication) {
    case Replication::kSynchronous:
    case Replication::kAllReduce:
      return options.workers;
    case Replication::kBackupWorkers:
      return options.workers - 1;
    default:
      return 1;
  }
}

std::unique_ptr<Optimizer> MakeOptimizer(const CountingWorkerOptions& options) {
  auto optimizer = GradientDescent({.learning_rate = 1.0});
  switch (options.replication) {
    case Replication::kSynchronous:
    case Replication::kBackupWorkers:
      return SyncReplicas(std::move(optimizer),
                          {.replicas_to_aggregate = GradientsPerMean(options), .total_num_replicas = options.workers});
    case Replication::kBoundedStaleness:
      return BoundedStaleness(std::move(optimizer), {.slack = kSlack});
    case Replication::kAllReduce:
      return AllReduce(std::move(optimizer), {.workers = options.workers});
    default:
      return optimizer;
  }
}

Scope ScopeOf(Graph& graph, const CountingWorkerOptions& options) {
  const TaskId task{"worker", options.worker};
  if (options.replication == Replication::kAllReduce) return graph.root().WithDevice(task.ToString());
  return graph.root().WithDevice(ReplicaDeviceSetter({.cluster = options.cluster, .worker = task}));
}

// Notes when the session of the chief is ready, and ends the training. The last hook: the hooks of synchronous training
// drop the gradients for the values before a restore.
class CountingHook : public Hook {
 public:
  CountingHook(const CountingWorkerOptions& options, HistoryRecorder& recorder)
      : options_(options), recorder_(recorder) {}
  absl::Status AfterCreateSession(Session&) override {
    if (options_.worker == 0) recorder_.EndRestore();
    return absl::OkStatus();
  }
  absl::Status AfterRun(StepContext& context, absl::Span<const Tensor>) override {
    options_.after_step(context.global_step());
    if (options_.last_global_step && context.global_step() >= options_.last_global_step()) context.RequestStop();
    return absl::OkStatus();
  }

 private:
  const CountingWorkerOptions& options_;
  HistoryRecorder& recorder_;
};

absl::StatusOr<TrainingState> Fetched(const CountingWorkerOptions& options, const std::vector<Tensor>& values) {
  std::vector<std::vector<float>> tables;
  for (int t = 0; t < 2; ++t) {
    const auto flat = values[t].flat<float>();
    tables.emplace_back(flat.begin(), flat.end());
  }
  return MakeState(tables, values[2].scalar<int64_t>());
}

}  // namespace

absl::Status RunCountingWorker(const CountingWorkerOptions& options, HistoryRecorder& recorder) {
  Graph graph;
  const Scope s = ScopeOf(graph, options);
  const Model model(s, options, GradientsPerMean(options));
  const auto optimizer = MakeOptimizer(options);
  const Output train_op = optimizer->Minimize(s, model.loss, {.global_step = model.global_step});
  const bool is_chief = options.worker == 0;
  Scaffold scaffold;
  if (is_chief) {
    if (!ReadCheckpointState(options.folder).ok()) recorder.BeginRestore("");
    scaffold.saver = std::make_shared<Saver>(s, SaverOptions{.max_to_keep = 0, .write_meta_graph = false});
  }
  ASSIGN_OR_RETURN(auto session, MonitoredTrainingSession::Start(
                                     graph, {.master = options.target,
                                             .is_chief = is_chief,
                                             .own_variables = options.replication == Replication::kAllReduce,
                                             .checkpoint_dir = options.folder,
                                             .hooks = optimizer->Hooks(is_chief) +
                                                      HookList{std::make_shared<CountingHook>(options, recorder)},
                                             .scaffold = scaffold,
                                             .save_checkpoint_steps = options.save_every,
                                             .save_summaries_steps = 0,
                                             .log_step_count_steps = 0,
                                             .max_wait = options.max_wait,
                                             .stop_grace = absl::Seconds(20)}));
  while (!session.ShouldStop() && !options.stop()) {
    if (options.abandon && options.abandon()) return Cancelled("the program ends without closing its session");
    const int step = options.next_step();
    if (step >= kStepsPerWorker) return OutOfRange("the table has no room for step ", step);
    recorder.Begin(options.worker, step);
    const auto out = session.Run({train_op, model.loss},
                                 {{model.element, Tensor::Scalar<int32_t>(options.worker * kStepsPerWorker + step)}});
    // The end of synchronous training without its chief.
    if (absl::IsOutOfRange(out.status())) break;
    RETURN_IF_ERROR(out.status());
    if (options.abandon && options.abandon()) return Cancelled("the program ends without closing its session");
    recorder.Acknowledge(options.worker, step);
    absl::SleepFor(options.think_time);
  }
  if (options.end != nullptr) {
    ASSIGN_OR_RETURN(const auto values,
                     session.session().Run({model.tables[0].read, model.tables[1].read, model.global_step.read}));
    ASSIGN_OR_RETURN(*options.end, Fetched(options, values));
  }
  return session.Close();
}

absl::StatusOr<TrainingState> ReadState(const CountingWorkerOptions& options, bool close) {
  Graph graph;
  const Scope s = ScopeOf(graph, options);
  const Model model(s, options, 1);
  ASSIGN_OR_RETURN(auto session, Session::Create(graph, {.target = options.target, .open_timeout = absl::Seconds(20)}));
  ASSIGN_OR_RETURN(const auto values,
                   session->Run({model.tables[0].read, model.tables[1].read, model.global_step.read}));
  if (close) RETURN_IF_ERROR(session->Close());
  return Fetched(options, values);
}

}  // namespace thalweg
