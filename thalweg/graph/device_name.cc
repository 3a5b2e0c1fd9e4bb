// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/device_name.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

bool IsWord(absl::string_view text) {
  if (text.empty() || !absl::ascii_isalpha(text[0])) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_') return false;
  }
  return true;
}

bool ParseNumber(absl::string_view text, std::optional<int>* out) {
  if (text == "*") {
    out->reset();
    return true;
  }
  int value;
  if (!std::all_of(text.begin(), text.end(), absl::ascii_isdigit) || !absl::SimpleAtoi(text, &value)) return false;
  *out = value;
  return true;
}

bool ParseType(absl::string_view text, std::optional<std::string>* out) {
  if (text == "*") {
    out->reset();
    return true;
  }
  if (!IsWord(text)) return false;
  *out = absl::AsciiStrToUpper(text);
  return true;
}

// One part between slashes, without them: "job:ps", "device:CPU:0", "cpu:0".
bool ParsePart(absl::string_view part, DeviceName* name) {
  const std::vector<absl::string_view> words = absl::StrSplit(part, ':');
  const absl::string_view key = words[0];
  if (key == "job" && words.size() == 2) {
    if (words[1] == "*") {
      name->job.reset();
      return true;
    }
    if (!IsWord(words[1])) return false;
    name->job = std::string(words[1]);
    return true;
  }
  if (key == "replica" && words.size() == 2) return ParseNumber(words[1], &name->replica);
  if (key == "task" && words.size() == 2) return ParseNumber(words[1], &name->task);
  if (key == "device" && (words.size() == 2 || words.size() == 3)) {
    return ParseType(words[1], &name->type) && (words.size() == 2 || ParseNumber(words[2], &name->id));
  }
  // The short form: a type of any case, with or without a number.
  const bool is_key = key == "job" || key == "replica" || key == "task" || key == "device";
  if (is_key || words.size() > 2 || !ParseType(key, &name->type)) return false;
  return words.size() == 1 || ParseNumber(words[1], &name->id);
}

template <typename T>
bool PartMatches(const std::optional<T>& want, const std::optional<T>& have) {
  return !want.has_value() || want == have;
}

template <typename T>
bool IntersectPart(const std::optional<T>& b, std::optional<T>* a) {
  if (!a->has_value()) *a = b;
  return !b.has_value() || *a == b;
}

}  // namespace

absl::StatusOr<DeviceName> DeviceName::Parse(absl::string_view text) {
  DeviceName name;
  if (text.empty() || text == "/") return name;
  absl::string_view rest = text;
  absl::ConsumePrefix(&rest, "/");
  for (const absl::string_view part : absl::StrSplit(rest, '/')) {
    if (!ParsePart(part, &name)) {
      return InvalidArgument("Malformed device specification '", text, "': cannot read '", part, "'");
    }
  }
  return name;
}

std::string DeviceName::ToString() const {
  std::string text;
  if (job) absl::StrAppend(&text, "/job:", *job);
  if (replica) absl::StrAppend(&text, "/replica:", *replica);
  if (task) absl::StrAppend(&text, "/task:", *task);
  if (type || id) absl::StrAppend(&text, "/device:", type.value_or("*"), ":", id ? absl::StrCat(*id) : "*");
  return text;
}

bool DeviceName::Matches(const DeviceName& full) const {
  return PartMatches(job, full.job) && PartMatches(replica, full.replica) && PartMatches(task, full.task) &&
         PartMatches(type, full.type) && PartMatches(id, full.id);
}

DeviceName DeviceName::MergedWith(const DeviceName& inner) const {
  DeviceName merged = *this;
  if (inner.job) merged.job = inner.job;
  if (inner.replica) merged.replica = inner.replica;
  if (inner.task) merged.task = inner.task;
  if (inner.type) merged.type = inner.type;
  if (inner.id) merged.id = inner.id;
  return merged;
}

absl::StatusOr<DeviceName> DeviceName::Intersect(const DeviceName& a, const DeviceName& b) {
  DeviceName both = a;
  if (IntersectPart(b.job, &both.job) && IntersectPart(b.replica, &both.replica) && IntersectPart(b.task, &both.task) &&
      IntersectPart(b.type, &both.type) && IntersectPart(b.id, &both.id)) {
    return both;
  }
  return InvalidArgument("devices '", a, "' and '", b, "' contradict each other");
}

std::string TaskOf(const DeviceName& name) {
  DeviceName task = name;
  task.type.reset();
  task.id.reset();
  return task.ToString();
}

}  // namespace thalweg
