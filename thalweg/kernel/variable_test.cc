// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/variable.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/exported_memory.h"
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

// A table of `kRows` rows of one page each.
constexpr int64_t kRows = 256, kWidth = 1024;

std::unique_ptr<Variable> Table() {
  auto table = std::make_unique<Variable>("table", kInt32);
  table->Assign(Tensor::Zeros(kInt32, {kRows, kWidth}));
  return table;
}

// Adds `amount` to every element of some rows.
absl::Status AddToRows(Variable& v, std::vector<int64_t> rows, int32_t amount = 1) {
  return v.UpdateRows([&](Tensor& value) -> absl::Status {
    const int64_t width = value.num_elements() / value.dim(0);
    RETURN_IF_ERROR(v.MakeRowsWritable(rows, width * sizeof(int32_t)));
    for (const int64_t row : rows) {
      for (int64_t i = 0; i < width; ++i) value.mutable_data<int32_t>()[row * width + i] += amount;
    }
    return absl::OkStatus();
  });
}

const void* MemoryOf(const Variable& v) {
  const void* memory = nullptr;
  EXPECT_THAT(v.Inspect([&](const Tensor& value) {
    memory = value.raw();
    return absl::OkStatus();
  }),
              IsOk());
  return memory;
}

// The first elements of the rows, if all of a row are the same.
std::vector<int32_t> RowValues(const Tensor& value) {
  std::vector<int32_t> values;
  const int64_t width = value.num_elements() / value.dim(0);
  for (int64_t row = 0; row < value.dim(0); ++row) {
    const int32_t* const begin = value.data<int32_t>() + row * width;
    EXPECT_TRUE(std::all_of(begin, begin + width, [&](int32_t v) { return v == *begin; })) << "row " << row;
    values.push_back(*begin);
  }
  return values;
}

TEST(VariableRows, UpdatesAreInPlaceWhileSnapshotsAreHeld) {
  const auto v = Table();
  ASSERT_THAT(AddToRows(*v, {1}), IsOk());
  ASSERT_THAT(AddToRows(*v, {1}), IsOk());
  std::vector<Tensor> snapshots;
  std::vector<std::vector<int32_t>> expected;
  std::vector<int32_t> rows(kRows, 0);
  rows[1] = 2;
  const void* memory = nullptr;
  for (int64_t i = 0; i < 5; ++i) {
    snapshots.push_back(v->Read());
    expected.push_back(rows);
    if (memory == nullptr) memory = MemoryOf(*v);
    ASSERT_THAT(AddToRows(*v, {i, i + 100, i}), IsOk());
    rows[i] += 2;
    rows[i + 100] += 1;
    EXPECT_EQ(MemoryOf(*v), memory) << "an update copied the table";
  }
  for (size_t i = 0; i < snapshots.size(); ++i) {
    EXPECT_EQ(RowValues(snapshots[i]), expected[i]) << i;
    EXPECT_FALSE(snapshots[i].unique()) << "nobody may write to a snapshot";
  }
  EXPECT_EQ(RowValues(v->Read()), rows);
}

TEST(VariableRows, SnapshotsWithoutUpdatesInBetweenAreOne) {
  const auto v = Table();
  ASSERT_THAT(AddToRows(*v, {1}), IsOk());
  ASSERT_THAT(AddToRows(*v, {1}), IsOk());
  const Tensor first = v->Read();
  EXPECT_EQ(v->Read().raw(), first.raw());
  ASSERT_THAT(AddToRows(*v, {1}), IsOk());
  EXPECT_NE(v->Read().raw(), first.raw());
}

TEST(VariableRows, ASnapshotOutlivesAssignmentsAndTheVariable) {
  auto v = Table();
  ASSERT_THAT(AddToRows(*v, {1}), IsOk());
  ASSERT_THAT(AddToRows(*v, {1}), IsOk());
  const Tensor snapshot = v->Read();
  ASSERT_THAT(AddToRows(*v, {2}), IsOk());
  v->Assign(Tensor::Zeros(kInt32, {kRows, kWidth}));
  ASSERT_THAT(AddToRows(*v, {3}), IsOk());
  std::vector<int32_t> now(kRows, 0);
  now[3] = 1;
  EXPECT_EQ(RowValues(v->Read()), now);
  v.reset();
  std::vector<int32_t> then(kRows, 0);
  then[1] = 2;
  EXPECT_EQ(RowValues(snapshot), then);
}

