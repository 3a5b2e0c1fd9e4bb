// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/op_schema.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using tensorflow::AttrValue;
using tensorflow::NodeDef;
using tensorflow::OpDef;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

OpDef::ArgDef Arg(absl::string_view spec) {
  OpSchema schema("Op");
  schema.Input(spec);
  EXPECT_THAT(schema.error, IsOk()) << spec;
  return schema.def.input_arg(0);
}

OpDef::AttrDef Attr(absl::string_view spec) {
  OpSchema schema("Op");
  schema.Attr(spec);
  EXPECT_THAT(schema.error, IsOk()) << spec;
  return schema.def.attr(0);
}

std::vector<int> AllowedTypes(absl::string_view spec) {
  const OpDef::AttrDef attr = Attr(spec);
  return {attr.allowed_values().list().type().begin(), attr.allowed_values().list().type().end()};
}

TEST(OpSchema, ArgumentsOfEveryForm) {
  EXPECT_EQ(Arg("a: float").name(), "a");
  EXPECT_EQ(Arg("a: float").type(), tensorflow::DT_FLOAT);
  EXPECT_EQ(Arg("a: T").type_attr(), "T");
  EXPECT_EQ(Arg("a: N * T").number_attr(), "N");
  EXPECT_EQ(Arg("a: N * T").type_attr(), "T");
  EXPECT_EQ(Arg("a:N*int64").type(), tensorflow::DT_INT64);
  EXPECT_TRUE(Arg("a: Ref(T)").is_ref());
  EXPECT_TRUE(Arg("a: Ref(N * T)").is_ref());
  EXPECT_EQ(Arg("a: Ref(N * T)").number_attr(), "N");
  EXPECT_FALSE(Arg("a: T").is_ref());
}

TEST(OpSchema, SyntaxErrorsOfArguments) {
  for (const char* spec :
       {"", "a", "a T", ": T", "a:", "a: Ref(T", "a: Ref()", "a: N *", "a: * T", "a: T T", "a: T)", "a: {T}"}) {
    OpSchema input("Op"), output("Op");
    EXPECT_THAT(input.Input(spec).error, Fails(StatusCode::kInvalidArgument, absl::StrCat("input '", spec, "'")));
    EXPECT_THAT(output.Output(spec).error, Fails(StatusCode::kInvalidArgument, absl::StrCat("output '", spec, "'")));
  }
}

TEST(OpSchema, AttrsOfEveryType) {
  for (const char* type : {"type", "int", "float", "bool", "string", "shape", "tensor", "func"}) {
    EXPECT_EQ(Attr(absl::StrCat("a: ", type)).type(), type);
    EXPECT_EQ(Attr(absl::StrCat("a: list(", type, ")")).type(), absl::StrCat("list(", type, ")"));
    EXPECT_FALSE(Attr(absl::StrCat("a: ", type)).has_default_value());
    EXPECT_FALSE(Attr(absl::StrCat("a: ", type)).has_minimum());
  }
}

TEST(OpSchema, AllowedValues) {
  EXPECT_THAT(AllowedTypes("T: {float, int32}"), ElementsAre(tensorflow::DT_FLOAT, tensorflow::DT_INT32));
  EXPECT_THAT(AllowedTypes("T: list({half, string})"), ElementsAre(tensorflow::DT_HALF, tensorflow::DT_STRING));
  EXPECT_EQ(Attr("T: {float}").type(), "type");
  EXPECT_EQ(Attr("T: list({float})").type(), "list(type)");
  EXPECT_THAT(AllowedTypes("T: numbertype"), SizeIs(19));
  EXPECT_THAT(AllowedTypes("T: realnumbertype"), SizeIs(12));
  EXPECT_THAT(AllowedTypes("T: quantizedtype"), SizeIs(5));
  EXPECT_THAT(AllowedTypes("T: {realnumbertype, bool}"), SizeIs(13));
  EXPECT_THAT(AllowedTypes("T: type"), IsEmpty());
  const OpDef::AttrDef padding = Attr("padding: {'SAME', 'VALID'}");
  EXPECT_EQ(padding.type(), "string");
  EXPECT_THAT(padding.allowed_values().list().s(), ElementsAre("SAME", "VALID"));
}

