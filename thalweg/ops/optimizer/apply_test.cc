// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/optimizer/apply.h"

#include <cmath>
#include <thread>

#include "absl/strings/match.h"
#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/ops/training_ops.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

// Runs an Apply op on variables with these values, and returns theirs
// afterwards.
absl::StatusOr<std::vector<Tensor>> RunApply(absl::string_view op, std::vector<Tensor> slots,
                                             std::vector<Tensor> inputs, std::vector<AttrArg> attrs = {}) {
  Device device(*DeviceName::Parse("/job:localhost/replica:0/task:0/device:CPU:0"), &TestDevice().intra_op_pool());
  const bool resource = absl::StartsWith(op, "Resource");
  Graph graph;
  const Scope s = graph.root();
  std::vector<OpInput> args;
  absl::flat_hash_map<Output, Tensor> feeds;
  std::vector<std::shared_ptr<Variable>> variables;
  for (size_t i = 0; i < slots.size() + inputs.size(); ++i) {
    if (i >= slots.size()) {
      const Tensor& value = inputs[i - slots.size()];
      const Output arg = s.Add("_Arg", {}, {{"T", value.dtype()}, {"index", static_cast<int>(i)}});
      feeds[arg] = value;
      args.push_back(arg);
      continue;
    }
    const std::string name = absl::StrCat("slot", i);
    if (resource) {
      auto variable = std::make_shared<ResourceVariable>(name, slots[i].dtype());
      RETURN_IF_ERROR(device.resources().Create<ResourceVariable>("", name, variable));
      variables.push_back(variable);
      const Output arg = s.Add("_Arg", {}, {{"T", kResource}, {"index", static_cast<int>(i)}});
      feeds[arg] = Tensor::Scalar(ResourceHandle{.device = device.name(), .container = "localhost", .name = name});
      args.push_back(arg);
    } else {
      args.push_back(RefVariable(s.WithOpName(name), slots[i].dtype(), PartialShape()));
      variables.push_back(std::make_shared<Variable>(name, slots[i].dtype()));
      RETURN_IF_ERROR(device.resources().Create<Variable>("", name, variables.back()));
    }
    variables[i]->Assign(slots[i]);
  }
  Node* node = s.Add(op, args, std::move(attrs));
  RETURN_IF_ERROR(s.status());
  RETURN_IF_ERROR(Evaluate(graph, feeds, {Output(node)}, device).status());
  std::vector<Tensor> result;
  for (const auto& variable : variables) result.push_back(variable->Read());
  return result;
}

template <typename T>
Tensor Scalar(T v) {
  return Tensor::Scalar<T>(v);
}
Tensor F(std::initializer_list<float> v) { return Tensor::Vector<float>(v); }

TEST(Apply, GradientDescent) {
  for (const char* op : {"ApplyGradientDescent", "ResourceApplyGradientDescent"}) {
    const auto out = RunApply(op, {F({1, 2, 3})}, {Scalar(0.5f), F({2, 4, -6})});
    ASSERT_TRUE(out.ok()) << out.status();
    ExpectTensor((*out)[0], F({0, 0, 6}));
  }
}

TEST(Apply, GradientDescentInEveryType) {
  const auto out = RunApply("ApplyGradientDescent", {Tensor::Vector<std::complex<float>>({{1, 2}})},
                            {Tensor::Scalar(std::complex<float>(0, 1)), Tensor::Vector<std::complex<float>>({{3, 4}})});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensor((*out)[0], Tensor::Vector<std::complex<float>>({{5, -1}}));
  const auto half = RunApply("ApplyGradientDescent", {Tensor::Vector<Half>({Half(1), Half(2)})},
                             {Tensor::Scalar(Half(0.5)), Tensor::Vector<Half>({Half(2), Half(3)})});
  ASSERT_TRUE(half.ok()) << half.status();
  ExpectTensor((*half)[0], Tensor::Vector<Half>({Half(0), Half(0.5)}));
}

