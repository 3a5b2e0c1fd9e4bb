// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

TEST(TopKTest, Values) {
  const Tensor x = Tensor::Of<float>({2, 4}, {1, 4, 4, 2, 9, 8, 7, kNan});
  for (const int32_t k : {1, 2, 4}) {
    absl::StatusOr<std::vector<Tensor>> y = RunOp("TopKV2", {x, Tensor::Scalar<int32_t>(k)});
    ASSERT_TRUE(y.ok()) << y.status();
    const float values[2][4] = {{4, 4, 2, 1}, {9, 8, 7, kNan}};
    const int32_t at[2][4] = {{1, 2, 3, 0}, {0, 1, 2, 3}};
    Tensor v(kFloat, {2, k}), i(kInt32, {2, k});
    for (int r = 0; r < 2; ++r) {
      for (int c = 0; c < k; ++c) {
        v.flat<float>()[r * k + c] = values[r][c];
        i.flat<int32_t>()[r * k + c] = at[r][c];
      }
    }
    ExpectTensor((*y)[0], v);
    ExpectTensor((*y)[1], i);
  }
  absl::StatusOr<std::vector<Tensor>> y = RunOp("TopK", {x}, {{"k", 0}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Tensor(kFloat, {2, 0}));
}

// Memory that a process of the same host has sent: it may write there while the values are sorted.
TEST(TopKTest, ValuesThatChangeMeanwhile) {
  constexpr int64_t kValues = 200'000;
  void* const shared =
      mmap(nullptr, kValues * sizeof(float), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  float* const values = static_cast<float*>(shared);
  const pid_t parent = getpid(), child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint32_t i = 1; getppid() == parent; i = i * 1664525 + 1013904223) {
      values[i % kValues] = static_cast<float>(i >> 8);
    }
    _exit(0);
  }
  const Tensor x(kFloat, {kValues}, BufferPtr(Buffer::Wrap(shared, kValues * sizeof(float), [] {})), shared);
  for (int i = 0; i < 10; ++i) {
    const absl::StatusOr<std::vector<Tensor>> y =
        RunOp("TopKV2", {x, Tensor::Scalar<int32_t>(static_cast<int32_t>(kValues))});
    EXPECT_TRUE(y.ok()) << y.status();
    if (!y.ok()) break;
    const auto best = (*y)[0].flat<float>();
    EXPECT_TRUE(std::is_sorted(best.begin(), best.end(), std::greater<float>()));
    std::vector<bool> found(kValues);
    for (const int32_t at : (*y)[1].flat<int32_t>()) {
      if (at >= 0 && at < kValues) found[at] = true;
    }
    EXPECT_TRUE(std::all_of(found.begin(), found.end(), [](bool is_there) { return is_there; }));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  munmap(shared, kValues * sizeof(float));
}

TEST(TopKTest, OtherTypes) {
  absl::StatusOr<std::vector<Tensor>> y =
      RunOp("TopKV2", {Tensor::Vector<uint8_t>({3, 9, 1}), Tensor::Scalar<int64_t>(2)}, {{"index_type", kInt64}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Tensor::Vector<uint8_t>({9, 3}));
  ExpectTensor((*y)[1], Tensor::Vector<int64_t>({1, 0}));
}

TEST(TopKTest, BadInput) {
  const Tensor x = Tensor::Zeros(kFloat, {2, 3});
  const auto error = [](const Tensor& in, const Tensor& k) { return RunOp("TopKV2", {in, k}).status(); };
  EXPECT_THAT(error(x, Tensor::Scalar<int32_t>(4)).message(),
              HasSubstr("input must have at least k columns. Had 3, needed 4"));
  EXPECT_THAT(error(x, Tensor::Scalar<int32_t>(-1)).message(), HasSubstr("Need k >= 0, got -1"));
  EXPECT_EQ(error(Tensor::Scalar<float>(1), Tensor::Scalar<int32_t>(1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error(x, Tensor::Vector<int32_t>({1})).code(), absl::StatusCode::kInvalidArgument);
}

TEST(TopKTest, Shapes) {
  EXPECT_EQ(*InferShape("TopK", {{kFloat, {-1, 10}}}, {{"k", 3}}), "[?,3]");
  EXPECT_EQ(*InferShape("TopKV2", {{kFloat, {-1, 10}}, {kInt32, Shape()}}), "[?,?]");
  EXPECT_FALSE(InferShape("TopK", {{kFloat, {2}}}, {{"k", 3}}).ok());
}

TEST(TopKTest, Gradient) {
  ExpectGradient([](const Scope& s, const std::vector<Output>& in) { return TopK(s, in[0], in[1]).values; },
                 {TestValues(kDouble, {2, 3, 5}), Tensor::Scalar<int32_t>(2)});
}

TEST(InTopKTest, Values) {
  const Tensor predictions =
      Tensor::Of<float>({4, 3}, {0.1f, 0.8f, 0.1f, 0.5f, 0.3f, 0.2f, 0.1f, 0.1f, 0.8f, 0.1f, kNan, 0.2f});
  const Tensor targets = Tensor::Vector<int32_t>({1, 2, 0, 0});
  ExpectTensor((*RunOp("InTopK", {predictions, targets}, {{"k", 1}}))[0],
               Tensor::Vector<bool>({true, false, false, false}));
  ExpectTensor((*RunOp("InTopKV2", {predictions, targets, Tensor::Scalar<int32_t>(2)}))[0],
               Tensor::Vector<bool>({true, false, true, false}));
  // Out of range is not an error, only a miss.
  ExpectTensor(
      (*RunOp("InTopKV2", {predictions, Tensor::Vector<int64_t>({3, -1, 2, 2}), Tensor::Scalar<int64_t>(3)}))[0],
      Tensor::Vector<bool>({false, false, true, false}));
}

TEST(InTopKTest, BadInput) {
  const absl::Status status =
      RunOp("InTopKV2", {Tensor(kFloat, {2, 3}), Tensor::Vector<int32_t>({0}), Tensor::Scalar<int32_t>(1)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunOp("InTopK", {Tensor(kFloat, {3}), Tensor::Vector<int32_t>({0})}, {{"k", 1}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace thalweg
