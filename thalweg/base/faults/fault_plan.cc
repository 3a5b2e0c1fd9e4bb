// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/faults/fault_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

using Kind = Fault::Kind;

const std::map<absl::string_view, Kind>& KindsByName() {
  static const auto* const kinds = new std::map<absl::string_view, Kind>{
      {"kill", Kind::kKill},   {"terminate", Kind::kTerminate}, {"stop", Kind::kStop},  {"hang", Kind::kHang},
      {"fail", Kind::kFail},   {"disk", Kind::kDiskFull},       {"drop", Kind::kDrop},  {"dup", Kind::kDuplicate},
      {"delay", Kind::kDelay}, {"partition", Kind::kPartition}, {"clock", Kind::kClock}};
  return *kinds;
}

std::string NameOf(Kind kind) {
  if (kind == Kind::kDiskSlow) return "disk";
  for (const auto& [name, k] : KindsByName()) {
    if (k == kind) return std::string(name);
  }
  return "";
}

// "5s" or "5s..9s".
bool ParseRange(absl::string_view text, absl::Duration* from, absl::Duration* to) {
  const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(text, absl::MaxSplits("..", 1));
  if (!absl::ParseDuration(ends.first, from) || *from < absl::ZeroDuration()) return false;
  *to = *from;
  return ends.second.empty() || (absl::ParseDuration(ends.second, to) && *to >= *from);
}

bool ParseRange(absl::string_view text, int64_t* from, int64_t* to) {
  const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(text, absl::MaxSplits("..", 1));
  if (!absl::SimpleAtoi(ends.first, from) || *from < 1) return false;
  *to = *from;
  return ends.second.empty() || (absl::SimpleAtoi(ends.second, to) && *to >= *from);
}

absl::Status CheckTask(absl::string_view text) {
  const size_t colon = text.rfind(':');
  int index = -1;
  if (colon == absl::string_view::npos || colon == 0 || !absl::SimpleAtoi(text.substr(colon + 1), &index) ||
      index < 0) {
    return InvalidArgument("\"", text, "\" is not a task: expected job:index, as in ps:0");
  }
  return absl::OkStatus();
}

class Parser {
 public:
  explicit Parser(uint64_t seed) : random_(seed) {}

  absl::StatusOr<Fault> Parse(absl::string_view key, absl::string_view value) {
    const auto kind = KindsByName().find(key);
    if (kind == KindsByName().end()) {
      return InvalidArgument("expected seed, ",
                             absl::StrJoin(KindsByName(), ", ", [](std::string* out, const auto& entry) {
                               absl::StrAppend(out, entry.first);
                             }));
    }
    Fault fault{.kind = kind->second};
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(value, absl::MaxSplits('@', 1));
    RETURN_IF_ERROR(ParseWhat(parts.first, &fault));
    if (!parts.second.empty()) RETURN_IF_ERROR(ParseWhen(parts.second, &fault));
    RETURN_IF_ERROR(Check(fault, parts.second.empty()));
    return fault;
  }

 private:
  absl::Status ParseWhat(absl::string_view text, Fault* fault) {
    switch (fault->kind) {
      case Kind::kKill:
      case Kind::kTerminate:
      case Kind::kStop:
      case Kind::kHang:
      case Kind::kFail:
        fault->task = std::string(text);
        return CheckTask(text);
      case Kind::kDrop:
      case Kind::kDuplicate: {
        double percent = 0;
        if (!absl::ConsumeSuffix(&text, "%") || !absl::SimpleAtod(text, &percent) || percent < 0 || percent > 100) {
          return InvalidArgument("expected 0% to 100%");
        }
        fault->probability = percent / 100;
        return absl::OkStatus();
      }
      case Kind::kDelay:
        if (ParseRange(text, &fault->delay, &fault->max_delay)) return absl::OkStatus();
        return InvalidArgument("expected a duration, as in 5ms or 0ms..20ms");
      case Kind::kPartition:
        return ParseSides(text, fault);
      case Kind::kDiskFull:
      case Kind::kDiskSlow:
        return ParseDisk(text, fault);
      case Kind::kClock:
        absl::ConsumePrefix(&text, "+");
        if (absl::ParseDuration(text, &fault->delay)) return absl::OkStatus();
        return InvalidArgument("expected +30s or -30s");
    }
    return absl::OkStatus();
  }

