// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/denormals.h"

#include <atomic>
#include <limits>

#include "gtest/gtest.h"
#include "thalweg/base/intra_op_pool.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/thread_pool.h"

namespace thalweg {
namespace {

// Half of the smallest normal number, computed now.
float Denormal() {
  volatile float x = std::numeric_limits<float>::min();
  return x * 0.5f;
}

TEST(Denormals, AreZeroInsideAndThereAgainOutside) {
  EXPECT_GT(Denormal(), 0);
  const volatile float denormal = Denormal();
  {
    const ScopedFlushDenormals flush;
    EXPECT_EQ(Denormal(), 0);
    EXPECT_EQ(denormal * 1e10f, 0) << "as an operand";
    {
      const ScopedFlushDenormals nested;
      EXPECT_EQ(Denormal(), 0);
    }
    EXPECT_EQ(Denormal(), 0) << "the inner one leaves what it found";
  }
  EXPECT_GT(Denormal(), 0);
}

TEST(Denormals, AreZeroOnThreadsThatHelp) {
  ThreadPool pool("test", 1);
  Notification done;
  float on_pool = 1;
  pool.Schedule([&] {
    on_pool = Denormal();
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_EQ(on_pool, 0);

  IntraOpPool intra_op_pool(1);
  const ScopedFlushDenormals flush;  // as a step has it on its own thread
  std::atomic<int> not_zero = 0;
  intra_op_pool.ParallelFor(1000, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) not_zero += Denormal() != 0;
  });
  EXPECT_EQ(not_zero, 0);
}

}  // namespace
}  // namespace thalweg
