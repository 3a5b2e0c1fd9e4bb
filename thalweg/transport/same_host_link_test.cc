// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/same_host_link.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "thalweg/base/exported_memory.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/notification.h"
#include "thalweg/transport/link_testlib.h"
#include "thalweg/transport/same_host_listener.h"
#include "thalweg/transport/tcp_connect.h"

namespace thalweg {
namespace {

constexpr absl::Duration kSameHostTimeout = absl::Seconds(60);

// Keeps the bodies that come.
class Keeper {
 public:
  Link::Handlers handlers() {
    return {.receive =
                [this](const LinkMessage&, LinkBody body) {
                  MutexLock lock(&mutex_);
                  bodies_.push_back(std::move(body));
                  changed_.SignalAll();
                  return Link::Work();
                },
            .lost =
                [this](const absl::Status& status) {
                  MutexLock lock(&mutex_);
                  lost_ = absl::Status(status.code(), status.message());  // tsan does not see into absl's counts
                  changed_.SignalAll();
                }};
  }
  std::vector<LinkBody> Take(size_t count) {
    const absl::Time deadline = absl::Now() + kSameHostTimeout;
    MutexLock lock(&mutex_);
    while (bodies_.size() < count && absl::Now() < deadline) changed_.WaitWithTimeout(&mutex_, absl::Seconds(1));
    return std::exchange(bodies_, {});
  }
  absl::Status WaitForLoss() {
    const absl::Time deadline = absl::Now() + kSameHostTimeout;
    MutexLock lock(&mutex_);
    while (lost_.ok() && absl::Now() < deadline) changed_.WaitWithTimeout(&mutex_, absl::Seconds(1));
    return lost_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<LinkBody> bodies_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
};

// Bytes in exported memory, and whether somebody still holds them.
struct Exported {
  explicit Exported(size_t size) : bytes(size) {
    EXPECT_TRUE(ExportedMemory::Global().Enable().ok());
    data = static_cast<char*>(ExportedMemory::Global().Allocate(bytes));
    EXPECT_NE(data, nullptr);
    for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 31 % 251);
    piece = {data, bytes, std::shared_ptr<const void>(data, [size](char* memory) {
               ExportedMemory::Global().Deallocate(memory, size);
             })};
    holder = piece.holder;
  }
  bool IsHeld() {
    piece.holder.reset();
    ExportedMemory::Global().Reclaim();
    return !holder.expired();
  }
  size_t bytes;
  char* data = nullptr;
  HeldBytes piece;
  std::weak_ptr<const void> holder;
};

// Until the condition holds, which another thread or process brings about.
template <typename F>
bool Eventually(F&& condition) {
  const absl::Time deadline = absl::Now() + kSameHostTimeout;
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    sched_yield();
  }
  return true;
}

class SameHostLinkTest : public testing::Test {
 protected:
  void Connect() {
    absl::StatusOr<LinkPair> pair =
        MakeLinkPair(LinkKind::kSharedMemory, &loop_, client_.handlers(), server_.handlers());
    ASSERT_TRUE(pair.ok()) << pair.status();
    pair_ = *std::move(pair);
  }
  void Close() {
    if (pair_.client != nullptr) pair_.client->Close();
    if (pair_.server != nullptr) pair_.server->Close();
    pair_ = {};
  }
  ~SameHostLinkTest() override { Close(); }

