// SPDX-License-Identifier: Apache-2.0
// OpRoles: what ops are for, declared by the files that register them. Code that treats some ops in a particular way
// asks for their role and does not know their names. graph/sync_role.h and graph/file_role.h are such roles.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/logging.h"

namespace thalweg {

// Role is an enum with a kNone.
template <typename Role>
class OpRoles {
 public:
  static Role Of(absl::string_view op) {
    const auto it = All().find(op);
    return it == All().end() ? Role::kNone : it->second;
  }

  // Only before main() begins. REQUIRES: the op has no role yet (CHECKed: a programming error).
  static void Declare(absl::string_view op, Role role) {
    CHECK(All().emplace(op, role).second) << "op " << op << " has a role already";
  }

 private:
  // A function, because declarations of other files may run before the constants of this one exist.
  static absl::flat_hash_map<std::string, Role>& All() {
    static auto& roles = *new absl::flat_hash_map<std::string, Role>();
    return roles;
  }
};

}  // namespace thalweg
