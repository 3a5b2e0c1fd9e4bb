// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/text_format.h"
#include "thalweg/base/file_system.h"
#include "thalweg/ops/support/array_ops_testlib.h"
#include "thalweg/proto/tensor.pb.h"

namespace thalweg {
namespace {

// Each message type of these tests is in a file of its own.
google::protobuf::FileDescriptorSet Descriptors(const std::string& text) {
  google::protobuf::FileDescriptorSet set;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &set)) << text;
  return set;
}

std::string AsBytes(const google::protobuf::FileDescriptorSet& set) { return "bytes://" + set.SerializeAsString(); }

// A pair of a number and a text, with defaults, and numbers of other pairs in it.
std::string Pair() {
  return AsBytes(Descriptors(R"(file {
    name: "pair.proto" package: "test"
    message_type {
      name: "Pair"
      field { name: "n" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL default_value: "-7" }
      field { name: "s" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL default_value: "none" }
      field { name: "v" number: 3 type: TYPE_SINT32 label: LABEL_REPEATED }
      field { name: "p" number: 4 type: TYPE_FIXED32 label: LABEL_REPEATED options { packed: true } }
      field { name: "inner" number: 5 type: TYPE_MESSAGE type_name: ".test.Pair" label: LABEL_REPEATED }
      extension_range { start: 100 end: 200 }
    }
    extension { name: "more" number: 100 type: TYPE_BOOL label: LABEL_OPTIONAL extendee: ".test.Pair" }
  })"));
}

std::vector<AttrArg> Fields(const std::string& source, const std::vector<std::string>& names,
                            const std::vector<DType>& types, const std::string& format = "binary",
                            bool sanitize = false, const std::string& type = "test.Pair") {
  return {{"message_type", type},        {"field_names", names},     {"output_types", types},
          {"descriptor_source", source}, {"message_format", format}, {"sanitize", sanitize}};
}

absl::Status DecodeError(const std::string& message, const std::vector<AttrArg>& attrs) {
  return KernelError("DecodeProtoV2", {Strings({message})}, attrs);
}

void ExpectDataLoss(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(text));
}

TEST(DecodeProtoTest, ValuesSizesAndDefaults) {
  // n = 1, n = -2, s = "ab", v = 1, v = [-1, 2] packed, p = 5 unpacked, more = true; and an empty message.
  const std::string message = {0x08,   0x01, 0x08, '\xfe', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff',
                               '\xff', 0x01, 0x12, 0x02,   'a',    'b',    0x18,   0x02,   0x1a,   0x02,   0x01,
                               0x04,   0x25, 0x05, 0,      0,      0,      '\xa0', 0x06,   0x01};
  for (const bool sanitize : {false, true}) {
    const auto y = RunOp("DecodeProtoV2", {Strings({message, ""})},
                         Fields(Pair(), {"v", "n", "s", "p", "test.more"}, {kInt64, kInt32, kString, kUint64, kBool},
                                "binary", sanitize));
    ASSERT_TRUE(y.ok()) << y.status();
    ExpectTensor((*y)[0], Tensor::Of<int32_t>({2, 5}, {3, 1, 1, 1, 1, 0, 0, 0, 0, 0}));
    ExpectTensor((*y)[1], Tensor::Of<int64_t>({2, 3}, {1, -1, 2, 0, 0, 0}));
    ExpectTensor((*y)[2], Tensor::Of<int32_t>({2, 1}, {-2, -7}));
    ExpectTensor((*y)[3], Tensor::Of<std::string>({2, 1}, {"ab", "none"}));
    ExpectTensor((*y)[4], Tensor::Of<uint64_t>({2, 1}, {5, 0}));
    ExpectTensor((*y)[5], Tensor::Of<bool>({2, 1}, {true, false}));
  }
}

