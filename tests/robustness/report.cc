// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/str_format.h"

namespace thalweg {
namespace {

std::string Percentiles(std::vector<double> values) {
  if (values.empty()) return absl::StrFormat("%8s %8s %8s", "-", "-", "-");
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) { return values[static_cast<size_t>(q * (values.size() - 1))]; };
  return absl::StrFormat("%8.0f %8.0f %8.0f", at(0.5), at(0.99), values.back());
}

}  // namespace

std::string Report::ToString() const {
  std::map<std::string, std::vector<const FaultResult*>> by_kind;
  std::set<std::string> points;
  for (const FaultResult& result : results) {
    by_kind[result.kind].push_back(&result);
    if (!result.point.empty()) points.insert(result.point);
  }
  std::string text =
      absl::StrFormat("%-16s %7s   %26s   %26s\n%-16s %7s   %8s %8s %8s   %8s %8s %8s\n", "", "", "detection (ms)",
                      "recovery (ms)", "fault", "count", "p50", "p99", "max", "p50", "p99", "max");
  for (const auto& [kind, list] : by_kind) {
    std::vector<double> detection, recovery;
    for (const FaultResult* result : list) {
      if (result->detection_ms >= 0) detection.push_back(result->detection_ms);
      recovery.push_back(result->recovery_ms);
    }
    absl::StrAppendFormat(&text, "%-16s %7d   %s   %s\n", kind, list.size(), Percentiles(detection),
                          Percentiles(recovery));
  }
  absl::StrAppendFormat(&text,
                        "%d faults (%d not reached) at %d fail points; %d hangs, %d wrong; %d steps acknowledged, %d "
                        "undone by restores; %d checkpoints\n",
                        faults(), not_reached, points.size(), hangs, wrong, steps, steps_lost, checkpoints);
  return text;
}

void Report::Append(const std::string& path) const {
  std::ofstream file(path, std::ios::app);
  for (const FaultResult& r : results) {
    file << r.where << "," << r.kind << "," << r.point << "," << r.replication << "," << r.detection_ms << ","
         << r.recovery_ms << "\n";
  }
  file << "total," << not_reached << "," << hangs << "," << wrong << "," << steps << "," << steps_lost << ","
       << checkpoints << "\n";
}

}  // namespace thalweg
