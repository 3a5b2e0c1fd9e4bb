// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

constexpr int64_t kTime = 3, kDepth = 5;

struct Layer {
  Layer(int64_t batch, int64_t units) : batch(batch), units(units) {
    const Shape state({batch, units}), peephole({units});
    inputs = {TestValues(kFloat, {kTime, batch, kDepth}, -1, 1, 1),
              TestValues(kFloat, state, -1, 1, 2),
              TestValues(kFloat, state, -1, 1, 3),
              TestValues(kFloat, {kDepth + units, 4 * units}, -.3, .3, 4),
              TestValues(kFloat, peephole, -1, 1, 5),
              TestValues(kFloat, peephole, -1, 1, 6),
              TestValues(kFloat, peephole, -1, 1, 7),
              TestValues(kFloat, {4 * units}, -1, 1, 8)};
  }
  float in(int i, int64_t at) const { return inputs[i].data<float>()[at]; }

  // The last h, by definition.
  Tensor LastH(bool peephole, double clip) const {
    std::vector<double> c(batch * units), h(batch * units);
    for (int64_t i = 0; i < batch * units; ++i) c[i] = in(1, i), h[i] = in(2, i);
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    for (int64_t t = 0; t < kTime; ++t) {
      const std::vector<double> before = h;
      for (int64_t i = 0; i < batch * units; ++i) {
        const int64_t b = i / units, u = i % units;
        double gates[4];
        for (int64_t g = 0; g < 4; ++g) {
          const int64_t column = g * units + u;
          gates[g] = in(7, column);
          for (int64_t d = 0; d < kDepth; ++d) {
            gates[g] += in(0, (t * batch + b) * kDepth + d) * in(3, d * 4 * units + column);
          }
          for (int64_t d = 0; d < units; ++d) {
            gates[g] += before[b * units + d] * in(3, (kDepth + d) * 4 * units + column);
          }
        }
        const double wci = peephole ? in(4, u) : 0, wcf = peephole ? in(5, u) : 0, wco = peephole ? in(6, u) : 0;
        const double forget = sigmoid(gates[2] + 1 + wcf * c[i]);
        c[i] = std::clamp(std::tanh(gates[1]) * sigmoid(gates[0] + wci * c[i]) + c[i] * forget, -clip, clip);
        h[i] = sigmoid(gates[3] + wco * c[i]) * std::tanh(c[i]);
      }
    }
    Tensor result(kFloat, {batch, units});
    std::copy(h.begin(), h.end(), result.mutable_data<float>());
    return result;
  }

  int64_t batch, units;
  std::vector<Tensor> inputs;  // inputs of the op after the number of steps
};

// Units that fill vectors and that do not, and enough rows to share.
TEST(BlockLstmTest, Values) {
  for (const int64_t units : {1, 8, 37}) {
    const Layer layer(70, units);
    for (const bool peephole : {false, true}) {
      std::vector<OpArg> inputs = {Tensor::Scalar<int64_t>(kTime)};
      inputs.insert(inputs.end(), layer.inputs.begin(), layer.inputs.end());
      const auto y = RunOp("BlockLSTM", inputs, {{"use_peephole", peephole}, {"cell_clip", 0.8f}});
      ASSERT_TRUE(y.ok()) << y.status();
      const Tensor all = (*y)[6].WithShape(Shape({kTime, 70 * units}));
      ExpectTensor(all.Rows(kTime - 1, kTime).WithShape(Shape({70, units})), layer.LastH(peephole, 0.8f), 1e-4);
    }
  }
}

TEST(BlockLstmTest, Gradients) {
  const Layer layer(2, 9);
  for (const bool peephole : {false, true}) {
    std::vector<Tensor> variables = layer.inputs;
    if (!peephole) variables.erase(variables.begin() + 4, variables.begin() + 7);
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& x) {
          std::vector<OpInput> inputs = {Const(s, kTime)};
          inputs.insert(inputs.end(), x.begin(), x.end());
          if (!peephole) {
            for (int i = 4; i < 7; ++i) inputs.insert(inputs.begin() + 1 + i, Const(s, layer.inputs[i]));
          }
          Node* const node = s.Add("BlockLSTM", inputs, {{"use_peephole", peephole}, {"cell_clip", 0.0f}});
          return node == nullptr ? Output() : node->out(6);
        },
        variables, 2e-2);
  }
}

