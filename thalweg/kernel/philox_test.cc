// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/philox.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace thalweg {
namespace {

using testing::ElementsAre;

// Known answers from the paper's reference implementation (Random123).
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(Philox::At({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox::At({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox::At({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Philox, SkipIsManyCalls) {
  Philox a(17, 4), b(17, 4);
  for (int i = 0; i < 1000; ++i) a();
  b.Skip(1000);
  EXPECT_EQ(a(), b());
}

TEST(Philox, CountersCarry) {
  Philox a({0xffffffff, 0xffffffff, 0xffffffff, 7}, {1, 2});
  Philox b = a;
  a();
  EXPECT_THAT(a.counter(), ElementsAre(0, 0, 0, 8));
  b.Skip(1);
  EXPECT_EQ(a.counter(), b.counter());
  Philox c({0xffffffff, 0, 0, 0}, {1, 2});
  c.Skip(0xffffffff00000002);
  EXPECT_THAT(c.counter(), ElementsAre(1, 0, 1, 0));
}

TEST(Philox, FillIsManyCalls) {
  for (const uint32_t start : {0u, 0xfffffff5u}) {
    for (const int64_t blocks : {1, 31, 32, 33, 100}) {
      Philox a({start, start, 3, 4}, {5, 6}), b = a;
      std::vector<uint32_t> numbers(4 * blocks);
      a.Fill(blocks, numbers.data());
      for (int64_t i = 0; i < blocks; ++i) {
        const Philox::Block block = b();
        for (int j = 0; j < 4; ++j) ASSERT_EQ(numbers[4 * i + j], block[j]) << i << " " << j;
      }
      EXPECT_EQ(a.counter(), b.counter());
    }
  }
}

TEST(Philox, SinglesAreTheBlocksInOrder) {
  Philox a(3);
  PhiloxSingle single(a);
  for (int i = 0; i < 3; ++i) {
    for (const uint32_t expected : a()) EXPECT_EQ(single(), expected);
  }
}

TEST(SharedPhilox, CallsGoOnWhereTheLastEnded) {
  SharedPhilox shared;
  shared.Seed(5, 6);
  Philox first = shared.Reserve(10), second = shared.Reserve(1);
  first.Skip(10);
  EXPECT_EQ(first(), second());
}

TEST(SharedPhilox, WithoutSeedsItDiffersEveryTime) {
  SharedPhilox a, b;
  a.Seed(0, 0);
  b.Seed(0, 0);
  EXPECT_NE(a.Reserve(1).key(), b.Reserve(1).key());
}

}  // namespace
}  // namespace thalweg
