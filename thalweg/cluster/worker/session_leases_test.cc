// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/session_leases.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/clock_testlib.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/fake_workers_testlib.h"

namespace thalweg {
namespace {

constexpr const char* kWorker = "/job:worker/replica:0/task:0";

// The machine's time may jump. A lease is measured by a clock that does not: without it, the lease of a master would
// be over when the time jumps.
TEST(SessionLeases, ALeaseIsMeasuredByTheMonotonicClock) {
  const auto workers = std::make_shared<FakeWorkers>(std::vector<std::string>{kWorker});
  FakeClock clock;
  Notification asked_often, dropped;
  int asked = 0;  // one alarm after the other asks
  workers->at(kWorker).get_status = [&](const CallOptions&, tensorflow::GetStatusResponse*, Worker::Done done) {
    done(Unavailable("gone"));
    // The real time of the lease is over many times.
    if (++asked == 30) asked_often.Notify();
  };
  SessionLeases leases(
      absl::Milliseconds(8),
      [&](const std::vector<std::string>& handles, const std::string& why) {
        EXPECT_THAT(handles, testing::ElementsAre("it"));
        dropped.Notify();
      },
      clock);
  leases.Add("it", {.task = kWorker, .workers = workers});
  asked_often.WaitForNotification();
  EXPECT_FALSE(dropped.HasBeenNotified());
  clock.AdvanceNanos(8'000'000);
  dropped.WaitForNotification();
}

}  // namespace
}  // namespace thalweg