TEST(OpSchema, Minimums) {
  EXPECT_TRUE(Attr("N: int >= 2").has_minimum());
  EXPECT_EQ(Attr("N: int >= 2").minimum(), 2);
  EXPECT_EQ(Attr("N: int >= -1").minimum(), -1);
  EXPECT_TRUE(Attr("N: int >= 0").has_minimum());
  EXPECT_EQ(Attr("T: list(type) >= 1").minimum(), 1);
  EXPECT_EQ(Attr("N: int >= 2 = 5").default_value().i(), 5);
}

TEST(OpSchema, Defaults) {
  EXPECT_EQ(Attr("a: int = -3").default_value().i(), -3);
  EXPECT_EQ(Attr("a: float = 1e-5").default_value().f(), 1e-5f);
  EXPECT_TRUE(Attr("a: bool = true").default_value().b());
  EXPECT_EQ(Attr("a: bool = false").default_value().value_case(), AttrValue::kB);
  EXPECT_EQ(Attr("a: string = 'NHWC'").default_value().s(), "NHWC");
  EXPECT_EQ(Attr("a: string = \"\"").default_value().value_case(), AttrValue::kS);
  EXPECT_EQ(Attr("a: {'x', 'y'} = 'y'").default_value().s(), "y");
  EXPECT_EQ(Attr("a: type = DT_INT64").default_value().type(), tensorflow::DT_INT64);
  EXPECT_EQ(Attr("a: {float, half} = DT_HALF").default_value().type(), tensorflow::DT_HALF);
  EXPECT_TRUE(Attr("a: shape = { unknown_rank: true }").default_value().shape().unknown_rank());
  EXPECT_EQ(Attr("a: shape = { dim { size: 2 } }").default_value().shape().dim(0).size(), 2);
  EXPECT_EQ(Attr("a: shape = {}").default_value().value_case(), AttrValue::kShape);
  EXPECT_EQ(Attr("a: func = 'f'").default_value().func().name(), "f");
  EXPECT_THAT(Attr("a: list(int) = [1, -1]").default_value().list().i(), ElementsAre(1, -1));
  EXPECT_THAT(Attr("a: list(float) = [0.5]").default_value().list().f(), ElementsAre(0.5f));
  EXPECT_THAT(Attr("a: list(bool) = [true]").default_value().list().b(), ElementsAre(true));
  EXPECT_THAT(Attr("a: list(string) = ['a', 'b']").default_value().list().s(), ElementsAre("a", "b"));
  EXPECT_THAT(Attr("a: list(type) = [DT_FLOAT]").default_value().list().type(), ElementsAre(tensorflow::DT_FLOAT));
  EXPECT_THAT(Attr("a: list(shape) = []").default_value().list().shape(), IsEmpty());
  EXPECT_EQ(Attr("a: list(shape) = []").default_value().value_case(), AttrValue::kList);
}

TEST(OpSchema, SyntaxErrorsOfAttrs) {
  for (const char* spec : {"",
                           "a",
                           "a int",
                           ": int",
                           "a:",
                           "a: integer",
                           "a: {",
                           "a: {float",
                           "a: {float int32}",
                           "a: {flaot}",
                           "a: {}",
                           "a: {'x",
                           "a: {'x', y}",
                           "a: {'x' 'y'}",
                           "a: list(int",
                           "a: list()",
                           "a: list(list(int))",
                           "a: int 3",
                           "a: int >= x",
                           "a: int >=",
                           "a: float >= 1",
                           "a: type >= 1",
                           "a: int =",
                           "a: int = x",
                           "a: float = x",
                           "a: bool = 1",
                           "a: string = x",
                           "a: string = 'x",
                           "a: string = '",
                           "a: type = flaot",
                           "a: shape = 3",
                           "a: shape = { size: 3 }",
                           "a: shape = {",
                           "a: func = ",
                           "a: func = f",
                           "a: list(int) = 1",
                           "a: list(int) = [1",
                           "a: list(int) = [x]",
                           "a: list(int) = [1,]"}) {
    EXPECT_THAT(OpSchema("Op").Attr(spec).error,
                Fails(StatusCode::kInvalidArgument, absl::StrCat("attr '", spec, "'")));
  }
}