TEST(DecodeProtoTest, PackedNegativeNumbersStayNegative) {
  const std::string source = AsBytes(Descriptors(R"(file { name: "n.proto" message_type { name: "N"
      field { name: "n" number: 1 type: TYPE_INT32 label: LABEL_REPEATED } } })"));
  const std::string message = {0x0a,   0x0a,   '\xff', '\xff', '\xff', '\xff',
                               '\xff', '\xff', '\xff', '\xff', '\xff', 0x01};
  ExpectTensor(Result("DecodeProtoV2", {Strings({message})}, Fields(source, {"n"}, {kInt64}, "binary", false, "N"), 1),
               Tensor::Of<int64_t>({1, 1}, {-1}));
}

TEST(DecodeProtoTest, Text) {
  const auto attrs = Fields(Pair(), {"v", "inner"}, {kInt32, kString}, "text");
  const auto y = RunOp("DecodeProtoV2", {Tensor::Scalar<std::string>("v: [3, -3] inner { s: 'x' }")}, attrs);
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[1], Ints({3, -3}));
  ExpectTensor((*y)[2], Strings({"\x12\x01x"}));
  ExpectDataLoss(DecodeError("v: 3 other: 4", attrs),
                 "Unable to parse text protobuf: 1:11: Message type \"test.Pair\" has no field named \"other\"");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "inner {";
  ExpectDataLoss(DecodeError(deep, attrs), "Unable to parse text protobuf");
}

TEST(DecodeProtoTest, CorruptMessages) {
  for (const bool sanitize : {false, true}) {
    const auto attrs =
        Fields(Pair(), {"n", "s", "p", "inner"}, {kInt32, kString, kUint32, kString}, "binary", sanitize);
    std::vector<std::string> messages = {
        {0x08},                                                 // no value after the tag
        {0x08, '\xff'},                                         // an unfinished varint
        {0x12, 0x05, 'a'},                                      // fewer bytes than the length
        {0x12, '\xff', '\xff', '\xff', '\xff', 0x07},           // a length of 2 GiB
        {0x12, '\xff', '\xff', '\xff', '\xff', 0x0f},           // a negative length
        {0x22, 0x03, 0, 0, 0},                                  // three bytes of packed numbers of four
        {0x0c},                                                 // the end of a group without its start
        {0x0f},                                                 // an unknown wire type
        {'\xff', '\xff', '\xff', '\xff', '\xff', '\xff', 0x01}  // a tag that is too long
    };
    messages.emplace_back(100'000, 0x33);  // groups in groups
    for (const std::string& message : messages) ExpectDataLoss(DecodeError(message, attrs), "");
  }
  ExpectDataLoss(DecodeError({0x12, 0x05, 'a'}, Fields(Pair(), {"n"}, {kInt32})),
                 "Failed to decode a test.Pair: field 2 is invalid");
}

TEST(DecodeProtoTest, RefusesAttributes) {
  const auto error = [](const std::vector<AttrArg>& attrs) { return DecodeError("", attrs); };
  ExpectInvalid(error(Fields(Pair(), {"m"}, {kInt32})), "Unknown field: m in message type test.Pair");
  ExpectInvalid(error(Fields(Pair(), {"n"}, {kFloat})), "Unexpected output type for test.Pair.n: int32 to float");
  ExpectInvalid(error(Fields(Pair(), {"n"}, {})), "field_names and output_types attributes must have the same length");
  ExpectInvalid(error(Fields(Pair(), {"n"}, {kInt32}, "json")), "format must be one of binary or text");
  ExpectInvalid(error(Fields("local://", {"n"}, {kInt32})), "No descriptor found for message type test.Pair");
  ExpectInvalid(error(Fields("bytes://x", {"n"}, {kInt32})),
                "Source does not represent serialized file descriptor set");
  ExpectInvalid(error(Fields("/no/such/file", {"n"}, {kInt32})),
                "Source does not represent serialized file descriptor");
  const std::string dangling = AsBytes(Descriptors(R"(file { name: "d.proto" message_type { name: "D"
      field { name: "x" number: 1 type: TYPE_MESSAGE type_name: ".Missing" label: LABEL_OPTIONAL } } })"));
  ExpectInvalid(error(Fields(dangling, {"x"}, {kString}, "binary", false, "D")),
                "Failed to load the descriptor of a file: d.proto: D.x: \".Missing\" is not defined.");
  ExpectInvalid(KernelError("DecodeProtoV2", {Tensor(kString, {0})}, Fields(Pair(), {"n"}, {kInt32})),
                "Bufs argument must contain at least one value");
}

