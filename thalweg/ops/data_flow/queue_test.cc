// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/queue.h"

#include <sys/mman.h>

#include <thread>

#include "absl/strings/str_join.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/data_flow_ops.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Calls and their ends, in the order of the ends: "put 0: OK", "got 1: 7".
class QueueTest : public testing::Test {
 protected:
  std::shared_ptr<Queue> Make(QueueConfig options) {
    if (options.kind.empty()) options.kind = "FIFOQueue";
    options.name = "q";
    if (options.types.empty()) options.types = {kInt32};
    auto queue = Queue::Make(std::move(options), FifoStore());
    EXPECT_TRUE(queue.ok()) << queue.status();
    return *queue;
  }
  static Tuple Of(int32_t value) { return {Tensor::Scalar<int32_t>(value)}; }

  void Note(const std::string& call, const absl::Status& status, const std::string& value = "OK") {
    log_.push_back(absl::StrCat(call, ": ", status.ok() ? value : std::string(status.ToString())));
  }
  void Put(Queue& queue, int32_t value) {
    queue.Enqueue(Of(value), caller_,
                  [this, call = absl::StrCat("put ", value)](const absl::Status& s) { Note(call, s); });
  }
  void PutMany(Queue& queue, const std::vector<int32_t>& values) {
    queue.EnqueueMany({Tensor::Vector<int32_t>(values)}, caller_,
                      [this](const absl::Status& s) { Note("put many", s); });
  }
  Queue::DequeueDone Got(const std::string& call) {
    return [this, call](const absl::Status& s, Tuple tuple) {
      Note(call, s, s.ok() ? absl::StrJoin(tuple[0].flat<int32_t>(), " ") : "");
    };
  }
  void Get(Queue& queue, const std::string& call = "got") { queue.Dequeue(caller_, Got(call)); }
  void GetMany(Queue& queue, int64_t n, bool fewer = false) {
    queue.DequeueMany(n, fewer, caller_, Got(absl::StrCat("got ", n)));
  }
  void Close(Queue& queue, bool cancel = false) {
    queue.Close(cancel, caller_, [this](const absl::Status& s) { Note("close", s); });
  }
  std::vector<std::string> Log() { return std::exchange(log_, {}); }

  Cancellation cancellation_;
  Queue::Caller caller_{.cancellation = &cancellation_};
  std::vector<std::string> log_;
};

TEST_F(QueueTest, FirstInFirstOut) {
  const auto queue = Make({.capacity = 2});
  Put(*queue, 1);
  Put(*queue, 2);
  EXPECT_EQ(queue->size(), 2);
  Get(*queue);
  Get(*queue);
  EXPECT_THAT(Log(), ElementsAre("put 1: OK", "put 2: OK", "got: 1", "got: 2"));
  EXPECT_EQ(queue->Describe(), "a FIFOQueue of (int32) with 0 elements");
}

// The rows are those of address space without memory. The put fails, not the process, nor the call that made room for
// it.
TEST_F(QueueTest, RowsWithoutMemoryAreAnError) {
  const auto queue = Make({.capacity = 1, .types = {kUint8}});
  constexpr int64_t kBytes = int64_t{1} << 40;
  void* const space = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(space, MAP_FAILED);
  const Tensor rows(kUint8, {2, kBytes / 2}, BufferPtr(Buffer::Wrap(space, kBytes, [=] { munmap(space, kBytes); })),
                    space);
  queue->Enqueue({Tensor::Scalar<uint8_t>(7)}, caller_, [this](const absl::Status& s) { Note("put 7", s); });
  absl::Status status;
  queue->EnqueueMany({rows}, caller_, [&](const absl::Status& s) { status = s; });
  EXPECT_TRUE(status.ok()) << "waits for room: " << status;
  queue->Dequeue(caller_, [this](const absl::Status& s, Tuple tuple) { Note("got", s); });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(Log(), ElementsAre("put 7: OK", "got: OK"));
  EXPECT_EQ(queue->size(), 0);
}

TEST_F(QueueTest, AttemptsAreServedInOrder) {
  const auto queue = Make({.capacity = 1});
  Put(*queue, 1);
  Put(*queue, 2);
  Put(*queue, 3);
  EXPECT_THAT(Log(), ElementsAre("put 1: OK"));
  Get(*queue);
  EXPECT_THAT(Log(), ElementsAre("put 2: OK", "got: 1"));
  Get(*queue);
  Get(*queue, "second");
  Get(*queue, "third");
  EXPECT_THAT(Log(), ElementsAre("put 3: OK", "got: 2", "second: 3"));
  Put(*queue, 4);
  EXPECT_THAT(Log(), ElementsAre("third: 4", "put 4: OK"));
}