TEST(OpSchema, TheFirstErrorIsKept) {
  OpSchema schema("Op");
  schema.Input("first").Attr("second: bad").Output("o: float");
  EXPECT_THAT(schema.error, Fails(StatusCode::kInvalidArgument, "'first'"));
}

TEST(OpRegistry, FindsByNameAndListsInOrder) {
  OpRegistry registry;
  registry.Add(OpSchema("B").Output("o: float"));
  registry.Add(OpSchema("A"));
  EXPECT_EQ(registry.Find("C"), nullptr);
  EXPECT_EQ(registry.Find("B")->def.output_arg(0).name(), "o");
  const std::vector<const OpSchema*> all = registry.All();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0]->def.name(), "A");
  EXPECT_EQ(all[1]->def.name(), "B");
}

TEST(OpRegistry, ArgumentsLearnWhetherTheirTypeIsAList) {
  OpRegistry registry;
  registry.Add(OpSchema("Op").Input("a: Ts").Input("b: T").Output("c: Ts").Attr("Ts: list(type)").Attr("T: type"));
  const OpDef& def = registry.Find("Op")->def;
  EXPECT_EQ(def.input_arg(0).type_list_attr(), "Ts");
  EXPECT_EQ(def.input_arg(0).type_attr(), "");
  EXPECT_EQ(def.input_arg(1).type_attr(), "T");
  EXPECT_EQ(def.output_arg(0).type_list_attr(), "Ts");
}

TEST(OpRegistry, LengthsOfArgumentsAreAtLeastOneUnlessTheySayOtherwise) {
  OpRegistry registry;
  registry.Add(OpSchema("Op")
                   .Input("a: N * T")
                   .Input("b: M * T")
                   .Input("c: Ts")
                   .Attr("N: int")
                   .Attr("M: int >= 0")
                   .Attr("Ts: list(type)")
                   .Attr("T: type")
                   .Attr("other: int"));
  const OpDef& def = registry.Find("Op")->def;
  EXPECT_EQ(FindAttr(def, "N")->minimum(), 1);
  EXPECT_TRUE(FindAttr(def, "N")->has_minimum());
  EXPECT_EQ(FindAttr(def, "M")->minimum(), 0);
  EXPECT_EQ(FindAttr(def, "Ts")->minimum(), 1);
  EXPECT_FALSE(FindAttr(def, "other")->has_minimum());
  EXPECT_EQ(FindAttr(def, "none"), nullptr);
}

TEST(OpRegistryDeathTest, RefusesSchemasThatAreWrong) {
  OpRegistry registry;
  registry.Add(OpSchema("Op"));
  EXPECT_DEATH(registry.Add(OpSchema("Op")), "op Op is registered twice");
  EXPECT_DEATH(registry.Add(OpSchema("Bad").Input("a")), "op Bad: input 'a'");
  EXPECT_DEATH(registry.Add(OpSchema("Bad").Input("a: T")), "argument 'a' has unknown type 'T'");
  EXPECT_DEATH(registry.Add(OpSchema("Bad").Input("a: T").Attr("T: int")), "argument 'a' has unknown type 'T'");
  EXPECT_DEATH(registry.Add(OpSchema("Bad").Input("a: N * float")), "argument 'a': 'N' is not an attr of type int");
  EXPECT_DEATH(registry.Add(OpSchema("Bad").Input("a: N * Ts").Attr("N: int").Attr("Ts: list(type)")),
               "unknown type 'Ts'");
}

// A schema whose list arguments are resolved.
OpDef Registered(const OpSchema& schema) {
  OpRegistry registry;
  registry.Add(schema);
  return registry.Find(schema.def.name())->def;
}

