// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/kernel.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/kernel/single_thread.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

// Adds the attr "by", which Init reads.
class ShiftKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(by_, init.Attr<float>("by"));
    if (by_ < 0) return InvalidArgument("by must not be negative: ", by_, " on ", init.device().name());
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(Tensor* const out, c.ForwardOrAllocate({0}, 0, c.input(0).shape()));
    for (int64_t i = 0; i < out->num_elements(); ++i) out->flat<float>()[i] = c.input(0).flat<float>()[i] + by_;
    return absl::OkStatus();
  }

 private:
  float by_ = 0;
};

class WaitingKernel : public AsyncKernel {
 public:
  void ComputeAsync(KernelContext&, Done done) override { done(absl::OkStatus()); }
};

class ConstantKernel : public Kernel {
 public:
  ConstantKernel(float a, float b) : value_(a + b) {}
  absl::Status Compute(KernelContext& c) override {
    c.set_output(0, Tensor::Scalar(value_));
    return absl::OkStatus();
  }

 private:
  const float value_;
};

const OpRegistration kKernelTestOps[] = {
    Op("Shift").Input("x: float").Output("y: float").Attr("by: float = 1").Kernel<ShiftKernel>(),
    Op("Waiting").Output("y: float").Kernel<WaitingKernel>().Stateful(),
    Op("Sum").Input("x: N * float").Output("y: float").Attr("N: int").Commutative().Aggregate(),
    Op("Accelerated").KernelOn<ConstantKernel>("TPU", 1.0f, 2.0f).KernelOn<ConstantKernel>("GPU", 1.0f, 2.0f),
    Op("Three").Output("y: float").Kernel<ConstantKernel>(1.0f, 2.0f).AllowsUninitializedInput().NotDifferentiable(),
    Op("Text").Output("y: string").DistributedCommunication(),
};

// One call of a kernel on slots that the test holds.
class KernelContextTest : public testing::Test {
 protected:
  KernelContextTest() : node_(graph_.root().Add("Shift", {x()})) {}
  Output x() { return graph_.root().Add("Three"); }

  KernelContext Context(uint32_t last_use = 0) {
    call_ = {.inputs = inputs_.data(),
             .num_inputs = 1,
             .first_output = 1,
             .num_outputs = 1,
             .last_use = last_use,
             .node = node_,
             .device = &TestDevice()};
    return KernelContext(&step_, slots_.data(), &call_);
  }

  Graph graph_;
  Node* const node_;
  Step step_;
  KernelContext::Call call_;
  std::vector<Slot> slots_ = std::vector<Slot>(2);
  std::vector<int32_t> inputs_ = {0};
};

TEST_F(KernelContextTest, AllocateGivesTheOutputsTypeAndTheShape) {
  KernelContext c = Context();
  const absl::StatusOr<Tensor*> out = c.Allocate(0, {2, 3});
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ(*out, &slots_[1].tensor);
  EXPECT_EQ((*out)->dtype(), kFloat);
  EXPECT_EQ((*out)->shape(), Shape({2, 3}));
}

TEST_F(KernelContextTest, AllocateReusesTheSlotsOwnMemoryOnly) {
  KernelContext c = Context();
  const void* const first = (*c.Allocate(0, {4}))->raw();
  EXPECT_EQ((*c.Allocate(0, {4}))->raw(), first);
  const Tensor seen = slots_[1].tensor;
  EXPECT_NE((*c.Allocate(0, {4}))->raw(), first) << "somebody holds the last step's value";
  EXPECT_EQ((*c.Allocate(0, {5}))->shape(), Shape({5}));
}

TEST_F(KernelContextTest, TooMuchMemoryIsAnError) {
  KernelContext c = Context();
  EXPECT_THAT(c.Allocate(0, {int64_t{1} << 50}), Fails(StatusCode::kResourceExhausted, "1125899906842624"));
  EXPECT_THAT(c.AllocateTemporary(kFloat, {int64_t{1} << 50}),
              Fails(StatusCode::kResourceExhausted, "1125899906842624"));
}

TEST_F(KernelContextTest, ForwardsAnInputThatNobodyReadsAgain) {
  slots_[0].tensor = Tensor::Zeros(kFloat, {40});
  const void* const memory = slots_[0].tensor.raw();
  KernelContext c = Context(/*last_use=*/1);
  const absl::StatusOr<Tensor*> out = c.ForwardOrAllocate({0}, 0, {2, 20});
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ((*out)->raw(), memory);
  EXPECT_EQ((*out)->shape(), Shape({2, 20}));
  EXPECT_EQ(c.input(0).raw(), memory) << "it stays readable";
}

