// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/tensor_proto.h"

#include <limits>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

using tensorflow::TensorProto;
using testing::ElementsAre;
using testing::HasSubstr;

TensorProto Parse(const std::string& text) {
  TensorProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return proto;
}

// The tensor of a proto in text form; fails the test if there is none.
Tensor Read(const std::string& text) {
  absl::StatusOr<Tensor> tensor = TensorFromProto(Parse(text));
  EXPECT_TRUE(tensor.ok()) << text << ": " << tensor.status();
  return tensor.ok() ? *std::move(tensor) : Tensor();
}

absl::Status Error(const std::string& text) { return TensorFromProto(Parse(text)).status(); }

MATCHER_P2(Is, code, text, "") {
  *result_listener << arg;
  return arg.code() == code && absl::string_view(arg.message()).find(text) != absl::string_view::npos;
}
constexpr auto kBad = absl::StatusCode::kInvalidArgument;
constexpr auto kTooMuch = absl::StatusCode::kResourceExhausted;

template <typename T>
void ExpectSame(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.shape(), b.shape());
  const auto x = absl::MakeConstSpan(static_cast<const T*>(a.raw()), a.num_elements());
  const auto y = absl::MakeConstSpan(static_cast<const T*>(b.raw()), b.num_elements());
  EXPECT_EQ(std::vector<T>(x.begin(), x.end()), std::vector<T>(y.begin(), y.end()));
}

// Through both writers and the bytes of the wire.
template <typename T>
void ExpectRoundTrip(const Tensor& tensor) {
  SCOPED_TRACE(tensor.ToString());
  for (const auto write : {TensorToProto, TensorToProtoFields}) {
    TensorProto proto = Parse("dtype: DT_STRING string_val: 'leftover'");
    write(tensor, &proto);
    TensorProto received;
    ASSERT_TRUE(received.ParseFromString(proto.SerializeAsString()));
    const absl::StatusOr<Tensor> back = TensorFromProto(received);
    ASSERT_TRUE(back.ok()) << back.status();
    ExpectSame<T>(tensor, *back);
  }
}

template <typename T>
void ExpectRealRoundTrip() {
  ExpectRoundTrip<T>(
      Tensor::Of<T>({2, 2}, {T(1), T(0), std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest()}));
  ExpectRoundTrip<T>(Tensor::Scalar(T(3)));
  ExpectRoundTrip<T>(Tensor(DTypeOf<T>, {0, 3}));
}

template <typename... Ts>
void ExpectRealRoundTrips(Types<Ts...>) {
  (ExpectRealRoundTrip<Ts>(), ...);
}

TEST(TensorProto, EveryTypeComesBack) {
  ExpectRealRoundTrips(RealTypes());
  ExpectRoundTrip<bool>(Tensor::Vector<bool>({true, false, true}));
  ExpectRoundTrip<std::complex<float>>(Tensor::Vector<std::complex<float>>({{1, 2}, {3, -4}}));
  ExpectRoundTrip<std::complex<double>>(Tensor::Vector<std::complex<double>>({{1, 2}, {3, -4}}));
  ExpectRoundTrip<std::string>(Tensor::Of<std::string>({2, 1}, {std::string("\0\xff", 2), ""}));
  ExpectRoundTrip<int8_t>(Tensor::Vector<int8_t>({-128, 127}).Bitcast(kQint8));
  ExpectRoundTrip<uint8_t>(Tensor::Vector<uint8_t>({0, 255}).Bitcast(kQuint8));
  ExpectRoundTrip<int16_t>(Tensor::Vector<int16_t>({-32768, 7}).Bitcast(kQint16));
  ExpectRoundTrip<uint16_t>(Tensor::Vector<uint16_t>({65535, 7}).Bitcast(kQuint16));
  ExpectRoundTrip<int32_t>(Tensor::Vector<int32_t>({-5, 7}).Bitcast(kQint32));
  ExpectRoundTrip<ResourceHandle>(Tensor::Scalar(ResourceHandle{
      .device = "/job:ps/task:0", .container = "c", .name = "v", .type_name = "Var", .hash_code = ~uint64_t{0}}));
}

