// SPDX-License-Identifier: Apache-2.0
// FakeClock: a wall clock for child processes that this process can set, by
// libfaketime (Debian's package of that name).
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace thalweg {

// Movable. Removes its file when it is destroyed.
class FakeClock {
 public:
  // FAILED_PRECONDITION if libfaketime is not installed.
  static absl::StatusOr<FakeClock> Make();
  ~FakeClock();
  FakeClock(FakeClock&& other) noexcept : library_(std::move(other.library_)), file_(std::move(other.file_)) {
    other.file_.clear();
  }
  FakeClock& operator=(FakeClock&&) = delete;

  // The environment of processes that live by this clock. Clocks that never jump
  // stay as they are.
  std::map<std::string, std::string> variables() const;
  // How far this clock is ahead of the machine's from now on.
  absl::Status Set(absl::Duration ahead);

 private:
  FakeClock(std::string library, std::string file) : library_(std::move(library)), file_(std::move(file)) {}
  std::string library_, file_;
};

}  // namespace thalweg
