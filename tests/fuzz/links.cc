// SPDX-License-Identifier: Apache-2.0
// Packets on the socket between tasks of one machine, with and without a descriptor. Each part of the input is a
// packet; its first byte says which descriptor comes with it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "fuzz_target.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/notification.h"
#include "thalweg/transport/same_host_link.h"

namespace thalweg::fuzz {
namespace {

// An input may send files of these kinds: none, memory of some size, one that is not memory, two.
void SendPacket(int socket, uint8_t kind, absl::string_view bytes) {
  std::string copy(bytes.data(), bytes.size());
  iovec part{.iov_base = copy.data(), .iov_len = copy.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  int files[2] = {-1, -1};
  const int count = kind % 4 == 3 ? 2 : kind % 4 == 0 ? 0 : 1;
  for (int i = 0; i < count; ++i) {
    files[i] = kind % 4 == 2 ? dup(STDERR_FILENO) : memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (kind % 4 == 2) continue;
    if (ftruncate(files[i], int64_t{kind} << 10) != 0) std::abort();
    if (kind < 0x80) fcntl(files[i], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  }
  if (count > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(rights), files, count * sizeof(int));
  }
  // Fails if the link has closed the socket: then the rest of the input does not matter.
  [[maybe_unused]] const ssize_t sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  for (int i = 0; i < count; ++i) close(files[i]);
}

// As SameHostLink has them.
enum Place : uint32_t { kInline, kBlock, kFile, kExported };
struct Part {
  uint32_t place = kInline, reserved = 0;
  uint64_t offset = 0, bytes = 0, mark = 0;
};

std::string Packet(uint32_t kind, uint64_t call, absl::string_view text, const std::vector<Part>& parts = {},
                   absl::string_view body = "", uint32_t exports = 0) {
  struct {
    uint32_t magic, kind;
    uint64_t call;
    uint32_t code, text_bytes, parts, exports;
  } const header{0x326b6c54, kind, call, 0, static_cast<uint32_t>(text.size()), static_cast<uint32_t>(parts.size()),
                 exports};
  std::string packet(reinterpret_cast<const char*>(&header), sizeof(header));
  packet.append(text.data(), text.size());
  packet.append(reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof(Part));
  packet.append(body.data(), body.size());
  return packet;
}

}  // namespace

void TestOneInput(absl::string_view input) {
  static auto& loop = *new SocketLoop("fuzz");
  int sockets[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
  Notification lost;
  // Reads every byte that the link gives out.
  const auto receive = [](const LinkMessage& message, const LinkBody& body) {
    uint8_t sum = 0;
    for (const char c : body.Join()) sum += static_cast<uint8_t>(c);
    return sum == 0 && message.text == "never" ? SameHostLink::Work([] {}) : SameHostLink::Work();
  };
  auto link = SameHostLink::Create(&loop, FileHandle(sockets[0]),
                                   {.receive = receive, .lost = [&](const absl::Status&) { lost.Notify(); }});
  CHECK(link.ok()) << link.status();
  CHECK((*link)->Start(SameHostLink::Side::kAccepted).ok());
  InputReader reader(input);
  while (!reader.empty()) {
    const uint8_t kind = reader.Byte();
    const absl::string_view packet = reader.Part();
    if (!packet.empty()) SendPacket(sockets[1], kind, packet);  // an empty one would be the end
  }
  close(sockets[1]);
  lost.WaitForNotification();
}

std::vector<std::string> Seeds() {
  const auto part = [](char kind, const std::string& packet) { return std::string(1, kind) + MakePart(packet); };
  const std::string hello = part('\x41', Packet(LinkMessage::kHello, 0, ""));
  const std::string exports = part('\x41', Packet(LinkMessage::kHello, 0, "", {}, "", 1));
  const auto call = [&](char kind, std::vector<Part> parts, absl::string_view body = "") {
    return part(kind, Packet(LinkMessage::kCall, 7, "/tensorflow.WorkerService/GetStatus", parts, body));
  };
  return {
      hello,
      hello + call('\0', {{.place = kInline, .bytes = 4}}, "body"),
      hello + part('\0', Packet(LinkMessage::kReply, 7, "an error")) + part('\0', Packet(LinkMessage::kCancel, 7, "")),
      hello + call('\0', {{.place = kBlock, .offset = 64, .bytes = 4096}}),
      hello + call('\x11', {{.place = kFile, .bytes = 4096}}),
      hello + call('\x12', {{.place = kFile, .bytes = 4096}}),
      hello + call('\x13', {{.place = kFile, .bytes = 4096}}),
      hello + exports + call('\0', {{.place = kExported, .offset = 4096, .bytes = 8192, .mark = 64}}),
      hello + exports +
          call('\0', {{.place = kInline, .bytes = 4}, {.place = kExported, .bytes = 8192, .mark = 64}}, "body")};
}

}  // namespace thalweg::fuzz