  Keeper client_, server_;
  SocketLoop loop_{"test"};
  LinkPair pair_;
};

const LinkMessage kMessage{.kind = LinkMessage::kReply, .call = 1};

TEST_F(SameHostLinkTest, ExportedBytesAreNotCopied) {
  Connect();
  Exported value(3 << 20), other(1 << 20);
  const std::string head(100, 'h'), tail(5000, 't');
  ASSERT_TRUE(
      pair_.client
          ->SendPieces(
              kMessage,
              {{head.data(), head.size(), nullptr}, value.piece, {tail.data(), tail.size(), nullptr}, other.piece})
          .ok());
  std::vector<LinkBody> bodies = server_.Take(1);
  ASSERT_EQ(bodies.size(), 1);
  LinkBody& body = bodies[0];
  ASSERT_EQ(body.pieces.size(), 4);
  EXPECT_EQ(body.Join(), head + std::string(value.data, value.bytes) + tail + std::string(other.data, other.bytes));
  for (const size_t i : {1, 3}) EXPECT_EQ(reinterpret_cast<uintptr_t>(body.pieces[i].data) % 64, 0);
  value.data[12345] = 'x';  // seen at once: it is the same memory
  EXPECT_EQ(body.pieces[1].data[12345], 'x');
  // Each piece is let go of by itself.
  EXPECT_TRUE(value.IsHeld());
  EXPECT_TRUE(other.IsHeld());
  body.pieces[1] = {};
  EXPECT_FALSE(value.IsHeld());
  EXPECT_TRUE(other.IsHeld());
  bodies.clear();
  EXPECT_FALSE(other.IsHeld());
}

// What a receiver keeps does not change when the link is closed and the sender needs memory.
TEST_F(SameHostLinkTest, AClosedLinkStillHoldsWhatTheReceiverKeeps) {
  for (const bool by_sender : {true, false}) {
    Connect();
    Exported value(1 << 20);
    ASSERT_TRUE(pair_.client->SendPieces(kMessage, {value.piece}).ok());
    std::vector<LinkBody> bodies = server_.Take(1);
    ASSERT_EQ(bodies.size(), 1);
    (by_sender ? pair_.client : pair_.server)->Close();
    EXPECT_FALSE((by_sender ? server_ : client_).WaitForLoss().ok());
    Close();
    EXPECT_TRUE(value.IsHeld());
    Exported reuse(1 << 20);
    EXPECT_NE(reuse.data, value.data);
    EXPECT_EQ(bodies[0].Join(), std::string(value.data, value.bytes));
    bodies.clear();
    EXPECT_FALSE(value.IsHeld());
  }
}

// Copies stay in the link's memory; when that is full, messages have memory of their own.
TEST_F(SameHostLinkTest, AReceiverMayKeepMoreThanTheLinkHasMemory) {
  Connect();
  constexpr size_t kCount = 50, kBytes = 3 << 20;
  const std::string text(kBytes, 'y');
  const auto descriptors = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::count_if(begin(files), end(files), [](const auto&) { return true; });
  };
  const auto before = descriptors();
  for (size_t i = 0; i < kCount; ++i) {
    const std::string head(i + 1, 'x');
    ASSERT_TRUE(pair_.client->Send(kMessage, {absl::string_view(head), absl::string_view(text)}, nullptr).ok());
  }
  std::vector<LinkBody> bodies = server_.Take(kCount);
  ASSERT_EQ(bodies.size(), kCount);
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(bodies[i].Join(), std::string(i + 1, 'x') + text) << i;
  EXPECT_EQ(descriptors(), before);
  Close();
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(bodies[i].Join(), std::string(i + 1, 'x') + text) << i;
}