TEST(Apply, Momentum) {
  const auto plain = RunApply("ApplyMomentum", {F({1, 2}), F({0.5, -1})}, {Scalar(0.1f), F({1, 2}), Scalar(0.9f)});
  ASSERT_TRUE(plain.ok()) << plain.status();
  ExpectTensor((*plain)[1], F({1.45, 1.1}));
  ExpectTensor((*plain)[0], F({0.855, 1.89}));
  const auto nesterov = RunApply("ResourceApplyMomentum", {F({1, 2}), F({0.5, -1})},
                                 {Scalar(0.1f), F({1, 2}), Scalar(0.9f)}, {{"use_nesterov", true}});
  ASSERT_TRUE(nesterov.ok()) << nesterov.status();
  ExpectTensor((*nesterov)[0], F({1 - 0.1 - 0.9 * 0.1 * 1.45, 2 - 0.2 - 0.9 * 0.1 * 1.1}));
}

TEST(Apply, KerasMomentum) {
  const auto plain = RunApply("ResourceApplyKerasMomentum", {F({1}), F({0.5})}, {Scalar(0.1f), F({2}), Scalar(0.9f)});
  ASSERT_TRUE(plain.ok()) << plain.status();
  ExpectTensor((*plain)[1], F({0.25}));
  ExpectTensor((*plain)[0], F({1.25}));
  const auto nesterov = RunApply("ResourceApplyKerasMomentum", {F({1}), F({0.5})}, {Scalar(0.1f), F({2}), Scalar(0.9f)},
                                 {{"use_nesterov", true}});
  ASSERT_TRUE(nesterov.ok()) << nesterov.status();
  ExpectTensor((*nesterov)[0], F({1 + 0.25 * 0.9 - 0.2}));
}

TEST(Apply, SparseMomentumRepeatsRows) {
  const Tensor var = Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor accum = Tensor::Zeros(kFloat, {3, 2});
  for (const Tensor& rows : {Tensor::Vector<int32_t>({2, 0, 2}), Tensor::Vector<int64_t>({2, 0, 2})}) {
    const auto out = RunApply("SparseApplyMomentum", {var, accum},
                              {Scalar(1.0f), Tensor::Of<float>({3, 2}, {1, 1, 2, 2, 3, 3}), rows, Scalar(0.5f)});
    ASSERT_TRUE(out.ok()) << out.status();
    ExpectTensor((*out)[1], Tensor::Of<float>({3, 2}, {2, 2, 0, 0, 3.5, 3.5}));
    ExpectTensor((*out)[0], Tensor::Of<float>({3, 2}, {-1, 0, 3, 4, 0.5, 1.5}));
  }
}

TEST(Apply, Adam) {
  // Against the formula in double.
  const double g = 0.3, m0 = 0.1, v0 = 0.2, b1 = 0.9, b2 = 0.999, lr = 0.01, eps = 1e-8, b1p = 0.81, b2p = 0.998;
  const double m = m0 + (g - m0) * (1 - b1), v = v0 + (g * g - v0) * (1 - b2);
  const double alpha = lr * std::sqrt(1 - b2p) / (1 - b1p);
  for (const bool nesterov : {false, true}) {
    const double numerator = nesterov ? g * (1 - b1) + b1 * m : m;
    const auto out = RunApply(
        "ApplyAdam", {Tensor::Vector<double>({1}), Tensor::Vector<double>({m0}), Tensor::Vector<double>({v0})},
        {Scalar(b1p), Scalar(b2p), Scalar(lr), Scalar(b1), Scalar(b2), Scalar(eps), Tensor::Vector<double>({g})},
        {{"use_nesterov", nesterov}});
    ASSERT_TRUE(out.ok()) << out.status();
    ExpectTensor((*out)[1], Tensor::Vector<double>({m}), 1e-14);
    ExpectTensor((*out)[2], Tensor::Vector<double>({v}), 1e-14);
    ExpectTensor((*out)[0], Tensor::Vector<double>({1 - alpha * numerator / (std::sqrt(v) + eps)}), 1e-14);
  }
}