TEST(ComputeTypes, FollowFromAttrs) {
  const OpDef op = Registered(OpSchema("Op")
                                  .Input("a: Ref(T)")
                                  .Input("b: N * T")
                                  .Input("c: Ts")
                                  .Input("d: int32")
                                  .Output("e: N * bool")
                                  .Output("f: Ref(Ts)")
                                  .Attr("T: type")
                                  .Attr("N: int")
                                  .Attr("Ts: list(type)"));
  NodeDef node;
  SetAttr(node, "T", kFloat);
  SetAttr(node, "N", 2);
  SetAttr(node, "Ts", std::vector<DType>{kString, kInt64});
  const absl::StatusOr<NodeTypes> types = ComputeTypes(op, node);
  ASSERT_THAT(types, IsOk());
  EXPECT_THAT(types->inputs, ElementsAre(MakeRef(kFloat), kFloat, kFloat, kString, kInt64, kInt32));
  EXPECT_THAT(types->outputs, ElementsAre(kBool, kBool, MakeRef(kString), MakeRef(kInt64)));
  EXPECT_THAT(types->input_starts, ElementsAre(0, 1, 3, 5, 6));
  EXPECT_THAT(types->output_starts, ElementsAre(0, 2, 4));
}

TEST(ComputeTypes, NeedSaneAttrs) {
  const OpDef op = Registered(OpSchema("Op").Input("b: N * T").Attr("T: type").Attr("N: int >= -5"));
  NodeDef node;
  node.set_name("n");
  SetAttr(node, "N", 1);
  EXPECT_THAT(ComputeTypes(op, node), Fails(StatusCode::kNotFound, "no attr named 'T'"));
  SetAttr(node, "T", kFloat);
  for (const int64_t count : {int64_t{-1}, int64_t{1} << 40}) {
    SetAttr(node, "N", count);
    EXPECT_THAT(ComputeTypes(op, node), Fails(StatusCode::kInvalidArgument, absl::StrCat("'N' = ", count)));
  }
}

class Attrs : public testing::Test {
 protected:
  Attrs() {
    node_.set_name("n");
    node_.set_op("Op");
  }
  absl::Status Check(absl::string_view spec, const AttrArg& value) {
    NodeDef node = node_;
    (*node.mutable_attr())[value.name] = value.value();
    return CheckAttrs(OpSchema("Op").Attr(spec).def, node);
  }
  NodeDef node_;
};

TEST_F(Attrs, DefaultsFillWhatIsNotSet) {
  const OpDef op = OpSchema("Op").Attr("a: int = 3").Attr("b: int = 4").Attr("c: int").def;
  SetAttr(node_, "b", 5);
  AddDefaultAttrs(op, node_);
  EXPECT_EQ(*GetAttr<int64_t>(node_, "a"), 3);
  EXPECT_EQ(*GetAttr<int64_t>(node_, "b"), 5);
  EXPECT_FALSE(HasAttr(node_, "c"));
  EXPECT_THAT(CheckAttrs(op, node_),
              Fails(StatusCode::kInvalidArgument, "NodeDef missing attr 'c' from op Op; node 'n'"));
}

TEST_F(Attrs, WrongKindsAreErrors) {
  const AttrArg values[] = {{"a", 1},
                            {"a", 1.0f},
                            {"a", true},
                            {"a", "s"},
                            {"a", kFloat},
                            {"a", PartialShape({1})},
                            {"a", Tensor::Scalar(1.0f)},
                            {"a", std::vector<int64_t>{1}},
                            {"a", std::vector<float>{1}},
                            {"a", std::vector<bool>{true}},
                            {"a", std::vector<std::string>{"s"}},
                            {"a", std::vector<DType>{kFloat}},
                            {"a", std::vector<PartialShape>{{1}}}};
  const char* types[] = {"int",       "float",       "bool",       "string",       "type",       "shape",      "tensor",
                         "list(int)", "list(float)", "list(bool)", "list(string)", "list(type)", "list(shape)"};
  for (size_t i = 0; i < std::size(types); ++i) {
    for (size_t j = 0; j < std::size(values); ++j) {
      const absl::Status status = Check(absl::StrCat("a: ", types[i]), values[j]);
      if (i == j) {
        EXPECT_THAT(status, IsOk());
      } else {
        EXPECT_THAT(status, Fails(StatusCode::kInvalidArgument, absl::StrCat("must be of type ", types[i], ", got ")));
      }
    }
  }
}

