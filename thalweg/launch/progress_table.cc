// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/progress_table.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace thalweg {
namespace {

constexpr absl::Duration kWindow = absl::Seconds(10);

// The text after the first separate occurrence of `word`, without leading blanks, ':' and '=';
// nullopt if the word does not occur.
std::optional<absl::string_view> After(absl::string_view text, absl::string_view word) {
  for (size_t at = text.find(word); at != absl::string_view::npos; at = text.find(word, at + 1)) {
    if (at > 0 && absl::ascii_isalpha(text[at - 1])) continue;
    absl::string_view rest = text.substr(at + word.size());
    while (!rest.empty() && (rest[0] == ' ' || rest[0] == ':' || rest[0] == '=')) rest.remove_prefix(1);
    if (rest.size() + at + word.size() < text.size()) return rest;
  }
  return std::nullopt;
}

std::optional<int64_t> TakeNumber(absl::string_view& text) {
  size_t n = 0;
  while (n < text.size() && absl::ascii_isdigit(text[n])) ++n;
  int64_t value = 0;
  if (n == 0 || !absl::SimpleAtoi(text.substr(0, n), &value)) return std::nullopt;
  text.remove_prefix(n);
  return value;
}

std::string ShortDuration(absl::Duration duration) {
  const int64_t s = absl::ToInt64Seconds(duration + absl::Milliseconds(500));
  if (s < 60) return absl::StrFormat("%ds", s);
  if (s < 3600) return absl::StrFormat("%dm%02ds", s / 60, s % 60);
  return absl::StrFormat("%dh%02dm", s / 3600, s / 60 % 60);
}

}  // namespace

std::optional<StepLine> ParseStepLine(absl::string_view line) {
  const std::string lower = absl::AsciiStrToLower(line);
  std::optional<absl::string_view> rest = After(lower, "step");
  if (!rest.has_value()) return std::nullopt;
  const std::optional<int64_t> step = TakeNumber(*rest);
  if (!step.has_value()) return std::nullopt;
  StepLine result{.step = *step};
  if (absl::StartsWith(*rest, "/")) {
    rest->remove_prefix(1);
    result.total = TakeNumber(*rest).value_or(0);
  }
  if (const auto loss = After(lower, "loss"); loss.has_value()) {
    const size_t end = std::min(loss->find_first_not_of("+-.0123456789einfa"), loss->size());
    double value = 0;
    if (absl::SimpleAtod(absl::StripSuffix(loss->substr(0, end), "."), &value)) result.loss = value;
  }
  return result;
}

