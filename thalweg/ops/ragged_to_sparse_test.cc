#include "thalweg/ops/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(RaggedToSparseTest, Values) {
  const auto y =
      RunOp("RaggedTensorToSparse", {std::vector<Tensor>{Longs({0, 2, 2}), Longs({0, 1, 3})}, Ints({7, 8, 9})});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Tensor::Of<int64_t>({3, 3}, {0, 0, 0, 0, 1, 0, 0, 1, 1}));
  ExpectTensor((*y)[2], Longs({2, 2, 2}));
  ExpectInvalid(
      KernelError("RaggedTensorToSparse", {std::vector<Tensor>{Longs({0, INT64_MAX}), Longs({0, 3})}, Ints({1})}),
      "Final value of ragged splits must match");
  ExpectInvalid(KernelError("RaggedTensorToSparse", {std::vector<Tensor>{Longs({0, 2, 1})}, Ints({1})}),
                "Ragged splits should be non decreasing, but we got 2 followed by 1");
}

TEST(FingerprintTest, TellsRowsApart) {
  const Tensor y = Result("Fingerprint", {Strings({"a", "b", "a"}), Tensor::Scalar<std::string>("farmhash64")});
  EXPECT_EQ(y.shape(), Shape({3, 8}));
  ExpectTensor(y.Rows(0, 1), y.Rows(2, 3));
  EXPECT_NE(y.Rows(0, 1).ToString(8), y.Rows(1, 2).ToString(8));
}

}  // namespace
}  // namespace thalweg
