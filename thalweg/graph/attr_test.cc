// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/attr.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using tensorflow::AttrValue;
using tensorflow::NodeDef;
using testing::ElementsAre;
using testing::IsEmpty;

template <typename T>
T RoundTrip(const T& value) {
  NodeDef def;
  SetAttr(def, "a", value);
  const absl::StatusOr<T> read = GetAttr<T>(def, "a");
  EXPECT_THAT(read, IsOk());
  return read.value_or(T());
}

TEST(Attr, EveryKindReadsBackAsItWasSet) {
  EXPECT_EQ(RoundTrip<int64_t>(std::numeric_limits<int64_t>::min()), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(RoundTrip(0.25f), 0.25f);
  EXPECT_EQ(RoundTrip(true), true);
  EXPECT_EQ(RoundTrip(std::string("a\0b", 3)), std::string("a\0b", 3));
  EXPECT_EQ(RoundTrip(kBfloat16), kBfloat16);
  EXPECT_EQ(RoundTrip(PartialShape({2, -1})), PartialShape({2, -1}));
  EXPECT_EQ(RoundTrip(PartialShape()), PartialShape());
  EXPECT_THAT(RoundTrip(Tensor::Vector<float>({1, 2})).flat<float>(), ElementsAre(1, 2));
}

TEST(Attr, EveryListReadsBackAsItWasSet) {
  EXPECT_THAT(RoundTrip(std::vector<int64_t>{3, -4}), ElementsAre(3, -4));
  EXPECT_THAT(RoundTrip(std::vector<float>{0.5f}), ElementsAre(0.5f));
  EXPECT_THAT(RoundTrip(std::vector<bool>{true, false}), ElementsAre(true, false));
  EXPECT_THAT(RoundTrip(std::vector<std::string>{"x", ""}), ElementsAre("x", ""));
  EXPECT_THAT(RoundTrip(std::vector<DType>{kInt32, kString}), ElementsAre(kInt32, kString));
  EXPECT_THAT(RoundTrip(std::vector<PartialShape>{{1}, Shape(), PartialShape()}),
              ElementsAre(PartialShape({1}), PartialShape(Shape()), PartialShape()));
  EXPECT_THAT(RoundTrip(std::vector<int64_t>{}), IsEmpty());
}

TEST(Attr, LiteralsBecomeTheKindTheyLookLike) {
  EXPECT_EQ(AttrArg("a", 3).value().value_case(), AttrValue::kI);
  EXPECT_EQ(AttrArg("a", 0.5).value().value_case(), AttrValue::kF);
  EXPECT_EQ(AttrArg("a", false).value().value_case(), AttrValue::kB);
  EXPECT_EQ(AttrArg("a", "text").value().value_case(), AttrValue::kS);
  EXPECT_EQ(AttrArg("a", Shape({2})).value().value_case(), AttrValue::kShape);
}

TEST(Attr, FunctionsAndTheirListsAreRead) {
  NodeDef def;
  AttrValue one, list;
  one.mutable_func()->set_name("f");
  list.mutable_list()->add_func()->set_name("g");
  SetAttr(def, "one", one);
  SetAttr(def, "list", list);
  EXPECT_EQ(GetAttr<tensorflow::NameAttrList>(def, "one")->name(), "f");
  EXPECT_EQ(GetAttr<std::vector<tensorflow::NameAttrList>>(def, "list")->at(0).name(), "g");
}

TEST(Attr, AMissingOneNamesTheNodeAndItsOp) {
  NodeDef def;
  def.set_name("n");
  def.set_op("MatMul");
  EXPECT_FALSE(HasAttr(def, "T"));
  EXPECT_THAT(GetAttr<bool>(def, "T"), Fails(StatusCode::kNotFound, "Node 'n' (MatMul) has no attr named 'T'"));
  SetAttr(def, "T", true);
  EXPECT_TRUE(HasAttr(def, "T"));
}

TEST(Attr, AnotherKindIsAnErrorThatNamesBoth) {
  NodeDef def;
  def.set_name("n");
  SetAttr(def, "i", 1);
  SetAttr(def, "list", std::vector<std::string>{"a"});
  EXPECT_THAT(GetAttr<float>(def, "i"), Fails(StatusCode::kInvalidArgument, "expected float, got int"));
  EXPECT_THAT(GetAttr<DType>(def, "i"), Fails(StatusCode::kInvalidArgument, "attr 'i' of node 'n'"));
  EXPECT_THAT(GetAttr<std::vector<int64_t>>(def, "i"),
              Fails(StatusCode::kInvalidArgument, "expected list(int), got int"));
  EXPECT_THAT(GetAttr<int64_t>(def, "list"), Fails(StatusCode::kInvalidArgument, "expected int, got list"));
  EXPECT_THAT(GetAttr<std::vector<int64_t>>(def, "list"), Fails(StatusCode::kInvalidArgument, "expected list(int)"));
  EXPECT_THAT(GetAttr<std::vector<DType>>(def, "list"), Fails(StatusCode::kInvalidArgument, "expected list(type)"));
}

TEST(Attr, TypeNumbersThatMeanNothingAreErrors) {
  NodeDef def;
  for (const int number : {0, 99, 256 + 1, -1}) {
    AttrValue value;
    value.set_type(static_cast<tensorflow::DataType>(number));
    SetAttr(def, "T", value);
    EXPECT_THAT(GetAttr<DType>(def, "T"), Fails(StatusCode::kInvalidArgument, absl::StrCat("type number ", number)));
  }
}

TEST(Attr, AsTextForMessages) {
  const auto text = [](const auto& value) { return ToString(AttrArg("a", value).value()); };
  EXPECT_EQ(text(kFloat), "float");
  EXPECT_EQ(text(-3), "-3");
  EXPECT_EQ(text(0.5f), "0.5");
  EXPECT_EQ(text(true), "true");
  EXPECT_EQ(text("a\n"), "\"a\\n\"");
  EXPECT_EQ(text(PartialShape({2, -1})), "[2,?]");
  EXPECT_EQ(text(std::vector<int64_t>{1, 2}), "[1, 2]");
  EXPECT_EQ(text(std::vector<DType>{kInt32, kString}), "[int32, string]");
}

}  // namespace
}  // namespace thalweg
