// SPDX-License-Identifier: Apache-2.0
// Measures saving and restoring variables, compared with a plain write with fsync and a plain read of as
// many bytes: MB/s, the best of some rounds. The two that write alternate in going first, because a disk may
// be slower after some GB. After a save, a background thread deletes the previous checkpoint; the time for
// that is reported separately.
//
//   checkpoint --megabytes=1000 --variables=10 --folder=/tmp --rounds=3
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

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

// MB/s of what `body` does with all bytes.
template <typename F>
absl::StatusOr<double> Rate(F&& body) {
  const int64_t start = tw::NowNanos();
  RETURN_IF_ERROR(body());
  return absl::GetFlag(FLAGS_megabytes) / (1e-9 * static_cast<double>(tw::NowNanos() - start));
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
  ASSIGN_OR_RETURN(const auto session, tw::Session::Create(graph));
  RETURN_IF_ERROR(session->Run({init}).status());
  const std::string folder = absl::StrCat(absl::GetFlag(FLAGS_folder), "/thalweg_checkpoint_bench");
  tw::FileSystem& files = tw::PosixFileSystem();
  RETURN_IF_ERROR(files.CreateDirectories(folder));
  double best[4] = {};
  absl::Duration deletion = absl::InfiniteDuration();
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    const std::string plain = folder + "/plain", prefix = folder + "/model";
    double write = 0, save = 0;
    for (const bool plainly : {round % 2 == 0, round % 2 != 0}) {
      if (plainly) {
        ASSIGN_OR_RETURN(write, Rate([&] { return PlainWrite(plain); }));
      } else {
        ASSIGN_OR_RETURN(save, Rate([&] { return saver.Save(*session, prefix, round).status(); }));
        const int64_t saved = tw::NowNanos();
        saver.AwaitDeletions();
        if (round > 0) deletion = std::min(deletion, absl::Nanoseconds(tw::NowNanos() - saved));
      }
    }
    ASSIGN_OR_RETURN(const double read, Rate([&] { return PlainRead(plain); }));
    ASSIGN_OR_RETURN(const double restore,
                     Rate([&] { return saver.Restore(*session, absl::StrCat(prefix, "-", round)); }));
    const double rates[4] = {write, save, read, restore};
    for (int i = 0; i < 4; ++i) best[i] = std::max(best[i], rates[i]);
    RETURN_IF_ERROR(files.DeleteFile(plain));
  }
  std::printf(
      "write_mb_per_second %.0f\nsave_mb_per_second %.0f\nread_mb_per_second %.0f\nrestore_mb_per_second %.0f\n",
      best[0], best[1], best[2], best[3]);
  if (deletion < absl::InfiniteDuration()) {
    std::printf("delete_seconds %.2f\n", absl::ToDoubleSeconds(deletion));
  }
  std::printf("save_ratio %.2f\nrestore_ratio %.2f\n", best[1] / best[0], best[3] / best[2]);
  return files.DeleteRecursively(folder);
}

}  // namespace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = Measure();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