  static absl::Status ParseSides(absl::string_view text, Fault* fault) {
    const std::vector<absl::string_view> sides = absl::StrSplit(text, '|');
    if (sides.size() > 2) return InvalidArgument("expected two sides, as in ps:0|worker:0&worker:1");
    for (size_t i = 0; i < sides.size(); ++i) {
      for (const absl::string_view task : absl::StrSplit(sides[i], '&')) {
        RETURN_IF_ERROR(CheckTask(task));
        fault->sides[i].emplace_back(task);
      }
    }
    return absl::OkStatus();
  }

  // "full", "slow:20ms", "ps:0:full", "ps:0:slow:20ms".
  static absl::Status ParseDisk(absl::string_view text, Fault* fault) {
    std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
    if (parts.size() >= 3 && parts[0] != "slow") {
      fault->task = absl::StrCat(parts[0], ":", parts[1]);
      RETURN_IF_ERROR(CheckTask(fault->task));
      parts.erase(parts.begin(), parts.begin() + 2);
    }
    if (parts.size() == 1 && parts[0] == "full") return absl::OkStatus();
    fault->kind = Kind::kDiskSlow;
    if (parts.size() == 2 && parts[0] == "slow" && absl::ParseDuration(parts[1], &fault->delay)) {
      return absl::OkStatus();
    }
    return InvalidArgument("expected full or slow:20ms, maybe after a task: ps:0:full");
  }

  // "10s", "5s..9s", "step:120", "step:50..80", "POINT", "POINT:3"; then maybe "+3s".
  absl::Status ParseWhen(absl::string_view text, Fault* fault) {
    if (const size_t plus = text.rfind('+'); plus != absl::string_view::npos) {
      absl::Duration from, to;
      if (!ParseRange(text.substr(plus + 1), &from, &to)) {
        return InvalidArgument("\"", text.substr(plus), "\": expected how long it lasts, as in +3s");
      }
      fault->lasts = Draw(from, to);
      text = text.substr(0, plus);
    }
    absl::Duration from, to;
    if (ParseRange(text, &from, &to)) {
      fault->time = Draw(from, to);
      return absl::OkStatus();
    }
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
    fault->point = parts.first == "step" ? "worker.run_graph" : std::string(parts.first);
    if (FindFailPoint(fault->point) == nullptr) {
      return InvalidArgument(
          "\"", text, "\": expected a time (10s, 5s..9s), step:N, or a fail point: ",
          absl::StrJoin(FailPoints(), ", ", [](std::string* out, const FailPointInfo& p) { out->append(p.name); }));
    }
    if (parts.second.empty()) return absl::OkStatus();
    int64_t first = 0, last = 0;
    if (!ParseRange(parts.second, &first, &last)) {
      return InvalidArgument("\"", text, "\": expected a number from 1 after the colon, or a range: step:50..80");
    }
    fault->nth = std::uniform_int_distribution<int64_t>(first, last)(random_);
    return absl::OkStatus();
  }

  static absl::Status Check(const Fault& fault, bool any_time) {
    const bool of_task = fault.kind <= Kind::kFail;
    const bool of_disk = fault.kind == Kind::kDiskFull || fault.kind == Kind::kDiskSlow;
    if (of_task && any_time) return InvalidArgument("expected @ and a time: ps:0@10s, ps:0@step:120");
    if (!of_task && !fault.point.empty() && !of_disk) return InvalidArgument("expected a time after @, as in @10s+5s");
    if ((fault.kind == Kind::kFail || fault.kind == Kind::kHang) && fault.point.empty()) {
      return InvalidArgument("expected a fail point after @, as in ps:0@worker.apply:3");
    }
    if (fault.kind == Kind::kHang && fault.lasts == absl::InfiniteDuration()) {
      return InvalidArgument("expected how long it lasts, as in +3s");
    }
    if (fault.kind == Kind::kFail && !FindFailPoint(fault.point)->can_fail) {
      return InvalidArgument(fault.point, " cannot fail; kill, stop and hang are possible there");
    }
    return absl::OkStatus();
  }

