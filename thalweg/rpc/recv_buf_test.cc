// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/recv_buf.h"

#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/proto/worker.pb.h"
#include "thalweg/rpc/message.h"

namespace thalweg {
namespace {

Tensor Counting(int64_t n) {
  Tensor t(kFloat, Shape({n}));
  for (int64_t i = 0; i < n; ++i) t.mutable_data<float>()[i] = static_cast<float>(i);
  return t;
}

TEST(RecvBufResponse, IsWhatAParserReads) {
  for (const int64_t n : {0, 3, 100'000}) {
    const Tensor value = Counting(n);
    ASSERT_OK_AND_ASSIGN(grpc::ByteBuffer bytes, SerializeRecvBufResponse(value));
    grpc::ByteBuffer copy = bytes;
    tensorflow::RecvBufResponse response;
    ASSERT_OK(ParseMessage(copy, &response));
    tensorflow::RecvBufRespExtra extra;
    ASSERT_TRUE(response.transport_options().UnpackTo(&extra));
    std::string content;
    for (const std::string& piece : extra.tensor_content()) content += piece;
    EXPECT_EQ(content, std::string(static_cast<const char*>(value.raw()), n * 4));

    Tensor into(kFloat, Shape({n}));
    ASSERT_OK(ParseRecvBufResponse(bytes, &into));
    EXPECT_EQ(into.flat<float>(), value.flat<float>());
  }
}

TEST(RecvBufResponse, LargeValuesAreNotCopiedToBeSent) {
  const Tensor value = Counting(100'000);
  ASSERT_OK_AND_ASSIGN(grpc::ByteBuffer bytes, SerializeRecvBufResponse(value));
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(bytes.Dump(&slices).ok());
  EXPECT_EQ(static_cast<const void*>(slices.back().begin()), value.raw());
}

// TensorFlow sends pieces of 4 KB, and more fields.
TEST(RecvBufResponse, OfATensorFlowServer) {
  const Tensor value = Counting(5000);
  tensorflow::RecvBufRespExtra extra;
  const std::string content(static_cast<const char*>(value.raw()), 20'000);
  for (size_t at = 0; at < content.size(); at += 4096) extra.add_tensor_content(content.substr(at, 4096));
  tensorflow::RecvBufResponse response;
  response.mutable_transport_options()->PackFrom(extra);
  response.set_send_start_micros(123456789);
  response.set_require_ack(true);
  grpc::ByteBuffer bytes = SerializeMessage(response);
  Tensor into(kFloat, Shape({5000}));
  ASSERT_OK(ParseRecvBufResponse(bytes, &into));
  EXPECT_EQ(into.flat<float>(), value.flat<float>());
}

TEST(RecvBufResponse, OfAnotherSizeOrDamaged) {
  for (const int64_t n : {99, 101}) {
    ASSERT_OK_AND_ASSIGN(grpc::ByteBuffer bytes, SerializeRecvBufResponse(Counting(100)));
    Tensor into(kFloat, Shape({n}));
    EXPECT_THAT(ParseRecvBufResponse(bytes, &into), Fails(absl::StatusCode::kInternal, "returned 400 bytes"));
  }
  ASSERT_OK_AND_ASSIGN(grpc::ByteBuffer good, SerializeRecvBufResponse(Counting(100)));
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(good.Dump(&slices).ok());
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text(reinterpret_cast<const char*>(slices[0].begin()), slices[0].size());
    text[random() % 80] = static_cast<char>(random());
    if (i % 3 == 0) text.resize(random() % text.size());
    const grpc::Slice slice(text);
    grpc::ByteBuffer bytes(&slice, 1);
    Tensor into(kFloat, Shape({100}));
    ParseRecvBufResponse(bytes, &into).IgnoreError();  // no more than that it ends
  }
}

}  // namespace
}  // namespace thalweg
