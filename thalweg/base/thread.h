// SPDX-License-Identifier: Apache-2.0
// A named thread that its destructor joins.
#pragma once

#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"

namespace thalweg {

// Runs `body` on a new thread. The destructor waits for it to return. Debuggers and `top -H` show the
// first 15 characters of the name.
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
