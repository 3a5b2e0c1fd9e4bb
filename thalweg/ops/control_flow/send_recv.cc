// _Send and _Recv: the two ends of an edge that crosses tasks. The key names
// the devices, the edge and the iteration of the loop it is in.
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/send_key.h"

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
    return absl::OkStatus();
  }
  // Also called when its input is dead: the other side must hear of it.
  absl::Status Compute(KernelContext& c) override {
    if (c.step().rendezvous == nullptr) return Internal("a _Send in a step without rendezvous");
    const bool in_loop = c.frame() != 0;
    return c.step().rendezvous->Send(in_loop ? KeyAt(key_, c) : root_key_, {c.TakeInput(0), c.is_dead(0)});
  }

 private:
  RendezvousKey key_;
  std::string root_key_;
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

const OpRegistration kOps[] = {Send("_Send"), Recv("_Recv"), Send("_HostSend"), Recv("_HostRecv")};

}  // namespace
}  // namespace thalweg