// The library recurses over the types that a message can contain. A graph could have a chain of any length.
TEST(DecodeProtoTest, RefusesToParseMessagesOfTooManyTypes) {
  google::protobuf::FileDescriptorSet set;
  google::protobuf::FileDescriptorProto& file = *set.add_file();
  file.set_name("chain.proto");
  constexpr int kTypes = 20'000;
  for (int i = 0; i < kTypes; ++i) {
    google::protobuf::DescriptorProto& message = *file.add_message_type();
    message.set_name(absl::StrCat("M", i));
    google::protobuf::FieldDescriptorProto& field = *message.add_field();
    field.set_name("next");
    field.set_number(1);
    field.set_label(google::protobuf::FieldDescriptorProto::LABEL_OPTIONAL);
    field.set_type(google::protobuf::FieldDescriptorProto::TYPE_MESSAGE);
    field.set_type_name(absl::StrCat(".M", (i + 1) % kTypes));
  }
  ExpectInvalid(DecodeError("", Fields(AsBytes(set), {"next"}, {kString}, "text", false, "M0")),
                "Messages of type M0 can contain more than 1000 types of messages");
  ExpectTensor(Result("DecodeProtoV2", {Strings({"\x0a\x01x"})},
                      Fields(AsBytes(set), {"next"}, {kString}, "binary", false, "M0"), 1),
               Tensor::Of<std::string>({1, 1}, {"x"}));
}

TEST(DecodeProtoTest, RefusesDefaultsThatFillTheMemory) {
  google::protobuf::FileDescriptorSet set = Descriptors(R"(file { name: "l.proto" message_type { name: "L"
      field { name: "s" number: 1 type: TYPE_BYTES label: LABEL_OPTIONAL } } })");
  set.mutable_file(0)->mutable_message_type(0)->mutable_field(0)->set_default_value(std::string(1 << 20, 'x'));
  const absl::Status status = KernelError("DecodeProtoV2", {Tensor(kString, {5000})},
                                          Fields(AsBytes(set), {"s"}, {kString}, "binary", false, "L"));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST(DecodeProtoTest, DescriptorsOfTheProgramAndOfAFile) {
  tensorflow::TensorProto proto;
  proto.add_float_val(1.5F);
  proto.set_dtype(tensorflow::DT_INT32);
  const auto attrs = [](const std::string& source) {
    return Fields(source, {"float_val", "dtype"}, {kDouble, kInt32}, "binary", false, "tensorflow.TensorProto");
  };
  for (const char* const source : {"", "local://"}) {
    const auto y = RunOp("DecodeProtoV2", {Strings({proto.SerializeAsString()})}, attrs(source));
    ASSERT_TRUE(y.ok()) << y.status();
    ExpectTensor((*y)[1], Tensor::Of<double>({1, 1}, {1.5}));
    ExpectTensor((*y)[2], Tensor::Of<int32_t>({1, 1}, {3}));
  }
  const std::string path = ::testing::TempDir() + "/proto_ops_test_pair.pb";
  ASSERT_TRUE(PosixFileSystem().WriteStringToFile(path, Pair().substr(std::string("bytes://").size())).ok());
  ExpectTensor(Result("DecodeProtoV2", {Strings({"\x08\x05"})}, Fields(path, {"n"}, {kInt32}), 1),
               Tensor::Of<int32_t>({1, 1}, {5}));
  std::filesystem::remove(path);
}

std::vector<AttrArg> Encoded(const std::string& source, const std::vector<std::string>& names) {
  return {{"message_type", "test.Pair"}, {"field_names", names}, {"descriptor_source", source}};
}

