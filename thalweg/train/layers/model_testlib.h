// SPDX-License-Identifier: Apache-2.0
// Shared by tests of models: a graph with a session, deterministic weights, and a fingerprint
// of tensors for comparison with TensorFlow.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "thalweg/client/session.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/train/layers/variable.h"

namespace thalweg {

struct Model {
  std::vector<Tensor> Run(const std::vector<Output>& outputs, const std::vector<Feed>& feeds = {}) {
    EXPECT_TRUE(s.ok()) << s.status();
    if (session == nullptr && s.ok()) session = *Session::Create(graph);
    auto values = s.ok() ? session->Run({outputs.begin(), outputs.end()}, feeds) : s.status();
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? *values : std::vector<Tensor>(outputs.size());
  }
  Tensor Run(Output output, const std::vector<Feed>& feeds = {}) { return Run(std::vector<Output>{output}, feeds)[0]; }
  // "dense/kernel[3,4]", ...
  std::vector<std::string> Variables() {
    std::vector<std::string> names;
    for (const Var& v : GlobalVariables(graph)) names.push_back(v.name() + v.shape().ToString());
    return names;
  }

  Graph graph;
  Scope s = graph.root();
  std::unique_ptr<Session> session;  // created by the first Run
};

// scale * sin(step * i) for element i.
inline Tensor Wave(const Shape& shape, double step = 0.7, double scale = 0.5) {
  Tensor t(kFloat, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.flat<float>()[i] = static_cast<float>(std::sin(step * static_cast<double>(i)) * scale);
  }
  return t;
}
inline Output WaveInitializer(const Scope& s, const Shape& shape, DType) { return Const(s, Wave(shape)); }

// A fingerprint of a tensor: the sum of t[i] * cos(0.3 * i).
inline double Mark(const Tensor& t) {
  double sum = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double x = t.dtype() == kInt64 ? static_cast<double>(t.data<int64_t>()[i]) : t.data<float>()[i];
    sum += x * std::cos(0.3 * static_cast<double>(i));
  }
  return sum;
}
inline void ExpectMarks(const std::vector<Tensor>& tensors, const std::vector<double>& expected) {
  ASSERT_EQ(tensors.size(), expected.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].has_value()) continue;
    EXPECT_NEAR(Mark(tensors[i]), expected[i], 2e-5 * (1 + std::abs(expected[i]))) << "tensor " << i;
  }
}

}  // namespace thalweg
