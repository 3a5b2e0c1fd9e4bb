// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

Tensor CastResult(const Tensor& x, DType to, bool truncate = false) {
  absl::StatusOr<std::vector<Tensor>> y = RunOp("Cast", {x}, {{"DstT", to}, {"Truncate", truncate}});
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? (*y)[0] : Tensor();
}

TEST(CastTest, EveryPair) {
  const std::vector<DType> types = {kFloat, kDouble, kHalf,   kBfloat16, kInt8,      kInt16,      kInt32, kInt64,
                                    kUint8, kUint16, kUint32, kUint64,   kComplex64, kComplex128, kBool};
  for (const DType from : types) {
    for (const DType to : types) {
      SCOPED_TRACE(absl::StrCat(ToString(from), " to ", ToString(to)));
      // 0 and 1 look the same in every type.
      Tensor x(from, {600}), expected(to, {600});
      ASSERT_TRUE(Dispatch(PodTypes(), from, [&]<typename T>() {
                    for (int i = 0; i < 600; ++i) x.flat<T>()[i] = static_cast<T>(i % 2);
                    return absl::OkStatus();
                  }).ok());
      ASSERT_TRUE(Dispatch(PodTypes(), to, [&]<typename T>() {
                    for (int i = 0; i < 600; ++i) expected.flat<T>()[i] = static_cast<T>(i % 2);
                    return absl::OkStatus();
                  }).ok());
      ExpectTensor(CastResult(x, to), expected, 0);
    }
  }
}

TEST(CastTest, Values) {
  ExpectTensor(CastResult(Tensor::Vector<float>({1.9f, -1.9f, 300}), kInt32), Tensor::Vector<int32_t>({1, -1, 300}));
  ExpectTensor(CastResult(Tensor::Vector<float>({0, -0.0f, 0.1f}), kBool), Tensor::Vector<bool>({false, false, true}));
  ExpectTensor(CastResult(Tensor::Vector<int32_t>({-1, 256, 257}), kUint8), Tensor::Vector<uint8_t>({255, 0, 1}));
  ExpectTensor(CastResult(Tensor::Vector<int64_t>({int64_t{1} << 40}), kDouble), Tensor::Vector<double>({0x1p40}), 0);
  using C = std::complex<float>;
  ExpectTensor(CastResult(Tensor::Vector<C>({{1.5f, 2}}), kFloat), Tensor::Vector<float>({1.5f}));
  ExpectTensor(CastResult(Tensor::Vector<float>({1.5f}), kComplex64), Tensor::Vector<C>({{1.5f, 0}}));
}

TEST(CastTest, TruncateCutsInsteadOfRounding) {
  const float x = 1.0f + 0x1.8p-7f;  // between two bfloat16, nearer to the upper
  ExpectTensor(CastResult(Tensor::Scalar<float>(x), kBfloat16), Tensor::Scalar<BFloat16>(BFloat16(1.0f + 0x1p-6f)), 0);
  ExpectTensor(CastResult(Tensor::Scalar<float>(x), kBfloat16, true),
               Tensor::Scalar<BFloat16>(BFloat16(1.0f + 0x1p-7f)), 0);
  const double y = 1.0 + 0x1.8p-23;
  ExpectTensor(CastResult(Tensor::Scalar<double>(y), kFloat), Tensor::Scalar<float>(1.0f + 0x1p-22f), 0);
  ExpectTensor(CastResult(Tensor::Scalar<double>(y), kFloat, true), Tensor::Scalar<float>(1.0f + 0x1p-23f), 0);
}

TEST(CastTest, SameTypeAndStrings) {
  ExpectTensor(CastResult(Tensor::Vector<std::string>({"a"}), kString), Tensor::Vector<std::string>({"a"}));
  const absl::Status status = RunOp("Cast", {Tensor::Vector<std::string>({"a"})}, {{"DstT", kFloat}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("Cast string to float is not supported"));
}

TEST(CastTest, Gradient) {
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& in) { return Cast(s, Cast(s, in[0], kComplex128), kDouble); },
      {TestValues(kDouble, {3})});
}

}  // namespace
}  // namespace thalweg
