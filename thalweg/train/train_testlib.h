// What tests of sessions and checkpoints share.
#pragma once

#include <sys/resource.h>

#include <csignal>

#include "thalweg/base/folder_testlib.h"
#include "thalweg/base/logging.h"

namespace thalweg {

// No file of this process gets larger than `bytes`: to the writer it is a disk
// that is full. Ends with the object.
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