TEST_F(QueueTest, ManyPassThroughASmallQueue) {
  const auto queue = Make({.capacity = 2, .shapes = {PartialShape(Shape())}});
  PutMany(*queue, {1, 2, 3, 4, 5});
  EXPECT_EQ(queue->size(), 2);
  GetMany(*queue, 4);
  EXPECT_THAT(Log(), ElementsAre("put many: OK", "got 4: 1 2 3 4"));
  EXPECT_EQ(queue->size(), 1);
  GetMany(*queue, 0);
  GetMany(*queue, 3);
  EXPECT_EQ(queue->size(), 0);  // it holds one
  PutMany(*queue, {});
  PutMany(*queue, {6, 7});
  EXPECT_THAT(Log(), ElementsAre("got 0: ", "put many: OK", "got 3: 5 6 7", "put many: OK"));
}

TEST_F(QueueTest, ClosesAfterWhatWaits) {
  const auto queue = Make({.capacity = 1});
  Put(*queue, 1);
  Put(*queue, 2);
  Close(*queue);
  Put(*queue, 3);
  EXPECT_FALSE(queue->is_closed());
  EXPECT_THAT(Log(), ElementsAre("put 1: OK"));
  Get(*queue);
  EXPECT_TRUE(queue->is_closed());
  EXPECT_THAT(Log(), ElementsAre("put 2: OK", "close: OK", "put 3: CANCELLED: FIFOQueue 'q' is closed.", "got: 1"));
  Get(*queue);
  Get(*queue);
  Close(*queue);
  EXPECT_THAT(Log(),
              ElementsAre("got: 2",
                          "got: OUT_OF_RANGE: FIFOQueue 'q' is closed and has insufficient elements (requested 1, "
                          "current size 0)",
                          "close: CANCELLED: Queue 'q' is already closed."));
}

TEST_F(QueueTest, ClosesAndRefusesWhatWaits) {
  const auto queue = Make({.capacity = 1, .shapes = {PartialShape(Shape())}});
  PutMany(*queue, {1, 2, 3});
  Close(*queue, /*cancel=*/true);
  EXPECT_THAT(Log(), ElementsAre("put many: CANCELLED: Enqueue operation was cancelled", "close: OK"));
  Get(*queue);
  EXPECT_THAT(Log(), ElementsAre("got: 1"));
  Close(*queue, /*cancel=*/true);
  EXPECT_THAT(Log(), ElementsAre("close: OK"));
}

TEST_F(QueueTest, ClosingEndsWaitsForMore) {
  const auto queue = Make({.shapes = {PartialShape(Shape())}});
  GetMany(*queue, 3);
  PutMany(*queue, {1, 2});
  Close(*queue);
  // The elements that had been taken are there again.
  GetMany(*queue, 3);
  GetMany(*queue, 3, /*fewer=*/true);
  GetMany(*queue, 3, /*fewer=*/true);
  EXPECT_THAT(Log(), ElementsAre("put many: OK",
                                 "got 3: OUT_OF_RANGE: FIFOQueue 'q' is closed and has insufficient elements "
                                 "(requested 1, current size 0)",
                                 "close: OK",
                                 "got 3: OUT_OF_RANGE: FIFOQueue 'q' is closed and has insufficient elements "
                                 "(requested 3, current size 2)",
                                 "got 3: 1 2",
                                 "got 3: OUT_OF_RANGE: FIFOQueue 'q' is closed and has insufficient elements "
                                 "(requested 3, current size 0)"));
}

TEST_F(QueueTest, ACancelledDequeuePutsBackWhatItTook) {
  const auto queue = Make({.shapes = {PartialShape(Shape())}});
  Cancellation other;
  PutMany(*queue, {1, 2});
  queue->DequeueMany(3, false, {.cancellation = &other}, Got("cancelled"));
  Get(*queue, "next");
  EXPECT_THAT(Log(), ElementsAre("put many: OK"));
  other.Cancel(absl::CancelledError("why"));
  EXPECT_THAT(Log(), ElementsAre("next: 1", "cancelled: CANCELLED: Dequeue operation was cancelled"));
  EXPECT_EQ(queue->size(), 1);
  queue->Dequeue({.cancellation = &other}, Got("no wait"));  // what need not wait is not cancelled
  queue->Dequeue({.cancellation = &other}, Got("late"));
  EXPECT_THAT(Log(), ElementsAre("no wait: 2", "late: CANCELLED: Dequeue operation was cancelled"));
}

TEST_F(QueueTest, CancelledEnqueuesAndCloses) {
  const auto queue = Make({.capacity = 1});
  Put(*queue, 1);
  Put(*queue, 2);
  Close(*queue);
  cancellation_.Cancel(absl::CancelledError("why"));
  EXPECT_THAT(Log(), testing::UnorderedElementsAre(
                         "put 1: OK", "put 2: CANCELLED: Enqueue operation was cancelled",
                         testing::AnyOf("close: OK", "close: CANCELLED: Close operation was cancelled")));
}

