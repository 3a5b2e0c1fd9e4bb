// SPDX-License-Identifier: Apache-2.0
// ScriptChannel: how a server calls Python functions of the program that started it.
//
// Each call that runs at a time has a connection of its own, which a thread of the
// program serves. The channel makes connections as they are needed, and hands the
// program its end of them over a socket that only the two have. Calls hold no threads
// here: a result that arrives goes on with its step on the thread that received it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/timer.h"
#include "thalweg/kernel/script_functions.h"
#include "thalweg/transport/shared_memory.h"
#include "thalweg/transport/socket_loop.h"

namespace thalweg {

// Thread-safe.
class ScriptChannel final : public ScriptFunctions {
 public:
  // Functions that run at a time. Further calls wait for one of them to end.
  static constexpr int kMaxConnections = 128;
  // If no function ends for this long, the calls that wait fail with RESOURCE_EXHAUSTED: the
  // functions that run probably wait for them. Long, since slow functions share the
  // program's interpreter and may all end late.
  static constexpr absl::Duration kStallLimit = absl::Minutes(10);

  // Takes over `socket`, a connected stream socket of the Unix domain. INVALID_ARGUMENT
  // if it is not one. When the other end is closed, calls fail with UNAVAILABLE.
  static absl::StatusOr<std::shared_ptr<ScriptChannel>> Create(FileHandle socket,
                                                               absl::Duration stall_limit = kStallLimit);
  ~ScriptChannel() override;  // calls that wait end with CANCELLED

  void Call(ScriptCall call, Cancellation& cancellation, Done done) override;
  std::string Describe() const override { return "the functions of a program"; }

 private:
  struct Waiting;
  class Connection;
  class Control;
  ScriptChannel();

  Timer timer_;
  SocketLoop loop_;
  std::shared_ptr<Control> control_;
};

}  // namespace thalweg
