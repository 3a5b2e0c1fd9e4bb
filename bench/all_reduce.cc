// SPDX-License-Identifier: Apache-2.0
// All-reduce between processes, the collective itself: values of float32 are summed in memory that
// the processes of this host share (transport/host_group.h), or over TCP (transport/net_group.h).
//
//   all_reduce --ranks=4 --bytes=1024,1048576 [--seconds=1] [--arena=false] [--tcp]
//
// With --rank, this process is one member of a group on several hosts, which meet in a folder:
//
//   all_reduce --tcp --ranks=4 --rank=2 --host=10.0.0.3 --meet=/tmp/meet [--two_levels]
//
// With --two_levels, members with the same --host share memory (transport/two_level.h).
//
// Prints for every size: bytes, median microseconds of an all-reduce, microseconds of CPU time of
// all processes per all-reduce. bench/all_reduce.py compares with OpenMPI and gloo.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/short_macros.h"
#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/transport/host_group.h"
#include "thalweg/transport/net_group.h"
#include "thalweg/transport/two_level.h"

ABSL_FLAG(int, ranks, 2, "number of processes");
ABSL_FLAG(std::string, bytes, "1024,65536,1048576,16777216,104857600", "sizes of the values of each process");
ABSL_FLAG(double, seconds, 1, "how long each size is measured");
ABSL_FLAG(bool, arena, true, "values lie in the memory that the processes share; else they are copied there and back");
ABSL_FLAG(bool, tcp, false, "connect the processes by TCP in place of shared memory");
ABSL_FLAG(int, rank, -1, "this process's rank; -1: start all processes on this host");
ABSL_FLAG(std::string, host, "127.0.0.1", "with --tcp: address at which the others reach this process");
ABSL_FLAG(bool, two_levels, false, "with --tcp: merge in shared memory on every host, and over TCP between hosts");
ABSL_FLAG(std::string, meet, "", "with --tcp: an empty folder in which the processes exchange their addresses");

