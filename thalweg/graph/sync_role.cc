// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/sync_role.h"

#include <string>

#include "absl/container/flat_hash_map.h"
#include "thalweg/base/logging.h"

namespace thalweg {
namespace {

using SyncRoles = absl::flat_hash_map<std::string, SyncRole>;

// A function, because registrations of other files may run before the constants of this one exist.
SyncRoles& AllSyncRoles() {
  static SyncRoles& roles = *new SyncRoles();
  return roles;
}

}  // namespace

SyncRole SyncRoleOf(const Node& node) {
  const SyncRoles& roles = AllSyncRoles();
  const auto it = roles.find(node.op());
  return it == roles.end() ? SyncRole::kNone : it->second;
}

SyncRoleRegistration::SyncRoleRegistration(absl::string_view op, SyncRole role) {
  CHECK(AllSyncRoles().emplace(op, role).second) << "op " << op << " has a role already";
}

}  // namespace thalweg
