// SPDX-License-Identifier: Apache-2.0
// A member whose messages the test sends itself, one by one and in parts.
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/sleeping_threads_testlib.h"
#include "thalweg/transport/net_group.h"
#include "thalweg/transport/process_group_testlib.h"
#include "thalweg/transport/raw_socket_testlib.h"

namespace thalweg {
namespace {

// A group of two members. The test itself speaks for member 1.
class NetGroupWithATest : public testing::Test {
 protected:
  NetGroupWithATest() : endpoints_(2) {
    std::thread join([this] {
      auto peers = JoinNetMembers(*endpoints_.endpoints[1], {.group = "with a test",
                                                             .rank = 1,
                                                             .addresses = endpoints_.addresses,
                                                             .deadline = absl::Now() + absl::Seconds(60)});
      EXPECT_TRUE(peers.ok()) << peers.status();
      if (peers.ok()) sockets_ = std::move((*peers)[0]);
    });
    auto group = NetGroup::Join(*endpoints_.endpoints[0], {.name = "with a test", .addresses = endpoints_.addresses});
    join.join();
    EXPECT_TRUE(group.ok()) << group.status();
    if (group.ok()) group_ = *std::move(group);
  }
  void SetUp() override { ASSERT_TRUE(group_ != nullptr && sockets_.control.valid()); }

  // Member 1 sends the values of a broadcast.
  static HostCall BroadcastOf(uint64_t key, std::vector<double>& values) {
    HostCall call = CallOf(HostOperation::kBroadcast, key, values);
    call.root = 1;
    call.step = static_cast<int64_t>(key);
    return call;
  }
  static std::string ArrivalAt(const HostCall& call) {
    const NetArrival arrival{.key = call.key,
                             .step = call.step,
                             .elements = static_cast<uint64_t>(call.elements),
                             .operation = static_cast<uint32_t>(call.operation),
                             .tag = call.tag,
                             .root = call.root,
                             .element_bytes = call.element_bytes,
                             .rank_order = call.rank_order};
    const NetControlFrame frame{.type = NetControlFrame::kArrive, .bytes = sizeof(arrival)};
    return Bytes(&frame, sizeof(frame)) + Bytes(&arrival, sizeof(arrival));
  }
  static std::string ValuesFor(const HostCall& call, const std::vector<double>& values) {
    const NetDataFrame frame{.key = call.key, .offset = 0, .bytes = values.size() * sizeof(double)};
    return Bytes(&frame, sizeof(frame)) + Bytes(values.data(), frame.bytes);
  }
  static std::string Bytes(const void* from, size_t bytes) { return {static_cast<const char*>(from), bytes}; }
  static void Write(const FileHandle& socket, const std::string& bytes) {
    ASSERT_TRUE(WriteFully(socket.get(), bytes.data(), bytes.size()));
  }
  // The type of the next control frame of member 0.
  uint32_t ReadFrame() const {
    NetControlFrame frame;
    const auto read = [&](void* into, size_t bytes) {
      for (size_t have = 0; have < bytes;) {  // the socket does not block
        pollfd p{sockets_.control.get(), POLLIN, 0};
        poll(&p, 1, -1);
        const ssize_t n = recv(sockets_.control.get(), static_cast<char*>(into) + have, bytes - have, 0);
        if (n <= 0) return false;
        have += static_cast<size_t>(n);
      }
      return true;
    };
    if (!read(&frame, sizeof(frame))) return 0;
    std::string body(frame.bytes, '\0');
    return read(body.data(), body.size()) ? frame.type : 0;
  }

  static constexpr int64_t kElements = 10'000;
  const Endpoints endpoints_;
  NetPeer sockets_;
  std::unique_ptr<NetGroup> group_;
};

// Member 1 has heard of all arrivals and sends its values, while the step fails here before it has heard of member 1's.
TEST_F(NetGroupWithATest, ValuesOfAStepThatHasFailedHereAreDropped) {
  std::vector<double> values = ValuesOf(1, kElements), x(kElements);
  const HostCall failing = BroadcastOf(7, x), next = BroadcastOf(8, x);
  absl::Status status;
  Notification over;
  group_->Start(failing, [&](const absl::Status& result) {
    status = result;
    over.Notify();
  });
  ASSERT_EQ(ReadFrame(), NetControlFrame::kArrive);
  group_->Fail(absl::InternalError("enough"), failing.step);
  over.WaitForNotification();
  EXPECT_EQ(status, absl::InternalError("enough"));
  ASSERT_EQ(ReadFrame(), NetControlFrame::kFail);
  Write(sockets_.control, ArrivalAt(failing) + ArrivalAt(next));
  Write(sockets_.values, ValuesFor(failing, values));
  Notification next_over;
  group_->Start(next, [&](const absl::Status& result) {
    status = result;
    next_over.Notify();
  });
  ASSERT_EQ(ReadFrame(), NetControlFrame::kArrive);
  Write(sockets_.values, ValuesFor(next, values));
  next_over.WaitForNotification();
  EXPECT_EQ(status, absl::OkStatus()) << "the group goes on";
  EXPECT_EQ(x, values);
}

// The rest may come late, or never: a thread that looked for it again and again would keep a processor busy.
TEST_F(NetGroupWithATest, AThreadThatHasAPartOfAFrameSleeps) {
  std::vector<double> values = ValuesOf(1, kElements), x(kElements);
  const HostCall call = BroadcastOf(7, x);
  absl::Status status;
  Notification over;
  group_->Start(call, [&](const absl::Status& result) {
    status = result;
    over.Notify();
  });
  const auto write_with_pauses = [&](const FileHandle& socket, const std::string& bytes, size_t header) {
    size_t at = 0;
    for (const size_t cut : {size_t{1}, header - 1, header, header + 1, bytes.size()}) {
      Write(socket, bytes.substr(at, cut - at));
      at = cut;
      EXPECT_TRUE(AwaitRest()) << "after " << cut << " of " << bytes.size() << " bytes";
    }
  };
  write_with_pauses(sockets_.control, ArrivalAt(call), sizeof(NetControlFrame));
  write_with_pauses(sockets_.values, ValuesFor(call, values), sizeof(NetDataFrame));
  over.WaitForNotification();
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(x, values);
}

}  // namespace
}  // namespace thalweg
