// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/batch_queue.h"

#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kForever = absl::Hours(1);

// A call that adds rows, and its result.
struct BatchCall {
  explicit BatchCall(std::initializer_list<float> values) {
    task->rows = static_cast<int64_t>(values.size());
    task->inputs = {Tensor::Vector(values)};
  }
  void Start(BatchQueue& queue, const RunBatch& run, ThreadPool* pool) {
    queue.Add({task}, run, {&cancellation, pool}, [this](const absl::Status& result) {
      status = result;
      done.Notify();
    });
  }
  std::string Result() {
    done.WaitForNotification();
    return status.ok() ? task->outputs[0].ToString(20) : std::string(status.ToString());
  }

  BatchTaskPtr task = std::make_shared<BatchTask>();
  Cancellation cancellation;
  absl::Status status;
  Notification done;
};

class BatchQueueTest : public testing::Test {
 protected:
  std::shared_ptr<BatchQueue> Make(BatchQueue::Options options) {
    return std::make_shared<BatchQueue>(std::move(options), &pool_);
  }
  // Gives every task the whole batch.
  static absl::Status GiveAll(const std::vector<BatchTaskPtr>& tasks, const std::vector<Tensor>& inputs,
                              Cancellation&) {
    for (const BatchTaskPtr& task : tasks) task->outputs = inputs;
    return absl::OkStatus();
  }

  ThreadPool pool_{"test", 1};
};

TEST_F(BatchQueueTest, AFullBatchRunsAtOnce) {
  const auto queue = Make({.max_rows = 3, .timeout = kForever});
  BatchCall one({1}), two({2, 3});
  one.Start(*queue, GiveAll, &pool_);
  two.Start(*queue, GiveAll, &pool_);
  EXPECT_EQ(one.Result(), two.Result());
  EXPECT_THAT(one.Result(), HasSubstr("1 2 3"));
}

TEST_F(BatchQueueTest, ATaskThatDoesNotFitStartsAnotherBatch) {
  const auto queue = Make({.threads = 2, .max_rows = 3, .timeout = kForever});
  BatchCall one({1, 2}), two({3, 4, 5});
  one.Start(*queue, GiveAll, &pool_);
  two.Start(*queue, GiveAll, &pool_);
  EXPECT_THAT(one.Result(), HasSubstr("[1 2]"));
  EXPECT_THAT(two.Result(), HasSubstr("[3 4 5]"));
}

TEST_F(BatchQueueTest, ATimeoutClosesABatchAndAllowedSizesPadIt) {
  const auto queue = Make({.max_rows = 8, .timeout = absl::Milliseconds(1), .allowed_rows = {4, 8}});
  BatchCall one({1, 2});
  one.Start(*queue, GiveAll, &pool_);
  EXPECT_THAT(one.Result(), HasSubstr("[1 2 1 1]"));
}

TEST_F(BatchQueueTest, AnErrorReachesAllTasks) {
  const auto queue = Make({.max_rows = 2, .timeout = kForever});
  BatchCall one({1}), two({2});
  two.task->inputs = {Tensor::Of<float>({1, 1}, {2})};
  one.Start(*queue, GiveAll, &pool_);
  two.Start(*queue, GiveAll, &pool_);
  EXPECT_THAT(one.Result(), HasSubstr("Ranks of all input tensors should match"));
  EXPECT_EQ(one.Result(), two.Result());
}

TEST_F(BatchQueueTest, ACancelledStepLeavesTheBatch) {
  const auto queue = Make({.max_rows = 2, .timeout = kForever});
  BatchCall one({1}), two({2}), three({3});
  one.Start(*queue, GiveAll, &pool_);
  one.cancellation.Cancel(Aborted("enough"));
  EXPECT_FALSE(one.status.ok());
  EXPECT_THAT(one.Result(), HasSubstr("CANCELLED"));
  // The rest of its batch, if there is any, does not wait for it.
  two.Start(*queue, GiveAll, &pool_);
  three.Start(*queue, GiveAll, &pool_);
  two.cancellation.Cancel(Aborted("enough"));
  three.cancellation.Cancel(Aborted("enough"));
  two.Result();
  three.Result();
}

// A function that waits ends when no step waits for it any more.
TEST_F(BatchQueueTest, ABatchForNobodyIsCancelled) {
  const auto queue = Make({.max_rows = 1, .timeout = kForever});
  BatchCall one({1});
  Notification running, ended;
  one.Start(
      *queue,
      [&](const std::vector<BatchTaskPtr>&, const std::vector<Tensor>&, Cancellation& cancellation) {
        Notification cancelled;
        const auto id = cancellation.Register([&](const absl::Status&) { cancelled.Notify(); });
        running.Notify();
        cancelled.WaitForNotification();
        cancellation.Deregister(*id);
        ended.Notify();
        return cancellation.status();
      },
      &pool_);
  running.WaitForNotification();
  one.cancellation.Cancel(Aborted("enough"));
  ended.WaitForNotification();
}

TEST_F(BatchQueueTest, TooManyBatches) {
  const auto queue = Make({.max_rows = 1, .max_batches = 1, .timeout = kForever});
  BatchCall one({1}), two({2});
  Notification running, go;
  one.Start(
      *queue,
      [&](const std::vector<BatchTaskPtr>& tasks, std::vector<Tensor> inputs, Cancellation& c) {
        running.Notify();
        go.WaitForNotification();
        return GiveAll(tasks, std::move(inputs), c);
      },
      &pool_);
  running.WaitForNotification();
  two.Start(*queue, GiveAll, &pool_);
  EXPECT_THAT(two.Result(), HasSubstr("UNAVAILABLE: The batch scheduling queue"));
  go.Notify();
  EXPECT_THAT(one.Result(), HasSubstr("[1]"));
}

TEST(BatchOpsTest, Shapes) {
  EXPECT_EQ(*InferShape("Unbatch", {{kFloat, {2, 3}}, {kInt64, {1, 3}}, {kInt64, Shape()}}, {{"timeout_micros", 1}}),
            "[?,3]");
  EXPECT_FALSE(
      InferShape("Unbatch", {{kFloat, Shape()}, {kInt64, {1, 3}}, {kInt64, Shape()}}, {{"timeout_micros", 1}}).ok());
  EXPECT_EQ(*InferShape("UnbatchGrad", {{kFloat, {2, 3}}, {kInt64, {1, 3}}, {kFloat, {2, 3}}, {kInt64, Shape()}}),
            "[?,?]");
}

}  // namespace
}  // namespace thalweg
