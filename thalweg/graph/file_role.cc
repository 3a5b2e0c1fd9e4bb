// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/file_role.h"

#include "thalweg/graph/op_roles.h"

namespace thalweg {

FileRole FileRoleOf(absl::string_view op) { return OpRoles<FileRole>::Of(op); }

bool WritesFiles(absl::string_view op) {
  const FileRole role = FileRoleOf(op);
  return role == FileRole::kWrite || role == FileRole::kSave;
}

FileRoleRegistration::FileRoleRegistration(absl::string_view op, FileRole role) {
  OpRoles<FileRole>::Declare(op, role);
}

}  // namespace thalweg
