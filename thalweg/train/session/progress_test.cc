// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/progress.h"

#include <string>

#include "gtest/gtest.h"
#include "thalweg/base/clock_testlib.h"

namespace thalweg {
namespace {

// A file in memory, read back as text.
class TextFile {
 public:
  TextFile() : file_(open_memstream(&text_, &size_)) {}
  ~TextFile() {
    std::fclose(file_);
    free(text_);
  }
  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    return std::string(text_, size_);
  }

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* file_;
};

TEST(Progress, TellsRateAndTimeLeft) {
  FakeClock clock;
  TextFile out;
  Progress progress({.first_step = 100, .total_steps = 1100, .out = out.file(), .clock = &clock});
  clock.AdvanceNanos(2'000'000'000);
  EXPECT_EQ(progress.Line(300, 0.5f, clock.MonotonicNanos()), "step 300/1100  loss 0.5000  100 steps/s  ETA 8s");
  EXPECT_EQ(progress.Line(1100, 0.25f, clock.MonotonicNanos()), "step 1100/1100  loss 0.2500  500 steps/s");
}

TEST(Progress, AnEndThatIsNotKnown) {
  FakeClock clock;
  TextFile out;
  Progress progress({.out = out.file(), .clock = &clock});
  clock.AdvanceNanos(1'000'000'000);
  EXPECT_EQ(progress.Line(5, 0.5f, clock.MonotonicNanos()), "step 5  loss 0.5000  5 steps/s");
}

TEST(Progress, PlainLinesAreSecondsApart) {
  FakeClock clock;
  TextFile out;
  {
    Progress progress({.total_steps = 100, .out = out.file(), .clock = &clock});
    for (int step = 1; step <= 50; ++step) {
      clock.AdvanceNanos(100'000'000);
      progress.Update(step, 1);
    }
  }
  EXPECT_EQ(out.text(),
            "step 20/100  loss 1.0000  10 steps/s  ETA 8s\n"
            "step 40/100  loss 1.0000  10 steps/s  ETA 6s\n"
            "step 50/100  loss 1.0000  10 steps/s  ETA 5s\n");
}

TEST(Progress, ATerminalIsRedrawnInPlace) {
  FakeClock clock;
  TextFile out;
  {
    Progress progress({.total_steps = 2, .out = out.file(), .terminal = true, .clock = &clock});
    clock.AdvanceNanos(1'000'000'000);
    progress.Update(1, 1);
    clock.AdvanceNanos(1'000'000);
    progress.Update(2, 1);
  }
  EXPECT_EQ(out.text(),
            "\r\033[Kstep 1/2  loss 1.0000  1 steps/s  ETA 1s"
            "\r\033[Kstep 2/2  loss 1.0000  2 steps/s\n");
}

}  // namespace
}  // namespace thalweg
