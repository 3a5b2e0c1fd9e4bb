// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/lookup/lookup_table.h"

#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/lookup_ops.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

class LookupTableTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<Tensor>> Try(const std::vector<Output>& outputs) {
    if (!s_.ok()) return s_.status();
    return Evaluate(graph_, {}, outputs, device_);
  }
  Tensor Run(Output output) {
    const auto values = Try({output});
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? (*values)[0] : Tensor();
  }
  std::string Error(Output output) { return Try({output}).status().ToString(); }
  Output Words(std::initializer_list<std::string> words) { return Const(s_, Tensor::Vector(words)); }
  Output Numbers(std::initializer_list<int64_t> numbers) { return Const(s_, Tensor::Vector(numbers)); }

  Device device_{*DeviceName::Parse("/job:localhost/replica:0/task:0/device:CPU:0"), &TestDevice().intra_op_pool()};
  Graph graph_;
  Scope s_ = graph_.root();
};

TEST_F(LookupTableTest, FilledOnce) {
  const Output table = HashTable(s_, kString, kInt64, {.shared_name = "t"});
  const Output found = LookupTableFind(s_, table, Words({"b", "x"}), Const(s_, int64_t{-1}));
  EXPECT_EQ(found.shape().ToString(), "[2]");
  EXPECT_THAT(Error(found), HasSubstr("FAILED_PRECONDITION: Table not initialized."));
  EXPECT_THAT(Error(InitializeTable(s_, table, Words({"a", "a"}), Numbers({1, 2}))),
              HasSubstr("HashTable has different value for same key. Key a has 1 and trying to add value 2"));
  Run(InitializeTable(s_, table, Words({"a", "b"}), Numbers({1, 2})));
  ExpectTensor(Run(found), Tensor::Vector<int64_t>({2, -1}));
  EXPECT_THAT(Error(InitializeTable(s_, table, Words({"c"}), Numbers({1}))),
              HasSubstr("Table was already initialized with different data."));
  EXPECT_THAT(Error(LookupTableInsert(s_, table, Words({"c"}), Numbers({1}))), HasSubstr("UNIMPLEMENTED"));
}

TEST_F(LookupTableTest, Changed) {
  const Output table = MutableHashTable(s_, kInt64, kString, {.shared_name = "t"});
  Run(LookupTableInsert(s_, table, Numbers({1, 2, 3}), Words({"a", "b", "c"})));
  Run(LookupTableRemove(s_, table, Numbers({1, 9})));
  Run(LookupTableInsert(s_, table, Numbers({2}), Words({"B"})));
  ExpectTensor(Run(LookupTableFind(s_, table, Numbers({1, 2, 3}), Const(s_, std::string("-")))),
               Tensor::Vector<std::string>({"-", "B", "c"}));
  ExpectTensor(Run(LookupTableSize(s_, table)), Tensor::Scalar<int64_t>(2));
  const auto [keys, values] = LookupTableExport(s_, table, kInt64, kString);
  ExpectTensor(Run(keys), Tensor::Vector<int64_t>({3, 2}));
  ExpectTensor(Run(values), Tensor::Vector<std::string>({"c", "B"}));
  Run(LookupTableImport(s_, table, Numbers({7}), Words({"g"})));
  ExpectTensor(Run(keys), Tensor::Vector<int64_t>({7}));
  EXPECT_THAT(Error(LookupTableInsert(s_, table, Words({"c"}), Numbers({1}))),
              HasSubstr("Signature mismatch, have: resource, string, int64-> expected: resource, int64, string->"));
  EXPECT_THAT(Error(LookupTableFind(s_, table, Numbers({1}), Words({"x", "y"}))),
              HasSubstr("Expected shape [] or [1] for default value, got [2]"));
}

TEST_F(LookupTableTest, KeysOfSixteenBytes) {
  using Complex = std::complex<double>;
  const Output table = MutableHashTable(s_, kComplex128, kInt64, {.shared_name = "t"});
  const Output keys = Const(s_, Tensor::Vector<Complex>({{1, 0}, {1, 2}}));
  Run(LookupTableInsert(s_, table, keys, Numbers({1, 2})));
  ExpectTensor(Run(LookupTableFind(s_, table, keys, Const(s_, int64_t{-1}))), Tensor::Vector<int64_t>({1, 2}));
}

class DenseTableTest : public testing::Test {
 protected:
  static LookupTableOptions Options(int64_t buckets, float max_load = 0.8f) {
    return {.kind = LookupTableOptions::Kind::kDense,
            .key_dtype = kInt64,
            .value_dtype = kInt64,
            .empty_key = Tensor::Scalar<int64_t>(100),
            .deleted_key = Tensor::Scalar<int64_t>(200),
            .buckets = buckets,
            .max_load = max_load};
  }
  static void ExpectBuckets(const LookupTable& table, const std::vector<int64_t>& keys,
                            const std::vector<int64_t>& values) {
    Tensor got_keys, got_values;
    ASSERT_TRUE(table.Export(&got_keys, &got_values).ok());
    EXPECT_EQ(got_keys.shape(), Shape({static_cast<int64_t>(keys.size()), 1}));
    EXPECT_THAT(got_keys.flat<int64_t>(), testing::ElementsAreArray(keys));
    EXPECT_THAT(got_values.flat<int64_t>(), testing::ElementsAreArray(values));
  }
};

