// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/direct_session.h"

#include <optional>
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/runtime/planner.h"

namespace thalweg {
namespace {

PrepareOptions PrepareOptionsOf(const DirectSessionOptions& options, const LocalDevices& devices) {
  PrepareOptions prepare{.placer = {.allow_soft_placement = options.allow_soft_placement},
                         .log_device_placement = options.log_device_placement,
                         .folding_device = devices.devices()[0].get(),
                         .optimizer = options.optimizer};
  for (const auto& device : devices.devices()) prepare.placer.devices.push_back({device->parsed_name()});
  return prepare;
}

absl::Status CheckFeeds(const Executable& executable, const Signature& signature, absl::Span<const Tensor> feeds) {
  if (feeds.size() != signature.feeds.size()) {
    return InvalidArgument("expected ", signature.feeds.size(), " feeds, got ", feeds.size());
  }
  for (size_t i = 0; i < executable.plan.arg_nodes.size(); ++i) {
    const Node* arg = executable.plan.arg_nodes[i];
    if (arg == nullptr) continue;
    if (feeds[i].dtype() != arg->output_type(0)) {
      return InvalidArgument("Feed '", signature.feeds[i], "' is of type ", feeds[i].dtype(), ", expected ",
                             arg->output_type(0));
    }
    if (!arg->output_shape(0).Accepts(feeds[i].shape())) {
      return InvalidArgument("Feed '", signature.feeds[i], "' has shape ", feeds[i].shape(), ", expected ",
                             arg->output_shape(0));
    }
  }
  return absl::OkStatus();
}

}  // namespace

DirectSession::DirectSession(const DirectSessionOptions& options)
    : options_(options),
      devices_({.cpus = options.cpus, .threads = options.threads}),
      prepare_options_(PrepareOptionsOf(options_, devices_)),
      steps_(
          {.timer = &timer_, .default_timeout = options.operation_timeout, .log_wait_after = options.log_wait_after}) {}

DirectSession::~DirectSession() { Close().IgnoreError(); }

absl::Status DirectSession::Extend(const tensorflow::GraphDef& def) {
  RETURN_IF_ERROR(CheckOpen());
  return graph_.Import(def);
}

absl::StatusOr<std::unique_ptr<Executable>> DirectSession::CompileSignature(const Signature& signature,
                                                                            Cancellation& cancellation) {
  ASSIGN_OR_RETURN(Graph graph, graph_.Prepare(signature, prepare_options_, cancellation));
  return Compile(
      std::move(graph), [this](const std::string& name) { return devices_.Find(name); },
      [this](const Node& node, Device& device) { return kernels_.Make(node, device); });
}

absl::StatusOr<DirectSession::Callable> DirectSession::Prepare(const Signature& signature) {
  StepScope scope(steps_);
  RETURN_IF_ERROR(scope.Begin(absl::InfiniteDuration(), nullptr));
  return Prepare(signature, scope.cancellation());
}

absl::StatusOr<DirectSession::Callable> DirectSession::Prepare(const Signature& signature, Cancellation& cancellation) {
  using Compiled = Callable::Compiled;
  ASSIGN_OR_RETURN(
      std::shared_ptr<const Compiled> compiled,
      callables_.FindOrMake(signature.Key(), cancellation, [&]() -> absl::StatusOr<std::shared_ptr<const Compiled>> {
        ASSIGN_OR_RETURN(std::unique_ptr<Executable> executable, CompileSignature(signature, cancellation));
        return std::make_shared<const Compiled>(Compiled{signature, std::move(executable)});
      }));
  return Callable(std::move(compiled));
}

absl::Status DirectSession::Run(const Callable& callable, const StepOptions& options, absl::Span<const Tensor> feeds,
                                std::vector<Tensor>* results, tensorflow::RunMetadata* metadata) {
  if (callable.compiled_ == nullptr) return InvalidArgument("a callable that was not prepared");
  StepScope scope(steps_);
  RETURN_IF_ERROR(scope.Begin(options.timeout, options.cancellation));
  return Execute(callable, options, scope, feeds, results, metadata);
}

absl::Status DirectSession::Run(const Signature& signature, const StepOptions& options, absl::Span<const Tensor> feeds,
                                std::vector<Tensor>* results, tensorflow::RunMetadata* metadata) {
  StepScope scope(steps_);
  RETURN_IF_ERROR(scope.Begin(options.timeout, options.cancellation));
  ASSIGN_OR_RETURN(const Callable callable, Prepare(signature, scope.cancellation()));
  return Execute(callable, options, scope, feeds, results, metadata);
}

absl::Status DirectSession::Execute(const Callable& callable, const StepOptions& options, StepScope& scope,
                                    absl::Span<const Tensor> feeds, std::vector<Tensor>* results,
                                    tensorflow::RunMetadata* metadata) {
  Executable& executable = *callable.compiled_->executable;
  RETURN_IF_ERROR(CheckFeeds(executable, callable.compiled_->signature, feeds));

  LocalRendezvous rendezvous;
  ResourceManager step_resources;
  Step step{.id = next_step_.fetch_add(1, std::memory_order_relaxed),
            .rendezvous = &rendezvous,
            .cancellation = &scope.cancellation(),
            .pool = &devices_.pool(),
            .resources = &step_resources,
            .session_resources = &resources_};
  std::optional<StepStatsCollector> stats;
  if (options.trace) stats.emplace();
  Execution execution(executable, step, stats.has_value() ? &*stats : nullptr);
  absl::Status status =
      executable.plan.has_waits ? RunWaiting(execution, rendezvous, scope, feeds) : execution.Run(feeds);
  if (status.ok()) status = execution.TakeResults(results);
  if (metadata != nullptr) {
    if (stats.has_value()) {
      stats->AddResident(executable.graph);
      stats->Fill(metadata->mutable_step_stats());
    }
    if (options.partition_graphs) *metadata->add_partition_graphs() = executable.graph.Export();
  }
  return status;
}

absl::Status DirectSession::RunWaiting(Execution& execution, LocalRendezvous& rendezvous, StepScope& scope,
                                       absl::Span<const Tensor> feeds) {
  // A receive must end with the step, even if nothing is ever sent.
  const auto abort = scope.cancellation().Register([&](const absl::Status& why) { rendezvous.Abort(why); });
  if (!abort.has_value()) return scope.cancellation().status();
  scope.set_describe_waits([&execution] { return execution.DescribeWaits(); });
  const absl::Status status = execution.Run(feeds, options_.log_wait_after);
  scope.set_describe_waits(nullptr);
  scope.cancellation().Deregister(*abort);
  return status;
}

absl::Status DirectSession::Close() {
  steps_.Close();
  callables_.Clear();
  kernels_.Clear();
  return absl::OkStatus();
}

}  // namespace thalweg
