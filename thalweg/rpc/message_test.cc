// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/message.h"

#include <cstring>
#include <random>
#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/varint.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/proto/named_tensor.pb.h"
#include "thalweg/proto/worker.pb.h"
#include "thalweg/rpc/piece_table.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

grpc::ByteBuffer InPieces(const std::string& text, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < text.size(); i += piece) slices.emplace_back(text.substr(i, piece));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::vector<Tensor> SomeTensors() {
  Tensor large(kFloat, {100, 100});
  for (int i = 0; i < 10000; ++i) large.mutable_data<float>()[i] = static_cast<float>(i);
  return {Tensor::Scalar<float>(3),
          Tensor::Vector<int64_t>({1, -2}),
          Tensor::Of<bool>({2}, {true, false}),
          Tensor::Vector<std::string>({"a", "", "xyz"}),
          Tensor(kDouble, {0, 7}),
          large};
}

TEST(MessageWriter, WritesWhatAParserReads) {
  for (const Tensor& tensor : SomeTensors()) {
    MessageWriter writer;
    writer.AddNamedTensor(3, "key;name", tensor);
    writer.Bytes(4, "other");
    writer.Varint(2, 77);
    writer.Varint(6, 0);
    const auto bytes = writer.Finish();
    ASSERT_TRUE(bytes.ok());
    tensorflow::RunGraphRequest request;
    ASSERT_TRUE(request.ParseFromString(Flatten(*bytes)));
    ASSERT_EQ(request.send_size(), 1);
    EXPECT_EQ(request.send(0).name(), "key;name");
    EXPECT_EQ(request.recv_key(0), "other");
    EXPECT_EQ(request.step_id(), 77);
    const auto read = TensorFromProto(request.send(0).tensor());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->ToString(100), tensor.ToString(100));
  }
}

TEST(RecvTensorResponse, GoesRoundInAnyPieces) {
  for (const Tensor& tensor : SomeTensors()) {
    const auto bytes = SerializeRecvTensorResponse({tensor, false});
    ASSERT_TRUE(bytes.ok());
    tensorflow::RecvTensorResponse response;
    ASSERT_TRUE(response.ParseFromString(Flatten(*bytes)));
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{5000}, size_t{1} << 20}) {
      if (piece == 1 && tensor.num_elements() > 100) continue;
      grpc::ByteBuffer pieces = InPieces(Flatten(*bytes), piece);
      Rendezvous::Value value;
      ASSERT_TRUE(ParseRecvTensorResponse(pieces, &value).ok());
      EXPECT_FALSE(value.dead);
      EXPECT_EQ(value.tensor.ToString(100), tensor.ToString(100));
    }
  }
}

TEST(RecvTensorResponse, LargeTensorsAreNotCopiedToBeSent) {
  const Tensor large = SomeTensors().back();
  const auto bytes = SerializeRecvTensorResponse({large, false});
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(bytes->Dump(&slices).ok());
  EXPECT_TRUE(
      std::any_of(slices.begin(), slices.end(), [&](const grpc::Slice& s) { return s.begin() == large.raw(); }));
}

// A link gives each large piece of a message a place of its own. `skew` moves the piece away from its alignment.
grpc::ByteBuffer OverALink(const grpc::ByteBuffer& message, size_t skew, std::weak_ptr<const void>* large) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(message.Dump(&slices).ok());
  LinkBody body;
  for (const grpc::Slice& slice : slices) {
    void* const memory = HostAllocator().Allocate(slice.size() + skew);
    auto* const at = static_cast<char*>(memory) + skew;
    std::copy(slice.begin(), slice.end(), at);
    std::shared_ptr<const void> holder(
        memory, [bytes = slice.size() + skew](void* held) { HostAllocator().Deallocate(held, bytes); });
    if (slice.size() > 1000) *large = holder;
    body.pieces.push_back({at, slice.size(), std::move(holder)});
  }
  return FromLink(std::move(body));
}