namespace thalweg {
namespace {

THALWEG_SIMD void AddFloats(float* into, const float* from, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) into[i] += from[i];
}
void Add(void* into, const void* from, int64_t n) {
  AddFloats(static_cast<float*>(into), static_cast<const float*>(from), n);
}

double CpuMicros() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1e6 * (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

class Member {
 public:
  explicit Member(ProcessGroup& group) : group_(group) {}

  void Measure(size_t bytes) {
    std::vector<float> own;
    ProcessGroup::Memory memory;
    float* values = nullptr;
    const auto n = static_cast<int64_t>(bytes / sizeof(float));
    absl::StatusOr<ProcessGroup::Memory> shared = absl::UnavailableError("not wanted");
    if (absl::GetFlag(FLAGS_arena)) shared = group_.Allocate(bytes);
    if (shared.ok()) {
      memory = *std::move(shared);
      values = reinterpret_cast<float*>(memory.data);
    } else {
      own.resize(n);
      values = own.data();
    }
    std::fill(values, values + n, 1.f);
    for (int i = 0; i < 3; ++i) AllReduce(values, n);
    CHECK(n == 0 || values[n - 1] == values[0]) << values[0] << " " << values[n - 1];
    std::fill(values, values + n, 0.f);  // sums stay small
    std::vector<double> micros;
    Barrier();
    const double cpu = CpuMicros();
    const int64_t start = NowNanos();
    // The first member says when it is over, so that all do as many.
    for (float go_on = 1; go_on != 0;) {
      const int64_t repeats = bytes <= (1 << 16) ? 50 : 1;
      for (int64_t i = 0; i < repeats; ++i) {
        const int64_t begin = NowNanos();
        AllReduce(values, n);
        micros.push_back(static_cast<double>(NowNanos() - begin) * 1e-3);
      }
      go_on = group_.rank() == 0 && static_cast<double>(NowNanos() - start) < 1e9 * absl::GetFlag(FLAGS_seconds);
      AllReduce(&go_on, 1);
    }
    float used = static_cast<float>((CpuMicros() - cpu) / static_cast<double>(micros.size()));
    AllReduce(&used, 1);
    std::nth_element(micros.begin(), micros.begin() + static_cast<ptrdiff_t>(micros.size() / 2), micros.end());
    if (group_.rank() == 0) std::printf("%zu %.2f %.2f\n", bytes, micros[micros.size() / 2], used);
    std::fflush(stdout);
    Barrier();
  }

 private:
  void AllReduce(float* values, int64_t n) {
    Check(group_.Run({.operation = HostOperation::kAllReduce,
                      .key = ++key_,
                      .elements = n,
                      .element_bytes = sizeof(float),
                      .values = values,
                      .merge = Add}));
  }
  void Barrier() { Check(group_.Run({.key = ++key_})); }
  static void Check(const absl::Status& status) { CHECK(status.ok()) << status; }

  ProcessGroup& group_;
  uint64_t key_ = 0;
};

// Joins over TCP. Members exchange their addresses as files.
absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinOverTcp(NetEndpoint& endpoint, const std::string& folder, int rank,
                                                          int ranks) {
  const std::string own = absl::StrCat(folder, "/", rank);
  std::ofstream(own + ".new") << endpoint.address().ToString();
  std::filesystem::rename(own + ".new", own);
  std::vector<NetAddress> addresses;
  std::vector<std::string> hosts;
  for (int r = 0; r < ranks; ++r) {
    std::string text;
    while (!std::getline(std::ifstream(absl::StrCat(folder, "/", r)), text)) usleep(1000);
    ASSIGN_OR_RETURN(addresses.emplace_back(), NetAddress::Parse(text));
    hosts.push_back(addresses.back().host);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ProcessGroup> group,
                   NetGroup::Join(endpoint, {.name = "bench", .rank = rank, .addresses = addresses, .hosts = hosts}));
  const RanksByHost by_host = GroupByHost(hosts);
  const std::vector<int>& neighbours = RanksOnHostOf(by_host, rank);
  if (!absl::GetFlag(FLAGS_two_levels) || neighbours.size() < 2) return group;
  const auto at = std::find(neighbours.begin(), neighbours.end(), rank) - neighbours.begin();
  ASSIGN_OR_RETURN(std::unique_ptr<ProcessGroup> on_host,
                   HostGroup::Join({.name = absl::StrCat("bench ", folder),
                                    .rank = static_cast<int>(at),
                                    .ranks = static_cast<int>(neighbours.size())}));
  return std::make_unique<TwoLevelGroup>(std::move(on_host), std::move(group), by_host);
}

int Main() {
  const int ranks = absl::GetFlag(FLAGS_ranks);
  const bool tcp = absl::GetFlag(FLAGS_tcp);
  const std::string name = absl::StrCat("bench-", getpid());
  const bool alone = absl::GetFlag(FLAGS_rank) >= 0;
  std::string folder = absl::GetFlag(FLAGS_meet);
  if (tcp && !alone) {
    folder = absl::StrCat("/tmp/", name);
    std::filesystem::create_directory(folder);
  }
  int rank = alone ? absl::GetFlag(FLAGS_rank) : 0;
  for (int r = 1; r < ranks && rank == 0 && !alone; ++r) {
    if (fork() == 0) rank = r;
  }
  {
    std::unique_ptr<NetEndpoint> endpoint;
    std::unique_ptr<ProcessGroup> group;
    if (tcp) {
      const std::string host = absl::GetFlag(FLAGS_host);
      endpoint = NetEndpoint::Listen({host}, host).value();
      group = JoinOverTcp(*endpoint, folder, rank, ranks).value();
    } else {
      group = HostGroup::Join({.name = name, .rank = rank, .ranks = ranks}).value();
    }
    Member member(*group);
    for (const absl::string_view size : absl::StrSplit(absl::GetFlag(FLAGS_bytes), ',')) {
      size_t bytes = 0;
      CHECK(absl::SimpleAtoi(size, &bytes)) << size;
      member.Measure(bytes);
    }
  }
  int failed = 0;
  for (int status = 0; rank == 0 && !alone && wait(&status) > 0;) failed += status != 0;
  if (tcp && !alone && rank == 0) std::filesystem::remove_all(folder);
  return failed;
}

}  // namespace
}  // namespace thalweg

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return thalweg::Main();
}