TEST(EncodeProtoTest, WritesFieldsInTheirOrder) {
  const std::vector<Tensor> values = {Tensor::Of<uint32_t>({2, 2}, {1, 2, 3, 4}), Tensor::Of<int64_t>({2, 1}, {-1, 7}),
                                      Tensor::Of<std::string>({2, 1}, {"a", "b"})};
  const Tensor sizes = Tensor::Of<int32_t>({2, 3}, {2, 1, 1, 0, 1, 0});
  ExpectTensor(Result("EncodeProto", {sizes, values}, Encoded(Pair(), {"p", "v", "s"})),
               Strings({{0x12, 0x01, 'a', 0x18, 0x01, 0x22, 0x08, 1, 0, 0, 0, 2, 0, 0, 0}, {0x18, 0x0e}}));
}

// Without the option, fields of proto3 are packed only in this program's own messages.
TEST(EncodeProtoTest, PacksAsTensorFlowDoes) {
  const std::string source = AsBytes(Descriptors(R"(file { name: "n.proto" syntax: "proto3" message_type { name: "N"
      field { name: "n" number: 1 type: TYPE_INT32 label: LABEL_REPEATED } } })"));
  const auto encoded = [](const std::string& from, const std::string& type, const std::string& field) {
    const std::vector<Tensor> values = {Tensor::Of<int32_t>({1, 2}, {1, 2})};
    return Result(
        "EncodeProto", {Tensor::Of<int32_t>({1, 1}, {2}), values},
        {{"message_type", type}, {"field_names", std::vector<std::string>{field}}, {"descriptor_source", from}});
  };
  ExpectTensor(encoded(source, "N", "n"), Strings({{0x08, 1, 0x08, 2}}));
  ExpectTensor(encoded("local://", "tensorflow.TensorProto", "int_val"), Strings({{0x3a, 2, 1, 2}}));
}

TEST(EncodeProtoTest, RefusesInputs) {
  const auto error = [](const Tensor& sizes, const Tensor& values) {
    return KernelError("EncodeProto", {sizes, std::vector<Tensor>{values}}, Encoded(Pair(), {"v"}));
  };
  const Tensor row = Tensor::Of<int32_t>({1, 2}, {1, 2});
  ExpectInvalid(error(Tensor::Of<int32_t>({1, 1}, {3}), row), "Size to write must not be larger than value tensor");
  ExpectInvalid(error(Tensor::Of<int32_t>({1, 1}, {-1}), row), "Size to write must not be negative");
  ExpectInvalid(error(Tensor::Of<int32_t>({1, 2}, {1, 1}), row), "sizes should be batch_size + [len(field_names)]");
  ExpectInvalid(error(Int(1), row), "sizes should be batch_size + [len(field_names)]");
  ExpectInvalid(error(Tensor::Of<int32_t>({1, 1}, {1}), Ints({1, 2})), "Invalid shape for field v");
  ExpectInvalid(error(Tensor::Of<int32_t>({1, 1}, {1}), Tensor::Of<float>({1, 1}, {1})),
                "Incompatible type for field v");
  const std::vector<Tensor> two = {row, Tensor::Of<int32_t>({2, 1}, {1, 2})};
  ExpectInvalid(KernelError("EncodeProto", {Tensor::Of<int32_t>({1, 2}, {1, 1}), two}, Encoded(Pair(), {"v", "n"})),
                "Values must match up to the last dimension");
  // TensorFlow finds extensions only when it decodes.
  ExpectInvalid(KernelError("EncodeProto", {Tensor::Of<int32_t>({1, 1}, {1}), std::vector<Tensor>{row}},
                            Encoded(Pair(), {"test.more"})),
                "Unknown field: test.more");
}

// One tensor of 64 MiB, given as 32 fields of a message. A message has at most 2 GiB.
TEST(EncodeProtoTest, RefusesMessagesThatAreTooLong) {
  const Tensor text = Tensor::Of<std::string>({1, 1}, {std::string(64 << 20, 'x')});
  const std::vector<Tensor> values(32, text);
  Tensor sizes(kInt32, {1, 32});
  std::fill_n(sizes.mutable_data<int32_t>(), 32, 1);
  ExpectInvalid(KernelError("EncodeProto", {sizes, values}, Encoded(Pair(), std::vector<std::string>(32, "s"))),
                "Message 0 would take up to");
}

}  // namespace
}  // namespace thalweg