TEST_F(KernelContextTest, AFewNumbersStayInTheirSlot) {
  KernelContext c = Context(/*last_use=*/1);
  EXPECT_EQ(c.Recycle(0, kFloat, {2}), nullptr) << "there is none yet";
  slots_[0].tensor = Tensor::Vector<float>({1, 2});
  Tensor* const first = *c.ForwardOrAllocate({0}, 0, {2});
  EXPECT_NE(first->raw(), slots_[0].tensor.raw()) << "it costs less to have memory of its own";
  EXPECT_EQ(c.Recycle(0, kFloat, {2}), first);
  EXPECT_EQ(c.Recycle(0, kFloat, {1}), nullptr);
  EXPECT_EQ(c.Recycle(0, kInt32, {2}), nullptr);
  const Tensor held = *first;
  EXPECT_EQ(c.Recycle(0, kFloat, {2}), nullptr) << "somebody holds it";
}

TEST_F(KernelContextTest, DoesNotForwardWhatOthersNeed) {
  slots_[0].tensor = Tensor::Zeros(kFloat, {40});
  const void* const memory = slots_[0].tensor.raw();
  {
    KernelContext c = Context(/*last_use=*/0);
    EXPECT_NE((*c.ForwardOrAllocate({0}, 0, {40}))->raw(), memory) << "another node reads it later";
  }
  KernelContext c = Context(/*last_use=*/1);
  EXPECT_NE((*c.ForwardOrAllocate({0}, 0, {41}))->raw(), memory) << "another size";
  {
    const Tensor held = slots_[0].tensor;
    EXPECT_NE((*c.ForwardOrAllocate({0}, 0, {40}))->raw(), memory) << "somebody holds it";
  }
  slots_[0].tensor = Tensor::Zeros(kInt32, {40});
  const void* const ints = slots_[0].tensor.raw();
  EXPECT_NE((*c.ForwardOrAllocate({0}, 0, {40}))->raw(), ints) << "another type";
}

TEST_F(KernelContextTest, TakeInputMovesOnlyAtTheLastUse) {
  slots_[0].tensor = Tensor::Scalar(3.0f);
  KernelContext c = Context(/*last_use=*/0);
  EXPECT_EQ(c.TakeInput(0).scalar<float>(), 3);
  EXPECT_TRUE(slots_[0].tensor.has_value());
  KernelContext last = Context(/*last_use=*/1);
  EXPECT_EQ(last.TakeInput(0).scalar<float>(), 3);
  EXPECT_FALSE(slots_[0].tensor.has_value());
}

TEST_F(KernelContextTest, SlotsCarryVariablesAndDeadness) {
  Variable variable("v", kFloat);
  KernelContext c = Context();
  EXPECT_FALSE(c.is_variable(0));
  EXPECT_FALSE(c.is_dead(0));
  slots_[0] = {.variable = &variable, .dead = true};
  EXPECT_TRUE(c.is_variable(0));
  EXPECT_EQ(&c.variable(0), &variable);
  EXPECT_TRUE(c.is_dead(0));
  c.set_variable(0, &variable);
  c.set_dead(0);
  EXPECT_EQ(slots_[1].variable, &variable);
  EXPECT_TRUE(slots_[1].dead);
}

TEST_F(KernelContextTest, ParallelForCoversTheRangeOnce) {
  KernelContext c = Context();
  for (const double nanos : {0.0, 1.0, 1e6}) {
    for (const int64_t n : {0, 1, 1000}) {
      std::vector<std::atomic<int>> hits(n);
      c.ParallelFor(n, nanos, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++hits[i];
      });
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(hits[i], 1) << i << " of " << n << " at " << nanos << " ns";
    }
  }
}

TEST_F(KernelContextTest, LittleWorkStaysInOnePiece) {
  KernelContext c = Context();
  int pieces = 0;
  c.ParallelFor(1000, 1.0, [&](int64_t, int64_t) { ++pieces; });
  EXPECT_EQ(pieces, 1);
}

TEST_F(KernelContextTest, AloneAllWorkStaysInOnePiece) {
  KernelContext c = Context();
  int pieces = 0;
  {
    const ScopedSingleThread outer(true), inner(false);
    c.ParallelFor(1000, 1e6, [&](int64_t, int64_t) { ++pieces; });
    EXPECT_FALSE(c.used_pool());
  }
  EXPECT_EQ(pieces, 1);
  EXPECT_FALSE(ScopedSingleThread::Get());
  c.ParallelFor(1000, 1e6, [](int64_t, int64_t) {});
  EXPECT_TRUE(c.used_pool());
}

class KernelRegistryTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Kernel>> Make(absl::string_view op, std::vector<OpInput> inputs = {},
                                               std::vector<AttrArg> attrs = {}) {
    Node* node = graph_.root().Add(op, std::move(inputs), std::move(attrs));
    if (node == nullptr) return graph_.build_status();
    return KernelRegistry::Global().Make(*node, TestDevice());
  }
  Graph graph_;
};

