// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/collectives/all_to_all.h"
#include "thalweg/cluster/collectives/ring.h"
#include "thalweg/cluster/collectives/tree_broadcast.h"

namespace thalweg {
namespace {

using testing::ElementsAre;

// Members in one process. One transfer, if asked for, fails.
class Hub {
 public:
  explicit Hub(int fails_at = -1) : fails_at_(fails_at) {}

  struct Side {
    Tensor tensor;
    Links::Done done;
    bool sends = false;
  };
  void Meet(const std::string& key, Side side) {
    {
      MutexLock lock(&mutex_);
      if (count_++ == fails_at_) aborted_ = absl::UnavailableError("member 1 is lost");
    }
    Side other;
    absl::Status status;
    {
      MutexLock lock(&mutex_);
      status = aborted_;
      if (status.ok()) {
        const auto it = waiting_.find(key);
        if (it == waiting_.end()) {
          waiting_.emplace(key, std::move(side));
          return;
        }
        other = std::move(it->second);
        waiting_.erase(it);
      }
    }
    if (!status.ok()) {
      side.done(status);
      return Abort(status);
    }
    Side& from = side.sends ? side : other;
    Side& to = side.sends ? other : side;
    EXPECT_NE(side.sends, other.sends);
    ASSERT_EQ(from.tensor.TotalBytes(), to.tensor.TotalBytes());
    std::memcpy(to.tensor.raw(), from.tensor.raw(), from.tensor.TotalBytes());
    to.done(absl::OkStatus());
    from.done(absl::OkStatus());
  }
  void Abort(const absl::Status& why) {
    std::map<std::string, Side> ended;
    {
      MutexLock lock(&mutex_);
      aborted_ = why;
      ended.swap(waiting_);
    }
    for (auto& [key, side] : ended) side.done(why);
  }
  int count() {
    MutexLock lock(&mutex_);
    return count_;
  }
  bool empty() {
    MutexLock lock(&mutex_);
    return waiting_.empty();
  }

 private:
  const int fails_at_;
  Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Side> waiting_ ABSL_GUARDED_BY(mutex_);
};

class HubLinks : public Links {
 public:
  HubLinks(Hub& hub, int rank) : hub_(hub), rank_(rank) {}
  void Send(int to, std::string key, Tensor value, Done done) override {
    hub_.Meet(absl::StrCat(rank_, ">", to, " ", key), {std::move(value), std::move(done), true});
  }
  void Receive(int from, std::string key, Tensor into, Done done) override {
    hub_.Meet(absl::StrCat(from, ">", rank_, " ", key), {std::move(into), std::move(done), false});
  }
  void Abort(const absl::Status& why) override { hub_.Abort(why); }