TEST(VariableRows, UpdatesOfTheWholeLeaveSnapshotsAlone) {
  const auto v = Table();
  ASSERT_THAT(AddToRows(*v, {1}), IsOk());
  ASSERT_THAT(AddToRows(*v, {1}), IsOk());
  const Tensor snapshot = v->Read();
  ASSERT_THAT(v->Update([](Tensor& value) -> absl::Status {
    RETURN_IF_ERROR(MakeWritable(value));
    for (int32_t& element : value.flat<int32_t>()) ++element;
    return absl::OkStatus();
  }),
              IsOk());
  ASSERT_THAT(AddToRows(*v, {0}), IsOk());
  std::vector<int32_t> then(kRows, 0), now(kRows, 1);
  then[1] = 2;
  now[0] = 2;
  now[1] = 3;
  EXPECT_EQ(RowValues(snapshot), then);
  EXPECT_EQ(RowValues(v->Read()), now);
}

TEST(VariableRows, RowsThatShareAPageAndRowsOfSeveralPages) {
  for (const int64_t width : {1, 10, 1000, 5000}) {
    Variable v("v", kInt32);
    const int64_t count = (1 << 17) / width + 1;
    v.Assign(Tensor::Zeros(kInt32, {count, width}));
    ASSERT_THAT(AddToRows(v, {0, count - 1}), IsOk());
    ASSERT_THAT(AddToRows(v, {0, count - 1}), IsOk());
    std::vector<int32_t> expected(count, 0);
    expected[0] = expected[count - 1] = 2;
    const Tensor snapshot = v.Read();
    ASSERT_THAT(AddToRows(v, {0, 1, count / 2, count - 1}), IsOk());
    EXPECT_EQ(RowValues(snapshot), expected) << width;
    for (const int64_t row : {int64_t{0}, int64_t{1}, count / 2, count - 1}) ++expected[row];
    EXPECT_EQ(RowValues(v.Read()), expected) << width;
  }
}

// Optimizers that assign a slot in every step and then update some rows do not pay
// for memory of another kind.
TEST(VariableRows, AValueThatIsAssignedInEveryStepIsShared) {
  const auto v = Table();
  for (int step = 0; step < 3; ++step) {
    v->Assign(Tensor::Zeros(kInt32, {kRows, kWidth}));
    ASSERT_THAT(AddToRows(*v, {1}), IsOk());
    EXPECT_EQ(v->Read().raw(), MemoryOf(*v));
  }
}

int NumDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(VariableRows, NoDescriptorIsLeftBehind) {
  const int before = NumDescriptors();
  for (int i = 0; i < 10; ++i) {
    const auto v = Table();
    ASSERT_THAT(AddToRows(*v, {1}), IsOk());
    ASSERT_THAT(AddToRows(*v, {1}), IsOk());
    const Tensor snapshot = v->Read();
    v->Assign(Tensor());
  }
  EXPECT_EQ(NumDescriptors(), before);
}