// Three elements that differ from each other and from what is none.
template <typename T>
std::vector<T> ThreeValues() {
  if constexpr (std::is_same_v<T, bool>) {
    return {true, false, true};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {"a", std::string("\0\xff", 2), "ccc"};
  } else if constexpr (std::is_same_v<T, ResourceHandle>) {
    return {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  } else {
    return {T(3), T(1), T(2)};
  }
}

// Every way to write a tensor of a type, by its number, and by that of the
// reference to it.
template <typename T>
void ExpectAllForms(DType dtype) {
  SCOPED_TRACE(ToString(dtype));
  const std::vector<T> values = ThreeValues<T>();
  Tensor tensor = *Tensor::Allocate(dtype, {3});
  std::copy(values.begin(), values.end(), static_cast<T*>(tensor.raw()));
  TensorProto in_content, in_field, in_short_field, of_none;
  TensorToProto(tensor, &in_content);
  TensorToProtoFields(tensor, &in_field);
  Tensor first = *Tensor::Allocate(dtype, {1});
  *static_cast<T*>(first.raw()) = values[0];
  TensorToProtoFields(first, &in_short_field);
  of_none.set_dtype(in_field.dtype());
  for (TensorProto* const proto : {&in_short_field, &of_none}) *proto->mutable_tensor_shape() = in_field.tensor_shape();
  const std::pair<TensorProto, std::vector<T>> forms[] = {{in_content, values},
                                                          {in_field, values},
                                                          {in_short_field, std::vector<T>(3, values[0])},
                                                          {of_none, std::vector<T>(3, T())}};
  for (const auto& [proto, expected] : forms) {
    for (const int ref : {0, 100}) {  // DT_FLOAT_REF is DT_FLOAT + 100
      SCOPED_TRACE(proto.ShortDebugString());
      TensorProto given = proto;
      given.set_dtype(static_cast<tensorflow::DataType>(proto.dtype() + ref));
      const absl::StatusOr<Tensor> read = TensorFromProto(given);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->dtype(), dtype);
      ASSERT_EQ(read->shape(), Shape({3}));
      const T* const elements = static_cast<const T*>(read->raw());
      EXPECT_EQ(std::vector<T>(elements, elements + 3), expected);
    }
  }
}

template <typename... Ts>
void ExpectAllForms(Types<Ts...>) {
  (ExpectAllForms<Ts>(DTypeOf<Ts>), ...);
}

TEST(TensorProto, EveryTypeInEveryForm) {
  ExpectAllForms(PodTypes());
  ExpectAllForms(Types<std::string, ResourceHandle>());
  ExpectAllForms<int8_t>(kQint8);
  ExpectAllForms<uint8_t>(kQuint8);
  ExpectAllForms<int16_t>(kQint16);
  ExpectAllForms<uint16_t>(kQuint16);
  ExpectAllForms<int32_t>(kQint32);
  ExpectAllForms<int8_t>(kInt4);
  ExpectAllForms<uint8_t>(kUint4);
  for (const DType dtype : {kFloat8E5m2, kFloat8E4m3fn}) ExpectAllForms<uint8_t>(dtype);
}