TEST_F(QueueTest, Pads) {
  const auto queue = Make({.kind = "PaddingFIFOQueue", .shapes = {{-1, -1}}, .may_pad = true});
  const auto put = [&](Tensor t) {
    queue->Enqueue({std::move(t)}, caller_, [this](const absl::Status& s) { Note("put", s); });
  };
  put(Tensor::Of<int32_t>({1, 2}, {1, 2}));
  put(Tensor::Of<int32_t>({2, 1}, {3, 4}));
  put(Tensor::Of<int32_t>({0, 3}, {}));
  Tensor batch;
  queue->DequeueMany(3, false, caller_, [&](const absl::Status& s, Tuple t) { batch = t[0]; });
  ExpectTensor(batch, Tensor::Of<int32_t>({3, 2, 3}, {1, 2, 0, 0, 0, 0, 3, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0}));
  Log();
  put(Tensor::Scalar<int32_t>(1));
  EXPECT_THAT(Log(), ElementsAre("put: INVALID_ARGUMENT: Shape mismatch in tuple component 0. Expected [?,?], got []"));
  queue->DequeueMany(0, false, caller_, [&](const absl::Status& s, Tuple t) { batch = t[0]; });
  EXPECT_EQ(batch.shape().ToString(), "[0,0,0]");
}

TEST_F(QueueTest, StringsInBatches) {
  const auto queue = Make({.types = {kString}, .shapes = {PartialShape({2})}});
  queue->Enqueue({Tensor::Vector<std::string>({"a", "b"})}, caller_, [](const absl::Status&) {});
  queue->EnqueueMany({Tensor::Of<std::string>({1, 2}, {"c", "d"})}, caller_, [](const absl::Status&) {});
  Tensor batch;
  queue->DequeueMany(2, false, caller_, [&](const absl::Status& s, Tuple t) { batch = t[0]; });
  ExpectTensor(batch, Tensor::Of<std::string>({2, 2}, {"a", "b", "c", "d"}));
}

TEST_F(QueueTest, RefusesTuplesThatDoNotFit) {
  const auto queue = Make({.types = {kInt32, kFloat}, .shapes = {PartialShape(Shape()), PartialShape({2})}});
  const auto put = [&](Tuple t) {
    queue->Enqueue(std::move(t), caller_, [this](const absl::Status& s) { Note("put", s); });
  };
  const auto many = [&](Queue& q, Tuple t) {
    q.EnqueueMany(std::move(t), caller_, [this](const absl::Status& s) { Note("many", s); });
  };
  put(Of(1));
  put({Tensor::Scalar(1.0f), Tensor::Scalar(1.0f)});
  put({Tensor::Scalar(1), Tensor::Scalar(1.0f)});
  many(*queue, {Tensor::Vector({1}), Tensor::Vector({1.0f})});
  many(*queue, {Tensor::Scalar(1), Tensor::Vector({1.0f})});
  EXPECT_THAT(
      Log(),
      ElementsAre("put: INVALID_ARGUMENT: Wrong number of components in tuple. Expected 2, got 1",
                  "put: INVALID_ARGUMENT: Type mismatch in tuple component 0. Expected int32, got float",
                  "put: INVALID_ARGUMENT: Shape mismatch in tuple component 1. Expected [2], got []",
                  "many: INVALID_ARGUMENT: Shape mismatch in tuple component 1. Expected [1,2], got [1]",
                  "many: INVALID_ARGUMENT: Component 0 of a batch must have at least one dimension, got a scalar"));
  const auto open = Make({.types = {kInt32, kInt32}});
  many(*open, {Tensor::Vector({1}), Tensor::Vector({1, 2})});
  const Tensor nothing = Tensor::Zeros(kInt32, {int64_t{1} << 60, 0});
  many(*open, {nothing, nothing});
  GetMany(*open, 1);
  EXPECT_THAT(Log(), ElementsAre(HasSubstr("Component 1 has 2, and should have 1"),
                                 HasSubstr("RESOURCE_EXHAUSTED: got 1152921504606846976 empty elements at once"),
                                 HasSubstr("FIFOQueue's DequeueMany and DequeueUpTo require the components to have "
                                           "specified shapes.")));
}

