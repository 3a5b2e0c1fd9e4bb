// SPDX-License-Identifier: Apache-2.0
// The operations on queues: enqueue and dequeue one or many tuples, close the queue, get its size. The first
// version of each op takes the handle as a ref.
#include "absl/strings/match.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/session_owner.h"
#include "thalweg/ops/data_flow/queue.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

std::string TaskOf(const Step& step) {
  if (step.session_resources == nullptr) return "";
  const auto owner = step.session_resources->Find<SessionOwner>("", SessionOwner::kName);
  return owner.ok() ? (*owner)->task() : "";
}

Queue::Caller CallerOf(KernelContext& c, const Queue& queue) {
  return {.cancellation = c.step().cancellation,
          .pool = c.step().pool,
          .task = queue.wants_tasks() ? TaskOf(c.step()) : ""};
}

class QueueAccessKernel : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    if (!HasAttr(init.node().def(), "timeout_ms")) return absl::OkStatus();
    ASSIGN_OR_RETURN(const int64_t timeout, init.Attr<int64_t>("timeout_ms"));
    return timeout == -1 ? absl::OkStatus() : InvalidArgument("Timeout not supported yet.");
  }

  void ComputeAsync(KernelContext& c, Done done) final {
    absl::StatusOr<std::shared_ptr<Queue>> queue = FindResource<Queue>(c, 0);
    if (!queue.ok()) return done(queue.status());
    if (const absl::Status status = CheckTypes(c.node(), (*queue)->options().types); !status.ok()) return done(status);
    Access(c, **queue, [queue = *queue, done = std::move(done)](const absl::Status& status) mutable { done(status); });
  }

 protected:
  // `done` keeps the queue alive.
  virtual void Access(KernelContext& c, Queue& queue, Done done) = 0;
  // Checks the types of the inputs after `first` and of the outputs, if they are tuples.
  virtual absl::Status CheckTypes(const Node& node, const std::vector<DType>& types) const = 0;

  static absl::Status Match(const Node& node, std::vector<DType> inputs, const std::vector<DType>& outputs) {
    inputs.insert(inputs.begin(), node.input_type(0));
    if (inputs == node.input_types() && outputs == node.output_types()) return absl::OkStatus();
    return InvalidArgument("Signature mismatch, have: ", ListTypes(node.input_types()), "->",
                           ListTypes(node.output_types()), " expected: ", ListTypes(inputs), "->", ListTypes(outputs));
  }
  static Queue::DequeueDone SetOutputs(KernelContext& c, Done done) {
    return [&c, done = std::move(done)](const absl::Status& status, Tuple tuple) mutable {
      for (size_t i = 0; i < tuple.size(); ++i) c.set_output(static_cast<int>(i), std::move(tuple[i]));
      done(status);
    };
  }
};

class EnqueueKernel final : public QueueAccessKernel {
 public:
  explicit EnqueueKernel(bool many) : many_(many) {}

 private:
  absl::Status CheckTypes(const Node& node, const std::vector<DType>& types) const override {
    return Match(node, types, {});
  }
  void Access(KernelContext& c, Queue& queue, Done done) override {
    Tuple tuple;
    tuple.reserve(c.num_inputs() - 1);
    for (int i = 1; i < c.num_inputs(); ++i) tuple.push_back(c.TakeInput(i));
    if (many_) return queue.EnqueueMany(std::move(tuple), CallerOf(c, queue), std::move(done));
    queue.Enqueue(std::move(tuple), CallerOf(c, queue), std::move(done));
  }

  const bool many_;
};

class DequeueKernel final : public QueueAccessKernel {
  absl::Status CheckTypes(const Node& node, const std::vector<DType>& types) const override {
    return Match(node, {}, types);
  }
  void Access(KernelContext& c, Queue& queue, Done done) override {
    queue.Dequeue(CallerOf(c, queue), SetOutputs(c, std::move(done)));
  }
};