TEST(TensorProto, WhereTheValuesAreWritten) {
  TensorProto proto;
  TensorToProto(Tensor::Of<float>({1, 2}, {1, 2}), &proto);
  EXPECT_EQ(proto.ShortDebugString(),
            "dtype: DT_FLOAT tensor_shape { dim { size: 1 } dim { size: 2 } } "
            "tensor_content: \"\\000\\000\\200?\\000\\000\\000@\"");
  TensorToProto(Tensor::Vector<std::string>({"a", "b"}), &proto);
  EXPECT_EQ(proto.ShortDebugString(),
            "dtype: DT_STRING tensor_shape { dim { size: 2 } } string_val: \"a\" string_val: \"b\"");

  const auto fields = [](const Tensor& tensor) {
    TensorProto proto;
    TensorToProtoFields(tensor, &proto);
    proto.clear_dtype();
    proto.clear_tensor_shape();
    return proto.ShortDebugString();
  };
  EXPECT_EQ(fields(Tensor::Vector<float>({1, 2})), "float_val: 1 float_val: 2");
  EXPECT_EQ(fields(Tensor::Scalar<double>(1)), "double_val: 1");
  EXPECT_EQ(fields(Tensor::Scalar<int8_t>(-1)), "int_val: -1");
  EXPECT_EQ(fields(Tensor::Scalar<uint16_t>(65535)), "int_val: 65535");
  EXPECT_EQ(fields(Tensor::Scalar<int32_t>(-1)), "int_val: -1");
  EXPECT_EQ(fields(Tensor::Scalar<uint8_t>(200).Bitcast(kQuint8)), "int_val: 200");
  EXPECT_EQ(fields(Tensor::Scalar<int64_t>(-1)), "int64_val: -1");
  EXPECT_EQ(fields(Tensor::Scalar<uint32_t>(~0u)), "uint32_val: 4294967295");
  EXPECT_EQ(fields(Tensor::Scalar<uint64_t>(1)), "uint64_val: 1");
  EXPECT_EQ(fields(Tensor::Scalar(true)), "bool_val: true");
  EXPECT_EQ(fields(Tensor::Scalar(Half(1))), "half_val: 15360");
  EXPECT_EQ(fields(Tensor::Scalar(BFloat16(1))), "half_val: 16256");
  EXPECT_EQ(fields(Tensor::Scalar(std::complex<float>(1, 2))), "scomplex_val: 1 scomplex_val: 2");
  EXPECT_EQ(fields(Tensor::Scalar(std::complex<double>(1, 2))), "dcomplex_val: 1 dcomplex_val: 2");
}

TEST(TensorProto, TheLastValueRepeats) {
  EXPECT_THAT(Read("dtype: DT_FLOAT tensor_shape { dim { size: 4 } } float_val: 1 float_val: 2").flat<float>(),
              ElementsAre(1, 2, 2, 2));
  EXPECT_THAT(Read("dtype: DT_STRING tensor_shape { dim { size: 3 } } string_val: 'x'").flat<std::string>(),
              ElementsAre("x", "x", "x"));
  EXPECT_THAT(
      Read("dtype: DT_COMPLEX64 tensor_shape { dim { size: 2 } } scomplex_val: [1, 2]").flat<std::complex<float>>(),
      ElementsAre(std::complex<float>(1, 2), std::complex<float>(1, 2)));
  EXPECT_THAT(Read("dtype: DT_BFLOAT16 tensor_shape { dim { size: 2 } } half_val: 16256").flat<BFloat16>(),
              ElementsAre(1, 1));
}

TEST(TensorProto, NoValuesAreZeros) {
  Tensor::Of<int32_t>({3}, {-1, -1, -1});  // so that the memory is not zero by chance
  EXPECT_THAT(Read("dtype: DT_INT32 tensor_shape { dim { size: 3 } }").flat<int32_t>(), ElementsAre(0, 0, 0));
  EXPECT_EQ(Read("dtype: DT_STRING").scalar<std::string>(), "");
  EXPECT_EQ(Read("dtype: DT_HALF").scalar<Half>().bits, 0);
  EXPECT_EQ(Read("dtype: DT_COMPLEX128").scalar<std::complex<double>>(), std::complex<double>(0));
  EXPECT_EQ(Read("dtype: DT_RESOURCE").scalar<ResourceHandle>(), ResourceHandle());
  EXPECT_TRUE(Read("dtype: DT_VARIANT").scalar<Variant>().empty());
}

TEST(TensorProto, ReferenceTypesAreReadAsTheirBase) {
  EXPECT_EQ(Read("dtype: DT_FLOAT_REF float_val: 2").scalar<float>(), 2);
  EXPECT_EQ(Read("dtype: DT_STRING_REF string_val: 'x'").scalar<std::string>(), "x");
}

