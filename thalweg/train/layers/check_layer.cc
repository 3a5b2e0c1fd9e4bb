// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/layers/check_layer.h"

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"

namespace thalweg::layers {

bool CheckLayer(const Scope& s, absl::string_view layer, absl::string_view name, const Output& x,
                const std::function<absl::Status()>& check) {
  if (!s.ok()) return false;
  const absl::Status status = x ? check() : InvalidArgument("the input is missing");
  s.Fail(Prepend(status, absl::StrCat(layer, " '", s.FullName(name), "': ")));
  return s.ok();
}

absl::Status CheckFloating(const Output& x) {
  if (IsFloating(RemoveRef(x.dtype()))) return absl::OkStatus();
  return InvalidArgument("the input must be floating, got ", x.dtype());
}

}  // namespace thalweg::layers
