// SPDX-License-Identifier: Apache-2.0
// The file `checkpoint` of a folder: which checkpoints are in it and which is
// the latest. TensorFlow's, as text; it is replaced in one step.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/file_system.h"

namespace thalweg {

// One checkpoint of a folder.
struct SavedCheckpoint {
  std::string prefix;    // without what may be left out of a path: "dir/m-1", not "./dir//m-1"
  double timestamp = 0;  // seconds since 1970; 0: not known
  // Whether a value is infinite or no number. A file beside the checkpoint says so,
  // since TensorFlow's list has no place for it.
  bool not_finite = false;
};

// The checkpoints of a folder, as its file "checkpoint" lists them.
struct CheckpointState {
  std::string latest;                  // the prefix of the latest
  std::vector<SavedCheckpoint> saved;  // those that are kept, oldest first
  double last_preserved = 0;           // when the last that is kept for good was saved
};

struct CheckpointStateOptions {
  std::string file = "checkpoint";
  FileSystem* files = &PosixFileSystem();
};

// NOT_FOUND if there is no such file, DATA_LOSS if it holds something else.
absl::StatusOr<CheckpointState> ReadCheckpointState(const std::string& folder,
                                                    const CheckpointStateOptions& options = {});
// On disk when it returns. Checkpoints in the folder are written without it, so
// that it can be moved.
absl::Status WriteCheckpointState(const std::string& folder, const CheckpointState& state,
                                  const CheckpointStateOptions& options = {});

// The prefix of the latest checkpoint of the folder. If its index is missing or
// damaged, or its data not all there, that of the latest before it, with a
// warning. NOT_FOUND if there is none.
absl::StatusOr<std::string> LatestCheckpoint(const std::string& folder, const CheckpointStateOptions& options = {});

// All checkpoints of the folder that are not known to be damaged, the latest
// first: what to try in turn, since damaged data is found only when it is read.
// NOT_FOUND if there is none.
absl::StatusOr<std::vector<std::string>> UsableCheckpoints(const std::string& folder,
                                                           const CheckpointStateOptions& options = {});

// The file that says that a checkpoint has values that are no numbers.
std::string NotFinitePath(const std::string& prefix);

// Waits for a checkpoint other than `last` to be the latest, and returns it: for
// a program that follows a training. Sees it within a quarter of a second.
// DEADLINE_EXCEEDED if there is none in time.
absl::StatusOr<std::string> WaitForCheckpoint(const std::string& folder, const std::string& last,
                                              absl::Duration timeout, const CheckpointStateOptions& options = {});

// OK if there is a checkpoint of that prefix, in either format. DATA_LOSS if its
// index is damaged or a file is too short; the data itself is not read.
absl::Status CheckpointExists(const std::string& prefix, FileSystem& files = PosixFileSystem());

// Puts `contents` in the place of a file, in one step; on disk when it returns.
absl::Status ReplaceFile(FileSystem& files, const std::string& path, absl::string_view contents);

}  // namespace thalweg
