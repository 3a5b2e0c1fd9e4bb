// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/update_ledger.h"

#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/file_role.h"
#include "thalweg/graph/sync_role.h"

namespace thalweg {
namespace {

bool AssignsWhole(const Node& node) { return node.op() == "Assign" || node.op() == "AssignVariableOp"; }

// An assignment may be repeated. Outside of numbered steps, assignments initialize variables
// or restore them from a checkpoint.
class AssignKernel final : public Kernel {
 public:
  AssignKernel(std::shared_ptr<Kernel> kernel, UpdateLedger* ledger) : kernel_(std::move(kernel)), ledger_(ledger) {}

  absl::Status Compute(KernelContext& c) override {
    if (static_cast<const TrackedStep&>(c.step()).identity.client == 0) ledger_->Forget();
    return kernel_->Compute(c);
  }

 private:
  const std::shared_ptr<Kernel> kernel_;
  UpdateLedger* const ledger_;
};

// The gradients of numbered steps are gone, so they must be sent again. Forgets them after they were dropped: a
// gradient that comes in between is dropped, too.
class DropKernel final : public Kernel {
 public:
  DropKernel(std::shared_ptr<Kernel> kernel, UpdateLedger* ledger) : kernel_(std::move(kernel)), ledger_(ledger) {}

  absl::Status Compute(KernelContext& c) override {
    RETURN_IF_ERROR(kernel_->Compute(c));
    ledger_->Forget();
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<Kernel> kernel_;
  UpdateLedger* const ledger_;
};

class OnceKernel final : public Kernel {
 public:
  OnceKernel(std::shared_ptr<Kernel> kernel, const Node& node, UpdateLedger* ledger)
      : kernel_(std::move(kernel)), ledger_(ledger), name_(absl::HashOf(node.name())) {}

  absl::Status Compute(KernelContext& c) override {
    const StepIdentity& step = static_cast<const TrackedStep&>(c.step()).identity;
    if (step.client == 0) return kernel_->Compute(c);
    const uint64_t update = absl::HashOf(name_, c.frame(), c.iteration());
    if (!ledger_->Claim(step, update)) {
      if (c.num_outputs() > 0) c.set_variable(0, &c.variable(0));
      return absl::OkStatus();
    }
    absl::Status status = FailPoint("worker.apply");
    if (status.ok()) status = kernel_->Compute(c);
    if (!status.ok()) ledger_->Unclaim(step, update);
    PassFailPoint("worker.applied");
    return status;
  }

 private:
  const std::shared_ptr<Kernel> kernel_;
  UpdateLedger* const ledger_;
  const uint64_t name_;
};

class SaveKernel final : public Kernel {
 public:
  explicit SaveKernel(std::shared_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}

  absl::Status Compute(KernelContext& c) override {
    if (SaveNotice* const save = static_cast<const TrackedStep&>(c.step()).save; save != nullptr) save->Held();
    return kernel_->Compute(c);
  }

 private:
  const std::shared_ptr<Kernel> kernel_;
};

}  // namespace

std::shared_ptr<Kernel> WithSaveNotice(std::shared_ptr<Kernel> kernel, const Node& node) {
  if (kernel->is_async() || FileRoleOf(node.op()) != FileRole::kSave) return kernel;
  return std::make_shared<SaveKernel>(std::move(kernel));
}

// Updates of ref variables output the ref, so that the nodes after them read the new value.
// Not of accumulators, whose handles are strings or resources: the gradients change no variable yet.
bool ChangesVariable(const Node& node) {
  if (node.num_inputs() == 0) return false;
  if (IsRef(node.input_type(0))) {
    if (node.op() == "RefIdentity" || IsControlFlow(node) || RemoveRef(node.input_type(0)) == kString) return false;
    return node.num_outputs() == 0 || (node.num_outputs() == 1 && IsRef(node.output_type(0)));
  }
  if (node.input_type(0) != kResource || node.num_outputs() > 0) return false;
  if (SyncRoleOf(node) != SyncRole::kNone) return false;
  const std::string& op = node.op();
  return absl::EndsWith(op, "VariableOp") || absl::StrContains(op, "Apply") || absl::StartsWith(op, "ResourceScatter");
}

bool CountsStep(const Node& node) {
  const SyncRole role = SyncRoleOf(node);
  return role == SyncRole::kSubmitGradient || role == SyncRole::kFinishStep;
}

bool IsTraining(const Graph& graph) {
  bool trains = false;
  for (const auto& node : graph.nodes()) {
    const SyncRole role = SyncRoleOf(*node);
    if (role == SyncRole::kTakeGradients || role == SyncRole::kTakeRound) return false;
    trains = trains || ChangesVariable(*node) || role == SyncRole::kSubmitGradient;
  }
  return trains;
}

bool UpdateLedger::Claim(const StepIdentity& step, uint64_t update) {
  MutexLock lock(&mutex_);
  const auto [it, is_new] = clients_.try_emplace(step.client);
  Client& client = it->second;
  if (is_new) {
    recent_.push_front(step.client);
    client.place = recent_.begin();
  } else if (client.place != recent_.begin()) {
    recent_.splice(recent_.begin(), recent_, client.place);
  }
  if (is_new || client.sequence < step.sequence) {
    client.sequence = step.sequence;
    client.applied.clear();
  }
  const bool claimed = client.sequence == step.sequence && client.applied.insert(update).second;
  if (recent_.size() > kMaxClients) {
    clients_.erase(recent_.back());
    recent_.pop_back();
  }
  return claimed;
}

void UpdateLedger::Unclaim(const StepIdentity& step, uint64_t update) {
  MutexLock lock(&mutex_);
  const auto it = clients_.find(step.client);
  if (it != clients_.end() && it->second.sequence == step.sequence) it->second.applied.erase(update);
}

void UpdateLedger::Forget() {
  MutexLock lock(&mutex_);
  for (auto& [id, client] : clients_) client.applied.clear();
}

std::shared_ptr<Kernel> OncePerStep(std::shared_ptr<Kernel> kernel, const Node& node, UpdateLedger* ledger) {
  if (kernel->is_async()) return kernel;
  if (SyncRoleOf(node) == SyncRole::kDropGradients) return std::make_shared<DropKernel>(std::move(kernel), ledger);
  if (!ChangesVariable(node) && !CountsStep(node)) return kernel;
  if (AssignsWhole(node)) return std::make_shared<AssignKernel>(std::move(kernel), ledger);
  return std::make_shared<OnceKernel>(std::move(kernel), node, ledger);
}

}  // namespace thalweg
