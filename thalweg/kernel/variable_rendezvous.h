// SPDX-License-Identifier: Apache-2.0
// A rendezvous that can send a variable instead of a value.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "thalweg/kernel/variable.h"

namespace thalweg {

// Implemented by rendezvous whose receivers request values. The receiver gets the value
// that the variable has at the time of the request, not of the send. In TensorFlow, a
// tensor that waits to be fetched is the variable's own memory. Thread-safe.
class VariableRendezvous {
 public:
  virtual ~VariableRendezvous() = default;
  // Fails like Rendezvous::Send(), and if the variable is not initialized.
  virtual absl::Status SendVariable(const std::string& key, std::shared_ptr<const Variable> variable) = 0;
};

}  // namespace thalweg
