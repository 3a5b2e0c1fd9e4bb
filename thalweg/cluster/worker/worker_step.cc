// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/worker_step.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/log_format.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/worker/wait_reason.h"

namespace thalweg {

namespace {

constexpr absl::Duration kNoticeTimeout = absl::Seconds(5);

}  // namespace

WorkerStep::WorkerStep(const StepEnvironment& environment, const CallOptions& options, RunGraphCall call,
                       std::shared_ptr<WorkerSession> session, std::shared_ptr<RegisteredGraph> graph,
                       RunGraphResult* result, Worker::Done done)
    : environment_(environment),
      outside_(options.cancellation),
      call_(std::move(call)),
      session_(std::move(session)),
      graph_(std::move(graph)),
      rendezvous_(graph_->has_transfers ? environment.rendezvous->Begin(call_.step_id, session_) : nullptr),
      result_(result),
      done_(std::move(done)),
      start_nanos_(NowNanos()) {
  if (rendezvous_ != nullptr) {
    // A partition without waits returns the tensors for its master in the response.
    const bool hold = !graph_->executable->plan.has_waits && graph_->rules->master_task != session_->task();
    rendezvous_->SetCluster(session_->task(), session_->workers(), graph_->rules,
                            hold ? graph_->rules->master_task : "");
  }
  step_ = {{.id = call_.step_id,
            .rendezvous = rendezvous_.get(),
            .cancellation = &cancellation_,
            .pool = environment_.pool,
            .resources = &resources_,
            .session_resources = &session_->resources()},
           {.client = call_.client, .sequence = call_.sequence}};
  if (graph_->collectives != nullptr) {
    const int64_t step_id = call_.collective_step_id != 0 ? call_.collective_step_id : call_.step_id;
    collectives_ = environment_.collectives->ForStep(graph_->collectives, step_id);
    CHECK(resources_.Create<Collectives>("", Collectives::kName, collectives_).ok());
  }
  if (call_.pause != 0 && graph_->saves > 0) {
    save_notice_.emplace(graph_->saves, [this](int left) { ValuesHeld(left); });
    step_.save = &*save_notice_;
  }
  if (call_.trace || call_.record_costs) stats_.emplace();
}

void WorkerStep::Start() {
  self_ = shared_from_this();
  const std::shared_ptr<WorkerStep> self = self_;  // it may end before this returns
  const LogStepScope names_step(call_.step_id, call_.session_handle);
  std::vector<Tensor> args;
  if (absl::Status status = Prepare(&args); !status.ok()) return End(std::move(status));
  const StepRendezvous::Batch batch(rendezvous_);
  execution_->Start(args, [this](const absl::Status& status) { End(status); });
}

absl::Status WorkerStep::Prepare(std::vector<Tensor>* args) {
  if (rendezvous_ != nullptr) RETURN_IF_ERROR(rendezvous_->status());  // the step is over, or runs already
  RETURN_IF_ERROR(Bind(args));
  // Waits for other tasks end when the step is cancelled. Nothing cancels it yet.
  if (rendezvous_ != nullptr) {
    CHECK(cancellation_.Register([rendezvous = rendezvous_](const absl::Status& why) { rendezvous->Abort(why); })
              .has_value());
  }
  execution_.emplace(*graph_->executable, step_, stats_.has_value() ? &*stats_ : nullptr);
  RETURN_IF_ERROR(environment_.running->Add(this));
  listed_ = true;
  if (environment_.monitor != nullptr) environment_.monitor->Add(this);
  WatchMaster();
  if (outside_ == nullptr) return absl::OkStatus();
  outside_id_ = outside_->Register([self = self_](const absl::Status& why) { self->Cancel(why); });
  return outside_id_.has_value() ? absl::OkStatus() : outside_->status();
}

// Puts the master's tensors into the order of the arguments.
absl::Status WorkerStep::Bind(std::vector<Tensor>* args) {
  const Plan& plan = graph_->executable->plan;
  args->resize(graph_->arg_by_key.size());
  for (auto& [key, tensor] : call_.send) {
    const auto it = graph_->arg_by_key.find(key);
    if (it == graph_->arg_by_key.end()) return InvalidArgument("No node of the graph receives ", key);
    const Node* arg = it->second < plan.arg_nodes.size() ? plan.arg_nodes[it->second] : nullptr;
    if (arg != nullptr && arg->output_type(0) != tensor.dtype()) {
      return Internal("Output 0 of type ", tensor.dtype(), " does not match declared output type ", arg->output_type(0),
                      " for node {{node ", arg->name(), "}}");
    }
    (*args)[it->second] = std::move(tensor);
  }
  for (const auto& [key, index] : graph_->arg_by_key) {
    if (!(*args)[index].has_value()) return InvalidArgument("The step was given no value for ", key);
  }
  for (const std::string& key : call_.recv_keys) {
    if (!graph_->result_by_key.contains(key)) return InvalidArgument("No node of the graph sends ", key);
  }
  return absl::OkStatus();
}

// If the master and this task cannot reach each other, the master gives up the step. A step
// that waits must be given up on this side, too, so that it does not continue when a message
// from another task arrives later.
void WorkerStep::WatchMaster() {
  if (environment_.health == nullptr || !graph_->executable->plan.has_waits || !has_remote_master()) return;
  const std::string& master = graph_->rules->master_task;
  Worker* const worker = session_->workers()->Find(master);
  if (worker == nullptr) return;
  const std::vector<Peer> peers = {{master, worker, session_->workers()}};
  master_watch_ = environment_.health->Watch(std::make_shared<const std::vector<Peer>>(peers),
                                             std::shared_ptr<Cancellation>(self_, &cancellation_));
}

// A node has the values that it saves; `left` others do not have theirs yet. If the notice for the master is lost,
// steps that update wait until the checkpoint is written.
void WorkerStep::ValuesHeld(int left) {
  // Other tasks may wait for tensors from this one before they can hold theirs, and this thread will be writing.
  if (rendezvous_ != nullptr) rendezvous_->Flush();  // nullptr: the step has one task
  if (left > 0 || session_->workers() == nullptr) return;
  Worker* const master = session_->workers()->Find(graph_->rules->master_task);
  if (master == nullptr) return;
  auto request = std::make_shared<tensorflow::PauseUpdatesRequest>();
  request->set_id(call_.pause);
  request->set_held_by(session_->task());
  master->PauseUpdates({.timeout = kNoticeTimeout}, *request,
                       [request, workers = session_->workers()](const absl::Status&) {});
}

bool WorkerStep::has_remote_master() const {
  const std::string& master = graph_->rules->master_task;
  return !master.empty() && master != session_->task();
}

std::string WorkerStep::Describe() const {
  const std::string nodes = execution_->DescribeWaits();
  const std::string step = absl::StrCat("step ", call_.step_id, " of session ", call_.session_handle);
  if (!nodes.empty()) return absl::StrCat(step, " waits for ", nodes);
  return absl::StrCat(step, sends_ ? " waits for other tasks to take what it has sent" : " computes");
}

// The part has run; what it sent must have arrived before the master hears of it.
void WorkerStep::End(absl::Status status) {
  run_nanos_ = NowNanos();
  if (rendezvous_ == nullptr || !status.ok()) return Finish(std::move(status));
  result_->pushed = rendezvous_->TakeHeld();
  sends_ = true;
  rendezvous_->FinishPushes([this](const absl::Status& pushed) { Finish(pushed); });
}

void WorkerStep::Finish(absl::Status status) {
  const std::shared_ptr<WorkerStep> self = std::move(self_);
  PassFailPoint("worker.answer", session_->task());
  if (listed_) {
    if (environment_.monitor != nullptr) environment_.monitor->Remove(this);
    environment_.running->Remove(this);
  }
  if (outside_id_.has_value()) outside_->TryDeregister(*outside_id_);
  if (master_watch_.has_value()) environment_.health->Unwatch(*master_watch_);
  // A call that was cancelled with the step does not know why.
  if (absl::IsCancelled(status) && cancellation_.cancelled()) status = cancellation_.status();
  if (status.ok()) status = TakeResults();
  if (stats_.has_value()) {
    stats_->AddResident(graph_->executable->graph);
    stats_->Fill(&result_->step_stats);
  }
  if (call_.partition_graphs) result_->partition_graphs.push_back(graph_->executable->graph.Export());
  if (collectives_ != nullptr && !status.ok()) collectives_->Failed(status);
  if (rendezvous_ != nullptr) {
    // Peers that wait for something of this part learn that it will not come.
    if (!status.ok()) rendezvous_->Abort(status);
    if (status.ok() && graph_->rules->all_pushed) environment_.rendezvous->Forget(call_.step_id, *rendezvous_);
    environment_.rendezvous->End(call_.step_id, *rendezvous_);
  }
  if (environment_.monitor != nullptr) Record(status);
  execution_.reset();
  Worker::Done done = std::move(done_);
  done(status);
}

void WorkerStep::Describe(RunningStep* description) const {
  description->set_step_id(static_cast<uint64_t>(call_.step_id));
  description->set_master(ShortTaskName(graph_->rules->master_task));
  description->set_seconds(static_cast<double>(NowNanos() - start_nanos_) * 1e-9);
  for (const WaitingNode& waiting : execution_->WaitingNodes()) {
    const WaitReason reason = WaitReasonOf(*waiting.node);
    StepWait* const wait = description->add_waits();
    wait->set_kind(reason.kind);
    wait->set_on(ShortTaskName(reason.on));
    wait->set_node(waiting.node->name());
    wait->set_seconds(absl::ToDoubleSeconds(waiting.waited));
  }
  if (description->waits_size() == 0 && sends_) description->add_waits()->set_kind("receiver");
}

void WorkerStep::Record(const absl::Status& status) {
  const int64_t now = NowNanos();
  StepRecord record{.step_id = call_.step_id,
                    .trains = graph_->trains,
                    .start_nanos = start_nanos_,
                    .end_nanos = now,
                    .compute_nanos = run_nanos_ - start_nanos_,
                    .transfer_nanos = now - run_nanos_,
                    // A task's own programs are known by their steps.
                    .master = has_remote_master() ? absl::string_view(graph_->rules->master_task) : "",
                    .code = status.code()};
  static thread_local WaitSums waits;  // allocates no memory once it is warm
  waits.Clear();
  if (execution_.has_value()) {
    execution_->ListDelays([&](const WaitDelay& delay) {
      record.compute_nanos -= delay.nanos;
      const WaitReason& reason = graph_->wait_reasons[static_cast<size_t>(delay.async_index)];
      if (reason.phase == WaitReason::Phase::kInput) {
        record.input_nanos += delay.nanos;
        return;
      }
      waits.Add(reason.on, delay.nanos);
    });
  }
  record.compute_nanos = std::max<int64_t>(record.compute_nanos, 0);
  record.waits = waits.waits();
  environment_.monitor->AddStep(record);
  // TensorFlow's clients expect devices only.
  if (call_.trace && call_.client != 0) AddToTrace(record);
}

// Adds the recorded part beside the nodes, as traces of the recorder show it: only the length
// of the phases is known, so they follow each other.
void WorkerStep::AddToTrace(const StepRecord& record) {
  const int64_t wall_minus_monotonic = absl::GetCurrentTimeNanos() - NowNanos();
  tensorflow::DeviceStepStats* const row = result_->step_stats.add_dev_stats();
  row->set_device(absl::StrCat(session_->task(), " (recorded)"));
  const auto add = [&](const std::string& name, int64_t start, int64_t nanos) {
    tensorflow::NodeExecStats* const bar = row->add_node_stats();
    bar->set_node_name(name);
    bar->set_all_start_nanos(start + wall_minus_monotonic);
    bar->set_all_start_micros(bar->all_start_nanos() / 1000);
    bar->set_all_end_rel_nanos(nanos);
    bar->set_all_end_rel_micros(nanos / 1000);
  };
  add(absl::StrCat("step ", absl::Hex(record.step_id)), record.start_nanos, record.end_nanos - record.start_nanos);
  int64_t at = record.start_nanos;
  const auto phase = [&](const std::string& name, int64_t nanos) {
    if (nanos <= 0) return;
    add(name, at, nanos);
    at += nanos;
  };
  for (const StepRecord::Wait& wait : record.waits) {
    phase(absl::StrCat("wait for ", ShortTaskName(wait.on)), wait.nanos);
  }
  phase("input", record.input_nanos);
  phase("compute", record.compute_nanos);
  phase("transfer", record.transfer_nanos);
}

absl::Status WorkerStep::TakeResults() {
  if (graph_->result_by_key.empty()) return absl::OkStatus();
  std::vector<Tensor> values;
  RETURN_IF_ERROR(execution_->TakeResults(&values));
  if (values.size() != graph_->result_by_key.size()) {
    return Internal("the step has ", values.size(), " results, expected ", graph_->result_by_key.size());
  }
  result_->recv.reserve(call_.recv_keys.size());
  for (std::string& key : call_.recv_keys) {
    Tensor& value = values[graph_->result_by_key.at(key)];
    result_->recv.emplace_back(std::move(key), value);
  }
  return absl::OkStatus();
}

}  // namespace thalweg
