// A rendezvous that can send a variable instead of a value.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "thalweg/kernel/variable.h"

namespace thalweg {

// For rendezvous whose receivers ask for what they want. The receiver gets what the
// variable holds when it asks, not when it was sent: in TensorFlow a tensor that
// waits to be fetched is the variable's own memory. Thread-safe.
class VariableRendezvous {
 public:
  virtual ~VariableRendezvous() = default;
  // Fails as Rendezvous::Send() does, and if the variable has no value.
  virtual absl::Status SendVariable(const std::string& key, std::shared_ptr<const Variable> variable) = 0;
};

}  // namespace thalweg