TEST_F(SameHostLinkTest, MoreLargePiecesThanAMessageHasParts) {
  Connect();
  std::vector<std::string> texts;
  std::vector<absl::string_view> pieces;
  for (int i = 0; i < 200; ++i) texts.emplace_back(40'000, static_cast<char>(i));
  for (const std::string& text : texts) pieces.emplace_back(text);
  ASSERT_TRUE(pair_.client->Send(kMessage, pieces, nullptr).ok());
  std::string all;
  for (const std::string& text : texts) all += text;
  EXPECT_TRUE(server_.Take(1).at(0).Join() == all);
}

TEST_F(SameHostLinkTest, MessagesThatNobodyReadHoldNothing) {
  Connect();
  Exported first(1 << 20), second(1 << 20);
  Keeper keeper;
  // The receiver is gone after the first message; the second one is in the socket.
  ASSERT_TRUE(pair_.client->SendPieces(kMessage, {first.piece}).ok());
  server_.Take(1).clear();
  pair_.server->Close();
  pair_.client->SendPieces(kMessage, {second.piece}).IgnoreError();
  Close();
  EXPECT_FALSE(first.IsHeld());
  EXPECT_TRUE(Eventually([&] { return !second.IsHeld(); }));
}

// The greeting that gives the receiver the exported memory is unread, too.
TEST_F(SameHostLinkTest, AGreetingThatNobodyReadHoldsNothing) {
  Notification reading, closed;
  const Link::Handlers blocks{.receive =
                                  [&](const LinkMessage&, const LinkBody&) {
                                    reading.Notify();
                                    closed.WaitForNotification();
                                    return Link::Work();
                                  },
                              .lost = [](const absl::Status&) {}};
  absl::StatusOr<LinkPair> pair = MakeLinkPair(LinkKind::kSharedMemory, &loop_, client_.handlers(), blocks);
  ASSERT_TRUE(pair.ok()) << pair.status();
  ASSERT_TRUE(pair->client->Send(kMessage, {"first"}, nullptr).ok());
  reading.WaitForNotification();
  Exported unread(1 << 20);
  ASSERT_TRUE(pair->client->SendPieces(kMessage, {unread.piece}).ok());
  pair->server->Close();
  closed.Notify();
  pair->server.reset();
  EXPECT_TRUE(Eventually([&] { return !unread.IsHeld(); }));
}

// ---- Peers that write packets by hand ----

struct RawHeader {
  uint32_t magic = 0x326b6c54;
  uint32_t kind = 0;
  uint64_t call = 0;
  uint32_t code = 0, text_bytes = 0, parts = 0, exports = 0;
};
struct RawPart {
  uint32_t place = 0, reserved = 0;
  uint64_t offset = 0, bytes = 0, mark = 0;
};

std::string RawPacket(RawHeader header, const std::vector<RawPart>& parts = {}, const std::string& bytes = "") {
  if (header.parts == 0) header.parts = static_cast<uint32_t>(parts.size());
  std::string packet(reinterpret_cast<const char*>(&header), sizeof(header));
  packet.append(reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof(RawPart));
  return packet + bytes;
}

bool SendRaw(int socket, const std::string& packet, int file = -1) {
  iovec part{.iov_base = const_cast<char*>(packet.data()), .iov_len = packet.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (file >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &file, sizeof(int));
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size());
}

const RawHeader kRawHello{.kind = LinkMessage::kHello};
const RawHeader kRawExports{.kind = LinkMessage::kHello, .exports = 1};
const RawHeader kRawCall{.kind = LinkMessage::kCall};

class HostilePeerTest : public SameHostLinkTest {
 protected:
  // A link whose other end is `raw_`.
  void ConnectRaw() {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    raw_ = FileHandle(sockets[0]);
    keeper_ = std::make_unique<Keeper>();
    link_ = SameHostLink::Create(&loop_, FileHandle(sockets[1]), keeper_->handlers()).value();
    ASSERT_TRUE(link_->Start(Link::Side::kAccepted).ok());
    ASSERT_TRUE(SendRaw(raw_.get(), RawPacket(kRawHello), arena_->fd()));
  }
  ~HostilePeerTest() override {
    if (link_ != nullptr) link_->Close();
  }

  const std::shared_ptr<SharedMemory> arena_ = SharedMemory::Create(8192).value();
  const std::shared_ptr<SharedMemory> exports_ = SharedMemory::Create(1 << 20).value();
  FileHandle raw_;
  std::unique_ptr<Keeper> keeper_;
  std::shared_ptr<SameHostLink> link_;
};

TEST_F(HostilePeerTest, PartsThatAreNotThereEndTheLink) {
  enum : uint32_t { kInline, kBlock, kFile, kExported, kNone };
  const uint64_t most = ~uint64_t{0};
  const std::vector<RawPart> parts = {
      {.place = kInline, .bytes = 1},
      {.place = kInline, .bytes = most},
      {.place = kBlock, .offset = 0, .bytes = 1},
      {.place = kBlock, .offset = 65, .bytes = 1},
      {.place = kBlock, .offset = 64, .bytes = 8192},
      {.place = kBlock, .offset = most - 63, .bytes = 128},
      {.place = kFile, .bytes = 1},  // no file
      {.place = kExported, .offset = 1, .bytes = 1 << 20, .mark = 64},
      {.place = kExported, .offset = most, .bytes = 2, .mark = 64},
      {.place = kExported, .offset = 1 << 21, .bytes = 0, .mark = 64},
      {.place = kExported, .offset = 0, .bytes = most, .mark = 64},
      {.place = kExported, .offset = 0, .bytes = 64, .mark = 0},
      {.place = kExported, .offset = 0, .bytes = 64, .mark = 63},
      {.place = kExported, .offset = 0, .bytes = 64, .mark = 16384},
      {.place = kExported, .offset = 0, .bytes = 64, .mark = most - 63},
      {.place = kNone, .bytes = 0},
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    ConnectRaw();
    ASSERT_TRUE(SendRaw(raw_.get(), RawPacket(kRawExports), exports_->fd()));
    // A message that is right, and one that is not.
    ASSERT_TRUE(SendRaw(raw_.get(), RawPacket(kRawCall, {{.place = kExported, .bytes = 1 << 20, .mark = 64}})));
    EXPECT_EQ(keeper_->Take(1).at(0).size(), 1 << 20);
    ASSERT_TRUE(SendRaw(raw_.get(), RawPacket(kRawCall, {parts[i]})));
    EXPECT_TRUE(absl::IsInvalidArgument(keeper_->WaitForLoss())) << i;
  }
}

TEST_F(HostilePeerTest, ExportedMemoryThatIsNoneEndsTheLink) {
  // A part in memory that never came; memory that came twice, or is no memory.
  const RawPart part{.place = 3, .bytes = 64, .mark = 64};
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const FileHandle read_end(pipe_ends[0]), write_end(pipe_ends[1]);
  const std::vector<std::vector<std::pair<std::string, int>>> packets = {
      {{RawPacket(kRawCall, {part}), -1}},
      {{RawPacket(kRawExports), exports_->fd()}, {RawPacket(kRawExports), exports_->fd()}},
      {{RawPacket(kRawExports), read_end.get()}},
      {{RawPacket(kRawExports), -1}},
      {{RawPacket(kRawHello), arena_->fd()}},
      {{RawPacket({.kind = LinkMessage::kCall, .parts = 65}, {part}), -1}},
      {{RawPacket({.kind = LinkMessage::kCall, .parts = ~0u}, {part}), -1}},
      {{RawPacket({.kind = LinkMessage::kCall, .parts = 2}, {part}), -1}},
      {{RawPacket(kRawCall, {}, "more"), -1}},
  };
  for (size_t i = 0; i < packets.size(); ++i) {
    ConnectRaw();
    for (const auto& [packet, file] : packets[i]) ASSERT_TRUE(SendRaw(raw_.get(), packet, file));
    EXPECT_TRUE(absl::IsInvalidArgument(keeper_->WaitForLoss())) << i;
  }
}

// A sender may write to what it has sent: the bytes change, and nothing else happens.
TEST_F(HostilePeerTest, BytesThatChangeAfterTheyWereSent) {
  ConnectRaw();
  ASSERT_TRUE(SendRaw(raw_.get(), RawPacket(kRawExports), exports_->fd()));
  ASSERT_TRUE(SendRaw(raw_.get(), RawPacket(kRawCall, {{.place = 3, .bytes = 1 << 20, .mark = 64}})));
  const std::vector<LinkBody> bodies = keeper_->Take(1);
  exports_->data()[5] = 'z';
  EXPECT_EQ(bodies.at(0).pieces[0].data[5], 'z');
}

// A process that may have no more addresses: exported memory is as large as the machine's.
TEST_F(HostilePeerTest, WhatCannotBeMappedIsCopied) {
  const std::shared_ptr<SharedMemory> large = SharedMemory::Create(size_t{1} << 40).value();
  const uint64_t middle = uint64_t{1} << 39;
  const std::string bytes(5 << 20, 'b');
  std::copy(bytes.begin(), bytes.end(), large->data() + middle);
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  ASSERT_TRUE(file >> pages);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit few{.rlim_cur = pages * sysconf(_SC_PAGESIZE) + (uint64_t{1} << 30), .rlim_max = before.rlim_max};
  ConnectRaw();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &few), 0);
  const RawPart exported{.place = 3, .offset = middle, .bytes = bytes.size(), .mark = 64};
  arena_->data()[0] = 1;  // the mark
  const bool sent =
      SendRaw(raw_.get(), RawPacket(kRawExports), large->fd()) &&
      SendRaw(raw_.get(), RawPacket(kRawCall, {exported})) &&
      SendRaw(raw_.get(), RawPacket(kRawCall, {{.place = 2, .offset = middle, .bytes = 100}}), large->fd());
  std::vector<LinkBody> bodies;
  if (sent) bodies = keeper_->Take(2);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_TRUE(sent);
  ASSERT_EQ(bodies.size(), 2);
  EXPECT_EQ(bodies[0].Join(), bytes);
  EXPECT_EQ(bodies[1].Join(), bytes.substr(0, 100));
  EXPECT_EQ(arena_->data()[0], 0) << "the receiver holds nothing";
  large->data()[middle] = 'z';
  EXPECT_EQ(bodies[0].pieces[0].data[0], 'b');
}

