// SPDX-License-Identifier: Apache-2.0
// What an op does with files and checkpoints. By it, and not by the names of ops, tasks schedule slow writes, let
// updates continue while a checkpoint is written, and order checkpoints and training steps. The file that registers an
// op declares its role beside it:
//
//   const FileRoleRegistration kRoles[] = {{"WriteFile", FileRole::kWrite}};
#pragma once

#include "absl/strings/string_view.h"

namespace thalweg {

enum class FileRole {
  kNone,
  kWrite,     // writes files
  kSave,      // writes the values of variables to a checkpoint; needs them only until its kernel begins to write
  kRestore,   // reads the values of variables from a checkpoint
  kSnapshot,  // outputs the values that an earlier step has kept in memory, so that they are saved
};

// The role of an op.
FileRole FileRoleOf(absl::string_view op);

// True for ops that write files, which may take seconds.
bool WritesFiles(absl::string_view op);

// Declares the role of an op. Meant for constants at namespace scope: roles do not change after the start of main().
// REQUIRES: the op has no role yet (CHECKed: a programming error).
class FileRoleRegistration {
 public:
  FileRoleRegistration(absl::string_view op, FileRole role);
};

}  // namespace thalweg
