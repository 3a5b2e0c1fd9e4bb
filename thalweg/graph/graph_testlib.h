// SPDX-License-Identifier: Apache-2.0
// For tests of the layers below ops/: a few ops with TensorFlow's signatures, matchers
// for statuses, and helpers.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/scope.h"
#include "thalweg/proto/graph.pb.h"

// End the test if the expression, a Status, is not OK, or if a StatusOr has no value to
// assign to `lhs`.
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::thalweg::IsOk())
#define ASSERT_OK_AND_ASSIGN(lhs, expression)                                                        \
  auto THALWEG_CONCAT(result_, __LINE__) = (expression);                                             \
  ASSERT_TRUE(THALWEG_CONCAT(result_, __LINE__).ok()) << THALWEG_CONCAT(result_, __LINE__).status(); \
  lhs = *std::move(THALWEG_CONCAT(result_, __LINE__))

namespace thalweg {

// Registers the tests' ops, once: v1 control flow, VariableV2, Assign, Const,
// Placeholder, Identity, Mul, NoOp, the ops that gradients use, and some that exist
// only for tests. graph_testlib.cc lists them.
// REQUIRES: the program does not link ops/.
void RegisterTestOps();

// Parses a GraphDef in text form. If it does not parse, the test fails and the result
// is empty.
tensorflow::GraphDef ParseGraph(const std::string& text);

// The expression that computes an output: "Mul(a, AddN(b, c))". A node without inputs
// is shown by its name, an output other than the first with its index.
std::string Expression(const Output& output);

Output Constant(const Scope& s, const Tensor& value);

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// EXPECT_THAT(graph.Import(def), Fails(absl::StatusCode::kInvalidArgument, "not unique"));
MATCHER_P2(Fails, code, text,
           absl::StrCat("is an error of code ", absl::StatusCodeToString(code), " that says '", text, "'")) {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).code() == code && absl::StrContains(StatusOf(arg).message(), text);
}
MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).ok();
}

}  // namespace thalweg