TEST(TensorProto, BoolsFromBytesAreTrueOrFalse) {
  const Tensor t = Read("dtype: DT_BOOL tensor_shape { dim { size: 3 } } tensor_content: '\\000\\001\\002'");
  EXPECT_THAT(t.flat<bool>(), ElementsAre(false, true, true));
  EXPECT_EQ(static_cast<const unsigned char*>(t.raw())[2], 1);
}

TEST(TensorProto, StringsInTensorContent) {
  EXPECT_THAT(Read("dtype: DT_STRING tensor_shape { dim { size: 3 } } tensor_content: '\\002\\000\\001abc'")
                  .flat<std::string>(),
              ElementsAre("ab", "", "c"));
  // A length of two bytes.
  const std::string text(300, 'x');
  EXPECT_EQ(Read("dtype: DT_STRING tensor_content: '\\254\\002" + text + "'").scalar<std::string>(), text);

  const std::string two = "dtype: DT_STRING tensor_shape { dim { size: 2 } } tensor_content: ";
  EXPECT_THAT(Error(two + "'\\001'"), Is(kBad, "string [2]: tensor_content: got 1 bytes, expected at least 2"));
  EXPECT_THAT(Error(two + "'\\001\\201'"), Is(kBad, "ended in length 1 of 2"));
  EXPECT_THAT(Error(two + "'\\001\\002ab'"), Is(kBad, "element 1 of 2 has 2 bytes, got 1"));
  EXPECT_THAT(Error(two + "'\\001\\001abc'"), Is(kBad, "1 bytes are left after 2 elements"));
  EXPECT_THAT(Error(two + "'\\377\\377\\377\\377\\377\\001\\001ab'"), Is(kBad, "length 0 of 2 is not a varint32"));
  EXPECT_THAT(Error("dtype: DT_STRING tensor_shape { dim { size: 0 } } tensor_content: 'a'"),
              Is(kBad, "1 bytes are left"));
  EXPECT_THAT(Error("dtype: DT_STRING tensor_shape { dim { size: 1000000000000 } } tensor_content: 'a'"),
              Is(kBad, "got 1 bytes, expected at least 1000000000000"));
}

TEST(TensorProto, HandlesInTensorContent) {
  tensorflow::ResourceHandleProto handle;
  handle.set_name("v");
  TensorProto proto = Parse("dtype: DT_RESOURCE tensor_shape { dim { size: 2 } }");
  proto.set_tensor_content(std::string("\x03\x00", 2) + handle.SerializeAsString());
  const absl::StatusOr<Tensor> tensor = TensorFromProto(proto);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->flat<ResourceHandle>()[0].name, "v");
  EXPECT_EQ(tensor->flat<ResourceHandle>()[1].name, "");
  EXPECT_THAT(Error("dtype: DT_RESOURCE tensor_content: '\\001\\377'"),
              Is(kBad, "element 0 is not a valid tensorflow.ResourceHandleProto"));
}

TEST(TensorProto, AValueForNoElementsIsIgnored) {
  TensorProto proto;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "dtype: DT_STRING tensor_shape { dim { size: 0 } } string_val: 'a'", &proto));
  const absl::StatusOr<Tensor> tensor = TensorFromProto(proto);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->shape(), Shape({0}));
}

TEST(TensorProto, WrongSizesAreRefused) {
  EXPECT_THAT(Error("dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: 3 } } tensor_content: 'abcd'"),
              Is(kBad, "TensorProto of float [2,3]: tensor_content: got 4 bytes, expected 6 x 4"));
  EXPECT_THAT(Error("dtype: DT_FLOAT tensor_content: 'abcde'"), Is(kBad, "got 5 bytes, expected 1 x 4"));
  EXPECT_THAT(Error("dtype: DT_FLOAT tensor_shape { dim { size: 0 } } tensor_content: 'abcd'"),
              Is(kBad, "got 4 bytes, expected 0 x 4"));
}

