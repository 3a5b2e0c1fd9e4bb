// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/buffer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "thalweg/base/exported_memory.h"
#include "thalweg/tensor/resource_handle.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {
namespace {

// Counts what is out, and can be short of memory.
class CountingAllocator : public Allocator {
 public:
  void* Allocate(size_t bytes) override {
    if (bytes > limit) return nullptr;
    bytes_out += static_cast<int64_t>(bytes);
    ++calls;
    return HostAllocator().Allocate(bytes);
  }
  void Deallocate(void* memory, size_t bytes) override {
    bytes_out -= static_cast<int64_t>(bytes);
    HostAllocator().Deallocate(memory, bytes);
  }
  AllocatorStats Stats() const override { return {}; }

  size_t limit = std::numeric_limits<size_t>::max();
  std::atomic<int64_t> bytes_out{0};
  std::atomic<int> calls{0};
};

TEST(Buffer, IsOneAllocation) {
  CountingAllocator allocator;
  Buffer* const buffer = Buffer::Allocate(allocator, kFloat, 100);
  EXPECT_EQ(allocator.calls, 1);
  EXPECT_EQ(allocator.bytes_out, 400 + 64);
  EXPECT_EQ(buffer->bytes(), 400);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Allocator::kAlignment, 0);
  memset(buffer->data(), 1, 400);
  buffer->Unref();
  EXPECT_EQ(allocator.bytes_out, 0);
}

TEST(Buffer, LivesAsLongAsAReference) {
  CountingAllocator allocator;
  BufferPtr a(Buffer::Allocate(allocator, kInt32, 4));
  EXPECT_TRUE(a->unique());
  {
    BufferPtr b = a;
    EXPECT_FALSE(a->unique());
    BufferPtr c = std::move(b);
    EXPECT_FALSE(b);  // NOLINT: that it is empty is the point
    EXPECT_EQ(c.get(), a.get());
    b = c;
    b = *&b;
    a = BufferPtr();
    EXPECT_GT(allocator.bytes_out, 0);
  }
  EXPECT_EQ(allocator.bytes_out, 0);
}

TEST(Buffer, MakesAndDestroysObjects) {
  CountingAllocator allocator;
  struct Noted : VariantValue {
    std::string TypeName() const override { return "Noted"; }
    std::string ToString() const override { return "noted"; }
    bool Encode(tensorflow::VariantTensorDataProto*) const override { return false; }
  };
  const auto value = std::make_shared<Noted>();
  {
    BufferPtr strings(Buffer::Allocate(allocator, kString, 3));
    auto* const s = static_cast<std::string*>(strings->data());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(s[i], "");
    s[1] = std::string(1000, 'x');  // AddressSanitizer would report a leak

    BufferPtr handles(Buffer::Allocate(allocator, kResource, 2));
    static_cast<ResourceHandle*>(handles->data())[1].name = std::string(1000, 'x');

    BufferPtr variants(Buffer::Allocate(allocator, kVariant, 2));
    static_cast<Variant*>(variants->data())[1] = Variant(value);
    EXPECT_EQ(value.use_count(), 2);
  }
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_EQ(allocator.bytes_out, 0);
}

TEST(Buffer, Strides) {
  EXPECT_EQ(Buffer::Stride(kInt16), 2);
  EXPECT_EQ(Buffer::Stride(kString), sizeof(std::string));
  EXPECT_EQ(Buffer::Stride(kResource), sizeof(ResourceHandle));
  EXPECT_EQ(Buffer::Stride(kVariant), sizeof(Variant));
}

TEST(Buffer, ShortMemoryIsNullptr) {
  CountingAllocator allocator;
  allocator.limit = 100;
  EXPECT_EQ(Buffer::Allocate(allocator, kFloat, 10), nullptr);
  EXPECT_EQ(Buffer::Allocate(allocator, kString, 10), nullptr);
  allocator.limit = std::numeric_limits<size_t>::max();
  // The sizes overflow: nobody may be asked for what is left of them.
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Buffer::Allocate(allocator, kComplex128, kMax), nullptr);
  EXPECT_EQ(Buffer::Allocate(allocator, kComplex128, int64_t{1} << 60), nullptr);
  EXPECT_EQ(Buffer::Allocate(allocator, kInt16, kMax), nullptr);
  EXPECT_EQ(allocator.calls, 0);
}

TEST(Buffer, EmptyIsFine) {
  CountingAllocator allocator;
  BufferPtr numbers(Buffer::Allocate(allocator, kFloat, 0));
  EXPECT_EQ(numbers->bytes(), 0);
  EXPECT_NE(numbers->data(), nullptr);
  BufferPtr strings(Buffer::Allocate(allocator, kString, 0));
  EXPECT_TRUE(strings->unique());
}

TEST(Buffer, WrappedMemoryIsReleasedOnce) {
  const auto message = std::make_shared<std::vector<float>>(5, 1.5f);
  int released = 0;
  const int64_t before = HostAllocator().Stats().bytes_in_use;
  {
    BufferPtr a(Buffer::Wrap(message->data(), 20, [&released, message] { ++released; }));
    EXPECT_EQ(a->data(), message->data());
    EXPECT_EQ(a->bytes(), 20);
    EXPECT_FALSE(a->unique()) << "it belongs to somebody else";
    EXPECT_EQ(message.use_count(), 2);
    BufferPtr b = a;
    a = BufferPtr();
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(message.use_count(), 1) << "what release held is gone as well";
  EXPECT_EQ(HostAllocator().Stats().bytes_in_use, before);
  BufferPtr(Buffer::Wrap(message->data(), 20, nullptr));
}

// The thread that destroys the buffer sees what other threads wrote before they released it.
TEST(Buffer, ThreadsShareIt) {
  CountingAllocator allocator;
  for (int round = 0; round < 200; ++round) {
    BufferPtr shared(Buffer::Allocate(allocator, kString, 4));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t, mine = shared]() mutable {
        static_cast<std::string*>(mine->data())[t] = std::string(100, 'x');
        for (int i = 0; i < 50; ++i) BufferPtr copy = mine;
        mine = BufferPtr();
      });
    }
    shared = BufferPtr();
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(allocator.bytes_out, 0);
}

TEST(Buffer, TensorsOfASizeThatWasSentLieInExportedMemory) {
  ExportedMemory& exports = ExportedMemory::Global();
  ASSERT_TRUE(exports.Enable().ok());
  const Shape shape({123, 1000});
  const auto holds = [&](const Tensor& tensor) { return exports.Holds(tensor.raw(), 1); };
  EXPECT_FALSE(holds(Tensor(kFloat, shape)));
  exports.Want(123 * 1000 * 4);
  const size_t before = exports.bytes_in_use();
  {
    Tensor tensor(kFloat, shape);
    EXPECT_TRUE(holds(tensor));
    EXPECT_TRUE(tensor.unique());
    EXPECT_GT(exports.bytes_in_use(), before);
    // Other processes map the file: the reference count must not be there.
    EXPECT_FALSE(exports.Holds(tensor.buffer().get(), 1));
    tensor.mutable_data<float>()[122'999] = 5;
    const Tensor copy = tensor.Clone();
    EXPECT_TRUE(holds(copy));
    EXPECT_EQ(copy.data<float>()[122'999], 5);
    EXPECT_FALSE(holds(Tensor(kFloat, Shape({123, 999}))));
    EXPECT_FALSE(holds(Tensor(kString, Shape({123 * 1000 * 4 / static_cast<int64_t>(sizeof(std::string))}))));
  }
  EXPECT_EQ(exports.bytes_in_use(), before);
}

}  // namespace
}  // namespace thalweg
