// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/abbreviated_list.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace thalweg {

std::string AbbreviatedList(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  if (names.size() <= kShown) return absl::StrJoin(names, ", ");
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + kShown, ", "), " and ", names.size() - kShown,
                      " more");
}

}  // namespace thalweg
