// SPDX-License-Identifier: Apache-2.0
// Bytes on a TCP connection between tasks. The first byte of the input says whether the client greets properly; the
// parts after it are sent one by one.
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "fuzz_target.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/notification.h"
#include "thalweg/transport/tcp_link.h"

namespace thalweg::fuzz {
namespace {

std::string Token() { return std::string(TcpHeader::kTokenBytes, 't'); }

std::string Message(const TcpHeader& header, const std::string& rest = "") {
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + rest;
}
std::string Hello() { return Message({.kind = LinkMessage::kHello, .text_bytes = TcpHeader::kTokenBytes}, Token()); }

// Fails if the link has closed the connection: then the rest of the input does not matter.
void SendBytes(int socket, absl::string_view bytes) {
  [[maybe_unused]] const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

void TestOneInput(absl::string_view input) {
  static auto& loop = *new SocketLoop("fuzz");
  static const auto& budget = *new auto(std::make_shared<ReceiveBudget>(1 << 20));
  int sockets[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  Notification lost;
  // Reads every byte that the link gives out.
  const auto receive = [](const LinkMessage& message, const LinkBody& body) {
    uint8_t sum = 0;
    for (const char c : body.Join()) sum += static_cast<uint8_t>(c);
    return sum == 0 && message.text == "never" ? Link::Work([] {}) : Link::Work();
  };
  const auto link = TcpLink::Create(&loop, FileHandle(sockets[0]),
                                    {.receive = receive, .lost = [&](const absl::Status&) { lost.Notify(); }},
                                    {.token = Token(), .budget = budget});
  CHECK(link->Start(Link::Side::kAccepted).ok());
  InputReader reader(input);
  if (reader.Byte() % 4 != 0) SendBytes(sockets[1], Hello());
  while (!reader.empty()) SendBytes(sockets[1], reader.Part());
  close(sockets[1]);
  lost.WaitForNotification();
}

std::vector<std::string> Seeds() {
  const std::string call =
      Message({.kind = LinkMessage::kCall, .call = 7, .text_bytes = 3, .body_bytes = 5, .large_bytes = 5}, "abc12345");
  return {
      std::string(1, '\0') + MakePart(Hello()) + MakePart(call),
      "\1" + MakePart(call),
      "\1" + MakePart(call.substr(0, 20)) + MakePart(call.substr(20, 22)) + MakePart(call.substr(42)) + MakePart(call),
      "\1" + MakePart(Message({.kind = LinkMessage::kReply, .call = 7, .code = 5, .text_bytes = 2}, "no") +
                      Message({.kind = LinkMessage::kCancel, .call = 7})),
      "\1" + MakePart(Message({.kind = LinkMessage::kCall, .body_bytes = 100'000, .large_bytes = 100'000})) +
          MakePart(std::string(60'000, 'x')) + MakePart(std::string(40'000, 'y')),
      "\1" + MakePart(Message({.kind = LinkMessage::kCall, .body_bytes = 3 << 20})) + MakePart("x"),
  };
}

}  // namespace thalweg::fuzz
