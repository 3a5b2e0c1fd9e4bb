// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/replicas/replica_identity_testlib.h"

#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/train/replicas/replica_device_setter.h"

namespace thalweg {
namespace {

// Nothing here takes that long; a test that hangs ends with an error.
constexpr absl::Duration kTimeout = absl::Seconds(60);

bool IsChief(const TestCluster* cluster, const TaskId& task) {
  const bool has_chief = cluster != nullptr && cluster->spec().num_tasks("chief") > 0;
  return has_chief ? task.job == "chief" : task.index == 0;
}

}  // namespace

TestModel::TestModel(const Scope& s) {
  x = Placeholder(s, kFloat, {2});
  w = MakeVariable(s, "w", {2}, {.initializer = initializers::Constant(1)});
  table = MakeVariable(s, "table", {4, 2}, {.initializer = initializers::Constant(0.5)});
  const Output rows = Gather(s.ColocateWith(table.ref), table, Const(s, {1, 3, 1}));
  loss =
      Add(s, Mul(s, ReduceSum(s, Square(s, Sub(s, w, x))), Const(s, 0.5f)), Square(s, ReduceSum(s, Mul(s, rows, x))));
}

TestReplica::TestReplica(TestCluster* cluster, const TaskId& task, const MakeOptimizer& make)
    : optimizer(make()), cluster_(cluster), task_(task), is_chief_(IsChief(cluster, task)) {
  Scope s = graph.root();
  if (cluster != nullptr) {
    s = s.WithDevice(ReplicaDeviceSetter({.cluster = cluster->spec(), .worker = task}));
  }
  model = std::make_unique<TestModel>(s);
  train_ = optimizer->Minimize(s, model->loss, {.global_step = GetOrCreateGlobalStep(s)});
  hooks_ = optimizer->Hooks(is_chief_);
  for (const auto& hook : hooks_) EXPECT_TRUE(hook->Begin(s).ok());
  init_ = InitializeVariables(s);
  std::vector<Output> local;
  for (const Var& v : LocalVariables(graph)) local.push_back(v.initializer);
  local_init_ = Group(s, local);
  EXPECT_TRUE(s.ok()) << s.status();
}

TestReplica::~TestReplica() { Close(); }

absl::Status TestReplica::TryStart() {
  ASSIGN_OR_RETURN(session, Session::Create(graph, {.target = cluster_ == nullptr ? "" : cluster_->target(task_)}));
  if (is_chief_) Read(init_);
  Read(local_init_);
  for (const auto& hook : hooks_) RETURN_IF_ERROR(hook->AfterCreateSession(*session));
  return absl::OkStatus();
}

void TestReplica::Start() {
  const absl::Status status = TryStart();
  ASSERT_TRUE(status.ok()) << status;
}

absl::Status TestReplica::TryStep(float x0, float x1) {
  StepContext context(*session, nullptr);
  std::vector<Fetch> fetches = {train_};
  std::vector<size_t> ends;  // by hook: the end of its fetches
  for (const auto& hook : hooks_) {
    ASSIGN_OR_RETURN(const StepRequest request, hook->BeforeRun(context));
    fetches.insert(fetches.end(), request.fetches.begin(), request.fetches.end());
    ends.push_back(fetches.size());
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> out,
                   session->Run(fetches, {{model->x, Tensor::Vector<float>({x0, x1})}}, {.timeout = kTimeout}));
  size_t begin = 1;
  for (size_t i = 0; i < hooks_.size(); ++i) {
    RETURN_IF_ERROR(hooks_[i]->AfterRun(context, absl::MakeConstSpan(out).subspan(begin, ends[i] - begin)));
    begin = ends[i];
  }
  return absl::OkStatus();
}

void TestReplica::Step(float x0, float x1) {
  absl::Status status = TryStep(x0, x1);
  // The chief has begun anew, and the gradient is lost. A MonitoredTrainingSession does the same.
  while (absl::IsAborted(status) && !is_chief_) {
    Close();
    status = TryStart();
    if (status.ok()) status = TryStep(x0, x1);
  }
  ASSERT_TRUE(status.ok()) << task_.job << " " << task_.index << ": " << status;
}

void TestReplica::End() {
  for (const auto& hook : hooks_) {
    const absl::Status status = hook->End(*session);
    EXPECT_TRUE(status.ok()) << status;
  }
  Close();
}

void TestReplica::Close() {
  if (session == nullptr) return;
  for (const auto& hook : hooks_) hook->BeforeCloseSession(*session);
  session.reset();
}

Tensor TestReplica::Read(Output output) {
  auto out = session->Run({output}, {}, {.timeout = kTimeout});
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? (*out)[0] : Tensor::Scalar<int64_t>(-1);
}

std::vector<float> TestReplica::Values() {
  std::vector<float> values;
  for (const Var& v : {model->w, model->table}) {
    const Tensor value = Read(v);
    if (value.dtype() == kFloat) values.insert(values.end(), value.flat<float>().begin(), value.flat<float>().end());
  }
  return values;
}

}  // namespace thalweg
