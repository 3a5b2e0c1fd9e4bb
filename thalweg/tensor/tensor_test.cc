// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/tensor.h"

#include <sys/mman.h>

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/proto/tensor.pb.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class NoMemory : public Allocator {
 public:
  void* Allocate(size_t bytes) override { return nullptr; }
  void Deallocate(void* memory, size_t bytes) override {}
  AllocatorStats Stats() const override { return {}; }
};

TEST(Tensor, HasNoValueAtFirst) {
  const Tensor t;
  EXPECT_FALSE(t.has_value());
  EXPECT_EQ(t.dtype(), kInvalid);
  EXPECT_FALSE(t.unique());
  EXPECT_EQ(t.TotalBytes(), 0);
  EXPECT_EQ(t.ToString(), "<no value>");
  EXPECT_FALSE(t.Clone().has_value());
}

TEST(Tensor, HoldsValues) {
  const Tensor matrix = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(matrix.dtype(), kFloat);
  EXPECT_EQ(matrix.shape(), Shape({2, 2}));
  EXPECT_EQ(matrix.rank(), 2);
  EXPECT_EQ(matrix.dim(1), 2);
  EXPECT_EQ(matrix.TotalBytes(), 16);
  EXPECT_THAT(matrix.flat<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Tensor::Vector<int64_t>({5, 6}).flat<int64_t>(), ElementsAre(5, 6));
  EXPECT_EQ(Tensor::Scalar(true).scalar<bool>(), true);
  EXPECT_EQ(Tensor::Scalar(std::string("x")).scalar<std::string>(), "x");
  EXPECT_EQ(Tensor::Vector<std::string>({"ab", "", "c"}).TotalBytes(), 3);
  EXPECT_EQ(Tensor(kDouble, {0, 3}).TotalBytes(), 0);
  EXPECT_EQ(Tensor(kQint32, {3}).TotalBytes(), 12);
}