TEST_F(KernelRegistryTest, MakesAndInitializes) {
  const Output x = graph_.root().Add("Three");
  EXPECT_THAT(Make("Shift", {x}), IsOk());
  EXPECT_THAT(Make("Shift", {x}, {{"by", -1.0f}}),
              Fails(StatusCode::kInvalidArgument,
                    "by must not be negative: -1 on /job:localhost/replica:0/task:0/device:CPU:0"));
  EXPECT_TRUE((*Make("Waiting"))->is_async());
  EXPECT_FALSE((*Make("Three"))->is_async());
}

TEST_F(KernelRegistryTest, SaysWhereThereAreKernels) {
  EXPECT_THAT(Make("Text"),
              Fails(StatusCode::kNotFound, "No kernel for op 'Text' of node 'Text' on a device of type CPU"));
  const absl::StatusOr<std::unique_ptr<Kernel>> kernel = Make("Accelerated");
  EXPECT_THAT(kernel, Fails(StatusCode::kNotFound, "there are kernels for"));
  EXPECT_THAT(kernel, Fails(StatusCode::kNotFound, "TPU"));
  EXPECT_THAT(kernel, Fails(StatusCode::kNotFound, "GPU"));
  EXPECT_TRUE(KernelRegistry::Global().Has("Accelerated", "TPU"));
  EXPECT_FALSE(KernelRegistry::Global().Has("Accelerated", "CPU"));
}

TEST_F(KernelRegistryTest, UnknownOpsFailWhenTheyAreMade) {
  ASSERT_THAT(graph_.Import(ParseGraph("node { name: 'm' op: 'Martian' }")), IsOk());
  EXPECT_THAT(KernelRegistry::Global().Make(*graph_.FindNode("m"), TestDevice()),
              Fails(StatusCode::kNotFound, "op 'Martian' of node 'm'"));
}

TEST(KernelRegistryDeathTest, RefusesASecondKernel) {
  KernelRegistry registry;
  registry.Add("A", "CPU", nullptr);
  registry.Add("A", "GPU", nullptr);
  EXPECT_DEATH(registry.Add("A", "CPU", nullptr), "two kernels for A on CPU");
}

TEST(AsyncKernel, IsNotCalledAsAPlainOne) {
  WaitingKernel kernel;
  Kernel& plain = kernel;
  Step step;
  KernelContext c(&step, {});
  EXPECT_THAT(plain.Compute(c), Fails(StatusCode::kInternal, "async"));
}

TEST(Op, SetsWhatTheSchemaSays) {
  const auto def = [](const char* name) { return OpRegistry::Global().Find(name)->def; };
  EXPECT_TRUE(def("Waiting").is_stateful());
  EXPECT_FALSE(def("Shift").is_stateful());
  EXPECT_TRUE(def("Sum").is_commutative());
  EXPECT_TRUE(def("Sum").is_aggregate());
  EXPECT_TRUE(def("Three").allows_uninitialized_input());
  EXPECT_TRUE(def("Text").is_distributed_communication());
  EXPECT_EQ(OpRegistry::Global().Find("Three")->differentiability, Differentiability::kNo);
  EXPECT_EQ(OpRegistry::Global().Find("Shift")->differentiability, Differentiability::kUnknown);
  EXPECT_FALSE(def("Shift").is_commutative() || def("Shift").is_aggregate() ||
               def("Shift").allows_uninitialized_input());
}

TEST(Op, KernelsAreMadeWithTheirArguments) {
  const absl::StatusOr<std::vector<Tensor>> out = RunOp("Three", {});
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ((*out)[0].scalar<float>(), 3);
}

TEST(Device, KnowsItself) {
  IntraOpPool intra_op_pool(0);
  Device device(*DeviceName::Parse("/job:ps/replica:0/task:1/device:CPU:2"), &intra_op_pool);
  Device other(*DeviceName::Parse("/job:ps/replica:0/task:1/device:CPU:2"), &intra_op_pool);
  EXPECT_EQ(device.name(), "/job:ps/replica:0/task:1/device:CPU:2");
  EXPECT_EQ(device.type(), "CPU");
  EXPECT_EQ(device.resources().default_container(), "ps");
  EXPECT_NE(device.incarnation(), 0);
  EXPECT_NE(device.incarnation(), other.incarnation());
  EXPECT_EQ(device.Attributes().name(), device.name());
  EXPECT_EQ(device.Attributes().device_type(), "CPU");
  EXPECT_EQ(device.Attributes().incarnation(), device.incarnation());
}

TEST(DeviceDeathTest, NeedsAFullName) {
  IntraOpPool intra_op_pool(0);
  EXPECT_DEATH(Device(*DeviceName::Parse("/job:ps"), &intra_op_pool), "a device needs a full name, got /job:ps");
}

}  // namespace
}  // namespace thalweg
