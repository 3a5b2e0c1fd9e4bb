// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/fake_clock.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/glob.h"
#include "thalweg/base/status.h"

namespace thalweg {

absl::StatusOr<FakeClock> FakeClock::Make() {
  const absl::StatusOr<std::vector<std::string>> found =
      MatchingPaths(PosixFileSystem(), "/usr/lib/*/faketime/libfaketime.so.1");
  if (!found.ok() || found->empty()) {
    return FailedPrecondition("--faults: clock= needs libfaketime: install Debian's package libfaketime");
  }
  std::string file = (std::filesystem::temp_directory_path() / "thalweg-clock-XXXXXX").string();
  const int fd = mkstemp(file.data());
  if (fd < 0) return FileError("create", file, errno);
  close(fd);
  FakeClock clock((*found)[0], std::move(file));
  RETURN_IF_ERROR(clock.Set(absl::ZeroDuration()));
  return clock;
}

FakeClock::~FakeClock() {
  if (!file_.empty()) unlink(file_.c_str());
}

std::map<std::string, std::string> FakeClock::variables() const {
  return {{"LD_PRELOAD", library_},
          {"FAKETIME_TIMESTAMP_FILE", file_},
          {"FAKETIME_NO_CACHE", "1"},
          {"FAKETIME_DONT_FAKE_MONOTONIC", "1"},
          {"DONT_FAKE_MONOTONIC", "1"}};
}

absl::Status FakeClock::Set(absl::Duration ahead) {
  // Replaced in one step: readers never see half of it.
  const std::string next = absl::StrCat(file_, ".next");
  RETURN_IF_ERROR(PosixFileSystem().WriteStringToFile(next, absl::StrFormat("%+.3f\n", absl::ToDoubleSeconds(ahead))));
  return PosixFileSystem().Rename(next, file_);
}

}  // namespace thalweg
