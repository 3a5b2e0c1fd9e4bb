// Device names: "/job:ps/replica:0/task:1/device:CPU:0", whole or in part, in
// the forms that programs write: "/cpu:0", "/job:ps", "/device:CPU:*".
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace thalweg {

// Parts that are not set match anything. A value.
struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;  // upper case: "CPU"
  std::optional<int> id;

  // INVALID_ARGUMENT, with the text, if it is no device name. "" is valid and
  // matches everything; a part of '*' is one that is not set.
  static absl::StatusOr<DeviceName> Parse(absl::string_view text);

  // Only the parts that are set: "/job:ps/task:1".
  std::string ToString() const;
  bool is_full() const { return job && replica && task && type && id; }
  bool empty() const { return !job && !replica && !task && !type && !id; }

  // True if every part that this one sets is the same in `full`.
  bool Matches(const DeviceName& full) const;
  // This name with the parts that `inner` sets taken from it: how device scopes
  // nest.
  DeviceName MergedWith(const DeviceName& inner) const;
  // What both ask for; INVALID_ARGUMENT if they contradict each other.
  static absl::StatusOr<DeviceName> Intersect(const DeviceName& a, const DeviceName& b);

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

// "/job:ps/replica:0/task:1" of a full name: the task a device belongs to.
std::string TaskOf(const DeviceName& name);

}  // namespace thalweg
