// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/rendezvous.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

using absl::StatusCode;

// The value that a receiver got, if it was called.
struct Received {
  int calls = 0;
  absl::Status status;
  Rendezvous::Value value;
  Rendezvous::RecvDone Done() {
    return [this](const absl::Status& s, Rendezvous::Value v) {
      ++calls;
      status = s;
      value = std::move(v);
    };
  }
};

Rendezvous::Value Number(int n) { return {.tensor = Tensor::Scalar<int32_t>(n)}; }

TEST(RendezvousKey, ReadsAsItIsWritten) {
  const RendezvousKey key{.source_device = "/job:ps/replica:0/task:0/device:CPU:0",
                          .source_incarnation = 0xabc,
                          .destination_device = "/job:worker/replica:0/task:1/device:CPU:0",
                          .edge = "edge_5_w:0",
                          .frame = 3,
                          .iteration = 4};
  const std::string text = key.ToString();
  EXPECT_EQ(text,
            "/job:ps/replica:0/task:0/device:CPU:0;0000000000000abc;/job:worker/replica:0/task:1/"
            "device:CPU:0;edge_5_w:0;3:4");
  const absl::StatusOr<RendezvousKey> read = RendezvousKey::Parse(text);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->source_device, key.source_device);
  EXPECT_EQ(read->source_incarnation, key.source_incarnation);
  EXPECT_EQ(read->destination_device, key.destination_device);
  EXPECT_EQ(read->edge, key.edge);
  EXPECT_EQ(read->frame, key.frame);
  EXPECT_EQ(read->iteration, key.iteration);
}

TEST(RendezvousKey, MalformedOnesAreNamedInTheError) {
  for (const char* text : {"", "a;1;b;e", "a;1;b;e;0:0;x", "a;g;b;e;0:0", ";1;b;e;0:0", "a;1;;e;0:0", "a;1;b;;0:0",
                           "a;1;b;e;0", "a;1;b;e;x:0", "a;1;b;e;0:x", "a;1;b;e;0:0:0"}) {
    EXPECT_THAT(RendezvousKey::Parse(text), Fails(StatusCode::kInvalidArgument, text)) << text;
  }
}

TEST(LocalRendezvous, MeetInEitherOrder) {
  LocalRendezvous rendezvous;
  Received early, late;
  rendezvous.RecvAsync("a", early.Done());
  EXPECT_EQ(early.calls, 0);
  EXPECT_THAT(rendezvous.Send("b", Number(2)), IsOk());
  EXPECT_EQ(early.calls, 0) << "another key";
  EXPECT_THAT(rendezvous.Send("a", Number(1)), IsOk());
  EXPECT_EQ(early.calls, 1);
  EXPECT_THAT(early.status, IsOk());
  EXPECT_EQ(early.value.tensor.scalar<int32_t>(), 1);
  rendezvous.RecvAsync("b", late.Done());
  EXPECT_EQ(late.calls, 1);
  EXPECT_EQ(late.value.tensor.scalar<int32_t>(), 2);
  EXPECT_FALSE(late.value.dead);
}

TEST(LocalRendezvous, DeadValuesArriveDead) {
  LocalRendezvous rendezvous;
  Received received;
  ASSERT_THAT(rendezvous.Send("a", {.dead = true}), IsOk());
  rendezvous.RecvAsync("a", received.Done());
  EXPECT_TRUE(received.value.dead);
}

TEST(LocalRendezvous, NothingIsKeptOfWhatWasReceived) {
  LocalRendezvous rendezvous;
  Tensor tensor = Tensor::Scalar<int32_t>(1);
  ASSERT_THAT(rendezvous.Send("a", {.tensor = tensor}), IsOk());
  EXPECT_FALSE(tensor.unique());
  {
    Received received;
    rendezvous.RecvAsync("a", received.Done());
  }
  EXPECT_TRUE(tensor.unique());
}

TEST(LocalRendezvous, AKeyIsGoodForOneTransfer) {
  LocalRendezvous rendezvous;
  Received first, second, third, fourth;
  ASSERT_THAT(rendezvous.Send("a", Number(1)), IsOk());
  EXPECT_THAT(rendezvous.Send("a", Number(2)), Fails(StatusCode::kAborted, "Duplicated send: a"));
  rendezvous.RecvAsync("a", first.Done());
  EXPECT_EQ(first.value.tensor.scalar<int32_t>(), 1);
  EXPECT_THAT(rendezvous.Send("a", Number(3)), Fails(StatusCode::kAborted, "Duplicated send: a"));
  rendezvous.RecvAsync("a", second.Done());
  EXPECT_THAT(second.status, Fails(StatusCode::kInternal, "received twice: a"));

  rendezvous.RecvAsync("b", third.Done());
  rendezvous.RecvAsync("b", fourth.Done());
  EXPECT_THAT(fourth.status, Fails(StatusCode::kInternal, "two receivers wait for b"));
  ASSERT_THAT(rendezvous.Send("b", Number(4)), IsOk());
  EXPECT_EQ(third.value.tensor.scalar<int32_t>(), 4);
  Received fifth;
  rendezvous.RecvAsync("b", fifth.Done());
  EXPECT_THAT(fifth.status, Fails(StatusCode::kInternal, "received twice: b"));
}

