// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/accumulator.h"

#include <thread>

#include "absl/strings/str_join.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/data_flow_ops.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AccumulatorTest : public testing::Test {
 protected:
  Accumulator::TakeDone Taken(const std::string& call) {
    return [this, call](const absl::Status& status, Accumulator::Gradients gradients) {
      std::string text(status.ToString());
      if (status.ok()) {
        auto sum = SumGradients(gradients, mean_, nullptr);
        ASSERT_TRUE(sum.ok()) << sum.status();
        text = absl::StrCat(sum->count, " ", sum->values.ToString(20));
        if (sum->indices.has_value()) absl::StrAppend(&text, " at ", sum->indices.ToString(20));
      }
      log_.push_back(absl::StrCat(call, ": ", text));
    };
  }
  static AccumulatedGradient Dense(std::initializer_list<float> values) { return {.values = Tensor::Vector(values)}; }
  static AccumulatedGradient Sparse(std::initializer_list<int64_t> indices, std::initializer_list<float> values) {
    return {.values = Tensor::Of<float>({static_cast<int64_t>(indices.size()), 1}, values),
            .indices = Tensor::Vector(indices)};
  }

  bool mean_ = true;
  std::vector<std::string> log_;
};

TEST_F(AccumulatorTest, TakesTheMeanOfWhatIsThere) {
  const auto a = std::make_shared<Accumulator>(AccumulatorConfig{.shape = {2}});
  a->Take(2, {}, Taken("first"));
  a->Take(1, {}, Taken("second"));
  EXPECT_TRUE(a->Apply(0, Dense({1, 2})).ok());
  EXPECT_EQ(a->num_accumulated(), 1);
  EXPECT_TRUE(log_.empty());
  EXPECT_TRUE(a->Apply(5, Dense({3, 5})).ok());
  EXPECT_EQ(a->num_accumulated(), 0);
  // The step is 1 now.
  EXPECT_TRUE(a->Apply(0, Dense({9, 9})).ok());
  EXPECT_EQ(a->refused(), 1);
  EXPECT_TRUE(a->Apply(1, Dense({7, 8})).ok());
  EXPECT_THAT(log_, ElementsAre("first: 2 float [2] [2 3.5]", "second: 1 float [2] [7 8]"));
  EXPECT_EQ(a->accepted(), 3);
  EXPECT_EQ(a->Describe(), "an accumulator of float [2]: 3 gradients accepted, 1 refused");
  a->SetGlobalStep(10);
  EXPECT_TRUE(a->Apply(9, Dense({7, 8})).ok());
  EXPECT_EQ(a->refused(), 2);
}

TEST_F(AccumulatorTest, ARoundCanBeTakenAgain) {
  const auto a = std::make_shared<Accumulator>(AccumulatorConfig{.shape = {1}});
  const auto await = [&](int64_t round) {
    a->AwaitRound(2, 2, round, {}, [this, round](const absl::Status& status) {
      log_.push_back(absl::StrCat(round, " ", absl::StatusCodeToString(status.code())));
    });
    return std::exchange(log_, {});
  };
  const auto take = [&](int64_t round) {
    const auto taken = a->TakeRound(round);
    Taken("")(taken.status(), taken.value_or(Accumulator::Gradients()));
    return std::exchange(log_, {})[0];
  };
  a->Reset(7, 100);
  EXPECT_THAT(await(101), ElementsAre());
  EXPECT_TRUE(a->Apply(7, Dense({1}), 0, true).ok());
  EXPECT_TRUE(a->Apply(7, Dense({3}), 1, true).ok());
  EXPECT_THAT(std::exchange(log_, {}), ElementsAre("101 OK"));
  EXPECT_EQ(take(101), ": 2 float [1] [2]");
  EXPECT_TRUE(a->Apply(8, Dense({10}), 0, true).ok()) << "of the next round";
  EXPECT_EQ(take(101), ": 2 float [1] [2]") << "its answer was lost";
  EXPECT_THAT(await(101), ElementsAre("101 OK"));
  EXPECT_THAT(await(102), ElementsAre());
  EXPECT_TRUE(a->Apply(8, Dense({20}), 1, true).ok());
  EXPECT_THAT(std::exchange(log_, {}), ElementsAre("102 OK"));
  EXPECT_EQ(take(102), ": 2 float [1] [15]");
  EXPECT_THAT(take(101), HasSubstr("ABORTED: Round 101 of a synchronous training is over"));
  EXPECT_THAT(await(103), ElementsAre());
  a->Reset(5, 200);
  EXPECT_THAT(std::exchange(log_, {}), ElementsAre("103 ABORTED")) << "the variables have got other values";
  EXPECT_THAT(take(201), HasSubstr("ABORTED: Round 201 of a synchronous training has no gradients"));
}

