// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

absl::Status WithMessage(const absl::Status& status, const std::string& message) {
  absl::Status result(status.code(), message);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

}  // namespace

absl::Status Prepend(const absl::Status& status, absl::string_view text) {
  if (status.ok()) return status;
  return WithMessage(status, absl::StrCat(text, status.message()));
}

absl::Status Append(const absl::Status& status, absl::string_view text) {
  if (status.ok()) return status;
  return WithMessage(status, absl::StrCat(status.message(), text));
}

}  // namespace thalweg
