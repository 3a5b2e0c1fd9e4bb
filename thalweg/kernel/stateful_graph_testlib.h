// SPDX-License-Identifier: Apache-2.0
// For tests of ops that keep state between runs.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/device.h"
#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// A fixture with a graph that the test builds and runs step by step. State, such as
// variables, lives on the fixture's own device.
class StatefulGraphTest : public testing::Test {
 protected:
  using Feeds = absl::flat_hash_map<Output, Tensor>;

  absl::StatusOr<Tensor> Try(Output output, const Feeds& feeds = {}) {
    EXPECT_TRUE(s_.ok()) << s_.status();
    if (!s_.ok()) return s_.status();
    auto values = Evaluate(graph_, feeds, {output}, device_);
    if (!values.ok()) return values.status();
    return (*values)[0];
  }
  Tensor Run(Output output, const Feeds& feeds = {}) {
    const auto value = Try(output, feeds);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? *value : Tensor();
  }
  std::string Error(Output output, const Feeds& feeds = {}) { return Try(output, feeds).status().ToString(); }
  // An argument of unknown shape, so that shape errors appear only when the node runs.
  Output Arg(DType dtype) { return s_.Add("_Arg", {}, {{"T", dtype}, {"index", index_++}}); }

  Device device_{*DeviceName::Parse("/job:localhost/replica:0/task:0/device:CPU:0"), &TestDevice().intra_op_pool()};
  Graph graph_;
  Scope s_ = graph_.root();

 private:
  int index_ = 0;
};

}  // namespace thalweg
