// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/call_deduplicator.h"

#include <new>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace thalweg {
namespace {

class FakeCall : public ServerCall {
 public:
  grpc::ByteBuffer& request() override { return request_; }
  Cancellation& cancellation() override { return cancellation_; }
  void Reply(const absl::Status& status, const grpc::ByteBuffer& response) override {
    ++replies;
    code = status.code();
    bytes = response.Length();
  }
  int replies = 0;
  absl::StatusCode code = absl::StatusCode::kUnknown;
  size_t bytes = 0;

 private:
  grpc::ByteBuffer request_;
  Cancellation cancellation_;
};

grpc::ByteBuffer Zeros(size_t n) {
  grpc::Slice slice(std::string(n, 'x'));
  return grpc::ByteBuffer(&slice, 1);
}

TEST(CallDeduplicator, ARepetitionWaitsForTheAnswerOfTheFirst) {
  CallDeduplicator calls;
  FakeCall first, second;
  EXPECT_TRUE(calls.Begin(7, first));
  EXPECT_FALSE(calls.Begin(7, second));
  EXPECT_EQ(second.replies, 0);
  calls.Reply(7, first, absl::OkStatus(), Zeros(3));
  EXPECT_EQ(first.replies, 1);
  EXPECT_EQ(second.replies, 1);
  EXPECT_EQ(second.bytes, 3u);
}

TEST(CallDeduplicator, ARepetitionOfOneThatEndedGetsItsAnswer) {
  CallDeduplicator calls;
  FakeCall first, second;
  EXPECT_TRUE(calls.Begin(7, first));
  calls.Reply(7, first, absl::AbortedError("why"), {});
  EXPECT_FALSE(calls.Begin(7, second));
  EXPECT_EQ(second.replies, 1);
  EXPECT_EQ(second.code, absl::StatusCode::kAborted);
}

TEST(CallDeduplicator, RepetitionsOfACallWhoseHandlerThrowsGetItsError) {
  CallDeduplicator calls;
  FakeCall first, second, third;
  EXPECT_TRUE(calls.Begin(7, first));
  EXPECT_FALSE(calls.Begin(7, second));
  EXPECT_THROW(calls.Serve(7, [] { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_EQ(first.replies, 0);  // the server answers it
  EXPECT_EQ(second.replies, 1);
  EXPECT_EQ(second.code, absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(calls.Begin(7, third));
  EXPECT_EQ(third.replies, 1);
  calls.Reply(7, first, absl::OkStatus(), Zeros(3));  // of a callback that the handler left behind
  EXPECT_EQ(second.replies, 1);
}

TEST(CallDeduplicator, KeepsAsMuchAsItMay) {
  CallDeduplicator calls(/*max_answers=*/2, /*max_bytes=*/100);
  FakeCall call;
  for (const int id : {1, 2, 3}) {
    EXPECT_TRUE(calls.Begin(id, call));
    calls.Reply(id, call, absl::OkStatus(), Zeros(10));
  }
  EXPECT_FALSE(calls.Begin(3, call));
  EXPECT_TRUE(calls.Begin(1, call));  // forgotten
  calls.Reply(1, call, absl::OkStatus(), Zeros(1000));
  EXPECT_TRUE(calls.Begin(1, call));  // too large to keep
}

TEST(CallDeduplicator, CallsWithoutAnIdAreAllServed) {
  CallDeduplicator calls;
  FakeCall first, second;
  EXPECT_TRUE(calls.Begin(0, first));
  EXPECT_TRUE(calls.Begin(0, second));
  calls.Reply(0, first, absl::OkStatus(), {});
  EXPECT_EQ(first.replies, 1);
  EXPECT_EQ(second.replies, 0);
}

}  // namespace
}  // namespace thalweg