// The halves 1 and 2 of the columns change places.
Tensor Turned(const Tensor& t) {
  Tensor turned = Tensor::Zeros(kFloat, t.shape());
  const int64_t columns = t.dim(t.rank() - 1), n = columns / 4;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const int64_t gate = i % columns / n, to = gate == 1 ? 2 : gate == 2 ? 1 : gate;
    turned.mutable_data<float>()[i + (to - gate) * n] = t.data<float>()[i];
  }
  return turned;
}

// BlockLSTMV2 is BlockLSTM without a bias of its own and f before ci.
TEST(BlockLstmTest, ForgetFirst) {
  const Layer layer(2, 9);
  for (const bool peephole : {false, true}) {
    std::vector<OpArg> inputs = {Tensor::Scalar<int64_t>(kTime)}, turned = inputs;
    for (int i = 0; i < 8; ++i) {
      inputs.push_back(layer.inputs[i]);
      turned.push_back(i == 3 || i == 7 ? Turned(layer.inputs[i]) : layer.inputs[i]);
    }
    const auto first =
        RunOp("BlockLSTM", inputs, {{"use_peephole", peephole}, {"cell_clip", 0.0f}, {"forget_bias", 0.0f}});
    const auto second = RunOp("BlockLSTMV2", turned, {{"use_peephole", peephole}});
    ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
    for (int k = 0; k < 7; ++k) ExpectTensor((*second)[k], (*first)[k]);
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& x) {
          std::vector<OpInput> all = {Const(s, kTime)};
          all.insert(all.end(), x.begin(), x.end());
          for (int i = 4; i < 7; ++i) all.insert(all.begin() + 1 + i, Const(s, layer.inputs[i]));
          Node* const node = s.Add("BlockLSTMV2", all, {{"use_peephole", peephole}});
          return node == nullptr ? Output() : node->out(6);
        },
        {layer.inputs[0], layer.inputs[1], layer.inputs[2], Turned(layer.inputs[3]), Turned(layer.inputs[7])}, 2e-2);
  }
}

// LSTMBlockCell is a layer of one step.
TEST(BlockLstmTest, Cell) {
  const Layer layer(3, 9);
  const Tensor x = layer.inputs[0].Rows(0, 1);
  for (const bool peephole : {false, true}) {
    const std::vector<AttrArg> attrs = {{"use_peephole", peephole}, {"cell_clip", 0.8f}};
    std::vector<OpArg> inputs = {Tensor::Scalar<int64_t>(1), x}, cell = {x.WithShape({3, kDepth})};
    for (int i = 1; i < 8; ++i) {
      inputs.push_back(layer.inputs[i]);
      cell.push_back(layer.inputs[i]);
    }
    const auto whole = RunOp("BlockLSTM", inputs, attrs), one = RunOp("LSTMBlockCell", cell, attrs);
    ASSERT_TRUE(whole.ok() && one.ok()) << whole.status() << one.status();
    for (int k = 0; k < 7; ++k) ExpectTensor((*one)[k], (*whole)[k].WithShape({3, 9}));
    std::vector<Tensor> variables = layer.inputs;
    variables[0] = x.WithShape({3, kDepth});
    if (!peephole) variables.erase(variables.begin() + 4, variables.begin() + 7);
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& in) {
          std::vector<OpInput> all(in.begin(), in.end());
          for (int i = 4; i < 7 && !peephole; ++i) all.insert(all.begin() + i, Const(s, layer.inputs[i]));
          Node* const node = s.Add("LSTMBlockCell", all, {{"use_peephole", peephole}, {"cell_clip", 0.0f}});
          return node == nullptr ? Output() : Output(s.Add("AddV2", {node->out(1), node->out(6)}));
        },
        variables, 2e-2);
  }
}

}  // namespace
}  // namespace thalweg