bool IsPlainStepLine(absl::string_view line) {
  if (!ParseStepLine(line).has_value()) return false;
  // The words of such lines, as programs of TensorFlow and the examples write them.
  constexpr absl::string_view kWords[] = {
      "step", "steps", "global",     "train", "training", "loss", "accuracy", "learning", "rate",   "lr", "sec",
      "s",    "ms",    "eta",        "epoch", "batch",    "of",   "worker",   "examples", "per",    "d",  "h",
      "m",    "info",  "tensorflow", "e",     "nan",      "inf",  "speed",    "time",     "elapsed"};
  for (size_t i = 0; i < line.size();) {
    if (!absl::ascii_isalpha(line[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < line.size() && absl::ascii_isalpha(line[end])) ++end;
    const std::string word = absl::AsciiStrToLower(line.substr(i, end - i));
    if (std::find(std::begin(kWords), std::end(kWords), word) == std::end(kWords)) return false;
    i = end;
  }
  return true;
}

std::optional<double> LossOf(const TaskStatus& task) {
  std::optional<double> found;
  for (const ScalarSeries& scalar : task.scalars()) {
    if (scalar.values_size() == 0) continue;
    const double last = scalar.values(scalar.values_size() - 1);
    std::string name = absl::AsciiStrToLower(scalar.name());
    if (const size_t colon = name.rfind(':'); colon != std::string::npos) name.resize(colon);
    if (name == "loss") return last;
    if (!found.has_value() && absl::StrContains(name, "loss")) found = last;
  }
  return found;
}

ProgressTable::ProgressTable(std::vector<std::string> tasks, int64_t total_steps) : total_steps_(total_steps) {
  for (std::string& task : tasks) rows_.push_back({.name = std::move(task), .state = "starting"});
}

void ProgressTable::Track::Add(int64_t step, absl::Time now) {
  if (!samples.empty() && step < samples.back().second) samples.clear();  // it was restarted
  samples.emplace_back(now, step);
  while (samples.size() > 2 && now - samples[1].first > kWindow) samples.pop_front();
}

double ProgressTable::Track::rate(absl::Time now) const {
  if (samples.size() < 2) return 0;
  // If a task stops reporting steps, its rate falls to 0.
  const absl::Duration since =
      std::max(samples.back().first - samples.front().first,
               now - samples.back().first > kWindow ? now - samples.front().first : absl::Milliseconds(1));
  return static_cast<double>(samples.back().second - samples.front().second) / absl::ToDoubleSeconds(since);
}

bool ProgressTable::AddLine(size_t task, absl::string_view line, absl::Time now) {
  const std::optional<StepLine> told = ParseStepLine(line);
  if (!told.has_value()) return false;
  Row& row = rows_[task];
  row.track.Add(told->step, now);
  if (told->loss.has_value()) row.loss = told->loss;
  total_steps_ = std::max(total_steps_, told->total);
  if (total_.samples.empty() || told->step > total_.samples.back().second) total_.Add(told->step, now);
  return true;
}

std::string ProgressTable::Steps(const Track& track, absl::Time now) const {
  if (track.samples.empty()) return "";
  std::string text = absl::StrFormat("step %d", track.samples.back().second);
  if (total_steps_ > 0) absl::StrAppend(&text, "/", total_steps_);
  if (const double rate = track.rate(now); rate > 0) {
    absl::StrAppendFormat(&text, "  %.*f steps/s", rate < 10 ? 1 : 0, rate);
  }
  return text;
}

std::string ProgressTable::Line(const Row& row, int name_width, int state_width, absl::Time now) const {
  const std::string& state = row.told.has_value() && !row.told->trouble.empty() ? row.told->trouble : row.state;
  std::string line = absl::StrFormat("%-*s  %-*s  ", name_width, row.name, state_width, state);
  std::optional<double> loss = row.loss;
  if (row.told.has_value()) {
    loss = row.told->loss;
    if (row.told->steps > 0) absl::StrAppendFormat(&line, "%d steps", row.told->steps);
    if (const double rate = row.told->rate; rate > 0) {
      absl::StrAppendFormat(&line, "  %.*f steps/s", rate < 10 ? 1 : 0, rate);
    }
  } else {
    absl::StrAppend(&line, Steps(row.track, now));
  }
  if (loss.has_value()) absl::StrAppendFormat(&line, "  loss %.4g", *loss);
  if (row.told.has_value() && !row.told->http.empty()) absl::StrAppend(&line, "  ", row.told->http);
  return line;
}

std::string ProgressTable::TotalLine(int width, absl::Time now) const {
  if (!global_step_.has_value() && total_.samples.empty()) return "";
  std::string line = absl::StrFormat("%-*s  ", width, "total");
  int64_t step = 0;
  double rate = 0;
  const int64_t total = stop_step_ > 0 ? stop_step_ : total_steps_;
  if (global_step_.has_value()) {
    std::tie(step, rate) = *global_step_;
    absl::StrAppendFormat(&line, "step %d", step);
    if (total > 0) absl::StrAppend(&line, "/", total);
    if (rate > 0) absl::StrAppendFormat(&line, "  %.*f steps/s", rate < 10 ? 1 : 0, rate);
  } else {
    step = total_.samples.back().second;
    rate = total_.rate(now);
    absl::StrAppend(&line, Steps(total_, now));
  }
  if (rate > 0 && total > step) {
    const double left = seconds_left_ > 0 ? seconds_left_ : static_cast<double>(total - step) / rate;
    absl::StrAppend(&line, "  ETA ", ShortDuration(absl::Seconds(left)));
  }
  return line;
}

std::vector<std::string> ProgressTable::Rows(absl::Time now, size_t columns, size_t max_lines) const {
  size_t name_width = 5, state_width = 0;
  for (const Row& row : rows_) {
    name_width = std::max(name_width, row.name.size());
    state_width = std::max({state_width, row.state.size(), row.told.has_value() ? row.told->trouble.size() : 0});
  }
  std::vector<std::string> lines;
  for (const Row& row : rows_) {
    lines.push_back(Line(row, static_cast<int>(name_width), static_cast<int>(state_width), now));
  }
  std::string total = TotalLine(static_cast<int>(name_width + 2 + state_width), now);
  const size_t room = max_lines - (total.empty() ? 0 : 1);
  if (lines.size() > room) {
    lines.resize(room - 1);
    lines.push_back(absl::StrFormat("... %d more", rows_.size() - lines.size()));
  }
  if (!total.empty()) lines.push_back(std::move(total));
  for (std::string& line : lines) {
    absl::StripTrailingAsciiWhitespace(&line);
    if (line.size() > columns) line.resize(columns);
  }
  return lines;
}

}  // namespace thalweg
