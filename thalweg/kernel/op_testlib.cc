// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/op_testlib.h"

#include <cmath>
#include <random>

#include "thalweg/base/status.h"
#include "thalweg/kernel/evaluate.h"

namespace thalweg {
namespace {

Output AddArg(const Scope& s, DType dtype, int index) { return s.Add("_Arg", {}, {{"T", dtype}, {"index", index}}); }

double AsDouble(const Tensor& t, int64_t i) {
  double value = 0;
  absl::Status status = Dispatch(RealTypes(), t.dtype(), [&]<typename T>() {
    value = static_cast<double>(t.data<T>()[i]);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return value;
}

bool Near(double actual, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::abs(actual - expected) <= tolerance * std::max(1.0, std::abs(expected));
}

template <typename T>
bool SameElement(const T& a, const T& b, double tolerance) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return Near(a.real(), b.real(), tolerance) && Near(a.imag(), b.imag(), tolerance);
  } else if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return Near(static_cast<double>(a), static_cast<double>(b), tolerance);
  } else {
    return a == b;
  }
}

std::set<std::string>& CheckedOps() {
  static auto* const ops = new std::set<std::string>;
  return *ops;
}

// Notes the op types on the paths to `y` from those nodes of which `depends` is
// true already; whether there is one.
bool NotePath(const Node* y, absl::flat_hash_map<const Node*, bool>& depends) {
  const auto [known, is_new] = depends.try_emplace(y, false);
  if (!is_new) return known->second;
  bool on_path = false;
  for (const Output& input : y->inputs()) on_path |= NotePath(input.node, depends);
  if (on_path) CheckedOps().insert(y->op());
  return depends[y] = on_path;
}

}  // namespace

Device& TestDevice() {
  static IntraOpPool* const intra_op_pool = new IntraOpPool(1);
  static Device* const device =
      new Device(*DeviceName::Parse("/job:localhost/replica:0/task:0/device:CPU:0"), intra_op_pool);
  return *device;
}

absl::StatusOr<std::vector<Tensor>> RunOp(absl::string_view op, std::vector<OpArg> inputs, std::vector<AttrArg> attrs) {
  Graph graph;
  const Scope s = graph.root();
  std::vector<OpInput> args;
  absl::flat_hash_map<Output, Tensor> feeds;
  int index = 0;
  for (OpArg& input : inputs) {
    std::vector<Output> outputs;
    for (Tensor& tensor : input.tensors) {
      const Output arg = AddArg(s, tensor.dtype(), index++);
      if (arg.node == nullptr) return s.status();
      // Shape functions see the shapes that kernels see.
      arg.node->set_output_shape(0, tensor.shape());
      feeds[arg] = tensor;
      outputs.push_back(arg);
    }
    args.push_back(input.is_list ? OpInput(std::move(outputs)) : OpInput(outputs[0]));
  }
  Node* node = s.Add(op, std::move(args), std::move(attrs));
  RETURN_IF_ERROR(s.status());
  std::vector<Output> fetches;
  for (int i = 0; i < node->num_outputs(); ++i) fetches.push_back(node->out(i));
  if (fetches.empty()) fetches.push_back(Output(node));
  return Evaluate(graph, feeds, fetches, TestDevice());
}

absl::StatusOr<std::string> InferShape(absl::string_view op, const std::vector<std::pair<DType, PartialShape>>& inputs,
                                       std::vector<AttrArg> attrs) {
  Graph graph;
  const Scope s = graph.root();
  std::vector<OpInput> args;
  for (const auto& [dtype, shape] : inputs) {
    const Output arg = AddArg(s, dtype, static_cast<int>(args.size()));
    if (arg.node == nullptr) return s.status();
    arg.node->set_output_shape(0, shape);
    args.push_back(arg);
  }
  Node* node = s.Add(op, std::move(args), std::move(attrs));
  RETURN_IF_ERROR(s.status());
  return node->output_shape(0).ToString();
}

void ExpectTensor(const Tensor& actual, const Tensor& expected, double tolerance) {
  ASSERT_EQ(ToString(actual.dtype()), ToString(expected.dtype()));
  ASSERT_EQ(actual.shape().ToString(), expected.shape().ToString());
  const absl::Status status =
      Dispatch(Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                     uint64_t, std::complex<float>, std::complex<double>, bool, std::string>(),
               actual.dtype(), [&]<typename T>() -> absl::Status {
                 for (int64_t i = 0; i < actual.num_elements(); ++i) {
                   if (!SameElement(actual.data<T>()[i], expected.data<T>()[i], tolerance)) {
                     return InvalidArgument("element ", i, " differs");
                   }
                 }
                 return absl::OkStatus();
               });
  EXPECT_TRUE(status.ok()) << status << "\nactual:   " << actual.ToString(64)
                           << "\nexpected: " << expected.ToString(64);
}

