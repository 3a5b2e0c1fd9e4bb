// SPDX-License-Identifier: Apache-2.0
// Messages between tasks: every request and every answer, pushed tensors, and pieces of large ones.
#include <functional>

#include "fuzz_target.h"
#include "thalweg/base/logging.h"
#include "thalweg/proto/master.pb.h"
#include "thalweg/proto/worker.pb.h"
#include "thalweg/rpc/message.h"
#include "thalweg/rpc/piece_table.h"
#include "thalweg/rpc/recv_buf.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg::fuzz {
namespace {

grpc::ByteBuffer InSlices(absl::string_view text, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < text.size(); i += piece) slices.emplace_back(std::string(text.substr(i, piece)));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Flat(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  CHECK(buffer.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

void Decode(const tensorflow::TensorProto& proto) {
  int64_t allowance = kExpansionBytes;
  TensorFromProto(proto, &allowance).status().IgnoreError();
}

template <typename Message>
bool Parse(grpc::ByteBuffer& buffer, Message* message) {
  return ParseMessage(buffer, message).ok();
}

using Parser = std::function<void(grpc::ByteBuffer&)>;

template <typename Message>
Parser Plain() {
  return [](grpc::ByteBuffer& buffer) {
    Message message;
    Parse(buffer, &message);
  };
}

const std::vector<Parser>& Parsers() {
  using namespace tensorflow;  // NOLINT: all messages
  static const auto& parsers =
      *new std::vector<Parser>{[](grpc::ByteBuffer& b) { ParsePushRequest(b).status().IgnoreError(); },
                               [](grpc::ByteBuffer& b) {
                                 PieceTable table;
                                 table.Add(b).status().IgnoreError();
                               },
                               [](grpc::ByteBuffer& b) {
                                 Rendezvous::Value value;
                                 ParseRecvTensorResponse(b, &value).IgnoreError();
                               },
                               [](grpc::ByteBuffer& b) {
                                 Tensor value(kFloat, {4});
                                 ParseRecvBufResponse(b, &value).IgnoreError();
                               },
                               [](grpc::ByteBuffer& b) {
                                 RunStepRequest message;
                                 if (!Parse(b, &message)) return;
                                 for (const auto& feed : message.feed()) Decode(feed.tensor());
                               },
                               [](grpc::ByteBuffer& b) {
                                 RunGraphRequest message;
                                 if (!Parse(b, &message)) return;
                                 for (const auto& send : message.send()) Decode(send.tensor());
                               },
                               [](grpc::ByteBuffer& b) {
                                 RunGraphResponse message;
                                 if (!Parse(b, &message)) return;
                                 for (const auto& recv : message.recv()) Decode(recv.tensor());
                               },
                               [](grpc::ByteBuffer& b) {
                                 RunStepResponse message;
                                 if (!Parse(b, &message)) return;
                                 for (const auto& tensor : message.tensor()) Decode(tensor.tensor());
                               },
                               [](grpc::ByteBuffer& b) {
                                 RunCallableRequest message;
                                 if (!Parse(b, &message)) return;
                                 for (const auto& feed : message.feed()) Decode(feed);
                               },
                               [](grpc::ByteBuffer& b) {
                                 PushedTensor message;
                                 int64_t allowance = kExpansionBytes;
                                 if (Parse(b, &message)) FromPushedTensor(message, &allowance).status().IgnoreError();
                               },
                               Plain<CreateSessionRequest>(),
                               Plain<CreateSessionResponse>(),
                               Plain<ExtendSessionRequest>(),
                               Plain<PartialRunSetupRequest>(),
                               Plain<MakeCallableRequest>(),
                               Plain<ResetRequest>(),
                               Plain<ListDevicesResponse>(),
                               Plain<GetStatusResponse>(),
                               Plain<CreateWorkerSessionRequest>(),
                               Plain<RegisterGraphRequest>(),
                               Plain<RegisterGraphResponse>(),
                               Plain<CleanupAllRequest>(),
                               Plain<RecvTensorRequest>(),
                               Plain<RecvBufRequest>(),
                               Plain<RecvBufResponse>(),
                               Plain<CompleteGroupRequest>(),
                               Plain<CompleteGroupResponse>(),
                               Plain<CompleteInstanceRequest>(),
                               Plain<CompleteInstanceResponse>(),
                               Plain<GetStepSequenceRequest>(),
                               Plain<GetStepSequenceResponse>(),
                               Plain<TracingRequest>(),
                               Plain<LoggingResponse>(),
                               Plain<PauseUpdatesRequest>()};
  return parsers;
}

template <typename Message>
std::string Seed(int parser, const Message& message) {
  return std::string(1, static_cast<char>(parser)) + "\x40" + message.SerializeAsString();
}

}  // namespace

void TestOneInput(absl::string_view input) {
  InputReader reader(input);
  const Parser& parser = Parsers()[reader.Byte() % Parsers().size()];
  const size_t piece = 1 + reader.Byte();  // gRPC gives a message in slices of any size
  grpc::ByteBuffer buffer = InSlices(reader.Rest(), piece);
  parser(buffer);
}

std::vector<std::string> Seeds() {
  const Tensor matrix = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  const Tensor text = Tensor::Vector<std::string>({"a", "", "xyz"});
  const auto head = [](int parser) { return std::string(1, static_cast<char>(parser)) + "\x40"; };
  std::vector<std::string> seeds;
  for (const Tensor& tensor : {matrix, text}) {
    Transfer transfer;
    transfer.key = "k;e;y";
    transfer.value.tensor = tensor;
    seeds.push_back(head(0) + Flat(*SerializePushRequest(7, {transfer, transfer})));
    seeds.push_back(head(2) + Flat(*SerializeRecvTensorResponse({tensor, false})));
    tensorflow::RunStepRequest run;
    run.set_session_handle("s");
    auto& feed = *run.add_feed();
    feed.set_name("x:0");
    TensorToProto(tensor, feed.mutable_tensor());
    run.add_fetch("y:0");
    seeds.push_back(Seed(4, run));
    tensorflow::RunGraphRequest graph;
    graph.set_step_id(5);
    graph.set_graph_handle("g");
    *graph.add_send() = feed;
    seeds.push_back(Seed(5, graph));
    tensorflow::RunGraphResponse answer;
    *answer.add_recv() = feed;
    seeds.push_back(Seed(6, answer));
    seeds.push_back(Seed(9, ToPushedTensor(transfer)));
  }
  Transfer transfer;
  transfer.key = "k";
  transfer.value.tensor = matrix;
  seeds.push_back(head(1) + Flat(SerializePiece(7, transfer, 0, 8)));
  tensorflow::RegisterGraphRequest graph;
  graph.set_session_handle("s");
  graph.mutable_graph_def()->add_node()->set_name("n");
  seeds.push_back(Seed(19, graph));
  return seeds;
}

}  // namespace thalweg::fuzz