// The other process ends with everything that it has received. It never lets go of anything itself.
TEST_F(HostilePeerTest, AReceiverThatDiesHoldsNothing) {
  for (const bool closed_before : {false, true}) {
    FileHandle port_holder = ListenTcp("127.0.0.1", 0).value();
    const int port = TcpPort(port_holder.get()).value();
    const FileHandle listener = ListenLocally(port, "dies").value();
    int lives[2];  // the child lives until the parent closes its end
    ASSERT_EQ(pipe(lives), 0);
    FileHandle child_end(lives[0]), parent_end(lives[1]);
    const int arena = arena_->fd();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(lives[1]);
      const absl::StatusOr<FileHandle> socket = ConnectLocally(port, "dies");
      if (!socket.ok() || !SendRaw(socket->get(), RawPacket(kRawHello), arena)) _exit(1);
      char c = 0;
      while (read(lives[0], &c, 1) > 0) {
      }
      _exit(0);
    }
    std::optional<FileHandle> socket;
    ASSERT_TRUE(Eventually([&] {
      absl::StatusOr<std::optional<FileHandle>> accepted = AcceptLocally(listener.get());
      if (accepted.ok() && accepted->has_value()) socket = *std::move(accepted);
      return socket.has_value();
    }));
    Keeper keeper;
    const auto link = SameHostLink::Create(&loop_, *std::move(socket), keeper.handlers()).value();
    ASSERT_TRUE(link->Start(Link::Side::kAccepted).ok());
    ASSERT_TRUE(Eventually([&] { return link->greeted(); }));
    Exported value(1 << 20);
    ASSERT_TRUE(link->SendPieces(kMessage, {value.piece}).ok());
    EXPECT_TRUE(value.IsHeld());
    if (closed_before) {
      link->Close();
      EXPECT_TRUE(value.IsHeld());
    }
    parent_end = FileHandle();
    if (!closed_before) {
      EXPECT_FALSE(keeper.WaitForLoss().ok());
    }
    EXPECT_TRUE(Eventually([&] { return !value.IsHeld(); }));
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    link->Close();
  }
}

}  // namespace
}  // namespace thalweg
