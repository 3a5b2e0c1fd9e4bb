// SPDX-License-Identifier: Apache-2.0
// Functions of the program that a server belongs to: what tf.py_func's ops call.
// The devices of such a server have one of these among their resources.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/kernel/device.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

struct ScriptCall {
  std::string token;   // the name under which the program keeps the function
  bool eager = false;  // the function takes eager tensors instead of arrays
  std::vector<Tensor> inputs;
  // How often to call the function at most, one call after the other. The program stops earlier after an error, or when
  // the results have become large or have taken long.
  uint32_t repeat = 1;
};
using ScriptResult = absl::StatusOr<std::vector<Tensor>>;
// One result, and those of the repeated calls. Only the last can be an error.
using ScriptResults = std::vector<ScriptResult>;

// Thread-safe.
class ScriptFunctions : public Resource {
 public:
  // A container of its own, so that Session.reset() leaves it alone.
  static constexpr char kContainer[] = "thalweg/script", kName[] = "functions";
  // REQUIRES: there is a result.
  using Done = absl::AnyInvocable<void(ScriptResults)>;

  // Calls a function of the program. `done` runs exactly once, on any thread. If
  // `cancellation` fires first it runs at once: the function goes on in the program,
  // and its results are dropped.
  virtual void Call(ScriptCall call, Cancellation& cancellation, Done done) = 0;

  // The functions that ops on `device` can call; NOT_FOUND if there is no program.
  static absl::StatusOr<std::shared_ptr<ScriptFunctions>> On(Device& device) {
    return device.resources().Find<ScriptFunctions>(kContainer, kName);
  }
  static absl::Status Install(std::shared_ptr<ScriptFunctions> functions, Device& device) {
    return device.resources().Create<ScriptFunctions>(kContainer, kName, std::move(functions));
  }
};

// Results of one function that the caller is going to need. A caller that calls a function again and again with the
// same inputs, such as a dataset's generator, puts it among the resources of its steps; the function's node fills and
// empties it. Used by one call at a time.
struct ScriptReadAhead final : public Resource {
  static constexpr char kName[] = "results made ahead";
  std::string Describe() const override { return "results of a Python function"; }

  uint32_t wanted = 1;  // results that the caller is going to need, this one included
  std::deque<ScriptResult> results;
};

}  // namespace thalweg
