// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/sync_role.h"

#include "thalweg/graph/op_roles.h"

namespace thalweg {

SyncRole SyncRoleOf(const Node& node) { return OpRoles<SyncRole>::Of(node.op()); }

SyncRoleRegistration::SyncRoleRegistration(absl::string_view op, SyncRole role) {
  OpRoles<SyncRole>::Declare(op, role);
}

}  // namespace thalweg