TEST_F(AccumulatorTest, MoreThanAreKept) {
  mean_ = false;
  const auto a = std::make_shared<Accumulator>(AccumulatorConfig{.mean = false});
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(a->Apply(0, Dense({1, static_cast<float>(i)})).ok());
  EXPECT_EQ(a->num_accumulated(), 200);
  a->Take(200, {}, Taken("all"));
  EXPECT_THAT(log_, ElementsAre("all: 200 float [2] [200 19900]"));
}

TEST_F(AccumulatorTest, WhoLeftIsNotWaitedFor) {
  const auto a = std::make_shared<Accumulator>(AccumulatorConfig{.shape = {1}});
  a->Take(3, {}, Taken("first"));
  ASSERT_TRUE(a->Apply(0, Dense({1}), 0).ok());
  ASSERT_TRUE(a->Apply(0, Dense({3}), 1).ok());
  EXPECT_THAT(log_, ElementsAre());
  a->Leave(2, 3);
  EXPECT_THAT(log_, ElementsAre("first: 2 float [1] [2]"));
  ASSERT_TRUE(a->Apply(0, Dense({9}), 1).ok());  // stale
  ASSERT_TRUE(a->Apply(1, Dense({5}), 0).ok());
  a->Take(3, {}, Taken("second"));
  a->Join(2);
  ASSERT_TRUE(a->Apply(1, Dense({5}), 1).ok());
  EXPECT_EQ(log_.size(), 1u);
  ASSERT_TRUE(a->Apply(1, Dense({2}), 2).ok());
  EXPECT_THAT(log_, ElementsAre("first: 2 float [1] [2]", "second: 3 float [1] [4]"));
  const Accumulator::Ledger ledger = a->ledger();
  ASSERT_EQ(ledger.size(), 3u);
  EXPECT_EQ(ledger.at(0).accepted, 2);
  EXPECT_EQ(ledger.at(1).accepted, 2);
  EXPECT_EQ(ledger.at(1).stale, 1);
  EXPECT_EQ(ledger.at(2).last_step, 1);
}

TEST_F(AccumulatorTest, SaysWhichRoundTakesAGradient) {
  const auto a = std::make_shared<Accumulator>(AccumulatorConfig{.shape = {1}});
  a->Reset(5, 100);
  EXPECT_EQ(a->RoundOf(1), -1);
  ASSERT_TRUE(a->Apply(5, Dense({1}), 1, /*once=*/true).ok());
  EXPECT_EQ(a->RoundOf(1), 101);
  ASSERT_TRUE(a->Apply(6, Dense({1}), 1, /*once=*/true).ok());  // a repetition is dropped; the first one waits
  EXPECT_EQ(a->RoundOf(1), 101);
  ASSERT_TRUE(a->TakeRound(101).ok());
  EXPECT_EQ(a->RoundOf(1), 101);
  ASSERT_TRUE(a->Apply(5, Dense({1}), 1, /*once=*/true).ok());  // too old: the round has done without it
  EXPECT_EQ(a->RoundOf(1), 101);
  ASSERT_TRUE(a->Apply(6, Dense({1}), 1, /*once=*/true).ok());
  EXPECT_EQ(a->RoundOf(1), 102);
}

TEST_F(AccumulatorTest, AWorkerCountsOncePerStep) {
  const auto a = std::make_shared<Accumulator>(AccumulatorConfig{.shape = {1}});
  a->Take(2, {}, Taken("first"));
  ASSERT_TRUE(a->Apply(0, Dense({1}), 1, /*once=*/true).ok());
  ASSERT_TRUE(a->Apply(0, Dense({1}), 1, /*once=*/true).ok());  // its step was run again
  EXPECT_THAT(log_, ElementsAre());
  ASSERT_TRUE(a->Apply(0, Dense({3}), 0, /*once=*/true).ok());
  EXPECT_THAT(log_, ElementsAre("first: 2 float [1] [2]"));
  EXPECT_EQ(a->ledger().at(1).accepted, 1);
  EXPECT_EQ(a->ledger().at(1).stale, 0);
  EXPECT_EQ(a->ledger().at(1).repeated, 1);
  ASSERT_TRUE(a->Apply(1, Dense({5}), 1, /*once=*/true).ok());  // the next step
  EXPECT_EQ(a->num_accumulated(), 1);
  // The training goes back to an older step: what is there is not of it.
  a->SetGlobalStep(0);
  EXPECT_EQ(a->num_accumulated(), 0);
  ASSERT_TRUE(a->Apply(0, Dense({7}), 1, /*once=*/true).ok());
  EXPECT_EQ(a->num_accumulated(), 1);
  EXPECT_EQ(a->ledger().at(1).accepted, 3);
  EXPECT_EQ(a->ledger().at(1).dropped, 1);
}