TEST_F(Attrs, OnlyAllowedValuesPass) {
  EXPECT_THAT(Check("a: {float, int32}", {"a", kInt32}), IsOk());
  EXPECT_THAT(Check("a: {float, int32}", {"a", kInt64}),
              Fails(StatusCode::kInvalidArgument,
                    "of int64 is not in the list of allowed values: float, int32; node 'n' (Op)"));
  EXPECT_THAT(Check("a: list({float, int32})", {"a", std::vector<DType>{kFloat, kFloat}}), IsOk());
  EXPECT_THAT(Check("a: list({float, int32})", {"a", std::vector<DType>{kFloat, kBool}}),
              Fails(StatusCode::kInvalidArgument, "allowed values"));
  EXPECT_THAT(Check("a: {'SAME', 'VALID'}", {"a", "VALID"}), IsOk());
  EXPECT_THAT(
      Check("a: {'SAME', 'VALID'}", {"a", "FULL"}),
      Fails(StatusCode::kInvalidArgument, "\"FULL\" is not in the list of allowed values: \"SAME\", \"VALID\""));
}

TEST_F(Attrs, MinimumsHold) {
  EXPECT_THAT(Check("a: int >= 2", {"a", 2}), IsOk());
  EXPECT_THAT(Check("a: int >= 2", {"a", 1}), Fails(StatusCode::kInvalidArgument, "of 1 must be at least minimum 2"));
  EXPECT_THAT(Check("a: list(int) >= 2", {"a", std::vector<int64_t>{0, 0}}), IsOk());
  EXPECT_THAT(Check("a: list(int) >= 2", {"a", std::vector<int64_t>{7}}),
              Fails(StatusCode::kInvalidArgument, "minimum 2"));
}

TEST_F(Attrs, TypesAreThoseOfValues) {
  EXPECT_THAT(Check("a: type", {"a", MakeRef(kFloat)}),
              Fails(StatusCode::kInvalidArgument, "no type of a value: float_ref"));
  EXPECT_THAT(Check("a: type", {"a", kInvalid}), Fails(StatusCode::kInvalidArgument, "attr 'a' of node 'n' (Op)"));
  EXPECT_THAT(Check("a: list(type)", {"a", std::vector<DType>{kFloat, MakeRef(kInt32)}}),
              Fails(StatusCode::kInvalidArgument, "no type of a value"));
}

TEST_F(Attrs, UnknownOnesAreErrorsUnlessTheyArePrivate) {
  EXPECT_THAT(Check("a: int = 1", {"_class", std::vector<std::string>{"loc:@x"}}),
              Fails(StatusCode::kInvalidArgument, "missing attr 'a'"));
  SetAttr(node_, "a", 1);
  EXPECT_THAT(Check("a: int", {"_class", std::vector<std::string>{"loc:@x"}}), IsOk());
  EXPECT_THAT(Check("a: int", {"transposed", true}),
              Fails(StatusCode::kInvalidArgument, "NodeDef mentions attr 'transposed' not in op Op; node 'n'"));
}

// A function body has its values when its nodes are made.
TEST_F(Attrs, PlaceholdersAreNoValues) {
  AttrValue placeholder;
  placeholder.set_placeholder("T");
  EXPECT_THAT(Check("a: type", {"a", placeholder}),
              Fails(StatusCode::kInvalidArgument, "attr 'a' of node 'n' (Op) must be of type type, got "));
  EXPECT_THAT(Check("a: bool", {"a", placeholder}), Fails(StatusCode::kInvalidArgument, "must be of type bool, got "));
}

}  // namespace
}  // namespace thalweg
