// SPDX-License-Identifier: Apache-2.0
// The task whose program opened a session, kept among the session's resources. Tasks
// that run partitions of its steps read it to learn which task they work for.
#pragma once

#include <string>
#include <utility>

#include "thalweg/kernel/resource.h"

namespace thalweg {

class SessionOwner final : public Resource {
 public:
  static constexpr char kName[] = "session_owner";

  explicit SessionOwner(std::string task) : task_(std::move(task)) {}
  const std::string& task() const { return task_; }  // "/job:worker/replica:0/task:1"
  std::string Describe() const override { return "the session of " + task_; }

 private:
  const std::string task_;
};

}  // namespace thalweg
