// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/checkpoints/checkpoint_state.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "google/protobuf/text_format.h"
#include "thalweg/base/file_path.h"
#include "thalweg/base/status.h"
#include "thalweg/checkpoint/bundle.h"
#include "thalweg/checkpoint/bundle_index.h"
#include "thalweg/proto/saver.pb.h"
#include "thalweg/train/session/wait_backoff.h"

namespace thalweg {
namespace {

// Paths in the list are clean: who compares them need not care how a folder was
// spelled.
std::string Join(const std::string& folder, const std::string& path) {
  if (folder.empty() || absl::StartsWith(path, "/") || !SchemeOf(path).empty()) return internal::CleanPath(path);
  return internal::CleanPath(absl::StrCat(folder, "/", path));
}

std::string Relative(const std::string& folder, const std::string& path) {
  const std::string clean = internal::CleanPath(path), in = internal::CleanPath(folder);
  return std::string(absl::StripPrefix(clean, in == "/" ? in : in + "/"));
}

// DATA_LOSS if a data file ends before what the index says is in it.
absl::Status DataIsThere(FileSystem& files, const std::string& prefix, const BundleIndex& index) {
  std::map<int, int64_t> ends;  // by data file: the end of its last tensor
  for (const auto& [key, value] : index.entries()) {
    ASSIGN_OR_RETURN(const tensorflow::BundleEntryProto tensor, index.Parse(key, value));
    if (tensor.slices_size() > 0) continue;  // its slices have their own entries
    int64_t& end = ends[tensor.shard_id()];
    end = std::max(end, tensor.offset() + tensor.size());
  }
  for (const auto& [shard, end] : ends) {
    const std::string path = DataPath(prefix, shard, index.header().num_shards());
    ASSIGN_OR_RETURN(const uint64_t size, files.FileSize(path));
    if (static_cast<int64_t>(size) < end) return DataLoss(path, " has ", size, " bytes, expected at least ", end);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReplaceFile(FileSystem& files, const std::string& path, absl::string_view contents) {
  const std::string temporary_path = internal::TemporaryPath(path);
  internal::TemporaryFiles temporary(files);
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.NewWritableFile(temporary_path));
  temporary.Add(temporary_path);
  RETURN_IF_ERROR(file->Append(contents));
  RETURN_IF_ERROR(file->Sync());
  RETURN_IF_ERROR(file->Close());
  RETURN_IF_ERROR(files.Rename(temporary_path, path));
  temporary.Keep();
  return files.SyncDirectory(internal::Folder(path));
}

std::string NotFinitePath(const std::string& prefix) { return absl::StrCat(prefix, ".not_finite"); }

absl::StatusOr<CheckpointState> ReadCheckpointState(const std::string& folder, const CheckpointStateOptions& options) {
  const std::string path = Join(folder, options.file);
  ASSIGN_OR_RETURN(const std::string text, options.files->ReadFileToString(path));
  tensorflow::CheckpointState proto;
  if (!google::protobuf::TextFormat::ParseFromString(text, &proto) || proto.model_checkpoint_path().empty()) {
    return DataLoss(path, " is not a list of checkpoints: expected a tensorflow.CheckpointState in text form");
  }
  CheckpointState state{.latest = Join(folder, proto.model_checkpoint_path()),
                        .last_preserved = proto.last_preserved_timestamp()};
  for (int i = 0; i < proto.all_model_checkpoint_paths_size(); ++i) {
    const bool has_time = i < proto.all_model_checkpoint_timestamps_size();
    state.saved.push_back({.prefix = Join(folder, proto.all_model_checkpoint_paths(i)),
                           .timestamp = has_time ? proto.all_model_checkpoint_timestamps(i) : 0});
    state.saved.back().not_finite = options.files->FileExists(NotFinitePath(state.saved.back().prefix)).ok();
  }
  return state;
}

absl::Status WriteCheckpointState(const std::string& folder, const CheckpointState& state,
                                  const CheckpointStateOptions& options) {
  tensorflow::CheckpointState proto;
  proto.set_model_checkpoint_path(Relative(folder, state.latest));
  for (const SavedCheckpoint& saved : state.saved) {
    proto.add_all_model_checkpoint_paths(Relative(folder, saved.prefix));
    proto.add_all_model_checkpoint_timestamps(saved.timestamp);
  }
  proto.set_last_preserved_timestamp(state.last_preserved);
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(proto, &text)) return Internal("the list cannot be written as text");
  return ReplaceFile(*options.files, Join(folder, options.file), text);
}

absl::Status CheckpointExists(const std::string& prefix, FileSystem& files) {
  const absl::StatusOr<BundleIndex> index = BundleIndex::Read(files, prefix);
  if (index.ok()) return DataIsThere(files, prefix, *index);
  if (!absl::IsNotFound(index.status())) return index.status();
  // The older format is one file, or several that the prefix is a pattern for.
  if (files.FileExists(prefix).ok() && !files.ListDirectory(prefix).ok()) return absl::OkStatus();
  return NotFound("there is no checkpoint ", prefix, ": ", IndexPath(prefix), " does not exist");
}

absl::StatusOr<std::string> LatestCheckpoint(const std::string& folder, const CheckpointStateOptions& options) {
  ASSIGN_OR_RETURN(const CheckpointState state, ReadCheckpointState(folder, options));
  const absl::Status exists = CheckpointExists(state.latest, *options.files);
  if (exists.ok()) return state.latest;
  for (auto saved = state.saved.rbegin(); saved != state.saved.rend(); ++saved) {
    if (saved->prefix == state.latest || !CheckpointExists(saved->prefix, *options.files).ok()) continue;
    LOG(WARNING) << "The latest checkpoint cannot be used, using " << saved->prefix << " instead: " << exists;
    return saved->prefix;
  }
  return Prepend(exists, absl::StrCat("the latest checkpoint of ", folder, " cannot be used: "));
}

absl::StatusOr<std::vector<std::string>> UsableCheckpoints(const std::string& folder,
                                                           const CheckpointStateOptions& options) {
  ASSIGN_OR_RETURN(std::string latest, LatestCheckpoint(folder, options));
  ASSIGN_OR_RETURN(const CheckpointState state, ReadCheckpointState(folder, options));
  std::vector<std::string> usable = {std::move(latest)};
  for (auto saved = state.saved.rbegin(); saved != state.saved.rend(); ++saved) {
    const bool listed = std::find(usable.begin(), usable.end(), saved->prefix) != usable.end();
    if (!listed && CheckpointExists(saved->prefix, *options.files).ok()) usable.push_back(saved->prefix);
  }
  return usable;
}

absl::StatusOr<std::string> WaitForCheckpoint(const std::string& folder, const std::string& last,
                                              absl::Duration timeout, const CheckpointStateOptions& options) {
  WaitBackoff backoff(timeout);
  const std::string seen = internal::CleanPath(last);
  while (true) {
    absl::StatusOr<std::string> latest = LatestCheckpoint(folder, options);
    if (latest.ok() ? *latest != seen : !absl::IsNotFound(latest.status())) return latest;
    RETURN_IF_ERROR(backoff.Pause(absl::StrCat("for a checkpoint in ", folder, last.empty() ? "" : " after ", last)));
  }
}

}  // namespace thalweg
