// A named thread that is joined.
#pragma once

#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"

namespace thalweg {

// Runs `body` on a thread of its own; the destructor waits for it to return.
// The name is what debuggers and `top -H` show: its first 15 characters count.
class Thread {
 public:
  Thread(const std::string& name, absl::AnyInvocable<void()> body);
  ~Thread() { thread_.join(); }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

 private:
  std::thread thread_;
};

// Number of processors that this process may use, at least 1.
int AvailableCores();

}  // namespace thalweg