// Every update moves an amount between two rows, so that the sum of all stays 0.
TEST(VariableRows, SnapshotsShowWholeUpdatesUnderConcurrency) {
  const auto v = Table();
  std::atomic<int> writing = 3;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      uint32_t random = 12345 + t;
      for (int i = 0; i < 3000; ++i) {
        random = random * 1664525 + 1013904223;
        const int64_t from = random >> 24, to = (random >> 16) & 255;
        if (from == to) continue;
        ASSERT_THAT(v->UpdateRows([&](Tensor& value) -> absl::Status {
          RETURN_IF_ERROR(v->MakeRowsWritable({from, to}, kWidth * sizeof(int32_t)));
          for (int64_t k = 0; k < kWidth; ++k) {
            --value.mutable_data<int32_t>()[from * kWidth + k];
            ++value.mutable_data<int32_t>()[to * kWidth + k];
          }
          return absl::OkStatus();
        }),
                    IsOk());
      }
      --writing;
    });
  }
  const auto check = [](const Tensor& snapshot) {
    const std::vector<int32_t> rows = RowValues(snapshot);
    EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), 0), 0);
  };
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      Tensor held;
      while (writing > 0) {
        Tensor snapshot = v->Read();
        check(snapshot);
        if (held.has_value()) check(held);
        held = std::move(snapshot);
      }
    });
  }
  // One that reads rows, as a Gather does.
  threads.emplace_back([&] {
    while (writing > 0) {
      ASSERT_THAT(v->Inspect([&](const Tensor& value) {
        const int32_t* const row = value.data<int32_t>() + 17 * kWidth;
        EXPECT_TRUE(std::all_of(row, row + kWidth, [&](int32_t e) { return e == *row; }));
        return absl::OkStatus();
      }),
                  IsOk());
    }
  });
  for (std::thread& thread : threads) thread.join();
  check(v->Read());
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

// A process that reads a tensor in exported memory.
class RemoteReader : public ExportHolder {
 public:
  explicit RemoteReader(Tensor tensor) : tensor_(std::move(tensor)) {}
  void Finish() { finished_ = true; }
  bool Reclaim() override {
    if (finished_) tensor_ = Tensor();
    return finished_;
  }

 private:
  Tensor tensor_;
  bool finished_ = false;
};

TEST(Variable, AValueThatIsSentMovesToExportedMemoryAndIsUpdatedThere) {
  ExportedMemory& exports = ExportedMemory::Global();
  ASSERT_TRUE(exports.Enable().ok());
  Tensor first = Tensor::Zeros(kFloat, {70'001});
  Variable variable("v", kFloat);
  variable.Assign(std::move(first));
  EXPECT_FALSE(exports.Holds(variable.Read().raw(), 1));
  exports.Want(70'001 * 4);
  const Tensor moved = variable.Read();
  EXPECT_TRUE(exports.Holds(moved.raw(), 1));
  EXPECT_EQ(variable.Read().raw(), moved.raw());  // once
  const auto reader = std::make_shared<RemoteReader>(moved);
  exports.Add(reader);
  const void* const old = moved.raw();
  const auto add_one = [&] {
    return variable.Update([](Tensor& value) {
      RETURN_IF_ERROR(MakeWritable(value));
      for (float& x : value.flat<float>()) x += 1;
      return absl::OkStatus();
    });
  };
  // The reader, here `moved` too, keeps its value.
  ASSERT_TRUE(add_one().ok());
  EXPECT_EQ(moved.data<float>()[7], 0);
  const Tensor now = variable.Read();
  EXPECT_NE(now.raw(), old);
  EXPECT_TRUE(exports.Holds(now.raw(), 1));
  EXPECT_EQ(now.data<float>()[7], 1);
}

TEST(Variable, AnUpdateFindsThatAReaderInAnotherProcessHasFinished) {
  ExportedMemory& exports = ExportedMemory::Global();
  ASSERT_TRUE(exports.Enable().ok());
  exports.Want(70'003 * 4);
  Variable variable("v", kFloat);
  variable.Assign(Tensor::Zeros(kFloat, {70'003}));
  const auto reader = std::make_shared<RemoteReader>(variable.Read());
  exports.Add(reader);
  const auto place = [&] {
    const void* at = nullptr;
    EXPECT_TRUE(variable
                    .Update([&](Tensor& value) {
                      RETURN_IF_ERROR(MakeWritable(value));
                      at = value.raw();
                      return absl::OkStatus();
                    })
                    .ok());
    return at;
  };
  const void* const second = place();
  const auto other = std::make_shared<RemoteReader>(variable.Read());
  exports.Add(other);
  EXPECT_NE(place(), second);
  const auto third = std::make_shared<RemoteReader>(variable.Read());
  exports.Add(third);
  third->Finish();
  const void* const at = variable.Read().raw();
  EXPECT_EQ(place(), at);  // in place
}

}  // namespace
}  // namespace thalweg