// As TensorFlow reads them.
TEST(TensorProto, ValuesWithoutAPlaceAreIgnored) {
  EXPECT_THAT(Read("dtype: DT_INT32 tensor_shape { dim { size: 2 } } int_val: [1, 2, 3]").flat<int32_t>(),
              ElementsAre(1, 2));
  EXPECT_EQ(Read("dtype: DT_STRING string_val: ['a', 'b']").scalar<std::string>(), "a");
  EXPECT_EQ(Read("dtype: DT_COMPLEX64 scomplex_val: [1, 2, 3]").scalar<std::complex<float>>(),
            std::complex<float>(1, 2));
  EXPECT_EQ(Read("dtype: DT_COMPLEX64 scomplex_val: 1").scalar<std::complex<float>>(), std::complex<float>(0));
}

TEST(TensorProto, UnknownTypesAreRefused) {
  TensorProto proto;
  for (const int number : {0, 26, 99, 100, 126, 256, 257, 357, -1, std::numeric_limits<int>::max()}) {
    proto.set_dtype(static_cast<tensorflow::DataType>(number));
    EXPECT_THAT(TensorFromProto(proto).status(), Is(kBad, absl::StrCat("unknown type ", number)));
  }
}

TEST(TensorProto, BadShapesAreRefused) {
  EXPECT_THAT(Error("dtype: DT_FLOAT tensor_shape { unknown_rank: true }"), Is(kBad, "TensorProto of float: shape"));
  EXPECT_THAT(Error("dtype: DT_FLOAT tensor_shape { dim { size: -1 } }"), Is(kBad, "dimension 0 is -1"));
  EXPECT_THAT(Error("dtype: DT_FLOAT tensor_shape { dim { size: 4294967296 } dim { size: 4294967296 } }"),
              Is(kBad, "more than 2^63-1 elements"));
}

// A message of 20 bytes must not be able to take all memory.
TEST(TensorProto, ClaimsWithoutValuesAreRefused) {
  for (const char* type : {"DT_FLOAT", "DT_BOOL", "DT_STRING", "DT_VARIANT", "DT_COMPLEX128", "DT_QINT8"}) {
    const auto claim = [&](const std::string& n) {
      return absl::StrCat("dtype: ", type, " tensor_shape { dim { size: ", n, " } }");
    };
    EXPECT_THAT(Error(claim("1000000000000000")), Is(kTooMuch, "0 values for 1000000000000000 elements")) << type;
    EXPECT_THAT(Error(claim("9223372036854775807")), Is(kTooMuch, "0 values for")) << type;
    EXPECT_THAT(Error(claim("5000000000")), Is(kTooMuch, "at most 4294967296 bytes")) << type;
  }
  EXPECT_THAT(Error("dtype: DT_FLOAT tensor_shape { dim { size: 1000000000000000 } } float_val: 1"),
              Is(kTooMuch, "1 values for"));
  EXPECT_THAT(Error("dtype: DT_FLOAT tensor_shape { dim { size: 1000000000000000 } } tensor_content: 'abcd'"),
              Is(kBad, "got 4 bytes"));
  // A large constant with one value is allowed.
  EXPECT_EQ(Read("dtype: DT_FLOAT tensor_shape { dim { size: 1000000 } } float_val: 7").flat<float>()[999999], 7);
}

TEST(TensorProto, TheTensorsOfACallShareAnAllowance) {
  const TensorProto proto = Parse("dtype: DT_FLOAT tensor_shape { dim { size: 101 } } float_val: 7");
  int64_t allowance = 1000;
  EXPECT_TRUE(TensorFromProto(proto, &allowance).ok());
  EXPECT_EQ(allowance, 600);
  EXPECT_TRUE(TensorFromProto(TensorProto(proto), &allowance).ok());
  EXPECT_THAT(TensorFromProto(proto, &allowance).status(), Is(kTooMuch, "at most 200 bytes"));
  EXPECT_EQ(allowance, 200);
}

