// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/status.h"

#include <memory>
#include <string>

#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace thalweg {
namespace {

TEST(StatusTest, ConstructorsConcatenate) {
  const absl::Status status = InvalidArgument("dimension ", 3, " of ", std::string("x"), ": got ", 1.5);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "dimension 3 of x: got 1.5");
  EXPECT_EQ(Cancelled().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Unavailable("a").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(DataLoss("a").code(), absl::StatusCode::kDataLoss);
}

TEST(StatusTest, PrependAndAppendKeepCodeAndPayload) {
  absl::Status status = NotFound("no such node");
  status.SetPayload("url", absl::Cord("payload"));
  const absl::Status longer = Append(Prepend(status, "Run: "), " (fetch 2)");
  EXPECT_EQ(longer.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(longer.message(), "Run: no such node (fetch 2)");
  EXPECT_EQ(longer.GetPayload("url"), absl::Cord("payload"));
  EXPECT_TRUE(Prepend(absl::OkStatus(), "Run: ").ok());
  EXPECT_TRUE(Append(absl::OkStatus(), "Run: ").ok());
}

absl::Status Positive(int x) {
  if (x <= 0) return OutOfRange("got ", x);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<int>> Boxed(int x) {
  RETURN_IF_ERROR(Positive(x));
  return std::make_unique<int>(x);
}

absl::StatusOr<int> Sum(int x, int y) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> first, Boxed(x));
  std::unique_ptr<int> second;
  ASSIGN_OR_RETURN(second, Boxed(y));
  return *first + *second;
}

TEST(StatusTest, MacrosPassErrorsOn) {
  ASSERT_TRUE(Sum(1, 2).ok());
  EXPECT_EQ(*Sum(1, 2), 3);
  EXPECT_EQ(Sum(-1, 2).status(), OutOfRange("got -1"));
  EXPECT_EQ(Sum(1, -2).status(), OutOfRange("got -2"));
}

TEST(StatusTest, ReturnIfErrorIsOneStatement) {
  const auto check = [](bool condition, int x) -> absl::Status {
    if (condition)
      RETURN_IF_ERROR(Positive(x));
    else
      return Internal("else");
    return absl::OkStatus();
  };
  EXPECT_TRUE(check(true, 1).ok());
  EXPECT_EQ(check(true, 0), OutOfRange("got 0"));
  EXPECT_EQ(check(false, 1), Internal("else"));
}

}  // namespace
}  // namespace thalweg
