// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/element_copy.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace thalweg {
namespace {

TEST(CopyBytesTest, EveryLength) {
  std::vector<char> from(300);
  std::iota(from.begin(), from.end(), 1);
  for (size_t n = 0; n < 200; ++n) {
    std::vector<char> to(300, 0);
    CopyBytes(from.data() + 3, n, to.data() + 5);
    for (size_t i = 0; i < to.size(); ++i) {
      ASSERT_EQ(to[i], i >= 5 && i < 5 + n ? from[i - 2] : 0) << "byte " << i << " of " << n;
    }
  }
}

TEST(RowMajorStridesTest, Values) {
  EXPECT_EQ(RowMajorStrides({2, 3, 4}), Dims({12, 4, 1}));
  EXPECT_EQ(RowMajorStrides({}), Dims());
}

TEST(DispatchBySizeTest, BySize) {
  const auto size = [](DType t) {
    size_t bytes = 0;
    EXPECT_TRUE(DispatchBySize(t, [&]<typename T>() { return bytes = sizeof(T), absl::OkStatus(); }).ok());
    return bytes;
  };
  EXPECT_EQ(size(kBool), 1);
  EXPECT_EQ(size(kBfloat16), 2);
  EXPECT_EQ(size(kQint32), 4);
  EXPECT_EQ(size(kComplex64), 8);
  EXPECT_EQ(size(kComplex128), 16);
  EXPECT_EQ(size(kString), sizeof(std::string));
}

}  // namespace
}  // namespace thalweg
