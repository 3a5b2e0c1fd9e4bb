// SPDX-License-Identifier: Apache-2.0
// Measures saving and restoring variables, compared with a plain write with fsync and a plain read of as
// many bytes. Prints medians of some rounds: MB/s, and seconds of CPU time. `save` writes a checkpoint with a new
// name, and `save again` replaces the one of the round before. Those that write take turns in going first, because
// a disk may be slower after some GB. A ratio is the median of the rounds' ratios to the plain write or read.
//
//   checkpoint --megabytes=1000 --variables=10 --folder=/tmp --rounds=3
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "thalweg/api.h"
#include "thalweg/base/clock.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(int, megabytes, 1000, "of all variables together");
ABSL_FLAG(int, variables, 10, "how many there are");
ABSL_FLAG(std::string, folder, "/tmp", "where to write");
ABSL_FLAG(int, rounds, 3, "how often each is measured");

namespace {

constexpr size_t kChunk = 4 << 20;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Measurement {
  double rate = 0;  // MB/s
  double cpu = 0;   // seconds
};

// Measures what `body` does with all bytes.
template <typename F>
absl::StatusOr<Measurement> MeasureOnce(F&& body) {
  const int64_t start = tw::NowNanos();
  const double cpu = CpuSeconds();
  RETURN_IF_ERROR(body());
  return Measurement{absl::GetFlag(FLAGS_megabytes) / (1e-9 * static_cast<double>(tw::NowNanos() - start)),
                     CpuSeconds() - cpu};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

absl::Status PlainWrite(const std::string& path) {
  const std::string chunk(kChunk, 'x');
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (file < 0) return tw::FileError("open", path, errno);
  for (int64_t left = absl::GetFlag(FLAGS_megabytes) * int64_t{1'000'000}; left > 0;) {
    const ssize_t n = write(file, chunk.data(), std::min<int64_t>(left, kChunk));
    if (n < 0) return tw::FileError("write", path, errno);
    left -= n;
  }
  const bool synced = fsync(file) == 0;
  close(file);
  return synced ? absl::OkStatus() : tw::FileError("fsync", path, errno);
}

// Reads into newly allocated memory, like a restore.
absl::Status PlainRead(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY);
  if (file < 0) return tw::FileError("open", path, errno);
  tw::Tensor memory(tw::kUint8, {absl::GetFlag(FLAGS_megabytes) * int64_t{1'000'000}});
  char* const bytes = static_cast<char*>(memory.raw());
  int64_t done = 0;
  while (done < memory.TotalBytes()) {
    const ssize_t n = read(file, bytes + done, std::min<int64_t>(kChunk, memory.TotalBytes() - done));
    if (n <= 0) break;
    done += n;
  }
  close(file);
  return done == memory.TotalBytes() ? absl::OkStatus() : tw::DataLoss(path, ": only ", done, " bytes");
}

absl::Status Measure() {
  tw::Graph graph;
  const tw::Scope s = graph.root();
  const int count = absl::GetFlag(FLAGS_variables);
  for (int i = 0; i < count; ++i) {
    tw::MakeVariable(s, absl::StrCat("v", i), {absl::GetFlag(FLAGS_megabytes) * int64_t{250'000} / count},
                     {.initializer = tw::initializers::Constant(i)});
  }
  const tw::Output init = tw::InitializeVariables(s);
  tw::Saver saver(s, {.max_to_keep = 1, .write_meta_graph = false});
  tw::Saver again(s, {.write_meta_graph = false});
  ASSIGN_OR_RETURN(const auto session, tw::Session::Create(graph));
  RETURN_IF_ERROR(session->Run({init}).status());
  const std::string folder = absl::StrCat(absl::GetFlag(FLAGS_folder), "/thalweg_checkpoint_bench");
  tw::FileSystem& files = tw::PosixFileSystem();
  RETURN_IF_ERROR(files.CreateDirectories(folder));
  const std::string plain = folder + "/plain", prefix = folder + "/model", one_prefix = folder + "/again";
  // Those that write come first.
  enum { kWrite, kSave, kSaveAgain, kRead, kRestore, kKinds };
  constexpr const char* kNames[] = {"plain write", "save", "save again", "plain read", "restore"};
  std::vector<Measurement> rounds[kKinds];
  RETURN_IF_ERROR(again.Save(*session, one_prefix).status());
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    const std::function<absl::Status()> bodies[kKinds] = {
        [&] { return PlainWrite(plain); },
        [&] { return saver.Save(*session, prefix, round).status(); },
        [&] { return again.Save(*session, one_prefix).status(); },
        [&] { return PlainRead(plain); },
        [&] { return saver.Restore(*session, absl::StrCat(prefix, "-", round)); },
    };
    for (int i = 0; i < kKinds; ++i) {
      const int kind = i < kRead ? (i + round) % kRead : i;
      ASSIGN_OR_RETURN(const Measurement measured, MeasureOnce(bodies[kind]));
      rounds[kind].push_back(measured);
      saver.AwaitDeletions();
    }
    RETURN_IF_ERROR(files.DeleteFile(plain));
  }
  for (int kind = 0; kind < kKinds; ++kind) {
    const auto median = [&](auto&& value) {
      std::vector<double> values;
      for (size_t round = 0; round < rounds[kind].size(); ++round) values.push_back(value(round));
      return Median(values);
    };
    std::printf("%-12s %6.0f MB/s %6.2f s CPU, ratio %.2f\n", kNames[kind],
                median([&](size_t i) { return rounds[kind][i].rate; }),
                median([&](size_t i) { return rounds[kind][i].cpu; }),
                median([&](size_t i) { return rounds[kind][i].rate / rounds[kind < kRead ? kWrite : kRead][i].rate; }));
  }
  return files.DeleteRecursively(folder);
}

}  // namespace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = Measure();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