TEST(LocalRendezvous, AbortEndsEveryWait) {
  LocalRendezvous rendezvous;
  Received waiting, late;
  rendezvous.RecvAsync("a", waiting.Done());
  ASSERT_THAT(rendezvous.Send("b", Number(1)), IsOk());
  rendezvous.Abort(Unavailable("worker 1 is gone"));
  EXPECT_THAT(waiting.status, Fails(StatusCode::kUnavailable, "worker 1 is gone"));
  EXPECT_EQ(waiting.calls, 1);
  rendezvous.Abort(Internal("a later reason"));
  rendezvous.RecvAsync("b", late.Done());
  EXPECT_THAT(late.status, Fails(StatusCode::kUnavailable, "worker 1 is gone"))
      << "the first reason, even for what was sent";
  EXPECT_THAT(rendezvous.Send("c", Number(1)), Fails(StatusCode::kUnavailable, "worker 1 is gone"));
  EXPECT_EQ(waiting.calls, 1);
}

TEST(LocalRendezvous, ItsEndEndsEveryWait) {
  Received waiting;
  {
    LocalRendezvous rendezvous;
    rendezvous.RecvAsync("a", waiting.Done());
  }
  EXPECT_EQ(waiting.calls, 1);
  EXPECT_THAT(waiting.status, Fails(StatusCode::kCancelled, "the step has ended"));
}

TEST(LocalRendezvous, CallbacksMayCallBack) {
  LocalRendezvous rendezvous;
  Received last;
  rendezvous.RecvAsync("a", [&](const absl::Status&, Rendezvous::Value value) {
    EXPECT_THAT(rendezvous.Send("b", std::move(value)), IsOk());
    rendezvous.RecvAsync("b", last.Done());
  });
  ASSERT_THAT(rendezvous.Send("a", Number(5)), IsOk());
  EXPECT_EQ(last.value.tensor.scalar<int32_t>(), 5);
}

TEST(LocalRendezvous, ManyThreadsMeet) {
  constexpr int kKeys = 2000;
  LocalRendezvous rendezvous;
  BlockingCounter received(kKeys);
  std::atomic<int64_t> sum = 0;
  const auto keys_of = [&](int part, const auto& body) {
    return std::thread([part, body] {
      for (int i = part; i < kKeys; i += 2) body(i, absl::StrCat("key", i));
    });
  };
  const auto send = [&](int i, const std::string& key) { EXPECT_THAT(rendezvous.Send(key, Number(i)), IsOk()); };
  const auto recv = [&](int i, const std::string& key) {
    rendezvous.RecvAsync(key, [&, i](const absl::Status& status, Rendezvous::Value value) {
      EXPECT_THAT(status, IsOk());
      EXPECT_EQ(value.tensor.scalar<int32_t>(), i);
      sum += value.tensor.scalar<int32_t>();
      received.DecrementCount();
    });
  };
  std::vector<std::thread> threads;
  for (int part = 0; part < 2; ++part) {
    threads.push_back(keys_of(part, send));
    threads.push_back(keys_of(part, recv));
  }
  received.Wait();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, int64_t{kKeys} * (kKeys - 1) / 2);
}

TEST(LocalRendezvous, EveryReceiverIsCalledOnceThoughTheStepIsAborted) {
  constexpr int kRounds = 200, kKeys = 20;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> calls = 0, values = 0;
    {
      LocalRendezvous rendezvous;
      std::thread sender([&] {
        for (int i = 0; i < kKeys; ++i) (void)rendezvous.Send(absl::StrCat(i), Number(i));
      });
      std::thread receiver([&] {
        for (int i = 0; i < kKeys; ++i) {
          rendezvous.RecvAsync(absl::StrCat(i), [&](const absl::Status& status, Rendezvous::Value value) {
            ++calls;
            values += status.ok();
            EXPECT_EQ(value.tensor.has_value(), status.ok());
          });
        }
      });
      std::thread aborter([&] { rendezvous.Abort(Cancelled("enough")); });
      sender.join();
      receiver.join();
      aborter.join();
    }
    EXPECT_EQ(calls, kKeys);
    EXPECT_LE(values, kKeys);
  }
}

}  // namespace
}  // namespace thalweg
