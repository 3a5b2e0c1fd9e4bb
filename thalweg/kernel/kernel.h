// SPDX-License-Identifier: Apache-2.0
// The contract between an op's code and the runtime that calls it.
//
// A Kernel is created once per node and called once per step. Concurrent steps call it
// concurrently, so its members are constant after Init() or guarded by a lock. Compute()
// must not block: an op that waits is an AsyncKernel, which starts the wait and returns.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/thread_pool.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph.h"
#include "thalweg/kernel/device.h"
#include "thalweg/kernel/rendezvous.h"
#include "thalweg/kernel/variable.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The value on an edge: a tensor or, for ref types, a variable. It may be dead, which
// means that it belongs to a branch that was not taken.
struct Slot {
  Tensor tensor;
  Variable* variable = nullptr;  // kept alive by the kernel that produced it
  bool dead = false;
};

// The environment of a step, shared by its kernels. Outlives all of their calls.
struct Step {
  int64_t id = 0;
  Rendezvous* rendezvous = nullptr;
  Cancellation* cancellation = nullptr;
  ThreadPool* pool = nullptr;                    // runs the rest of the step after a wait
  ResourceManager* resources = nullptr;          // resources of the step: stacks, tensor arrays
  ResourceManager* session_resources = nullptr;  // resources of the session: tensors kept by handle
};

// The argument of Kernel::Init().
class KernelInit {
 public:
  KernelInit(const Node& node, Device& device) : node_(node), device_(device) {}
  const Node& node() const { return node_; }
  Device& device() const { return device_; }
  template <typename T>
  absl::StatusOr<T> Attr(absl::string_view name) const {
    return GetAttr<T>(node_.def(), name);
  }

 private:
  const Node& node_;
  Device& device_;
};

class KernelContext;

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Reads attributes. An error here fails the steps that need the node.
  virtual absl::Status Init(const KernelInit& init) { return absl::OkStatus(); }
  virtual absl::Status Compute(KernelContext& context) = 0;
  virtual bool is_async() const { return false; }
};

// An op that may have to wait. ComputeAsync() sets the outputs and then calls `done`
// exactly once, before it returns or later, on any thread. The context stays valid until
// then, but the inputs do not: read or copy them (a Tensor shares its buffer) before
// ComputeAsync() returns, because other nodes may reuse their memory. When the step is
// cancelled, the kernel must call `done` with an error soon.
class AsyncKernel : public Kernel {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  virtual void ComputeAsync(KernelContext& context, Done done) = 0;
  absl::Status Compute(KernelContext& context) final;
  bool is_async() const final { return true; }
};

// One call of a kernel: inputs, outputs and environment. Not thread-safe.
class KernelContext {
 public:
  // The node to run, and the slots of its inputs and outputs. The same in every step.
  // Filled in by the runtime.
  struct Call {
    const int32_t* inputs = nullptr;  // indices of slots
    int32_t num_inputs = 0;
    int32_t first_output = 0;  // outputs are slots[first_output...]
    int32_t num_outputs = 0;
    uint32_t last_use = 0;  // bit i is set if no later call reads input i
    const Node* node = nullptr;
    Device* device = nullptr;
  };

  // All are borrowed. `call` may be set later.
  KernelContext(Step* step, Slot* slots, const Call* call = nullptr) : step_(step), slots_(slots), call_(call) {}
  void set_call(const Call* call) { call_ = call; }
  // The loop iteration this call belongs to, for keys of Send and Recv.
  void set_iteration(uint64_t frame, int64_t iteration) { frame_ = frame, iteration_ = iteration; }

  int num_inputs() const { return call_->num_inputs; }
  int num_outputs() const { return call_->num_outputs; }
  const Tensor& input(int i) const { return slot(i).tensor; }
  // REQUIRES: input i is of a ref type.
  Variable& variable(int i) const { return *slot(i).variable; }
  bool is_variable(int i) const { return slot(i).variable != nullptr; }
  bool is_dead(int i) const { return slot(i).dead; }
  DType output_type(int i) const { return RemoveRef(call_->node->output_type(i)); }

  void set_output(int i, Tensor value) { output(i).tensor = std::move(value); }
  void set_variable(int i, Variable* variable) { output(i).variable = variable; }
  void set_dead(int i) { output(i).dead = true; }

  // Memory for output i; its contents are undefined (strings are empty).
  absl::StatusOr<Tensor*> Allocate(int i, const Shape& shape);
  // Like Allocate(), but only if the tensor of an earlier step is still in the output's
  // slot and can be overwritten; otherwise nullptr. This is the fast path for most small
  // tensors. REQUIRES: `dtype` is the output's type.
  Tensor* Recycle(int i, DType dtype, const Shape& shape) const {
    Tensor& kept = output(i).tensor;
    return kept.recyclable() && kept.dtype() == dtype && kept.shape() == shape ? &kept : nullptr;
  }
  // Reuses the memory of one of `inputs` for output i, if that input has the output's
  // type and size and nothing else uses it now or later. Otherwise allocates. With a
  // reused input, an elementwise kernel may write element k of the output only after it
  // has read element k of the inputs.
  absl::StatusOr<Tensor*> ForwardOrAllocate(std::initializer_list<int> inputs, int i, const Shape& shape);
  // Returns input i to keep; moves it out if this is its last use.
  Tensor TakeInput(int i);
  // Scratch memory, which is not an output.
  absl::StatusOr<Tensor> AllocateTemporary(DType dtype, const Shape& shape);

  const Node& node() const { return *call_->node; }
  Device& device() const { return *call_->device; }
  Step& step() const { return *step_; }
  uint64_t frame() const { return frame_; }
  int64_t iteration() const { return iteration_; }

  // Runs body(begin, end) over shards of [0, n), on several threads if the work
  // (n * nanos_each) is large enough.
  void ParallelFor(int64_t n, double nanos_each, absl::FunctionRef<void(int64_t begin, int64_t end)> body);

  // True if ParallelFor() has used other threads since clear_used_pool(). Such a kernel
  // takes about that many times longer on one thread.
  bool used_pool() const { return used_pool_; }
  void clear_used_pool() { used_pool_ = false; }

 private:
  Slot& slot(int input) const { return slots_[call_->inputs[input]]; }
  Slot& output(int i) const { return slots_[call_->first_output + i]; }
  bool IsLastUse(int i) const { return i < 32 && (call_->last_use >> i & 1) != 0; }

  Step* step_;
  Slot* slots_;
  const Call* call_;
  uint64_t frame_ = 0;
  int64_t iteration_ = 0;
  bool used_pool_ = false;
};

// Kernels by op and device type. Filled while the program starts, constant
// afterwards.
class KernelRegistry {
 public:
  using Factory = std::function<std::unique_ptr<Kernel>()>;
  static KernelRegistry& Global();

  void Add(absl::string_view op, absl::string_view device_type, Factory factory);
  bool Has(absl::string_view op, absl::string_view device_type) const;
  // Creates and initializes a kernel. NOT_FOUND, listing the device types that have a
  // kernel for the op, if there is none for this device; the error of Init() if it
  // fails.
  absl::StatusOr<std::unique_ptr<Kernel>> Make(const Node& node, Device& device) const;

 private:
  absl::flat_hash_map<std::pair<std::string, std::string>, Factory> factories_;
};

}  // namespace thalweg
