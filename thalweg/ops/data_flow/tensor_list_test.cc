// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/tensor_list.h"

#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/dataset/optional.h"
#include "thalweg/ops/support/variant_arithmetic.h"
#include "thalweg/proto/tensor.pb.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

std::shared_ptr<TensorList> Floats() {
  auto list = std::make_shared<TensorList>();
  list->dtype = kFloat;
  list->element_shape = PartialShape({-1});
  list->max_elements = 5;
  list->elements = {Tensor::Vector({1.0f, 2.0f}), Tensor(), Tensor::Vector({3.0f})};
  return list;
}

TEST(TensorList, LeavesTheProcessAndComesBack) {
  const Variant variant(Floats());
  tensorflow::VariantTensorDataProto proto;
  ASSERT_TRUE(variant.ToProto(&proto));
  EXPECT_EQ(proto.type_name(), "tensorflow::TensorList");
  const auto list = ListIn(Variant::FromProto(proto));
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ((*list)->ToString(), "a list of 3 tensors of float [?]");
  EXPECT_EQ((*list)->max_elements, 5);
  ExpectTensor((*list)->elements[0], Tensor::Vector({1.0f, 2.0f}));
  EXPECT_FALSE((*list)->elements[1].has_value());
  ExpectTensor((*list)->elements[2], Tensor::Vector({3.0f}));
}

TEST(TensorList, BrokenEncodings) {
  tensorflow::VariantTensorDataProto good;
  ASSERT_TRUE(Variant(Floats()).ToProto(&good));
  for (size_t n = 0; n < good.metadata().size(); ++n) {
    tensorflow::VariantTensorDataProto cut = good;
    cut.mutable_metadata()->resize(n);
    TensorList::Decode(cut).status().IgnoreError();  // an error or a smaller list, no crash
  }
  good.set_metadata("\xff\xff\xff\xff\x0f");
  EXPECT_FALSE(TensorList::Decode(good).ok());
  EXPECT_THAT(ListIn(Variant()).status().ToString(), HasSubstr("Input handle is not a list. Saw: 'nothing'"));
}

TEST(TensorList, SumsAndZeros) {
  const auto sum = AddLists(*Floats(), *Floats());
  ASSERT_TRUE(sum.ok()) << sum.status();
  ExpectTensor((*sum)->elements[0], Tensor::Vector({2.0f, 4.0f}));
  EXPECT_FALSE((*sum)->elements[1].has_value());
  const auto zeros = ZerosLike(*Floats());
  ExpectTensor((*zeros)->elements[2], Tensor::Vector({0.0f}));
  // Lists of lists.
  const Tensor nested = TensorOf(Floats());
  const auto twice = AddTensors(nested, nested);
  ASSERT_TRUE(twice.ok()) << twice.status();
  ExpectTensor((*ListIn(twice->scalar<Variant>()))->elements[2], Tensor::Vector({6.0f}));
}

TEST(TensorList, SumsAndZerosOfOptionals) {
  const auto optional = [](std::vector<Tensor> components) {
    Tensor t(kVariant, {});
    *t.mutable_data<Variant>() = Variant(std::make_shared<OptionalValue>(std::move(components)));
    return t;
  };
  Tensor none(kVariant, {});
  *none.mutable_data<Variant>() = Variant(std::make_shared<OptionalValue>());
  const auto first = [](const absl::StatusOr<std::vector<Tensor>>& results) {
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? (*results)[0].scalar<Variant>().As<OptionalValue>() : nullptr;
  };
  const Tensor some = optional({Tensor::Vector({1.0f, 2.0f}), TensorOf(Floats())});
  const auto added = RunOp("AddN", {std::vector<Tensor>{some, some}});
  const OptionalValue* sum = first(added);
  ASSERT_TRUE(sum != nullptr && sum->has_value());
  ExpectTensor(sum->components()[0], Tensor::Vector({2.0f, 4.0f}));
  ExpectTensor((*ListIn(sum->components()[1].scalar<Variant>()))->elements[2], Tensor::Vector({6.0f}));
  const auto cleared = RunOp("ZerosLike", {some});
  ASSERT_NE(first(cleared), nullptr);
  ExpectTensor(first(cleared)->components()[0], Tensor::Vector({0.0f, 0.0f}));
  const auto nothing = RunOp("AddN", {std::vector<Tensor>{none, none}});
  ASSERT_NE(first(nothing), nullptr);
  EXPECT_FALSE(first(nothing)->has_value());
  const std::vector<Tensor> others{none, optional({Tensor::Vector({1.0f, 2.0f})}), TensorOf(Floats())};
  for (const Tensor& other : others) EXPECT_FALSE(RunOp("AddN", {std::vector<Tensor>{some, other}}).ok());
}

