// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/wait_list.h"

#include <memory>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace thalweg {
namespace {

// Units that calls wait for, first come, first served.
class Store : public std::enable_shared_from_this<Store> {
 public:
  void Take(int units, Cancellation* cancellation, absl::Status* result) {
    waits_.Start(
        shared_from_this(), &mutex_, "Take", {.cancellation = cancellation},
        [this, units](absl::Status*) {
          if (units_ < units) return false;
          units_ -= units;
          return true;
        },
        [result](const absl::Status& status) { *result = status; },
        [this](WaitList::Ended* ended) { waits_.Flush(ended); });
  }
  void Put(int units) {
    WaitList::Ended ended;
    {
      MutexLock lock(&mutex_);
      units_ += units;
      waits_.Flush(&ended);
    }
    WaitList::End(std::move(ended));
  }

 private:
  Mutex mutex_;
  int units_ = 0;  // guarded by mutex_
  WaitList waits_{/*in_order=*/true};
};

TEST(WaitListTest, CallsBehindACancelledOneGoOn) {
  const auto store = std::make_shared<Store>();
  Cancellation first, second;
  const absl::Status waits = absl::UnknownError("waits");
  absl::Status large = waits, small = waits;
  store->Take(10, &first, &large);
  store->Take(2, &second, &small);
  store->Put(3);
  EXPECT_EQ(small, waits);  // it is not its turn
  first.Cancel(absl::CancelledError("enough"));
  EXPECT_EQ(large.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(small.ok()) << small;
}

}  // namespace
}  // namespace thalweg
