// SPDX-License-Identifier: Apache-2.0
// _Send and _Recv: the two ends of an edge that crosses tasks. The key names
// the devices, the edge and the iteration of the loop it is in.
#include "thalweg/base/status.h"
#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/send_key.h"
#include "thalweg/kernel/variable_rendezvous.h"

namespace thalweg {
namespace {

std::string KeyAt(RendezvousKey key, const KernelContext& c) {
  key.frame = c.frame();
  key.iteration = c.iteration();
  return key.ToString();
}

class SendKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(key_, SendKeyOf(init.node().def()));
    root_key_ = key_.ToString();
    if (IsRef(init.node().input(0).dtype())) FindVariable(init.node());
    return absl::OkStatus();
  }
  // Also called when its input is dead, because the receiver must know that.
  absl::Status Compute(KernelContext& c) override {
    if (c.step().rendezvous == nullptr) return Internal("a _Send in a step without rendezvous");
    const std::string key = c.frame() != 0 ? KeyAt(key_, c) : root_key_;
    if (c.is_variable(0) && !c.is_dead(0)) return SendVariable(c, key);
    return c.step().rendezvous->Send(key, {c.TakeInput(0), c.is_dead(0)});
  }

 private:
  // A variable goes as such if the rendezvous can do that, and if it lives longer
  // than the step.
  absl::Status SendVariable(const KernelContext& c, const std::string& key) const {
    auto* const rendezvous = dynamic_cast<VariableRendezvous*>(c.step().rendezvous);
    if (rendezvous != nullptr && !name_.empty()) {
      absl::StatusOr<std::shared_ptr<Variable>> found = c.device().resources().Find<Variable>(container_, name_);
      if (found.ok() && found->get() == &c.variable(0)) return rendezvous->SendVariable(key, *std::move(found));
    }
    Tensor value;
    RETURN_IF_ERROR(ReadVariable(c.variable(0), &value));
    return c.step().rendezvous->Send(key, {std::move(value), false});
  }

  // Under which name the device keeps the variable that is sent. Nothing, if it is
  // not one that a node of the graph names.
  void FindVariable(const Node& node) {
    const Node* at = node.input(0).node;
    constexpr int kMaxHops = 100;  // bounds the search, because a reference may be passed around a loop
    for (int hop = 0; hop < kMaxHops && at->num_inputs() > 0 && IsRef(at->input_type(0)); ++hop) {
      at = at->input(0).node;
    }
    if (at->op() != "VariableV2" && at->op() != "Variable") return;
    container_ = GetAttr<std::string>(at->def(), "container").value_or("");
    name_ = GetAttr<std::string>(at->def(), "shared_name").value_or("");
    if (name_.empty()) name_ = at->name();
  }

  RendezvousKey key_;
  std::string root_key_;
  std::string container_, name_;  // the variable, if one is sent
};

class RecvKernel : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(key_, SendKeyOf(init.node().def()));
    ASSIGN_OR_RETURN(type_, init.Attr<DType>("tensor_type"));
    root_key_ = key_.ToString();
    return absl::OkStatus();
  }
  void ComputeAsync(KernelContext& c, Done done) override {
    if (c.step().rendezvous == nullptr) return done(Internal("a _Recv in a step without rendezvous"));
    const bool in_loop = c.frame() != 0;
    c.step().rendezvous->RecvAsync(
        in_loop ? KeyAt(key_, c) : root_key_,
        [this, &c, done = std::move(done)](const absl::Status& status, Rendezvous::Value value) mutable {
          if (!status.ok()) return done(status);
          if (value.dead) {
            c.set_dead(0);
          } else if (value.tensor.dtype() != type_) {
            return done(Internal("received ", value.tensor.dtype(), ", expected ", type_));
          } else {
            c.set_output(0, std::move(value.tensor));
          }
          done(absl::OkStatus());
        });
  }

 private:
  RendezvousKey key_;
  std::string root_key_;
  DType type_ = kInvalid;
};

Op Send(absl::string_view name) {
  return Op(name)
      .Input("tensor: T")
      .Attr("T: type")
      .Attr("tensor_name: string")
      .Attr("send_device: string")
      .Attr("send_device_incarnation: int")
      .Attr("recv_device: string")
      .Attr("client_terminated: bool = false")
      .Stateful()
      .Shape(shapes::NoOutputs)
      .Kernel<SendKernel>()
      .NotDifferentiable();
}

Op Recv(absl::string_view name) {
  return Op(name)
      .Output("tensor: tensor_type")
      .Attr("tensor_type: type")
      .Attr("tensor_name: string")
      .Attr("send_device: string")
      .Attr("send_device_incarnation: int")
      .Attr("recv_device: string")
      .Attr("client_terminated: bool = false")
      .Stateful()
      .Shape(shapes::Unknown)
      .Kernel<RecvKernel>()
      .NotDifferentiable();
}

const OpRegistration kSendRecvOps[] = {Send("_Send"),     Recv("_Recv"), Send("_HostSend"),
                                       Recv("_HostRecv"), Send("Send"),  Recv("Recv").DistributedCommunication()};

}  // namespace
}  // namespace thalweg