TEST(PushRequest, LargeTensorsStayWhereTheMessageIs) {
  const auto push_of = [](const Tensor& tensor, size_t skew, std::weak_ptr<const void>* large) {
    absl::StatusOr<grpc::ByteBuffer> request =
        SerializePushRequest(7, {{"a", {Tensor::Scalar<float>(1), false}}, {"b", {tensor, false}}});
    EXPECT_TRUE(request.ok());
    std::optional<Push> push;
    {
      grpc::ByteBuffer received = OverALink(*request, skew, large);
      absl::StatusOr<Push> parsed = ParsePushRequest(received);
      EXPECT_TRUE(parsed.ok()) << parsed.status();
      push = *std::move(parsed);
    }
    EXPECT_EQ(push->tensors[0].value.tensor.scalar<float>(), 1);
    EXPECT_EQ(push->tensors[1].value.tensor.ToString(50), tensor.ToString(50));
    return push->tensors[1].value.tensor;
  };
  Tensor floats(kFloat, {100, 200});
  for (int i = 0; i < 20'000; ++i) floats.mutable_data<float>()[i] = static_cast<float>(i);
  std::weak_ptr<const void> large;
  Tensor tensor = push_of(floats, 0, &large);
  EXPECT_FALSE(large.expired());
  EXPECT_FALSE(tensor.unique());  // nobody writes there
  Tensor row = tensor.Rows(1, 2);
  tensor = Tensor();
  EXPECT_FALSE(large.expired());
  EXPECT_EQ(row.data<float>()[1], 201);
  row = Tensor();
  EXPECT_TRUE(large.expired());
  // Copied: bytes in the wrong place, integers, short tensors.
  EXPECT_EQ(push_of(floats, 4, &large).data<float>()[7], 7);
  EXPECT_TRUE(large.expired());
  const Tensor ints = Tensor::Zeros(kInt64, {20'000});
  tensor = push_of(ints, 0, &large);
  EXPECT_TRUE(large.expired());
  EXPECT_TRUE(tensor.unique());
  tensor = push_of(Tensor::Zeros(kFloat, {2000}), 0, &large);
  EXPECT_TRUE(large.expired());
}

TEST(RecvTensorResponse, OfATensorFlowServer) {
  tensorflow::RecvTensorResponse response;  // fields in other orders and encodings
  response.set_is_dead(false);
  response.set_send_start_micros(5);
  TensorToProtoFields(Tensor::Vector<float>({1, 2}), response.mutable_tensor());
  grpc::ByteBuffer bytes = SerializeMessage(response);
  Rendezvous::Value value;
  ASSERT_TRUE(ParseRecvTensorResponse(bytes, &value).ok());
  EXPECT_THAT(value.tensor.flat<float>(), testing::ElementsAre(1, 2));
}

TEST(RecvTensorResponse, DeadValues) {
  const auto bytes = SerializeRecvTensorResponse({Tensor(), true});
  ASSERT_TRUE(bytes.ok());
  grpc::ByteBuffer copy = *bytes;
  Rendezvous::Value value;
  ASSERT_TRUE(ParseRecvTensorResponse(copy, &value).ok());
  EXPECT_TRUE(value.dead);
}

// Invalid bytes are always an error. Under the address sanitizer, this also shows that nothing is
// read beyond the message.
// Changes up to four bytes of a message, cuts off its end and divides the rest.
grpc::ByteBuffer Damage(std::string message, std::mt19937& random) {
  for (int k = random() % 4; k >= 0; --k) message[random() % message.size()] = static_cast<char>(random());
  message.resize(random() % (message.size() + 1));
  return InPieces(message, 1 + random() % 9);
}

// A tensor that a damaged message has given is a whole one: it can be sent on, and comes back as it was.
void ExpectWhole(const Tensor& tensor) {
  if (!tensor.has_value()) return;
  grpc::ByteBuffer bytes = *SerializeRecvTensorResponse({tensor, false});
  Rendezvous::Value again;
  ASSERT_OK(ParseRecvTensorResponse(bytes, &again));
  ASSERT_EQ(again.tensor.dtype(), tensor.dtype());
  ASSERT_EQ(again.tensor.shape(), tensor.shape());
  if (tensor.dtype() == kString || tensor.dtype() == kResource || tensor.dtype() == kVariant) return;
  EXPECT_EQ(std::memcmp(again.tensor.raw(), tensor.raw(), static_cast<size_t>(tensor.TotalBytes())), 0);
}

TEST(RecvTensorResponse, DamagedBytes) {
  std::mt19937 random(1);
  const std::string good = Flatten(*SerializeRecvTensorResponse({Tensor::Vector<float>({1, 2, 3}), false}));
  int parsed = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    grpc::ByteBuffer bytes = Damage(good, random);
    Rendezvous::Value value;
    if (!ParseRecvTensorResponse(bytes, &value).ok()) {
      ++refused;
      continue;
    }
    ++parsed;
    ExpectWhole(value.tensor);
  }
  EXPECT_GT(parsed, 0);
  EXPECT_GT(refused, 0);
}

// The largest lengths that a peer can claim, and some that overflow.
const uint64_t kLies[] = {0x7fffffff,        0x80000000,        0xfffffff7,  0xffffffff,
                          uint64_t{1} << 32, uint64_t{1} << 63, ~uint64_t{0}};

// A field of bytes that says it has `length` of them, and has `body`.
std::string Claims(int field, uint64_t length, const std::string& body) {
  std::string text;
  AppendVarint(&text, static_cast<uint64_t>(field << 3 | 2));
  AppendVarint(&text, length);
  return text + body;
}

// A TensorProto of one float whose content claims `length` bytes.
std::string LyingContent(uint64_t length) {
  tensorflow::TensorProto head;
  head.set_dtype(tensorflow::DT_FLOAT);
  head.mutable_tensor_shape()->add_dim()->set_size(static_cast<int64_t>(length / 4));
  return head.SerializeAsString() + Claims(4, length, "abcd");
}

TEST(RecvTensorResponse, LyingLengths) {
  for (const uint64_t outer : kLies) {
    for (const uint64_t inner : kLies) {
      for (const std::string& body : {LyingContent(inner), Claims(2, inner, "abc"), std::string()}) {
        grpc::ByteBuffer bytes = InPieces(Claims(1, outer, body), 7);
        Rendezvous::Value value;
        EXPECT_EQ(ParseRecvTensorResponse(bytes, &value).code(), absl::StatusCode::kInvalidArgument);
        bytes = InPieces(Claims(1, body.size(), body), 7);
        EXPECT_FALSE(ParseRecvTensorResponse(bytes, &value).ok()) << inner;
      }
    }
  }
}

TEST(PushRequest, LyingLengths) {
  for (const uint64_t outer : kLies) {
    for (const uint64_t inner : kLies) {
      const std::string tensor = Claims(4, outer, LyingContent(inner));
      for (const std::string& body : {tensor, Claims(1, inner, "key"), Claims(3, inner, "xyz")}) {
        grpc::ByteBuffer bytes = InPieces(Claims(2, outer, body), 7);
        EXPECT_EQ(ParsePushRequest(bytes).status().code(), absl::StatusCode::kInvalidArgument);
        bytes = InPieces(Claims(2, body.size(), body), 7);
        EXPECT_EQ(ParsePushRequest(bytes).status().code(), absl::StatusCode::kInvalidArgument);
      }
    }
  }
}

// A few bytes that claim a tensor of any size with one value.
TEST(PushRequest, ValuesThatAreLeftOut) {
  tensorflow::PushRequest request;
  tensorflow::PushedTensor* pushed = request.add_tensor();
  pushed->set_key("key");
  pushed->mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
  pushed->mutable_tensor()->add_float_val(1);
  const auto parse = [&](int64_t elements) {
    pushed->mutable_tensor()->mutable_tensor_shape()->Clear();
    pushed->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(elements);
    grpc::ByteBuffer bytes = SerializeMessage(request);
    return ParsePushRequest(bytes);
  };
  EXPECT_TRUE(parse(1000).ok());
  EXPECT_FALSE(parse(1 << 20).ok());
  *request.add_tensor() = *pushed;
  pushed = request.mutable_tensor(0);
  EXPECT_FALSE(parse(200'000).ok()) << "each alone would do";
}

std::vector<Transfer> SomeTransfers() {
  std::vector<Transfer> transfers;
  for (const Tensor& tensor : SomeTensors())
    transfers.push_back({absl::StrCat("k", transfers.size()), {tensor, false}});
  transfers.push_back({"empty", {Tensor(kFloat, {0}), false}});
  transfers.push_back({"yes", {Tensor::Scalar<bool>(true), false}});
  transfers.push_back({"dead", {Tensor(), true}});
  return transfers;
}

TEST(PushRequest, RoundTrip) {
  const std::vector<Transfer> sent = SomeTransfers();
  const auto bytes = SerializePushRequest(-7, sent);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  for (const size_t piece : {1, 7, 1000000}) {
    grpc::ByteBuffer pieces = InPieces(Flatten(*bytes), piece);
    const absl::StatusOr<Push> push = ParsePushRequest(pieces);
    ASSERT_TRUE(push.ok()) << push.status();
    EXPECT_EQ(push->step_id, -7);
    ASSERT_EQ(push->tensors.size(), sent.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(push->tensors[i].key, sent[i].key);
      EXPECT_EQ(push->tensors[i].value.dead, sent[i].value.dead);
      EXPECT_EQ(push->tensors[i].value.tensor.ToString(100), sent[i].value.tensor.ToString(100));
    }
  }
}

TEST(PushRequest, DamagedBytes) {
  std::mt19937 random(1);
  const std::string good = Flatten(*SerializePushRequest(
      5, {{"a", {Tensor::Vector<float>({1, 2, 3}), false}}, {"b", {Tensor::Scalar<bool>(true), false}}}));
  int parsed = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    grpc::ByteBuffer bytes = Damage(good, random);
    const absl::StatusOr<Push> push = ParsePushRequest(bytes);
    if (!push.ok()) {
      ++refused;
      continue;
    }
    ++parsed;
    for (const Transfer& transfer : push->tensors) ExpectWhole(transfer.value.tensor);
  }
  EXPECT_GT(parsed, 0);
  EXPECT_GT(refused, 0);
}

TEST(PieceTable, PutsTensorsTogether) {
  Tensor tensor(kInt32, {10, 100});
  for (int i = 0; i < 1000; ++i) tensor.mutable_data<int32_t>()[i] = i;
  const Transfer transfer{"key", {tensor, false}};
  PieceTable table;
  const auto add = [&](int64_t step, int64_t offset, int64_t bytes) {
    grpc::ByteBuffer piece = InPieces(Flatten(SerializePiece(step, transfer, offset, bytes)), 13);
    return table.Add(piece);
  };
  for (const int64_t step : {1, 2}) {  // in any order
    for (const int64_t offset : {1500, 0, 3000}) {
      const auto push = add(step, offset, offset == 3000 ? 1000 : 1500);
      ASSERT_TRUE(push.ok()) << push.status();
      ASSERT_EQ(push->has_value(), offset == 3000);
      if (!push->has_value()) continue;
      EXPECT_EQ((*push)->step_id, step);
      EXPECT_EQ((*push)->tensors[0].key, "key");
      EXPECT_EQ((*push)->tensors[0].value.tensor.ToString(1000), tensor.ToString(1000));
    }
  }
  EXPECT_TRUE(add(3, 0, 1500).ok());
  table.Remove(3);  // the step has failed: pieces are forgotten
  EXPECT_FALSE((*add(3, 1500, 2500)).has_value());
}

TEST(PieceTable, PiecesThatDoNotFit) {
  const Transfer four{"key", {Tensor::Vector<float>({1, 2, 3, 4}), false}};
  const Transfer three{"key", {Tensor::Vector<float>({1, 2, 3}), false}};
  PieceTable table;
  const auto add = [&](std::string bytes) {
    grpc::ByteBuffer piece = InPieces(bytes, 1000);
    return table.Add(piece).status().code();
  };
  EXPECT_EQ(add(Flatten(SerializePiece(1, four, 0, 8))), absl::StatusCode::kOk);
  EXPECT_EQ(add(Flatten(SerializePiece(1, four, 0, 8))), absl::StatusCode::kInvalidArgument) << "it came before";
  EXPECT_EQ(add(Flatten(SerializePiece(1, four, 4, 8))), absl::StatusCode::kInvalidArgument) << "half of it did";
  EXPECT_EQ(add(Flatten(SerializePiece(1, three, 8, 4))), absl::StatusCode::kInvalidArgument);
  std::string beyond = Flatten(SerializePiece(1, four, 8, 8));
  beyond[beyond.size() - 8 - 3] = 120;  // the offset
  EXPECT_EQ(add(beyond), absl::StatusCode::kInvalidArgument);
  const std::string whole = Flatten(SerializePiece(1, four, 8, 8));
  EXPECT_EQ(add(whole.substr(0, whole.size() - 3)), absl::StatusCode::kInvalidArgument);
}

TEST(PieceTable, TensorsThatAreNeverWholeAreBoundedAndLetGoOf) {
  const Transfer four{"key", {Tensor::Vector<float>({1, 2, 3, 4}), false}};
  tensorflow::PushPieceRequest claim;  // more than any machine has
  claim.set_key("huge");
  claim.set_dtype(tensorflow::DT_DOUBLE);
  claim.mutable_shape()->add_dim()->set_size(int64_t{1} << 55);
  claim.set_data("12345678");
  PieceTable table;
  grpc::ByteBuffer bytes = SerializeMessage(claim);
  EXPECT_EQ(table.Add(bytes).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(table.bytes(), 0);
  for (int step = 0; step < 100; ++step) {
    grpc::ByteBuffer piece = InPieces(Flatten(SerializePiece(step, four, 0, 8)), 1000);
    ASSERT_TRUE(table.Add(piece).ok());
  }
  EXPECT_EQ(table.bytes(), 1600);
  table.Remove(7);
  EXPECT_EQ(table.bytes(), 1584);
  table.RemoveAbandoned(absl::Now());
  EXPECT_EQ(table.bytes(), 0);
}

TEST(ParseMessage, NamesWhatItExpected) {
  grpc::ByteBuffer bytes = InPieces("\xff\xff\xff", 1);
  tensorflow::RunGraphRequest request;
  const absl::Status status = ParseMessage(bytes, &request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("tensorflow.RunGraphRequest"));
}

}  // namespace
}  // namespace thalweg