TEST(Apply, LargeOnesAreSplit) {
  const Shape shape({300, 1000});
  const Tensor var = TestValues(kFloat, shape), grad = TestValues(kFloat, shape, -1, 1, 2);
  const auto out = RunApply("ApplyGradientDescent", {var}, {Scalar(0.25f), grad});
  ASSERT_TRUE(out.ok()) << out.status();
  Tensor expected(kFloat, shape);
  for (int64_t i = 0; i < var.num_elements(); ++i) {
    expected.mutable_data<float>()[i] = var.data<float>()[i] - 0.25f * grad.data<float>()[i];
  }
  ExpectTensor((*out)[0], expected, 1e-6);
}

TEST(Apply, AReaderKeepsItsValue) {
  const Tensor before = F({1, 2, 3});
  const auto out = RunApply("ApplyMomentum", {before, F({0, 0, 0})}, {Scalar(1.0f), F({1, 1, 1}), Scalar(0.0f)});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensor(before, F({1, 2, 3}));
  ExpectTensor((*out)[0], F({0, 1, 2}));
}

TEST(Apply, ExclusiveMemoryIsKept) {
  Device device(*DeviceName::Parse("/job:localhost/replica:0/task:0/device:CPU:0"), &TestDevice().intra_op_pool());
  Graph graph;
  const Scope s = graph.root();
  const Output v = RefVariable(s.WithOpName("v"), kFloat, {3});
  auto variable = std::make_shared<Variable>("v", kFloat);
  ASSERT_TRUE(device.resources().Create<Variable>("", "v", variable).ok());
  variable->Assign(F({1, 2, 3}));
  const float* const memory = variable->Read().data<float>();
  const Output lr = s.Add("_Arg", {}, {{"T", kFloat}, {"index", 0}});
  const Output delta = s.Add("_Arg", {}, {{"T", kFloat}, {"index", 1}});
  const Output update = ApplyGradientDescent(s, v, lr, delta);
  ASSERT_TRUE(s.ok()) << s.status();
  ASSERT_TRUE(Evaluate(graph, {{lr, Scalar(1.0f)}, {delta, F({1, 1, 1})}}, {update}, device).ok());
  EXPECT_EQ(variable->Read().data<float>(), memory);
  ExpectTensor(variable->Read(), F({0, 1, 2}));
}

TEST(Apply, BadInput) {
  const auto message = [](const absl::StatusOr<std::vector<Tensor>>& r) { return std::string(r.status().message()); };
  const Tensor table = Tensor::Of<float>({2, 1}, {1, 2});
  const auto sparse = [&](Tensor grad, Tensor rows) {
    return RunApply("SparseApplyMomentum", {table, table}, {Scalar(1.0f), grad, rows, Scalar(0.5f)});
  };
  auto r = RunApply("ApplyGradientDescent", {F({1, 2})}, {Scalar(1.0f), F({1, 2, 3})});
  EXPECT_EQ(r.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message(r), HasSubstr("var and delta do not have the same shape[2] [3]"));
  r = RunApply("ApplyGradientDescent", {F({1, 2})}, {F({1}), F({1, 2})});
  EXPECT_THAT(message(r), HasSubstr("alpha is not a scalar: [1]"));
  r = RunApply("ApplyMomentum", {F({1, 2}), F({1})}, {Scalar(1.0f), F({1, 2}), Scalar(1.0f)});
  EXPECT_THAT(message(r), HasSubstr("var and accum do not have the same shape[2] [1]"));
  r = RunApply("ApplyGradientDescent", {Tensor()}, {Scalar(1.0f), F({1, 2})});
  EXPECT_FALSE(r.ok());
  r = sparse(Tensor::Of<float>({1, 1}, {1}), Tensor::Vector<int32_t>({2}));
  EXPECT_EQ(r.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message(r), HasSubstr("Index 2 at offset 0 in indices is out of range"));
  r = sparse(Tensor::Of<float>({1, 1}, {1}), Tensor::Vector<int64_t>({-1}));
  EXPECT_THAT(message(r), HasSubstr("Index -1 at offset 0 in indices is out of range"));
  r = sparse(Tensor::Of<float>({2, 1}, {1, 2}), Tensor::Vector<int32_t>({0}));
  EXPECT_THAT(message(r), HasSubstr("grad must be the same size as indices in the first dimension."));
  r = sparse(Tensor::Of<float>({1, 2}, {1, 2}), Tensor::Vector<int32_t>({0}));
  EXPECT_THAT(message(r), HasSubstr("var and grad must match in dimension 1"));
  r = sparse(Tensor::Of<float>({1}, {1}), Tensor::Vector<int32_t>({0}));
  EXPECT_EQ(r.status().code(), absl::StatusCode::kInvalidArgument);
  r = RunApply("SparseApplyMomentum", {Scalar(1.0f), Scalar(1.0f)},
               {Scalar(1.0f), F({1}), Tensor::Vector<int32_t>({0}), Scalar(0.5f)});
  EXPECT_THAT(message(r), HasSubstr("var must be at least 1 dimensional"));
}