class DequeueManyKernel final : public QueueAccessKernel {
 public:
  explicit DequeueManyKernel(bool up_to) : up_to_(up_to) {}

 private:
  absl::Status CheckTypes(const Node& node, const std::vector<DType>& types) const override {
    return Match(node, {kInt32}, types);
  }
  void Access(KernelContext& c, Queue& queue, Done done) override {
    const Tensor& count = c.input(1);
    if (count.num_elements() != 1) return done(InvalidArgument("n must be a scalar, got ", count.shape()));
    const int32_t n = count.scalar<int32_t>();
    if (n < 0) {
      return done(InvalidArgument(up_to_ ? "DequeueUpToOp" : "DequeueManyOp", " requested ", n, " < 0 elements"));
    }
    queue.DequeueMany(n, up_to_, CallerOf(c, queue), SetOutputs(c, std::move(done)));
  }

  const bool up_to_;
};

class QueueCloseKernel final : public QueueAccessKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(cancel_, init.Attr<bool>("cancel_pending_enqueues"));
    return absl::OkStatus();
  }

 private:
  absl::Status CheckTypes(const Node&, const std::vector<DType>&) const override { return absl::OkStatus(); }
  void Access(KernelContext& c, Queue& queue, Done done) override {
    queue.Close(cancel_, CallerOf(c, queue), std::move(done));
  }

  bool cancel_ = false;
};

absl::Status IsClosed(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue, FindResource<Queue>(c, 0));
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
  *out->mutable_data<bool>() = queue->is_closed();
  return absl::OkStatus();
}

absl::Status QueueSize(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Queue> queue, FindResource<Queue>(c, 0));
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
  *out->mutable_data<int32_t>() = static_cast<int32_t>(queue->size());
  return absl::OkStatus();
}

// The shapes of the elements, if the op that made the queue is in sight.
absl::Status ElementShapes(ShapeContext& c, const std::optional<int64_t>& rows) {
  const Node* const source = HandleSource(c, 0);
  absl::StatusOr<std::vector<PartialShape>> shapes = GetAttr<std::vector<PartialShape>>(source->def(), "shapes");
  if (!shapes.ok() || shapes->empty()) return absl::OkStatus();
  if (absl::StartsWith(source->op(), "PriorityQueue")) shapes->insert(shapes->begin(), PartialShape(Shape()));
  if (static_cast<int>(shapes->size()) != c.num_outputs()) return absl::OkStatus();
  for (int i = 0; i < c.num_outputs(); ++i) {
    PartialShape shape = (*shapes)[i];
    if (rows.has_value() && shape.has_rank()) {
      Dims dims(shape.dims().begin(), shape.dims().end());
      dims.insert(dims.begin(), *rows);
      shape = PartialShape(std::move(dims));
    }
    c.set_output(i, std::move(shape));
  }
  return absl::OkStatus();
}

absl::Status DequeueShape(ShapeContext& c) { return ElementShapes(c, std::nullopt); }

absl::Status DequeueManyShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(1));
  const std::optional<Tensor> n = c.Constant(1);
  if (!n.has_value()) return ElementShapes(c, PartialShape::kUnknown);
  if (n->scalar<int32_t>() < 0) return InvalidArgument("Input 'n' must be >= 0, but is ", n->scalar<int32_t>());
  return ElementShapes(c, n->scalar<int32_t>());
}

absl::Status DequeueUpToShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(1));
  return ElementShapes(c, PartialShape::kUnknown);
}

// Both forms of an op: `name` with a ref, `name`V2, which is stateful, with a
// resource.
Op Access(absl::string_view name) { return HandleUser(name, "handle", absl::EndsWith(name, "V2")); }