  absl::Duration Draw(absl::Duration from, absl::Duration to) {
    const int64_t width = absl::ToInt64Microseconds(to - from);
    return from + absl::Microseconds(std::uniform_int_distribution<int64_t>(0, width)(random_));
  }

  std::mt19937_64 random_;
};

// The items, with the seed apart.
absl::StatusOr<std::vector<std::pair<absl::string_view, absl::string_view>>> SplitItems(absl::string_view text,
                                                                                        uint64_t* seed) {
  std::vector<std::pair<absl::string_view, absl::string_view>> items;
  *seed = std::random_device()();
  for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    item = absl::StripAsciiWhitespace(item);
    const size_t equals = item.find('=');
    if (equals == absl::string_view::npos) return InvalidArgument("--faults: \"", item, "\": expected name=value");
    const absl::string_view key = item.substr(0, equals), value = item.substr(equals + 1);
    if (key != "seed") {
      items.emplace_back(key, value);
    } else if (!absl::SimpleAtoi(value, seed)) {
      return InvalidArgument("--faults: \"", item, "\": expected a number");
    }
  }
  return items;
}

}  // namespace

absl::StatusOr<FaultPlan> FaultPlan::Parse(absl::string_view text) {
  FaultPlan plan;
  ASSIGN_OR_RETURN(const auto items, SplitItems(text, &plan.seed));
  Parser parser(plan.seed);
  for (const auto& [key, value] : items) {
    absl::StatusOr<Fault> fault = parser.Parse(key, value);
    if (!fault.ok()) return InvalidArgument("--faults: \"", key, "=", value, "\": ", fault.status().message());
    plan.faults.push_back(*std::move(fault));
  }
  return plan;
}

bool Fault::is_of_launcher() const {
  if (kind == Kind::kClock) return true;
  return point.empty() && (kind == Kind::kKill || kind == Kind::kTerminate || kind == Kind::kStop);
}

std::string Fault::ToString() const {
  std::string text = absl::StrCat(NameOf(kind), "=", task);
  switch (kind) {
    case Kind::kDiskFull:
      absl::StrAppend(&text, task.empty() ? "" : ":", "full");
      break;
    case Kind::kDiskSlow:
      absl::StrAppend(&text, task.empty() ? "" : ":", "slow:", absl::FormatDuration(delay));
      break;
    case Kind::kDrop:
    case Kind::kDuplicate:
      absl::StrAppend(&text, probability * 100, "%");
      break;
    case Kind::kDelay:
      absl::StrAppend(&text, absl::FormatDuration(delay));
      if (max_delay > delay) absl::StrAppend(&text, "..", absl::FormatDuration(max_delay));
      break;
    case Kind::kPartition:
      absl::StrAppend(&text, absl::StrJoin(sides[0], "&"), sides[1].empty() ? "" : "|", absl::StrJoin(sides[1], "&"));
      break;
    case Kind::kClock:
      absl::StrAppend(&text, delay < absl::ZeroDuration() ? "" : "+", absl::FormatDuration(delay));
      break;
    default:
      break;
  }
  absl::StrAppend(&text, "@", point.empty() ? absl::FormatDuration(time) : absl::StrCat(point, ":", nth));
  if (lasts != absl::InfiniteDuration()) absl::StrAppend(&text, "+", absl::FormatDuration(lasts));
  return text;
}

std::string FaultPlan::ToString() const {
  std::string text = absl::StrCat("seed=", seed);
  for (const Fault& fault : faults) absl::StrAppend(&text, ",", fault.ToString());
  return text;
}

}  // namespace thalweg