TEST(TensorProto, VariantsAreCarried) {
  const TensorProto proto = Parse(R"(dtype: DT_VARIANT tensor_shape { dim { size: 2 } }
      variant_val { type_name: 'tensorflow::TensorList' metadata: 'm' tensors { dtype: DT_FLOAT float_val: 1 } }
      variant_val { })");
  const absl::StatusOr<Tensor> tensor = TensorFromProto(proto);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const Variant& list = tensor->flat<Variant>()[0];
  ASSERT_NE(list.As<EncodedVariant>(), nullptr);
  EXPECT_EQ(list.get()->TypeName(), "tensorflow::TensorList");
  EXPECT_EQ(list.As<EncodedVariant>()->proto().tensors(0).float_val(0), 1);
  EXPECT_TRUE(tensor->flat<Variant>()[1].empty());
  EXPECT_TRUE(CheckEncodable(*tensor).ok());
  TensorProto back;
  TensorToProto(*tensor, &back);
  EXPECT_EQ(back.SerializeAsString(), proto.SerializeAsString());
}

TEST(TensorProto, VariantsThatCannotLeaveAreNamed) {
  struct Iterator : VariantValue {
    std::string TypeName() const override { return "Iterator"; }
    std::string ToString() const override { return "an iterator"; }
    bool Encode(tensorflow::VariantTensorDataProto* proto) const override {
      proto->set_metadata("half of it");
      return false;
    }
  };
  const Tensor tensor = Tensor::Scalar(Variant(std::make_shared<Iterator>()));
  EXPECT_THAT(CheckEncodable(tensor), Is(absl::StatusCode::kUnimplemented, "Iterator"));
  EXPECT_TRUE(CheckEncodable(Tensor::Scalar(1.0f)).ok());
  TensorProto proto;
  TensorToProto(tensor, &proto);
  EXPECT_EQ(proto.variant_val(0).ShortDebugString(), "type_name: \"Iterator\"");
}

// A message that is not needed any more gives its bytes away.
TEST(TensorProto, TakesManyNumbersOver) {
  const Tensor numbers = Tensor::Zeros(kFloat, {64, 64});
  TensorProto proto;
  TensorToProto(numbers, &proto);
  const void* const bytes = proto.tensor_content().data();
  const absl::StatusOr<Tensor> copied = TensorFromProto(proto);
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_NE(copied->raw(), bytes);
  absl::StatusOr<Tensor> taken = TensorFromProto(std::move(proto));
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->raw(), bytes);
  EXPECT_FALSE(taken->unique()) << "it must not be written";
  ExpectSame<float>(numbers, *taken);
}

TEST(TensorProto, CopiesWhatItMayNotTakeOver) {
  // A bool that is neither 0 nor 1.
  TensorProto bools = Parse("dtype: DT_BOOL tensor_shape { dim { size: 8192 } }");
  bools.set_tensor_content(std::string(8192, '\7'));
  const void* bytes = bools.tensor_content().data();
  const absl::StatusOr<Tensor> truths = TensorFromProto(std::move(bools));
  ASSERT_TRUE(truths.ok()) << truths.status();
  EXPECT_NE(truths->raw(), bytes);
  EXPECT_EQ(*static_cast<const char*>(truths->raw()), 1);
  // A few numbers.
  TensorProto few = Parse("dtype: DT_FLOAT tensor_shape { dim { size: 8 } }");
  few.set_tensor_content(std::string(32, '\0'));
  bytes = few.tensor_content().data();
  EXPECT_NE(TensorFromProto(std::move(few))->raw(), bytes);
  // Wrong sizes are errors as ever.
  TensorProto wrong = Parse("dtype: DT_FLOAT tensor_shape { dim { size: 3 } }");
  wrong.set_tensor_content(std::string(8192, '\0'));
  EXPECT_THAT(TensorFromProto(std::move(wrong)).status(), Is(kBad, "got 8192 bytes"));
  TensorProto strings = Parse("dtype: DT_STRING tensor_shape { dim { size: 8192 } }");
  strings.set_tensor_content(std::string(8192, '\0'));
  EXPECT_EQ(TensorFromProto(std::move(strings))->num_elements(), 8192);
}

}  // namespace
}  // namespace thalweg