// Every gradient that an update did not use is one of them.
TEST_F(AccumulatorTest, ReportsStaleAndDroppedGradients) {
  const auto a = std::make_shared<Accumulator>(AccumulatorConfig{.shape = {1}});
  a->Reset(5, 100);
  ASSERT_TRUE(a->Apply(5, Dense({1}), 0, /*once=*/true).ok());
  ASSERT_TRUE(a->Apply(5, Dense({1}), 0, /*once=*/true).ok());  // repeated
  ASSERT_TRUE(a->Apply(4, Dense({1}), 1, /*once=*/true).ok());  // stale
  const auto report = [&](const std::string& worker) {
    ResourceReport report;
    a->Report(&report);
    const ResourceReport::Gradients& sums = report.gradients[worker];
    return absl::StrCat(sums.accepted, " ", sums.stale, " ", sums.dropped);
  };
  EXPECT_EQ(report("worker 0"), "1 0 1");
  EXPECT_EQ(report("worker 1"), "0 1 0");
  a->Reset(0, 200);  // the variables were restored from a checkpoint
  EXPECT_EQ(report("worker 0"), "1 0 2");
  a->Reset(0, 300);
  EXPECT_EQ(report("worker 0"), "1 0 2") << "nothing was there";
  ASSERT_TRUE(a->Apply(0, Dense({1}), Accumulator::kUnknownWorker, false, "/job:worker/task:3").ok());
  a->Reset(0, 400);
  EXPECT_EQ(report("/job:worker/task:3"), "1 0 1");
}

TEST_F(AccumulatorTest, ReportsWhoseGradientsAreAwaited) {
  const auto a = std::make_shared<Accumulator>(AccumulatorConfig{.shape = {1}});
  const auto waits = [&] {
    ResourceReport report;
    a->Report(&report);
    std::string text;
    for (const auto& [step, wait] : report.gradient_waits) {
      EXPECT_GT(wait.since_nanos, 0);
      absl::StrAppend(&text, "step ", step, ": ", wait.have, " of ", wait.wanted, " without ",
                      absl::StrJoin(wait.missing, ", "));
    }
    return text;
  };
  a->Reset(7, 100);
  EXPECT_EQ(waits(), "") << "nobody waits";
  a->AwaitRound(3, 3, 101, {}, [](const absl::Status&) {});
  EXPECT_EQ(waits(), "step 7: 0 of 3 without worker 0, worker 1, worker 2");
  ASSERT_TRUE(a->Apply(7, Dense({1}), 1, /*once=*/true).ok());
  EXPECT_EQ(waits(), "step 7: 1 of 3 without worker 0, worker 2");
  a->Leave(2, 3);
  EXPECT_EQ(waits(), "step 7: 1 of 2 without worker 0");
  ASSERT_TRUE(a->Apply(7, Dense({1}), 0, /*once=*/true).ok());
  EXPECT_EQ(waits(), "");
}

// TensorFlow's SyncReplicasOptimizer does not number its workers.
TEST_F(AccumulatorTest, WorkersWithoutNumbersAreAwaitedByTheirTasks) {
  const auto a = std::make_shared<Accumulator>(AccumulatorConfig{.shape = {1}});
  const auto apply = [&](int64_t step, const char* source) {
    ASSERT_TRUE(a->Apply(step, Dense({1}), Accumulator::kUnknownWorker, /*once=*/false, source).ok());
  };
  const auto missing = [&] {
    ResourceReport report;
    a->Report(&report);
    return report.gradient_waits.empty() ? std::set<std::string>() : report.gradient_waits.begin()->second.missing;
  };
  apply(0, "/job:worker/task:0");
  apply(0, "/job:worker/task:1");
  Cancellation cancellation;
  a->Take(2, {}, Taken("first"));
  a->Take(2, {.cancellation = &cancellation}, Taken("second"));
  EXPECT_THAT(missing(), ElementsAre("/job:worker/task:0", "/job:worker/task:1"));
  apply(1, "/job:worker/task:1");
  EXPECT_THAT(missing(), ElementsAre("/job:worker/task:0"));
  cancellation.Cancel(absl::CancelledError("why"));
  EXPECT_THAT(missing(), ElementsAre()) << "nobody waits any more";
}

TEST_F(AccumulatorTest, SparseRowsAreAveragedEach) {
  const auto a = std::make_shared<Accumulator>(AccumulatorConfig{.shape = {10, 1}, .sparse = true});
  EXPECT_TRUE(a->Apply(0, Sparse({1, 4}, {1, 2})).ok());
  EXPECT_TRUE(a->Apply(0, Sparse({0, 4, 5}, {3, 6, 5})).ok());
  EXPECT_TRUE(a->Apply(0, Sparse({4, 5}, {7, 1})).ok());
  EXPECT_TRUE(a->Apply(0, Sparse({}, {})).ok());
  a->Take(4, {}, Taken("rows"));
  EXPECT_THAT(log_, ElementsAre("rows: 4 float [4,1] [3 1 5 3] at int64 [4] [0 1 4 5]"));
  log_.clear();
  for (int64_t i = 0; i < 130; ++i) EXPECT_TRUE(a->Apply(1, Sparse({i % 2, 3}, {1, static_cast<float>(i)})).ok());
  a->Take(1, {}, Taken("many"));
  EXPECT_THAT(log_, ElementsAre("many: 130 float [3,1] [1 1 64.5] at int64 [3] [0 1 3]"));
}