TEST(TensorList, WhatOthersHoldIsNotChanged) {
  const Tensor handle = TensorOf(Floats());
  const auto pushed = RunOp("TensorListPushBack", {handle, Tensor::Vector({9.0f})});
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ((*ListIn((*pushed)[0].scalar<Variant>()))->elements.size(), 4);
  EXPECT_EQ((*ListIn(handle.scalar<Variant>()))->elements.size(), 3);
  EXPECT_THAT(RunOp("TensorListReserve", {Tensor::Scalar(-1), Tensor::Scalar(2147483647)}, {{"element_dtype", kFloat}})
                  .status()
                  .ToString(),
              HasSubstr("RESOURCE_EXHAUSTED"));
  EXPECT_THAT(RunOp("TensorListSetItem", {handle, Tensor::Scalar(-1), Tensor::Vector({9.0f})}).status().ToString(),
              HasSubstr("Trying to modify element -1 in a list with 3 elements."));
}

Output ListOf(const Scope& s, Output rows) { return s.Add("TensorListFromTensor", {rows, Const(s, -1)}); }
Output RowsOf(const Scope& s, Output list, DType dtype) {
  return s.Add("TensorListStack", {list, Const(s, -1)}, {{"element_dtype", dtype}});
}

TEST(TensorList, Gradients) {
  const Tensor rows = TestValues(kDouble, {3, 2}), one = TestValues(kDouble, {2}, -1, 1, 2);
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return RowsOf(s, s.Add("TensorListPushBack", {ListOf(s, x[0]), x[1]}), kDouble);
      },
      {rows, one});
  for (const bool both : {false, true}) {
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& x) {
          Node* const pop = s.Add("TensorListPopBack", {ListOf(s, x[0]), Const(s, -1)}, {{"element_dtype", kDouble}});
          const Output last = s.Add("Sin", {pop->out(1)});
          return both ? Output(s.Add("Mul", {RowsOf(s, pop->out(0), kDouble), last})) : last;
        },
        {rows});
  }
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        const Output list = ListOf(s, x[0]);
        const auto item = [&](int i) {
          return Output(s.Add("TensorListGetItem", {list, Const(s, i), Const(s, -1)}, {{"element_dtype", kDouble}}));
        };
        return Output(s.Add("Mul", {item(0), Output(s.Add("Mul", {item(2), item(0)}))}));
      },
      {rows});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return RowsOf(s, s.Add("TensorListSetItem", {ListOf(s, x[0]), Const(s, 1), x[1]}), kDouble);
      },
      {rows, one});
  for (const bool second : {false, true}) {
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& x) {
          const Output list = s.Add("TensorListSplit", {x[0], Const(s, -1), Const(s, std::vector<int64_t>{2, 0, 1})});
          const Output squares = s.Add("TensorListPushBack", {list, Output(s.Add("Mul", {x[0], x[0]}))});
          if (!second) return Output(s.Add("TensorListConcat", {squares}, {{"element_dtype", kDouble}}));
          const Output none = Const(s, std::vector<int64_t>());
          return Output(s.Add("TensorListConcatV2", {squares, Const(s, {-1, 2}), none}, {{"element_dtype", kDouble}}));
        },
        {rows});
  }
}

TEST(TensorMapTest, SumsHaveTheKeysOfAll) {
  const auto result = [](const char* op, std::vector<OpArg> inputs, std::vector<AttrArg> attrs = {}) {
    auto out = RunOp(op, std::move(inputs), std::move(attrs));
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? (*out)[0] : Tensor();
  };
  const auto key = [](int32_t k) { return Tensor::Scalar(k); };
  const Tensor empty = result("EmptyTensorMap", {});
  const Tensor one = result("TensorMapInsert", {empty, key(1), Tensor::Vector<float>({1, 2})});
  const Tensor two = result("TensorMapInsert", {one, key(2), Tensor::Vector<float>({3})});
  const Tensor sum = result("AddN", {std::vector<Tensor>{one, two, one}});
  const auto value = [&](int32_t k) { return result("TensorMapLookup", {sum, key(k)}, {{"value_dtype", kFloat}}); };
  ExpectTensor(value(1), Tensor::Vector<float>({3, 6}));
  ExpectTensor(value(2), Tensor::Vector<float>({3}));
  ExpectTensor(result("TensorMapSize", {result("ZerosLike", {two})}), Tensor::Scalar<int32_t>(0));
  const Tensor other = result("TensorMapInsert", {empty, key(1), Tensor::Vector<float>({1, 2, 3})});
  EXPECT_FALSE(RunOp("AddN", {std::vector<Tensor>{one, other}}).ok());
}

}  // namespace
}  // namespace thalweg