void ExpectGradient(const std::function<Output(const Scope&, const std::vector<Output>&)>& build,
                    const std::vector<Tensor>& xs, double tolerance) {
  Graph graph;
  const Scope s = graph.root();
  std::vector<Output> inputs;
  absl::flat_hash_map<Output, Tensor> feeds;
  for (const Tensor& x : xs) {
    inputs.push_back(AddArg(s, x.dtype(), static_cast<int>(inputs.size())));
    ASSERT_TRUE(s.ok()) << s.status();
    inputs.back().node->set_output_shape(0, x.shape());
    feeds[inputs.back()] = x;
  }
  const Output y = build(s, inputs);
  ASSERT_TRUE(s.ok()) << s.status();
  absl::StatusOr<std::vector<Tensor>> y0 = Evaluate(graph, feeds, {y}, TestDevice());
  ASSERT_TRUE(y0.ok()) << y0.status();
  const Tensor weights = TestValues(y.dtype(), (*y0)[0].shape(), 0.5, 1.5, 7);
  const Output w = AddArg(s, y.dtype(), static_cast<int>(inputs.size()));
  w.node->set_output_shape(0, weights.shape());
  feeds[w] = weights;
  const std::vector<Gradient> gradients = Gradients(s, {y}, inputs, {w});
  ASSERT_TRUE(s.ok()) << s.status();
  absl::flat_hash_map<const Node*, bool> depends;
  for (const Output& x : inputs) depends[x.node] = IsFloating(x.dtype());
  NotePath(y.node, depends);

  const auto weighted_sum = [&](const absl::flat_hash_map<Output, Tensor>& at) {
    absl::StatusOr<std::vector<Tensor>> value = Evaluate(graph, at, {y}, TestDevice());
    EXPECT_TRUE(value.ok()) << value.status();
    double sum = 0;
    for (int64_t i = 0; i < weights.num_elements(); ++i) sum += AsDouble(weights, i) * AsDouble((*value)[0], i);
    return sum;
  };
  for (size_t k = 0; k < xs.size(); ++k) {
    if (!IsFloating(xs[k].dtype())) continue;
    ASSERT_TRUE(gradients[k]) << "no gradient for input " << k;
    absl::StatusOr<std::vector<Tensor>> dx = Evaluate(graph, feeds, {ToDense(s, gradients[k])}, TestDevice());
    ASSERT_TRUE(dx.ok()) << dx.status();
    ASSERT_EQ((*dx)[0].shape().ToString(), xs[k].shape().ToString()) << "gradient of input " << k;
    const double delta = xs[k].dtype() == kDouble ? 1e-5 : 1e-2;
    for (int64_t i = 0; i < xs[k].num_elements(); ++i) {
      absl::flat_hash_map<Output, Tensor> at = feeds;
      const auto shifted = [&](double by) {
        Tensor x = xs[k].Clone();
        if (x.dtype() == kDouble) x.flat<double>()[i] += by;
        if (x.dtype() == kFloat) x.flat<float>()[i] += static_cast<float>(by);
        at[inputs[k]] = x;
        return weighted_sum(at);
      };
      const double numeric = (shifted(delta) - shifted(-delta)) / (2 * delta);
      EXPECT_TRUE(Near(AsDouble((*dx)[0], i), numeric, tolerance))
          << "input " << k << " element " << i << ": gradient " << AsDouble((*dx)[0], i) << ", numerically " << numeric;
    }
  }
}

const std::set<std::string>& OpsOfCheckedGradients() { return CheckedOps(); }

Tensor TestValues(DType dtype, Shape shape, double low, double high, int seed) {
  Tensor t(dtype, std::move(shape));
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  const absl::Status status = Dispatch(RealTypes(), dtype, [&]<typename T>() {
    for (T& v : t.flat<T>()) v = static_cast<T>(uniform(random));
    return absl::OkStatus();
  });
  CHECK(status.ok()) << status;
  return t;
}

}  // namespace thalweg