TEST_F(AccumulatorTest, RefusesWhatDoesNotFit) {
  const auto error = [](Accumulator& a, AccumulatedGradient g) {
    return std::string(a.Apply(0, std::move(g)).message());
  };
  Accumulator dense({.shape = {-1}});
  EXPECT_EQ(error(dense, {.values = Tensor::Scalar(1.0f)}), "Shape mismatch: expected [?], got []");
  EXPECT_EQ(error(dense, Dense({1, 2})), "");
  EXPECT_EQ(error(dense, Dense({1})), "Shape mismatch: expected [2], got [1]");
  EXPECT_THAT(error(dense, {.values = Tensor::Scalar(1.0)}), HasSubstr("a gradient of type double"));
  Accumulator sparse({.shape = {4, 1}, .sparse = true});
  EXPECT_EQ(error(sparse, Sparse({1, 4}, {1, 2})),
            "Shape mismatch: index of slice 1 exceeded limits of shape; index is 4 exceeded 4");
  const auto wide = [] {
    return AccumulatedGradient{.values = Tensor::Of<float>({1, 2}, {1, 2}), .indices = Tensor::Vector<int64_t>({0})};
  };
  EXPECT_EQ(error(sparse, wide()), "Shape mismatch: expected values dim 1 to be 1, got 2");
  EXPECT_EQ(error(sparse, {.values = Tensor::Vector({1.0f}), .indices = Tensor::Vector<int64_t>({0})}),
            "Shape mismatch: expected values rank at least 2, got 1");
  EXPECT_EQ(error(sparse, Sparse({1}, {1})), "");
  EXPECT_EQ(error(sparse, {.values = Tensor::Vector({1.0f}), .indices = Tensor::Vector<int64_t>({0})}),
            "Shape mismatch: expected values rank 2, got 1");
  EXPECT_EQ(error(sparse, wide()), "Shape mismatch: expected values dim 1 to be 1, got 2");
}

TEST_F(AccumulatorTest, ACancelledTakeLeavesEverything) {
  const auto a = std::make_shared<Accumulator>(AccumulatorConfig{});
  Cancellation cancellation;
  a->Take(2, {.cancellation = &cancellation}, Taken("cancelled"));
  EXPECT_TRUE(a->Apply(0, Dense({1})).ok());
  cancellation.Cancel(absl::CancelledError("why"));
  a->Take(2, {.cancellation = &cancellation}, Taken("late"));
  a->Take(0, {}, Taken("none"));
  EXPECT_THAT(log_, ElementsAre("cancelled: CANCELLED: TakeGrad operation was cancelled",
                                "late: CANCELLED: TakeGrad operation was cancelled",
                                "none: INVALID_ARGUMENT: Argument num_required must be positive, but was 0"));
  EXPECT_EQ(a->num_accumulated(), 1);
}

TEST_F(AccumulatorTest, ManyThreads) {
  const auto a = std::make_shared<Accumulator>(AccumulatorConfig{.mean = false});
  constexpr int kThreads = 4, kEach = 300;
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        EXPECT_TRUE(a->Apply(1 << 30, Dense({1})).ok());
        a->Take(1 + i % 3, {}, [&](const absl::Status& status, Accumulator::Gradients gradients) {
          ASSERT_TRUE(status.ok()) << status;
          sum += static_cast<int64_t>(SumGradients(gradients, false, nullptr)->values.flat<float>()[0]);
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum + a->num_accumulated(), kThreads * kEach);
  a->Apply(1 << 30, Dense({1})).IgnoreError();
  for (int i = 0; i < 3 * kThreads * kEach; ++i) a->Apply(1 << 30, Dense({1})).IgnoreError();  // ends what waits
}

TEST(Accumulators, OfAllTypes) {
  for (const DType dtype : {kHalf, kBfloat16, kFloat, kDouble}) {
    Tensor one = TestValues(dtype, {3}, 1, 1), three = TestValues(dtype, {3}, 3, 3);
    const auto sum = SumGradients({{.values = one}, {.values = three}}, true, nullptr);
    ASSERT_TRUE(sum.ok()) << sum.status();
    ExpectTensor(sum->values, TestValues(dtype, {3}, 2, 2));
  }
}

}  // namespace
}  // namespace thalweg