TEST_F(QueueTest, OptionsThatDoNotFit) {
  const auto error = [](QueueConfig options) {
    options.kind = "FIFOQueue";
    return std::string(Queue::Make(options, FifoStore()).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("Empty component types"));
  EXPECT_EQ(error({.types = {kInt32}, .shapes = {{}, {2}}}),
            "Different number of component types.  Types: int32, Shapes: [<unknown>, [2]]");
  EXPECT_EQ(error({.types = {kInt32}, .shapes = {{-1}}}), "Shape [?] is not fully defined");
  EXPECT_EQ(error({.types = {kInt32}, .may_pad = true}),
            "Shapes must be provided for all components, but received 1 dtypes and 0 shapes.");
}

TEST_F(QueueTest, SharedQueuesMustMatch) {
  const auto queue = Make({.capacity = 3, .types = {kFloat, kInt32}, .min_after_dequeue = 1, .seed = 5});
  const auto error = [&](auto change) {
    QueueConfig wanted = queue->options();
    change(wanted);
    return std::string(queue->Matches(wanted, "FIFOQueueV2").message());
  };
  EXPECT_EQ(error([](QueueConfig&) {}), "");
  EXPECT_EQ(error([](QueueConfig& o) { o.kind = "RandomShuffleQueue"; }), "Expected FIFOQueue, found FIFOQueueV2");
  EXPECT_EQ(error([](QueueConfig& o) { o.capacity = -1; }),
            "Shared queue 'q' has capacity 3 but requested capacity was 2147483647");
  EXPECT_EQ(error([](QueueConfig& o) { o.types = {kFloat}; }),
            "Shared queue 'q' has component types float, int32 but requested component types were float");
  EXPECT_EQ(error([](QueueConfig& o) {
              o.shapes = {PartialShape(Shape()), {2}};
            }),
            "Shared queue 'q' has component shapes [] but requested component shapes were [[], [2]]");
  EXPECT_EQ(error([](QueueConfig& o) { o.min_after_dequeue = 2; }),
            "Shared queue 'q' has min_after_dequeue 1 but requested min_after_dequeue was 2.");
  EXPECT_EQ(error([](QueueConfig& o) { o.seed = 7; }),
            "Shared queue 'q' has random seeds (5, 0) but requested seeds are (7, 0).");
  EXPECT_EQ(error([](QueueConfig& o) { o.seed = 0; }), "");
}

// Everything that is put in comes out once, however many take and give up.
TEST_F(QueueTest, ManyThreads) {
  constexpr int kThreads = 4, kEach = 500;
  const auto queue = Make({.capacity = 7, .shapes = {PartialShape(Shape())}});
  Mutex mutex;
  int64_t sum = 0, count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        queue->Enqueue(Of(t * kEach + i), {}, [](const absl::Status& s) { EXPECT_TRUE(s.ok()) << s; });
      }
    });
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        auto cancellation = std::make_shared<Cancellation>();
        queue->DequeueMany(1 + i % 3, false, {.cancellation = cancellation.get()},
                           [&, cancellation](const absl::Status& s, Tuple tuple) {
                             MutexLock lock(&mutex);
                             if (!s.ok()) return;
                             for (const int32_t v : tuple[0].flat<int32_t>()) sum += v, ++count;
                           });
        if ((i + t) % 4 == 0) cancellation->Cancel(absl::CancelledError("enough"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  queue->Close(false, {}, [](const absl::Status&) {});
  while (queue->size() > 0) {
    queue->Dequeue({}, [&](const absl::Status& s, Tuple tuple) {
      ASSERT_TRUE(s.ok()) << s;
      MutexLock lock(&mutex);
      sum += tuple[0].scalar<int32_t>(), ++count;
    });
  }
  constexpr int64_t kTotal = kThreads * kEach;
  EXPECT_EQ(count, kTotal);
  EXPECT_EQ(sum, kTotal * (kTotal - 1) / 2);
}

TEST(QueueOps, Shapes) {
  Graph graph;
  const Scope s = graph.root();
  const Output queue = FIFOQueue(s, {kInt32, kFloat}, {{2}, PartialShape(Shape())});
  EXPECT_EQ(queue.shape().ToString(), "[]");
  EXPECT_EQ(QueueDequeue(s, queue, {kInt32, kFloat})[0].shape().ToString(), "[2]");
  const Output n = s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar(3)}});
  EXPECT_EQ(QueueDequeueMany(s, queue, n, {kInt32, kFloat})[0].shape().ToString(), "[3,2]");
  EXPECT_EQ(QueueDequeueUpTo(s, queue, n, {kInt32, kFloat})[1].shape().ToString(), "[?]");
  const Output priority = PriorityQueue(s, {kFloat}, {{4}});
  EXPECT_EQ(QueueDequeue(s, priority, {kInt64, kFloat})[0].shape().ToString(), "[]");
  EXPECT_EQ(QueueDequeue(s, priority, {kInt64, kFloat})[1].shape().ToString(), "[4]");
  EXPECT_EQ(Output(s.Add("FIFOQueue", {}, {{"component_types", std::vector<DType>{kInt32}}})).shape().ToString(),
            "[2]");
  ASSERT_TRUE(s.ok()) << s.status();
}

}  // namespace
}  // namespace thalweg
