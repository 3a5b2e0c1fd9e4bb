// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/kernel_call_testlib.h"

#include <utility>

#include "absl/time/time.h"
#include "thalweg/base/status.h"

namespace thalweg {

CallArg CallArg::List(const std::vector<CallArg>& args) {
  CallArg list{Tensor()};
  list.slots.clear();
  for (const CallArg& arg : args) list.slots.insert(list.slots.end(), arg.slots.begin(), arg.slots.end());
  list.is_list = true;
  return list;
}

CallArg CallArg::Dead(Tensor like) {
  CallArg arg(std::move(like));
  arg.slots[0].dead = true;
  return arg;
}

KernelCall::KernelCall(absl::string_view op, const std::vector<CallArg>& inputs, std::vector<AttrArg> attrs,
                       Device& device)
    : device_(device) {
  made_ = AddNode(op, inputs, std::move(attrs));
}

KernelCall::~KernelCall() {
  if (!started_ || ended()) return;
  // The kernel uses the members of this object until it has ended.
  cancellation_.Cancel(absl::CancelledError("The test is over"));
  rendezvous_.Abort(absl::CancelledError("The test is over"));
  CHECK(ended_.WaitForNotificationWithTimeout(absl::Minutes(1))) << "cancellation does not end " << node_->op();
}

absl::Status KernelCall::AddNode(absl::string_view op, const std::vector<CallArg>& inputs, std::vector<AttrArg> attrs) {
  const Scope s = graph_.root();
  std::vector<OpInput> args;
  for (const CallArg& input : inputs) {
    std::vector<Output> sources;
    for (const Slot& slot : input.slots) {
      const auto index = static_cast<int32_t>(inputs_.size());
      if (slot.variable != nullptr) {
        sources.push_back(s.WithOpName(slot.variable->name())
                              .Add("VariableV2", {}, {{"dtype", slot.variable->dtype()}, {"shape", PartialShape()}}));
      } else {
        sources.push_back(s.Add("_Arg", {}, {{"T", slot.tensor.dtype()}, {"index", index}}));
      }
      RETURN_IF_ERROR(s.status());
      inputs_.push_back(index);
      slots_.push_back(slot);
      if (slot.dead) slots_.back().tensor = Tensor();
    }
    args.push_back(input.is_list ? OpInput(std::move(sources)) : OpInput(sources[0]));
  }
  node_ = s.Add(op, std::move(args), std::move(attrs));
  RETURN_IF_ERROR(s.status());
  slots_.resize(inputs_.size() + static_cast<size_t>(node_->num_outputs()));
  ASSIGN_OR_RETURN(kernel_, KernelRegistry::Global().Make(*node_, device_));
  site_ = {.inputs = inputs_.data(),
           .num_inputs = node_->num_inputs(),
           .first_output = node_->num_inputs(),
           .num_outputs = node_->num_outputs(),
           .node = node_,
           .device = &device_};
  context_ = std::make_unique<KernelContext>(&step_, slots_.data(), &site_);
  return absl::OkStatus();
}

void KernelCall::SetIteration(uint64_t frame, int64_t iteration) {
  if (context_ != nullptr) context_->set_iteration(frame, iteration);
}

void KernelCall::Start() {
  started_ = true;
  if (!made_.ok()) return End(made_);
  if (!kernel_->is_async()) return End(kernel_->Compute(*context_));
  static_cast<AsyncKernel&>(*kernel_).ComputeAsync(*context_, [this](const absl::Status& status) { End(status); });
}

void KernelCall::End(const absl::Status& status) {
  result_ = status;
  ended_.Notify();
}

absl::Status KernelCall::Wait() {
  if (!ended_.WaitForNotificationWithTimeout(absl::Minutes(1))) {
    return absl::DeadlineExceededError("the kernel has not ended within a minute");
  }
  return result_;
}

}  // namespace thalweg