TEST(Tensor, ZerosAreZeroInMemoryThatWasUsed) {
  { Tensor::Of<int64_t>({3}, {-1, -1, -1}); }
  EXPECT_THAT(Tensor::Zeros(kInt64, {3}).flat<int64_t>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(Tensor::Zeros(kString, {2}).flat<std::string>(), ElementsAre("", ""));
}

TEST(Tensor, CopiesShareAndMovesLeaveNothing) {
  Tensor a = Tensor::Vector<int32_t>({1, 2});
  EXPECT_TRUE(a.unique());
  Tensor b = a;
  EXPECT_FALSE(a.unique());
  EXPECT_TRUE(a.SharesBufferWith(b));
  Tensor c = std::move(b);
  EXPECT_FALSE(b.has_value());  // NOLINT: that it is empty is the point
  EXPECT_EQ(b.raw(), nullptr);
  a = std::move(c);
  EXPECT_FALSE(c.has_value());  // NOLINT
  EXPECT_TRUE(a.unique());
  EXPECT_THAT(a.flat<int32_t>(), ElementsAre(1, 2));
  a = *&a;
  EXPECT_THAT(a.flat<int32_t>(), ElementsAre(1, 2));
}

TEST(Tensor, ShortMemoryIsAStatus) {
  NoMemory none;
  const auto t = Tensor::Allocate(kFloat, {1000, 25}, none);
  EXPECT_EQ(t.status(), absl::ResourceExhaustedError(
                            "OOM when allocating tensor with shape[1000,25] and type float: 100000 bytes"));
  // 2^65 bytes.
  const auto huge = Tensor::Allocate(kComplex128, {int64_t{1} << 61});
  EXPECT_EQ(huge.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(huge.status().message(), HasSubstr("3.68935e+19 bytes"));
  EXPECT_EQ(Tensor::Allocate(kFloat, {2}).value().shape(), Shape({2}));
}

// Where no status can be returned, as in a constructor. The boundary around every kernel and call makes it one.
TEST(Tensor, ShortMemoryIsAnExceptionInAConstructor) {
  NoMemory none;
  const auto status_of = [](const auto& work) { return CatchExceptions(work); };
  EXPECT_EQ(
      status_of([&] {
        Tensor(kFloat, {1000, 25}, none);
      }),
      absl::ResourceExhaustedError("OOM when allocating tensor with shape[1000,25] and type float: 100000 bytes"));
  // A view of address space that is not backed by memory, of which no copy can be made.
  constexpr int64_t kBytes = int64_t{1} << 40;
  void* const space = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(space, MAP_FAILED);
  const Tensor huge(kUint8, {kBytes}, BufferPtr(Buffer::Wrap(space, kBytes, [=] { munmap(space, kBytes); })), space);
  EXPECT_EQ(status_of([&] { huge.Clone(); }).code(), absl::StatusCode::kResourceExhausted);
}

TEST(Tensor, TypesWithoutTensorsAreRefused) {
  for (const DType dtype : {kInvalid, MakeRef(kFloat), static_cast<DType>(99)}) {
    const auto t = Tensor::Allocate(dtype, {2});
    EXPECT_EQ(t.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(t.status().message(), HasSubstr(ToString(dtype)));
  }
}

TEST(TensorDeathTest, OurOwnMistakesAreBugs) {
  const Tensor t = Tensor::Vector<float>({1, 2, 3});
  EXPECT_DEATH(t.data<int32_t>(), "tensor of float read as int32");
  EXPECT_DEATH(t.scalar<float>(), "not a single element: \\[3\\]");
  EXPECT_DEATH(t.WithShape({2}), "\\[3\\] as \\[2\\]");
  EXPECT_DEATH(t.Bitcast(kDouble), "float as double");
  EXPECT_DEATH(t.Rows(2, 4), "rows 2 to 4 of \\[3\\]");
  EXPECT_DEATH(Tensor::Of<float>({2}, {1, 2, 3}), "\\[2\\] from 3 values");
  EXPECT_DEATH(Tensor::Vector<std::string>({"a"}).Bitcast(kString), "string as string");
}

TEST(Tensor, ViewsShareTheBuffer) {
  const Tensor t = Tensor::Of<int32_t>({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor flat = t.WithShape({6});
  EXPECT_EQ(flat.raw(), t.raw());
  EXPECT_EQ(flat.shape(), Shape({6}));
  EXPECT_FALSE(t.unique());

  const Tensor rows = t.Rows(1, 3);
  EXPECT_EQ(rows.shape(), Shape({2, 2}));
  EXPECT_THAT(rows.flat<int32_t>(), ElementsAre(3, 4, 5, 6));
  EXPECT_TRUE(rows.SharesBufferWith(t));
  EXPECT_THAT(rows.Rows(1, 2).flat<int32_t>(), ElementsAre(5, 6));
  EXPECT_EQ(t.Rows(3, 3).shape(), Shape({0, 2}));
  EXPECT_EQ(Tensor(kFloat, {0, 2}).Rows(0, 0).num_elements(), 0);

  const Tensor words = Tensor::Vector<std::string>({"a", "b", "c"});
  EXPECT_THAT(words.Rows(1, 3).flat<std::string>(), ElementsAre("b", "c"));

  EXPECT_EQ(Tensor::Scalar(1.0f).Bitcast(kInt32).scalar<int32_t>(), 0x3f800000);
}

TEST(Tensor, ClonesHaveTheirOwnMemory) {
  const Tensor t = Tensor::Vector<float>({1, 2, 3});
  Tensor copy = t.Rows(1, 3).Clone();
  EXPECT_TRUE(copy.unique());
  copy.flat<float>()[0] = 9;
  EXPECT_THAT(copy.flat<float>(), ElementsAre(9, 3));
  EXPECT_THAT(t.flat<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(Tensor::Vector<std::string>({"a", "b"}).Clone().flat<std::string>(), ElementsAre("a", "b"));

  ResourceHandle handle;
  handle.name = "v";
  EXPECT_EQ(Tensor::Scalar(handle).Clone().scalar<ResourceHandle>(), handle);
  tensorflow::VariantTensorDataProto proto;
  proto.set_type_name("T");
  const Tensor variant = Tensor::Scalar(Variant::FromProto(proto));
  EXPECT_EQ(variant.Clone().scalar<Variant>().shared(), variant.scalar<Variant>().shared());
}

TEST(Tensor, Text) {
  EXPECT_EQ(Tensor::Of<float>({2, 2}, {1, 2.5, -3, 1e20f}).ToString(), "float [2,2] [1 2.5 -3 1e+20]");
  EXPECT_EQ(Tensor::Vector<int8_t>({65, -1}).ToString(), "int8 [2] [65 -1]");
  EXPECT_EQ(Tensor::Vector<int32_t>({1, 2, 3, 4}).ToString(3), "int32 [4] [1 2 3...]");
  EXPECT_EQ(Tensor::Vector<bool>({true, false}).ToString(), "bool [2] [true false]");
  EXPECT_EQ(Tensor::Scalar(Half(0.5)).ToString(), "half [] [0.5]");
  EXPECT_EQ(Tensor::Scalar(BFloat16(2)).ToString(), "bfloat16 [] [2]");
  EXPECT_EQ(Tensor::Scalar(std::complex<double>(1, -2)).ToString(), "complex128 [] [(1,-2)]");
  EXPECT_EQ(Tensor::Vector<uint8_t>({1, 200}).Bitcast(kQuint8).ToString(), "quint8 [2] [1 200]");
  EXPECT_EQ(Tensor(kFloat, {0}).ToString(), "float [0] []");
  // The contents of a string must not break the line on which it is printed.
  EXPECT_EQ(Tensor::Vector<std::string>({"a\"b\n", std::string("\0\xff", 2)}).ToString(),
            "string [2] [\"a\\\"b\\n\" \"\\x00\\xff\"]");
  EXPECT_LT(Tensor::Scalar(std::string(100000, 'x')).ToString().size(), 200);
  ResourceHandle handle;
  handle.device = "/job:ps";
  handle.container = "c";
  handle.name = "v";
  handle.type_name = "Var";
  EXPECT_EQ(Tensor::Scalar(handle).ToString(), "resource [] [Var c/v on /job:ps]");
  EXPECT_EQ(Tensor::Zeros(kVariant, {}).ToString(), "variant [] [<empty>]");
}

// Once warm, tensors cost no trip to the system: what a step relies on.
TEST(Tensor, MemoryIsUsedAgain) {
  const auto step = [] {
    Tensor a(kFloat, {1000, 1000}), b(kFloat, {10}), c(kFloat, {200, 200});
    return a.dim(0) + b.dim(0) + c.dim(0);
  };
  step();
  const int64_t before = HostAllocator().Stats().system_calls;
  for (int i = 0; i < 1000; ++i) step();
  EXPECT_EQ(HostAllocator().Stats().system_calls, before);
}

}  // namespace
}  // namespace thalweg
