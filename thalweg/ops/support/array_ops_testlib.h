// SPDX-License-Identifier: Apache-2.0
// For tests of array ops: one output of an op, or its error.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline Tensor Result(absl::string_view op, std::vector<OpArg> inputs, std::vector<AttrArg> attrs = {}, int output = 0) {
  absl::StatusOr<std::vector<Tensor>> y = RunOp(op, std::move(inputs), std::move(attrs));
  EXPECT_TRUE(y.ok()) << std::string(op) << ": " << y.status();
  return y.ok() ? (*y)[output] : Tensor();
}

inline Tensor BinaryResult(absl::string_view op, const Tensor& x, const Tensor& y, std::vector<AttrArg> attrs = {}) {
  return Result(op, {x, y}, std::move(attrs));
}

// The error of a run in which the graph does not know the inputs' shapes, so that the kernel must find
// it.
inline absl::Status KernelError(absl::string_view op, const std::vector<OpArg>& inputs,
                                std::vector<AttrArg> attrs = {}) {
  Graph graph;
  const Scope s = graph.root();
  std::vector<OpInput> args;
  absl::flat_hash_map<Output, Tensor> feeds;
  int index = 0;
  for (const OpArg& input : inputs) {
    std::vector<Output> outputs;
    for (const Tensor& tensor : input.tensors) {
      const Output arg = s.Add("_Arg", {}, {{"T", tensor.dtype()}, {"index", index++}});
      feeds[arg] = tensor;
      outputs.push_back(arg);
    }
    args.push_back(input.is_list ? OpInput(std::move(outputs)) : OpInput(outputs[0]));
  }
  Node* const node = s.Add(op, std::move(args), std::move(attrs));
  if (!s.ok()) return s.status();
  absl::StatusOr<std::vector<Tensor>> y = Evaluate(graph, feeds, {Output(node)}, TestDevice());
  EXPECT_FALSE(y.ok()) << std::string(op) << " should fail";
  return y.status();
}

// Expects INVALID_ARGUMENT with a message that begins with `text`.
inline void ExpectInvalid(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith(text));
}

// The values of outputs of a graph.
inline std::vector<Tensor> Values(const Scope& s, const std::vector<Output>& outputs) {
  EXPECT_TRUE(s.ok()) << s.status();
  if (!s.ok()) return std::vector<Tensor>(outputs.size());
  absl::StatusOr<std::vector<Tensor>> values = Evaluate(s.graph(), {}, outputs, TestDevice());
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *values : std::vector<Tensor>(outputs.size());
}

inline Tensor Ints(std::initializer_list<int32_t> v) { return Tensor::Vector<int32_t>(v); }
inline Tensor Longs(std::initializer_list<int64_t> v) { return Tensor::Vector<int64_t>(v); }
inline Tensor FloatVector(std::initializer_list<float> v) { return Tensor::Vector<float>(v); }
inline Tensor Int(int32_t v) { return Tensor::Scalar<int32_t>(v); }
inline Tensor Strings(std::initializer_list<std::string> v) { return Tensor::Vector<std::string>(v); }
// 1, 2, 3, ...
inline Tensor Counting(Shape shape) {
  Tensor t(kFloat, std::move(shape));
  for (int64_t i = 0; i < t.num_elements(); ++i) t.mutable_data<float>()[i] = static_cast<float>(i + 1);
  return t;
}

}  // namespace thalweg