TEST_F(DenseTableTest, ARemovedKeyLeavesItsValueInItsBucket) {
  LookupTable table(Options(8));
  ExpectBuckets(table, {100, 100, 100, 100, 100, 100, 100, 100}, {0, 0, 0, 0, 0, 0, 0, 0});
  const Tensor keys = Tensor::Vector<int64_t>({11, 12, 19}), values = Tensor::Vector<int64_t>({1, 2, 3});
  ASSERT_TRUE(table.Insert(keys, values).ok());
  ExpectBuckets(table, {100, 100, 100, 11, 12, 100, 19, 100}, {0, 0, 0, 1, 2, 0, 3, 0});
  ASSERT_TRUE(table.Remove(Tensor::Vector<int64_t>({12, 11, 9})).ok());
  EXPECT_EQ(table.size(), 1);
  ExpectBuckets(table, {100, 100, 100, 200, 200, 100, 19, 100}, {0, 0, 0, 1, 2, 0, 3, 0});
  // A key is found behind marks, and is not inserted twice.
  ASSERT_TRUE(table.Insert(Tensor::Vector<int64_t>({19, 3}), Tensor::Vector<int64_t>({4, 5})).ok());
  EXPECT_EQ(table.size(), 2);
  ExpectBuckets(table, {100, 100, 100, 3, 200, 100, 19, 100}, {0, 0, 0, 5, 2, 0, 4, 0});
}

TEST_F(DenseTableTest, ImportsItsBucketsAndThoseOfAnyOtherLayout) {
  LookupTable table(Options(4));
  const Tensor keys(kInt64, {4, 1}), values(kInt64, {4, 1});
  std::copy_n(std::vector<int64_t>{7, 100, 5, 200}.data(), 4, Tensor(keys).mutable_data<int64_t>());
  std::copy_n(std::vector<int64_t>{1, 2, 3, 4}.data(), 4, Tensor(values).mutable_data<int64_t>());
  ASSERT_TRUE(table.Import(keys, values).ok());
  ExpectBuckets(table, {100, 5, 100, 7}, {0, 3, 0, 1});
  EXPECT_EQ(table.Import(Tensor(kInt64, {3, 1}), Tensor(kInt64, {3, 1})).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DenseTableTest, MarksOfRemovedKeysDoNotFillATable) {
  LookupTable table(Options(1024));
  for (int64_t i = 1000; i < 300'000; i += 2) {
    ASSERT_TRUE(table.Insert(Tensor::Vector({i}), Tensor::Vector({i})).ok());
    ASSERT_TRUE(table.Remove(Tensor::Vector({i})).ok());
  }
  Tensor keys, values;
  ASSERT_TRUE(table.Export(&keys, &values).ok());
  EXPECT_EQ(keys.num_elements(), 1024);
  const auto all = keys.flat<int64_t>();
  EXPECT_GT(std::count(all.begin(), all.end(), 100), 0);
}

TEST_F(DenseTableTest, ATinyLoadFactorEndsWithAnError) {
  LookupTable table(Options(4, 1e-38f));
  EXPECT_EQ(table.Insert(Tensor::Vector<int64_t>({1}), Tensor::Vector<int64_t>({1})).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(LookupTable, ThousandsOfKeysComeAndGo) {
  LookupTable table({.key_dtype = kString, .value_dtype = kInt32, .value_shape = {2}});
  const auto keys = [](int begin, int end) {
    std::vector<std::string> names;
    for (int i = begin; i < end; ++i) names.push_back(absl::StrCat("key", i));
    return Tensor::Vector<std::string>(names);
  };
  Tensor values(kInt32, {5000, 2});
  for (int i = 0; i < 10000; ++i) values.flat<int32_t>()[i] = i;
  ASSERT_TRUE(table.Insert(keys(0, 5000), values).ok());
  ASSERT_TRUE(table.Remove(keys(0, 2500)).ok());
  EXPECT_EQ(table.size(), 2500);
  Tensor found(kInt32, {5000, 2});
  ASSERT_TRUE(table.Find(keys(0, 5000), Tensor::Vector({-1, -2}), &found).ok());
  for (int i = 0; i < 10000; ++i) EXPECT_EQ(found.flat<int32_t>()[i], i >= 5000 ? i : i % 2 == 0 ? -1 : -2);
}

}  // namespace
}  // namespace thalweg
