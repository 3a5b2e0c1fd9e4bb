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
  std::string prefix;    // in its shortest form: "dir/m-1", not "./dir//m-1"
  double timestamp = 0;  // seconds since 1970; 0: not known
  // True if a value is NaN or infinite. A file beside the checkpoint marks it,
  // because TensorFlow's list has no field for it.
  bool not_finite = false;
};

// The checkpoints of a folder, as its file "checkpoint" lists them.
struct CheckpointState {
  std::string latest;                  // the prefix of the latest
  std::vector<SavedCheckpoint> saved;  // checkpoints that are kept, oldest first
  double last_preserved = 0;           // time of the last checkpoint that is kept for good; seconds since 1970
};

// The name and the file system of a list of checkpoints.
struct CheckpointStateOptions {
  std::string file = "checkpoint";         // name of the list within the folder
  FileSystem* files = &PosixFileSystem();  // file system to use; borrowed
};

// Reads the list of a folder. NOT_FOUND if it does not exist, DATA_LOSS if it
// cannot be parsed.
absl::StatusOr<CheckpointState> ReadCheckpointState(const std::string& folder,
                                                    const CheckpointStateOptions& options = {});
// Replaces the list of a folder and syncs it to disk. Paths below the folder are
// written relative to it, so that the folder can be moved.
absl::Status WriteCheckpointState(const std::string& folder, const CheckpointState& state,
                                  const CheckpointStateOptions& options = {});

// The prefix of the latest usable checkpoint of a folder. Logs a warning and falls
// back to an older one if the index is missing or damaged or data files are
// incomplete. NOT_FOUND if none is usable.
absl::StatusOr<std::string> LatestCheckpoint(const std::string& folder, const CheckpointStateOptions& options = {});

// All checkpoints of a folder that are not known to be damaged, latest first. Try
// them in turn: damage of the data is found only by reading it. NOT_FOUND if there
// is none.
absl::StatusOr<std::vector<std::string>> UsableCheckpoints(const std::string& folder,
                                                           const CheckpointStateOptions& options = {});

// The path of the file that marks a checkpoint with NaN or infinite values.
std::string NotFinitePath(const std::string& prefix);

// Waits until the latest checkpoint is another than `last` and returns its prefix.
// For programs that evaluate while another one trains. Polls four times a second.
// DEADLINE_EXCEEDED after `timeout`.
absl::StatusOr<std::string> WaitForCheckpoint(const std::string& folder, const std::string& last,
                                              absl::Duration timeout, const CheckpointStateOptions& options = {});

// OK if a checkpoint with that prefix exists, in either of TensorFlow's formats.
// DATA_LOSS if its index is damaged or a file is too short. Does not read the data.
absl::Status CheckpointExists(const std::string& prefix, FileSystem& files = PosixFileSystem());

// Replaces the contents of a file atomically and syncs them to disk.
absl::Status ReplaceFile(FileSystem& files, const std::string& path, absl::string_view contents);

}  // namespace thalweg
