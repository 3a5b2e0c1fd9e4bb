// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/similar_op.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "thalweg/graph/op_schema.h"

namespace thalweg {
namespace {

// The name without what marks a version: "ExperimentalFooV2" is a version of "Foo".
absl::string_view WithoutVersion(absl::string_view name) {
  absl::ConsumePrefix(&name, "Experimental");
  absl::string_view base = name;
  while (!base.empty() && absl::ascii_isdigit(base.back())) base.remove_suffix(1);
  return base.size() < name.size() && absl::ConsumeSuffix(&base, "V") ? base : name;
}

// The number of letters to insert, remove or replace: Levenshtein's distance.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string MostSimilarName(absl::string_view name, const std::vector<std::string>& names) {
  constexpr size_t kLongest = 200;  // names come from clients
  if (name.size() > kLongest) return "";
  const std::string* best = nullptr;
  size_t least = std::numeric_limits<size_t>::max();
  for (const std::string& other : names) {
    const size_t distance = WithoutVersion(other) == WithoutVersion(name) ? 0 : Distance(name, other);
    if (distance < least) {
      least = distance;
      best = &other;
    }
  }
  return best == nullptr || least > name.size() / 3 ? "" : *best;
}

std::string SuggestSimilarOp(absl::string_view op) {
  std::vector<std::string> names;
  for (const OpSchema* schema : OpRegistry::Global().All()) {
    if (schema->def.name()[0] != '_') names.push_back(schema->def.name());  // others are only for the runtime
  }
  const std::string similar = MostSimilarName(op, names);
  return similar.empty() ? "" : absl::StrCat("; the most similar op type is '", similar, "'");
}

}  // namespace thalweg
