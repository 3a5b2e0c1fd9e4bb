#include "thalweg/kernel/variable.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/kernel/evaluate.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using testing::Each;
using testing::ElementsAre;

TEST(Variable, HasNoValueUntilItIsAssigned) {
  Variable v("v", kFloat, {2});
  EXPECT_FALSE(v.initialized());
  EXPECT_FALSE(v.Read().has_value());
  EXPECT_EQ(v.Describe(), "variable 'v' of float (not initialized)");
  Tensor value;
  EXPECT_THAT(ReadVariable(v, &value),
              Fails(StatusCode::kFailedPrecondition, "Attempting to use uninitialized value v"));
  v.Assign(Tensor::Vector<float>({1, 2}));
  EXPECT_TRUE(v.initialized());
  ASSERT_THAT(ReadVariable(v, &value), IsOk());
  EXPECT_THAT(value.flat<float>(), ElementsAre(1, 2));
  EXPECT_EQ(v.Describe(), "variable 'v' of float [2]");
}

TEST(Variable, ReadersKeepWhatTheyRead) {
  Variable v("v", kFloat);
  v.Assign(Tensor::Vector<float>({1, 2}));
  const Tensor before = v.Read();
  ASSERT_THAT(v.Update([](Tensor& value) -> absl::Status {
    RETURN_IF_ERROR(MakeWritable(value));
    value.flat<float>()[0] = 9;
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_THAT(before.flat<float>(), ElementsAre(1, 2));
  const Tensor after = v.Read();
  EXPECT_THAT(after.flat<float>(), ElementsAre(9, 2));
}

class NoMemory : public Allocator {
  void* Allocate(size_t) override { return nullptr; }
  void Deallocate(void*, size_t) override {}
  AllocatorStats Stats() const override { return {}; }
};

TEST(Variable, WithoutMemoryForACopyTheValueStays) {
  NoMemory no_memory;
  Tensor value = Tensor::Vector<float>({1, 2});
  EXPECT_THAT(MakeWritable(value, no_memory), IsOk());  // nobody else sees it
  const Tensor reader = value;
  EXPECT_THAT(MakeWritable(value, no_memory), Fails(StatusCode::kResourceExhausted, "OOM when allocating"));
  EXPECT_EQ(value.raw(), reader.raw());
}

TEST(Variable, WithoutReadersUpdatesAreInPlace) {
  Variable v("v", kFloat);
  v.Assign(Tensor::Vector<float>({1, 2}));
  const void* const memory = v.Read().raw();
  ASSERT_THAT(v.Update([](Tensor& value) -> absl::Status {
    RETURN_IF_ERROR(MakeWritable(value));
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_EQ(v.Read().raw(), memory);
}

TEST(Variable, ErrorsOfUpdatesComeBack) {
  Variable v("v", kFloat);
  EXPECT_THAT(v.Update([](Tensor&) { return Internal("no"); }), Fails(StatusCode::kInternal, "no"));
}

TEST(Variable, NobodySeesHalfAnUpdate) {
  Variable v("v", kInt32);
  v.Assign(Tensor::Zeros(kInt32, {64}));
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      const Tensor value = v.Read();
      ASSERT_THAT(value.flat<int32_t>(), Each(value.flat<int32_t>()[0]));
    }
  });
  std::vector<std::thread> writers;
  for (int t = 0; t < 2; ++t) {
    writers.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        ASSERT_THAT(v.Update([](Tensor& value) -> absl::Status {
          RETURN_IF_ERROR(MakeWritable(value));
          for (int32_t& element : value.flat<int32_t>()) ++element;
          return absl::OkStatus();
        }),
                    IsOk());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  const Tensor last = v.Read();
  EXPECT_THAT(last.flat<int32_t>(), Each(4000));
}

TEST(MakeWritable, CopiesOnlyWhatIsShared) {
  Tensor a = Tensor::Vector<float>({1});
  const void* const memory = a.raw();
  ASSERT_THAT(MakeWritable(a), IsOk());
  EXPECT_EQ(a.raw(), memory);
  const Tensor b = a;
  ASSERT_THAT(MakeWritable(a), IsOk());
  EXPECT_NE(a.raw(), memory);
  EXPECT_EQ(b.raw(), memory);
  EXPECT_THAT(a.flat<float>(), ElementsAre(1));
}

}  // namespace
}  // namespace thalweg
