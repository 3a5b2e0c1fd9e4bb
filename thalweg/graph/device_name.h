// SPDX-License-Identifier: Apache-2.0
// Full and partial device names: "/job:ps/replica:0/task:1/device:CPU:0", "/cpu:0", "/job:ps",
// "/device:CPU:*".
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace thalweg {

// Unset parts match anything. A value type.
struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;  // upper case: "CPU"
  std::optional<int> id;

  // INVALID_ARGUMENT, quoting the text, if it is not a device name. "" is valid and matches everything. A
  // part '*' counts as unset.
  static absl::StatusOr<DeviceName> Parse(absl::string_view text);

  // Only the parts that are set: "/job:ps/task:1".
  std::string ToString() const;
  bool is_full() const { return job && replica && task && type && id; }
  bool empty() const { return !job && !replica && !task && !type && !id; }

  // True if every set part of this name is the same in `full`.
  bool Matches(const DeviceName& full) const;
  // This name, overridden by the set parts of `inner`, as in nested device scopes.
  DeviceName MergedWith(const DeviceName& inner) const;
  // The name that satisfies both; INVALID_ARGUMENT if they contradict each other.
  static absl::StatusOr<DeviceName> Intersect(const DeviceName& a, const DeviceName& b);

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

// "/job:ps/replica:0/task:1" of a full name: the task a device belongs to.
std::string TaskOf(const DeviceName& name);

}  // namespace thalweg