TEST(Apply, Uninitialized) {
  Graph graph;
  const Scope s = graph.root();
  const Output v = RefVariable(s.WithOpName("never_assigned"), kFloat, {2});
  const Output lr = s.Add("_Arg", {}, {{"T", kFloat}, {"index", 0}});
  const Output delta = s.Add("_Arg", {}, {{"T", kFloat}, {"index", 1}});
  const Output update = ApplyGradientDescent(s, v, lr, delta);
  const auto r = Evaluate(graph, {{lr, Scalar(1.0f)}, {delta, F({1, 2})}}, {update}, TestDevice());
  EXPECT_EQ(r.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(r.status().message()), HasSubstr("Attempting to use uninitialized value never_assigned"));
}

TEST(Apply, Shapes) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = s.Add("_Arg", {}, {{"T", kFloat}, {"index", 0}});
  EXPECT_EQ(ApplyGradientDescent(s, RefVariable(s, kFloat, {2, 3}), x, x).shape().ToString(), "[2,3]");
  EXPECT_TRUE(s.ok()) << s.status();
  Graph other;
  const Scope t = other.root();
  ApplyMomentum(t, RefVariable(t, kFloat, {2, 3}), RefVariable(t, kFloat, {2, 4}),
                t.Add("_Arg", {}, {{"T", kFloat}, {"index", 0}}), t.Add("_Arg", {}, {{"T", kFloat}, {"index", 1}}),
                t.Add("_Arg", {}, {{"T", kFloat}, {"index", 2}}));
  EXPECT_EQ(t.status().code(), absl::StatusCode::kInvalidArgument);
}

// Updates from several threads never wait for each other in a circle, whatever
// the order in which they name the variables.
TEST(Apply, LocksInOrder) {
  Device device(*DeviceName::Parse("/job:localhost/replica:0/task:0/device:CPU:0"), &TestDevice().intra_op_pool());
  auto a = std::make_shared<Variable>("a", kFloat), b = std::make_shared<Variable>("b", kFloat);
  ASSERT_TRUE(device.resources().Create<Variable>("", "a", a).ok());
  ASSERT_TRUE(device.resources().Create<Variable>("", "b", b).ok());
  a->Assign(F({0}));
  b->Assign(F({0}));
  const auto work = [&](const char* first, const char* second) {
    Graph graph;
    const Scope s = graph.root();
    const Output x = s.Add("_Arg", {}, {{"T", kFloat}, {"index", 0}});
    const Output g = s.Add("_Arg", {}, {{"T", kFloat}, {"index", 1}});
    const Output update = ApplyMomentum(s, RefVariable(s.WithOpName(first), kFloat, {1}),
                                        RefVariable(s.WithOpName(second), kFloat, {1}), x, g, x);
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(Evaluate(graph, {{x, Scalar(0.0f)}, {g, F({1})}}, {update}, device).ok());
    }
  };
  std::thread one([&] { work("a", "b"); }), two([&] { work("b", "a"); });
  one.join();
  two.join();
}

}  // namespace
}  // namespace thalweg
