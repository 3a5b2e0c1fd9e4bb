// SPDX-License-Identifier: Apache-2.0
// Shared by tests of sessions and checkpoints.
#pragma once

#include <sys/resource.h>

#include <csignal>

#include "thalweg/base/folder_testlib.h"
#include "thalweg/base/logging.h"

namespace thalweg {

// While it lives, no file of this process can grow beyond `bytes`, as if the disk was full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() { CHECK(setrlimit(RLIMIT_FSIZE, &before_) == 0); }

 private:
  rlimit before_;
};

}  // namespace thalweg