 private:
  Hub& hub_;
  const int rank_;
};

void AddInts(void* into, const void* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<int32_t*>(into)[i] += static_cast<const int32_t*>(from)[i];
}
void DivideInts(void* values, int64_t n, int members) {
  for (int64_t i = 0; i < n; ++i) static_cast<int32_t*>(values)[i] /= members;
}

// Runs a part for every member; returns how each ended.
std::vector<absl::Status> RunAll(Hub& hub, int members,
                                 const std::function<void(int, std::shared_ptr<Links>, Links::Done)>& run) {
  std::vector<absl::Status> statuses(members, absl::UnknownError("has not ended"));
  for (int rank = 0; rank < members; ++rank) {
    run(rank, std::make_shared<HubLinks>(hub, rank),
        [&statuses, rank](const absl::Status& status) { statuses[rank] = status; });
  }
  return statuses;
}

TEST(Rings, TurnTheMembersOfEachTask) {
  EXPECT_THAT(MakeRings({2, 3}, {0, 1, -1}),
              ElementsAre(ElementsAre(0, 1, 2, 3, 4), ElementsAre(1, 0, 3, 4, 2), ElementsAre(0, 1, 3, 2, 4)));
  EXPECT_THAT(SubdivisionOffsets(2, 2, 1 << 30, -1), ElementsAre(0));
  EXPECT_THAT(SubdivisionOffsets(2, 2, 100 << 20, 0), ElementsAre(0, -1));
  EXPECT_THAT(SubdivisionOffsets(8, 2, 100 << 20, 0), ElementsAre(0, -1, 2, -3));
}

TEST(Ring, ReducesTensorsOfAllSizes) {
  for (const std::vector<int>& tasks : {std::vector<int>{1}, {1, 1}, {1, 1, 1}, {2, 3}}) {
    const int members = std::accumulate(tasks.begin(), tasks.end(), 0);
    for (const int size : {0, 1, 7, 64, 1000, 4096}) {
      for (const std::vector<int>& offsets : {std::vector<int>{0}, {0, -1}}) {
        Hub hub;
        std::vector<Tensor> values;
        for (int rank = 0; rank < members; ++rank) {
          values.emplace_back(kInt32, Shape({size}));
          for (int i = 0; i < size; ++i) values.back().mutable_data<int32_t>()[i] = rank + i * members;
        }
        const auto statuses = RunAll(hub, members, [&](int rank, std::shared_ptr<Links> links, Links::Done done) {
          RunRing({.key = "k",
                   .rank = rank,
                   .rings = MakeRings(tasks, offsets),
                   .values = values[rank],
                   .merge = AddInts,
                   .finish = DivideInts},
                  std::move(links), std::move(done));
        });
        EXPECT_THAT(statuses, testing::Each(absl::OkStatus()));
        EXPECT_TRUE(hub.empty());
        for (int rank = 0; rank < members; ++rank) {
          for (int i = 0; i < size; ++i) {
            ASSERT_EQ(values[rank].data<int32_t>()[i], (members - 1) / 2 + i * members) << rank << " " << i;
          }
        }
      }
    }
  }
}

TEST(Ring, Gathers) {
  Hub hub;
  std::vector<Tensor> values;
  for (int32_t rank = 0; rank < 3; ++rank) {
    values.push_back(Tensor::Zeros(kInt32, Shape({6})));
    values.back().mutable_data<int32_t>()[2 * rank] = 10 * rank;
    values.back().mutable_data<int32_t>()[2 * rank + 1] = 10 * rank + 1;
  }
  const auto statuses = RunAll(hub, 3, [&](int rank, std::shared_ptr<Links> links, Links::Done done) {
    RunRing({.key = "k", .rank = rank, .rings = MakeRings({1, 1, 1}, {0}), .values = values[rank]}, std::move(links),
            std::move(done));
  });
  EXPECT_THAT(statuses, testing::Each(absl::OkStatus()));
  for (const Tensor& t : values) EXPECT_THAT(t.flat<int32_t>(), ElementsAre(0, 1, 10, 11, 20, 21));
}

TEST(TreeBroadcast, ReachesAllFromAnyone) {
  for (const std::vector<int>& tasks : {std::vector<int>{1}, {1, 1}, {5}, {1, 1, 1, 1, 1, 1, 1}, {2, 1, 3}}) {
    const int members = std::accumulate(tasks.begin(), tasks.end(), 0);
    for (int source = 0; source < members; ++source) {
      Hub hub;
      std::vector<Tensor> values;
      for (int rank = 0; rank < members; ++rank) {
        values.push_back(Tensor::Of<int32_t>({2}, {rank == source ? 7 : 0, rank == source ? 8 : 0}));
      }
      const auto statuses = RunAll(hub, members, [&](int rank, std::shared_ptr<Links> links, Links::Done done) {
        RunTreeBroadcast(
            {.key = "k", .rank = rank, .source = source, .members_per_task = tasks, .values = values[rank]},
            std::move(links), std::move(done));
      });
      EXPECT_THAT(statuses, testing::Each(absl::OkStatus()));
      EXPECT_TRUE(hub.empty());
      for (const Tensor& t : values) EXPECT_THAT(t.flat<int32_t>(), ElementsAre(7, 8));
    }
  }
}

TEST(AllToAll, GivesEachMemberItsParts) {
  for (const int members : {1, 2, 5, 12}) {
    Hub hub;
    std::vector<Tensor> parts, values;
    for (int32_t rank = 0; rank < members; ++rank) {
      parts.emplace_back(kInt32, Shape({members, 2}));
      for (int i = 0; i < 2 * members; ++i) parts.back().mutable_data<int32_t>()[i] = 100 * rank + i;
      values.push_back(Tensor::Zeros(kInt32, Shape({members, 2})));
    }
    const auto statuses = RunAll(hub, members, [&](int rank, std::shared_ptr<Links> links, Links::Done done) {
      RunAllToAll({.key = "k", .rank = rank, .members = members, .parts = parts[rank], .values = values[rank]},
                  std::move(links), std::move(done));
    });
    EXPECT_THAT(statuses, testing::Each(absl::OkStatus()));
    EXPECT_TRUE(hub.empty());
    for (int rank = 0; rank < members; ++rank) {
      for (int i = 0; i < 2 * members; ++i) {
        EXPECT_EQ(values[rank].data<int32_t>()[i], 100 * (i / 2) + 2 * rank + i % 2);
      }
    }
  }
}

TEST(Collectives, EndAtAllMembersWhicheverTransferFails) {
  for (int fails_at = 0;; ++fails_at) {
    Hub hub(fails_at);
    std::vector<Tensor> values(3, Tensor(kInt32, Shape({100})));
    for (Tensor& t : values) t = Tensor::Zeros(kInt32, Shape({100}));
    const auto statuses = RunAll(hub, 3, [&](int rank, std::shared_ptr<Links> links, Links::Done done) {
      RunRing({.key = "k", .rank = rank, .rings = MakeRings({1, 1, 1}, {0}), .values = values[rank], .merge = AddInts},
              std::move(links), std::move(done));
    });
    if (hub.count() <= fails_at) {
      EXPECT_GT(fails_at, 20);
      break;
    }
    for (const absl::Status& status : statuses) EXPECT_NE(status.code(), absl::StatusCode::kUnknown);
    EXPECT_THAT(statuses, testing::Contains(absl::UnavailableError("member 1 is lost")));
  }
}

}  // namespace
}  // namespace thalweg
