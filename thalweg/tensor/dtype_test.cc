// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/dtype.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/proto/types.pb.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

TEST(DType, NumbersAreThoseOfTheProto) {
  std::set<int> known;
  for (int i = 0; i < 256; ++i) {
    if (IsKnown(static_cast<DType>(i))) known.insert(i);
  }
  std::set<int> in_proto;
  const auto* const descriptor = tensorflow::DataType_descriptor();
  for (int i = 0; i < descriptor->value_count(); ++i) in_proto.insert(descriptor->value(i)->number());
  in_proto.erase(0);
  EXPECT_EQ(known, in_proto);
}

TEST(DType, NamesAreThoseOfTheProtoInLowerCase) {
  const auto* const descriptor = tensorflow::DataType_descriptor();
  for (int i = 1; i < descriptor->value_count(); ++i) {
    std::string name(descriptor->value(i)->name().substr(3));  // without DT_
    for (char& c : name) c = static_cast<char>(tolower(c));
    const auto dtype = static_cast<DType>(descriptor->value(i)->number());
    EXPECT_EQ(ToString(dtype), name);
    EXPECT_EQ(DTypeFromName(name).value(), dtype);
  }
}

TEST(DType, OtherNamesAreRefused) {
  EXPECT_EQ(DTypeFromName("float32").value(), kFloat);
  EXPECT_EQ(DTypeFromName("float64_ref").value(), MakeRef(kDouble));
  for (const char* name : {"", "_ref", "INVALID", "Float", "float_ref_ref", "int", "float "}) {
    const auto dtype = DTypeFromName(name);
    EXPECT_EQ(dtype.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(dtype.status().message(), HasSubstr(absl::StrCat("'", name, "'")));
  }
  EXPECT_EQ(ToString(static_cast<DType>(77)), "unknown type 77");
  EXPECT_EQ(ToString(kInvalid), "INVALID");
}

TEST(DType, References) {
  EXPECT_FALSE(IsRef(kUint64));
  EXPECT_TRUE(IsRef(MakeRef(kFloat)));
  EXPECT_EQ(static_cast<int>(MakeRef(kFloat)), 101);
  EXPECT_EQ(MakeRef(MakeRef(kFloat)), MakeRef(kFloat));
  EXPECT_EQ(RemoveRef(MakeRef(kString)), kString);
  EXPECT_EQ(RemoveRef(kString), kString);
  EXPECT_EQ(ElementSize(MakeRef(kDouble)), 8);
}

template <typename... Ts>
void ExpectSizes(Types<Ts...>) {
  const auto check = [](DType dtype, size_t size) { EXPECT_EQ(ElementSize(dtype), size) << ToString(dtype); };
  (check(DTypeOf<Ts>, sizeof(Ts)), ...);
}

TEST(DType, SizesAreThoseOfTheCppTypes) {
  ExpectSizes(PodTypes());
  for (const DType q : {kQint8, kQuint8, kQint16, kQuint16, kQint32}) {
    EXPECT_NE(StorageType(q), q);
    EXPECT_TRUE(IsInteger(StorageType(q)));
    EXPECT_EQ(ElementSize(q), ElementSize(StorageType(q)));
    EXPECT_EQ("q" + ToString(StorageType(q)), ToString(q));
  }
  for (const DType byte : {kFloat8E5m2, kFloat8E4m3fn, kInt4, kUint4}) {
    EXPECT_EQ(ElementSize(byte), 1);
    EXPECT_EQ(ElementSize(StorageType(byte)), 1);
  }
  EXPECT_FALSE(IsKnown(static_cast<DType>(26)));
  EXPECT_EQ(StorageType(kFloat), kFloat);
  for (const DType object : {kString, kResource, kVariant, kInvalid}) EXPECT_EQ(ElementSize(object), 0);
}

TEST(DType, KindsDoNotOverlap) {
  int floating = 0, integer = 0, complex = 0;
  for (int i = 1; i < 24; ++i) {
    const auto t = static_cast<DType>(i);
    EXPECT_LE(IsFloating(t) + IsInteger(t) + IsComplex(t), 1) << ToString(t);
    floating += IsFloating(t);
    integer += IsInteger(t);
    complex += IsComplex(t);
  }
  EXPECT_EQ(floating, 4);
  EXPECT_EQ(integer, 8);
  EXPECT_EQ(complex, 2);
  EXPECT_TRUE(IsFloating(kBfloat16) && IsInteger(kUint8) && IsComplex(kComplex128));
}

TEST(Dispatch, CallsForTheOneType) {
  size_t size = 0;
  const auto f = [&]<typename T>() {
    size = sizeof(T);
    return absl::OkStatus();
  };
  EXPECT_TRUE(Dispatch(RealTypes(), kDouble, f).ok());
  EXPECT_EQ(size, 8);
  size = 0;
  const absl::Status status = Dispatch(FloatTypes(), kInt32, f);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("int32"));
  EXPECT_EQ(size, 0);
  EXPECT_EQ(Dispatch(AllTypes(), kVariant, []<typename T>() { return Internal(sizeof(T)); }).code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace thalweg