Op Enqueue(absl::string_view name, bool many) {
  return Access(name)
      .Input("components: Tcomponents")
      .Attr("Tcomponents: list(type) >= 1")
      .Attr("timeout_ms: int = -1")
      .Shape(shapes::NoOutputs)
      .Kernel<EnqueueKernel>(many);
}
Op Dequeue(absl::string_view name) {
  return Access(name)
      .Output("components: component_types")
      .Attr("component_types: list(type) >= 1")
      .Attr("timeout_ms: int = -1")
      .Shape(DequeueShape)
      .Kernel<DequeueKernel>();
}
Op DequeueMany(absl::string_view name, bool up_to) {
  return Access(name)
      .Input("n: int32")
      .Output("components: component_types")
      .Attr("component_types: list(type) >= 1")
      .Attr("timeout_ms: int = -1")
      .Shape(up_to ? DequeueUpToShape : DequeueManyShape)
      .Kernel<DequeueManyKernel>(up_to);
}
Op Close(absl::string_view name) {
  return Access(name).Attr("cancel_pending_enqueues: bool = false").Shape(shapes::NoOutputs).Kernel<QueueCloseKernel>();
}

const OpRegistration kQueueOps[] = {
    Enqueue("QueueEnqueue", false),
    Enqueue("QueueEnqueueV2", false),
    Enqueue("QueueEnqueueMany", true),
    Enqueue("QueueEnqueueManyV2", true),
    Dequeue("QueueDequeue"),
    Dequeue("QueueDequeueV2"),
    DequeueMany("QueueDequeueMany", false),
    DequeueMany("QueueDequeueManyV2", false),
    DequeueMany("QueueDequeueUpTo", true),
    DequeueMany("QueueDequeueUpToV2", true),
    Close("QueueClose"),
    Close("QueueCloseV2"),
    Access("QueueIsClosed").Output("is_closed: bool").Shape(shapes::Scalar).Compute(IsClosed),
    Access("QueueIsClosedV2").Output("is_closed: bool").Shape(shapes::Scalar).Compute(IsClosed),
    Access("QueueSize").Output("size: int32").Shape(shapes::Scalar).Compute(QueueSize),
    Access("QueueSizeV2").Output("size: int32").Shape(shapes::Scalar).Compute(QueueSize),
};

// Null handles, after an error.
std::vector<Output> Components(Node* node, const std::vector<DType>& types) {
  std::vector<Output> outputs;
  for (size_t i = 0; i < types.size(); ++i) outputs.emplace_back(node, static_cast<int>(i));
  return outputs;
}

}  // namespace

Output QueueEnqueue(const Scope& s, Output queue, const std::vector<Output>& components) {
  return s.Add("QueueEnqueueV2", {queue, components});
}
Output QueueEnqueueMany(const Scope& s, Output queue, const std::vector<Output>& components) {
  return s.Add("QueueEnqueueManyV2", {queue, components});
}
std::vector<Output> QueueDequeue(const Scope& s, Output queue, const std::vector<DType>& types) {
  return Components(s.Add("QueueDequeueV2", {queue}, {{"component_types", types}}), types);
}
std::vector<Output> QueueDequeueMany(const Scope& s, Output queue, const IntArg& n, const std::vector<DType>& types) {
  return Components(s.Add("QueueDequeueManyV2", {queue, n.AsTensor(s, "n")}, {{"component_types", types}}), types);
}
std::vector<Output> QueueDequeueUpTo(const Scope& s, Output queue, const IntArg& n, const std::vector<DType>& types) {
  return Components(s.Add("QueueDequeueUpToV2", {queue, n.AsTensor(s, "n")}, {{"component_types", types}}), types);
}
Output QueueClose(const Scope& s, Output queue, const QueueCloseOptions& options) {
  return s.Add("QueueCloseV2", {queue}, {{"cancel_pending_enqueues", options.cancel_pending_enqueues}});
}
Output QueueIsClosed(const Scope& s, Output queue) { return s.Add("QueueIsClosedV2", {queue}); }
Output QueueSize(const Scope& s, Output queue) { return s.Add("QueueSizeV2", {queue}); }

}  // namespace thalweg
