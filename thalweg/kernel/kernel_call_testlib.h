// SPDX-License-Identifier: Apache-2.0
// For tests of kernels that need more than RunOp() offers: dead inputs and outputs, references
// to variables, loops, kernels that wait, and cancellation.
//
//   KernelCall call("Switch", {Tensor::Scalar(3.f), Tensor::Scalar(true)});
//   ASSERT_OK(call.Run());
//   EXPECT_TRUE(call.output(0).dead);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/thread_pool.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/device.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/kernel/rendezvous.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/kernel/variable.h"

namespace thalweg {

// One argument of a call: a tensor, a variable, a dead value, or a list of tensors or of variables.
struct CallArg {
  CallArg(Tensor value) : slots{{.tensor = std::move(value)}} {}  // NOLINT: implicit by design
  CallArg(Variable* variable) : slots{{.variable = variable}} {}  // NOLINT: implicit by design
  static CallArg List(const std::vector<CallArg>& args);
  // A value of a branch that was not taken. `like` tells its type.
  static CallArg Dead(Tensor like);

  std::vector<Slot> slots;
  bool is_list = false;
};

// A node of `op`, its kernel, and one call of it. The node of a variable has the variable's name.
class KernelCall {
 public:
  KernelCall(absl::string_view op, const std::vector<CallArg>& inputs, std::vector<AttrArg> attrs = {},
             Device& device = TestDevice());
  ~KernelCall();

  // The error of adding the node or of making its kernel.
  const absl::Status& made() const { return made_; }
  // The environment, to be changed before the call begins. It has everything except session resources.
  Step& step() { return step_; }
  LocalRendezvous& rendezvous() { return rendezvous_; }
  Cancellation& cancellation() { return cancellation_; }
  void SetIteration(uint64_t frame, int64_t iteration);

  // Calls the kernel, which may be waiting when this returns. REQUIRES: called once.
  void Start();
  bool ended() const { return ended_.HasBeenNotified(); }
  // The result. DEADLINE_EXCEEDED if the kernel does not end within a minute.
  absl::Status Wait();
  absl::Status Run() {
    Start();
    return Wait();
  }
  // REQUIRES: the call has ended.
  const Slot& output(int i) const { return slots_[inputs_.size() + static_cast<size_t>(i)]; }

 private:
  absl::Status AddNode(absl::string_view op, const std::vector<CallArg>& inputs, std::vector<AttrArg> attrs);
  void End(const absl::Status& status);

  Device& device_;
  Graph graph_;
  Node* node_ = nullptr;
  std::unique_ptr<Kernel> kernel_;
  absl::Status made_;
  std::vector<int32_t> inputs_;  // indices of slots
  std::vector<Slot> slots_;      // inputs, then outputs
  ResourceManager resources_;
  LocalRendezvous rendezvous_;
  Cancellation cancellation_;
  ThreadPool pool_{"kernel-call", 1};
  Step step_{
      .id = 1, .rendezvous = &rendezvous_, .cancellation = &cancellation_, .pool = &pool_, .resources = &resources_};
  KernelContext::Call site_;
  std::unique_ptr<KernelContext> context_;
  bool started_ = false;
  absl::Status result_;
  Notification ended_;
};

}  // namespace thalweg
