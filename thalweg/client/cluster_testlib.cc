#include "thalweg/client/cluster_testlib.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "thalweg/base/logging.h"

namespace thalweg {
namespace {

// Ports that are free now. All are held until all are known, so that they
// differ.
std::vector<int> FreePorts(int n) {
  std::vector<int> sockets, ports;
  for (int i = 0; i < n; ++i) {
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    CHECK(bind(s, reinterpret_cast<sockaddr*>(&address), length) == 0);
    CHECK(getsockname(s, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    sockets.push_back(s);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int s : sockets) close(s);
  return ports;
}

}  // namespace

TestCluster::TestCluster(const std::map<std::string, int>& jobs, const std::vector<TaskId>& later,
                         const ServerOptions& options)
    : options_(options) {
  int tasks = 0;
  for (const auto& [job, count] : jobs) tasks += count;
  std::vector<int> ports = FreePorts(tasks);
  for (const auto& [job, count] : jobs) {
    for (int i = 0; i < count; ++i) {
      const absl::Status status = spec_.AddTask({job, i}, absl::StrCat("localhost:", ports.back()));
      CHECK(status.ok()) << status;
      ports.pop_back();
    }
  }
  for (const TaskId& task : spec_.tasks()) {
    if (std::find(later.begin(), later.end(), task) == later.end()) Start(task);
  }
}

void TestCluster::Start(const TaskId& task) {
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(spec_, task, options_);
  CHECK(server.ok()) << server.status();
  servers_[task] = *std::move(server);
}

}  // namespace thalweg
