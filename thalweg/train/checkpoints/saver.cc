// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/checkpoints/saver.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "thalweg/base/status.h"
#include "thalweg/checkpoint/bundle.h"
#include "thalweg/checkpoint/bundle_reader.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/ops/string_ops.h"
#include "thalweg/proto/saver.pb.h"
#include "thalweg/train/checkpoints/meta_graph.h"
#include "thalweg/train/checkpoints/variable_slice.h"
#include "thalweg/train/session/abbreviated_list.h"

namespace thalweg {
namespace {

constexpr char kTemporary[] = "_temp_";  // and a number of 16 digits
constexpr size_t kTemporaryDigits = 16;
constexpr double kSecondsPerHour = 3600;
constexpr char kSnapshotScope[] = "snapshot";

std::string BaseName(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// The device that saves a variable: the CPU of its task, which can write files.
std::string SaveDevice(const Var& variable) {
  absl::StatusOr<DeviceName> name = DeviceName::Parse(variable.ref.node->device());
  if (!name.ok() || name->empty()) return "";
  if (!name->job && !name->task) return "";  // another device of the same task
  name->type = "CPU";
  name->id = 0;
  return name->ToString();
}

bool Contains(const std::vector<std::string>& sorted, const std::string& name) {
  return std::binary_search(sorted.begin(), sorted.end(), name);
}

std::string Describe(DType dtype, const Shape& shape) { return absl::StrCat(ToString(dtype), " ", shape.ToString()); }

// Logs a failed deletion. The files that are left do no harm.
void Log(const absl::Status& status) {
  if (!status.ok() && !absl::IsNotFound(status)) LOG(WARNING) << "Could not delete an old checkpoint: " << status;
}

// Removes "-100" from the front of a name behind its base.
void ConsumeStep(absl::string_view* suffix) {
  absl::string_view rest = *suffix;
  if (!absl::ConsumePrefix(&rest, "-")) return;
  const size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
  if (end > 0) *suffix = rest.substr(end);
}

bool IsAll(absl::string_view text, bool (*is_one)(unsigned char)) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_one);
}

// True for names that only saves give: the folder of one with several tasks, and
// files that were to be renamed. `suffix` is what comes behind base and step.
bool IsTemporary(absl::string_view suffix) {
  if (absl::ConsumePrefix(&suffix, kTemporary)) {
    return suffix.size() == kTemporaryDigits && IsAll(suffix, absl::ascii_isxdigit);
  }
  const size_t end = suffix.rfind(internal::kTemporarySuffix);
  if (end == absl::string_view::npos) return false;
  const absl::string_view kind = suffix.substr(0, end);
  return (kind.empty() || kind == ".index" || kind == ".meta" || absl::StartsWith(kind, ".data-")) &&
         IsAll(suffix.substr(end + std::strlen(internal::kTemporarySuffix)), absl::ascii_isdigit);
}

void DeleteCheckpoint(FileSystem& files, const std::string& prefix) {
  // Delete the index first, so that a crash does not leave a checkpoint with missing files.
  Log(files.DeleteFile(IndexPath(prefix)));
  Log(files.DeleteFile(absl::StrCat(prefix, ".meta")));
  Log(files.DeleteFile(NotFinitePath(prefix)));
  const absl::StatusOr<std::vector<std::string>> names = files.ListDirectory(internal::Folder(prefix));
  Log(names.status());
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, absl::StrCat(BaseName(prefix), ".data-"))) continue;
    Log(files.DeleteFile(absl::StrCat(internal::Folder(prefix), "/", name)));
  }
}

}  // namespace

std::string RestoreReport::ToString() const {
  std::string text = absl::StrCat(restored.size(), " tensors restored");
  if (!missing.empty()) {
    absl::StrAppend(&text, "; not in the checkpoint: ", AbbreviatedList(missing));
  }
  if (!mismatched.empty()) {
    std::vector<std::string> differ;
    for (const Mismatch& m : mismatched) {
      differ.push_back(absl::StrCat(m.name, " (", m.checkpoint, " in the checkpoint, ", m.graph, " in the graph)"));
    }
    absl::StrAppend(&text, "; of another type or shape: ", AbbreviatedList(differ));
  }
  if (!extra.empty()) absl::StrAppend(&text, "; not in the graph: ", AbbreviatedList(extra));
  return text;
}

Saver::Saver(const Scope& s, const SaverOptions& options)
    : scope_(s.InScope("").WithoutControlDependencies().SubScope("save")), options_(options) {
  std::vector<std::pair<std::string, Var>> named(options_.names.begin(), options_.names.end());
  if (named.empty()) {
    const std::vector<Var> all = options_.variables.empty() ? GlobalVariables(s.graph()) : options_.variables;
    for (const Var& variable : all) named.emplace_back("", variable);
  }
  if (named.empty()) {
    s.Fail(InvalidArgument("a Saver needs variables, and the graph has none"));
    return;
  }
  for (const auto& [name, variable] : named) {
    const std::optional<VariableSlice> part = VariableSliceOf(variable);
    const std::optional<Shape> shape = variable.shape().AsShape();
    if (!part && !shape) {
      s.Fail(InvalidArgument("a Saver must know the shape of variable '", variable.name(), "', which is ",
                             variable.shape()));
      return;
    }
    items_.push_back({.variable = variable,
                      .name = name.empty() ? SavedName(variable) : name,
                      .slice = part ? part->Spec() : "",
                      .shape = part ? part->full_shape : *shape,
                      .device = SaveDevice(variable)});
  }
  std::random_device random;
  temporary_suffix_ = absl::StrFormat("%s%08x%08x", kTemporary, random(), random());
  filename_ = PlaceholderWithDefault(scope_.WithOpName("Const"), Const(scope_.WithOpName("filename"), "model"),
                                     PartialShape(Shape()));
  save_ = AddSave(scope_, filename_);
  AddSnapshot(scope_.SubScope(kSnapshotScope));
  restore_ = AddRestore(scope_, filename_, {});
}

std::vector<std::vector<const Saver::Item*>> Saver::Shards() const {
  std::map<std::string, std::vector<const Item*>> by_device;
  for (const Item& item : items_) by_device[item.device].push_back(&item);
  std::vector<std::vector<const Item*>> shards;
  for (auto& [device, items] : by_device) {
    // TensorFlow writes tensors in this order.
    std::sort(items.begin(), items.end(), [](const Item* a, const Item* b) { return a->name < b->name; });
    shards.push_back(std::move(items));
  }
  return shards;
}

// With one task, writes the checkpoint itself. With several tasks, each writes its part into a
// temporary folder, and the master of the session merges them.
Output Saver::AddSave(const Scope& s, Output prefix, const std::vector<std::vector<Output>>& values) {
  const std::vector<std::vector<const Item*>> shards = Shards();
  const bool single = shards.size() == 1;
  Output base = prefix;
  if (!single) base = StringJoin(s, {prefix, Const(s, absl::StrCat(temporary_suffix_, "/part"))});
  const Output count = Const(s.WithOpName("num_shards"), static_cast<int32_t>(shards.size()));
  std::vector<Output> parts, saves;
  for (size_t i = 0; i < shards.size(); ++i) {
    const Scope own = s.WithDevice(shards[i][0]->device);
    std::vector<std::string> names, slices;
    std::vector<Output> tensors;
    for (const Item* item : shards[i]) {
      names.push_back(item->name);
      slices.push_back(item->slice);
      tensors.push_back(item->variable.ref);
    }
    if (!values.empty()) tensors = values[i];
    parts.push_back(
        single ? base : ShardedFilename(own, base, Const(own.WithOpName("shard"), static_cast<int32_t>(i)), count));
    saves.push_back(thalweg::Save(own, parts.back(), Const(own.WithOpName("SaveV2/tensor_names"), names),
                                  Const(own.WithOpName("SaveV2/shape_and_slices"), slices), tensors));
  }
  if (!single) {
    saves = {
        MergeCheckpoints(s.WithControlDependencies(saves), Pack(s.WithOpName("checkpoint_prefixes"), parts), prefix)};
  }
  return Identity(s.WithOpName("control_dependency").WithControlDependencies(saves), prefix);
}

// The values go from one step to the next through the session: the first takes
// them, which other workers wait for, the second writes them.
void Saver::AddSnapshot(const Scope& s) {
  const std::string name = absl::StrCat("saver", temporary_suffix_);
  std::vector<std::vector<Output>> values;
  for (const std::vector<const Item*>& shard : Shards()) {
    const Scope own = s.WithDevice(shard[0]->device);
    std::vector<Output> variables;
    std::vector<DType> types;
    for (const Item* item : shard) {
      variables.push_back(item->variable.ref);
      types.push_back(item->variable.dtype());
    }
    const Output taken = SnapshotVariables(own, variables, name);
    values.push_back(SnapshotValues(own, types, name));
    finite_.push_back(AllFinite(own, values.back()));
    if (!s.ok()) return;
    snapshot_.push_back(Fetch::Target(taken));
  }
  save_snapshot_ = AddSave(s, filename_, values);
}

// Restores the tensors `wanted`, or all if the list is empty.
Output Saver::AddRestore(const Scope& s, Output prefix, const std::vector<std::string>& wanted) const {
  std::vector<Output> assigns;
  for (const std::vector<const Item*>& shard : Shards()) {
    const Scope own = s.WithDevice(shard[0]->device);
    std::vector<std::string> names, slices;
    std::vector<DType> types;
    std::vector<Var> variables;
    for (const Item* item : shard) {
      const bool whole = wanted.empty() || Contains(wanted, item->name);
      if (!whole && !(item->is_part() && Contains(wanted, item->variable.name()))) continue;
      names.push_back(whole ? item->name : item->variable.name());
      slices.push_back(whole ? item->slice : "");
      types.push_back(item->variable.dtype());
      variables.push_back(item->variable);
    }
    if (names.empty()) continue;
    const std::vector<Output> values =
        thalweg::Restore(own, prefix, Const(own.WithOpName("RestoreV2/tensor_names"), names),
                         Const(own.WithOpName("RestoreV2/shape_and_slices"), slices), types);
    for (size_t i = 0; i < variables.size() && s.ok(); ++i) {
      assigns.push_back(Assign(s.ColocateWith(variables[i].ref), variables[i].ref, values[i]));
    }
  }
  return Group(s.WithOpName("restore_all"), assigns);
}

absl::Status Saver::TakeOverState(const std::string& folder, const std::string& base) {
  if (folder_ == folder) return absl::OkStatus();
  RETURN_IF_ERROR(options_.state.files->CreateDirectories(folder));
  CheckpointState state;
  absl::StatusOr<CheckpointState> before = ReadCheckpointState(folder, options_.state);
  if (before.ok()) {
    state = *std::move(before);
    std::erase_if(state.saved, [&](const SavedCheckpoint& saved) {
      return !CheckpointExists(saved.prefix, *options_.state.files).ok();
    });
  } else if (!absl::IsNotFound(before.status())) {
    LOG(WARNING) << "Starting a new list of checkpoints: " << before.status();
  }
  if (state.last_preserved == 0) state.last_preserved = 1e-6 * static_cast<double>(options_.clock->WallMicros());
  DeleteLeftovers(folder, base);
  folder_ = folder;
  state_ = std::move(state);
  return absl::OkStatus();
}

// Deletes what an interrupted save or deletion has left: files with temporary names, and files
// of checkpoints without an index.
void Saver::DeleteLeftovers(const std::string& folder, const std::string& base) const {
  FileSystem& files = *options_.state.files;
  const absl::StatusOr<std::vector<std::string>> names = files.ListDirectory(folder);
  if (!names.ok()) {
    LOG(WARNING) << "Could not delete the files of unfinished saves: " << names.status();
    return;
  }
  for (const std::string& name : *names) {
    absl::string_view suffix = name;
    if (!absl::ConsumePrefix(&suffix, base)) continue;
    ConsumeStep(&suffix);
    const std::string path = absl::StrCat(folder, "/", name);
    if (IsTemporary(suffix)) {
      Log(files.DeleteRecursively(path));
      continue;
    }
    // "-100.data-00000-of-00001", "-100.meta"
    const std::string checkpoint = name.substr(0, name.rfind('.'));
    const absl::string_view kind = absl::string_view(name).substr(checkpoint.size());
    if (suffix != kind || !(absl::StartsWith(kind, ".data-") || kind == ".meta" || kind == ".not_finite")) continue;
    if (!Contains(*names, checkpoint + ".index")) Log(files.DeleteFile(path));
  }
}

absl::StatusOr<std::string> Saver::Save(Session& session, const std::string& prefix, std::optional<int64_t> step) {
  ASSIGN_OR_RETURN(const Written written, Write(session, prefix, step));
  RETURN_IF_ERROR(Publish(written));
  return written.name;
}

absl::StatusOr<Saver::Written> Saver::Write(Session& session, const std::string& prefix, std::optional<int64_t> step) {
  RETURN_IF_ERROR(scope_.status());
  if (const std::string base = BaseName(prefix); base.empty() || base == "." || base == "..") {
    return InvalidArgument("\"", prefix, "\" is not a valid checkpoint name: expected folder/name");
  }
  const std::string clean = internal::CleanPath(prefix);
  Written written{.name = step ? absl::StrCat(clean, "-", *step) : clean};
  const std::string& name = written.name;
  AwaitDeletions();  // one of them may have this name
  RETURN_IF_ERROR(TakeOverState(internal::Folder(clean), BaseName(clean)));
  const absl::Status saved = WriteFiles(session, name, &written.finite);
  if (!saved.ok()) {
    options_.state.files->DeleteRecursively(name + temporary_suffix_).IgnoreError();  // usually there is none
    return Prepend(saved, absl::StrCat("saving ", name, ": "));
  }
  return written;
}

absl::Status Saver::Publish(const Written& checkpoint) {
  AwaitDeletions();
  return Prepend(AddToList(checkpoint.name, checkpoint.finite), absl::StrCat("saving ", checkpoint.name, ": "));
}

absl::Status Saver::WriteFiles(Session& session, const std::string& name, bool* finite) {
  const std::vector<Feed> feeds = {{filename_, Tensor::Scalar<std::string>(name)}};
  if (takes_snapshots_) {
    const absl::Status taken = session.Run(snapshot_, {}, {.one_moment = true}).status();
    if (!taken.ok() && !absl::StrContains(taken.message(), "Op type not registered")) return taken;
    takes_snapshots_ = taken.ok();
  }
  if (!takes_snapshots_) return session.Run({save_}, feeds).status();
  std::vector<Fetch> fetches = {save_snapshot_};
  for (const Output& shard : finite_) fetches.push_back(shard);
  ASSIGN_OR_RETURN(const std::vector<Tensor> values, session.Run(fetches, feeds));
  for (size_t i = 1; i < values.size(); ++i) *finite = *finite && values[i].scalar<bool>();
  return absl::OkStatus();
}

std::vector<std::string> Saver::Rotate(CheckpointState& state) const {
  std::vector<std::string> dropped;
  const auto is_finite = [](const SavedCheckpoint& saved) { return !saved.not_finite; };
  while (options_.max_to_keep > 0 && static_cast<int>(state.saved.size()) > options_.max_to_keep) {
    // Keep the last finite checkpoint, in case all later ones are not finite.
    const bool last_finite =
        is_finite(state.saved.front()) && std::none_of(state.saved.begin() + 1, state.saved.end(), is_finite);
    const auto oldest = state.saved.begin() + (last_finite ? 1 : 0);
    if (oldest + 1 == state.saved.end()) break;  // the latest stays
    if (oldest->timestamp - state.last_preserved >= options_.keep_checkpoint_every_n_hours * kSecondsPerHour) {
      state.last_preserved = oldest->timestamp;
    } else {
      dropped.push_back(oldest->prefix);
    }
    state.saved.erase(oldest);
  }
  return dropped;
}

absl::Status Saver::AddToList(const std::string& prefix, bool finite) {
  FileSystem& files = *options_.state.files;
  // Otherwise the tasks wrote to a folder of theirs.
  RETURN_IF_ERROR(Append(CheckpointExists(prefix, files), "; all tasks that save must see the same folder"));
  if (options_.write_meta_graph) {
    tensorflow::SaverDef def;
    def.set_filename_tensor_name(filename_.name());
    def.set_save_tensor_name(save_.name());
    def.set_restore_op_name(restore_.node->name());
    def.set_max_to_keep(options_.max_to_keep);
    def.set_sharded(true);
    def.set_keep_checkpoint_every_n_hours(static_cast<float>(options_.keep_checkpoint_every_n_hours));
    def.set_version(tensorflow::SaverDef::V2);
    RETURN_IF_ERROR(ReplaceFile(files, absl::StrCat(prefix, ".meta"), MetaGraph(scope_.graph(), def)));
  }
  const double now = 1e-6 * static_cast<double>(options_.clock->WallMicros());
  CheckpointState state = state_;
  // By its name alone: TensorFlow may have put the whole path of this folder into
  // the list, and what was just written must not go as an old one.
  const std::string base = BaseName(prefix);
  std::erase_if(state.saved, [&](const SavedCheckpoint& saved) { return BaseName(saved.prefix) == base; });
  state.saved.push_back({.prefix = prefix, .timestamp = now, .not_finite = !finite});
  state.latest = prefix;
  const bool was_finite = !files.FileExists(NotFinitePath(prefix)).ok();  // one that had this name
  if (finite && !was_finite) {
    RETURN_IF_ERROR(files.DeleteFile(NotFinitePath(prefix)));
  } else if (!finite) {
    LOG(WARNING) << "Checkpoint " << prefix << " contains infinite or NaN values";
    RETURN_IF_ERROR(files.WriteStringToFile(NotFinitePath(prefix), ""));
  }
  const std::vector<std::string> dropped = Rotate(state);
  RETURN_IF_ERROR(WriteCheckpointState(*folder_, state, options_.state));
  state_ = std::move(state);
  if (!dropped.empty()) {
    deletions_ = std::make_unique<Thread>("old-checkpoints", [&files, dropped] {
      for (const std::string& old : dropped) DeleteCheckpoint(files, old);
    });
  }
  return absl::OkStatus();
}

absl::StatusOr<RestoreReport> Saver::Compare(const std::string& prefix) const {
  ASSIGN_OR_RETURN(const auto reader, BundleReader::Open(*options_.state.files, prefix));
  const std::vector<std::string> stored = reader->Names();
  RestoreReport report;
  std::set<std::string> seen;
  for (const Item& item : items_) {
    std::string name = item.name;
    Shape shape = item.shape;
    if (item.is_part() && !Contains(stored, name) && Contains(stored, item.variable.name())) {
      name = item.variable.name();
      shape = *item.variable.shape().AsShape();
    }
    if (!seen.insert(name).second) continue;  // another part of it
    if (!Contains(stored, name)) {
      report.missing.push_back(name);
      continue;
    }
    ASSIGN_OR_RETURN(const BundleReader::Info info, reader->Find(name));
    const DType dtype = item.variable.dtype();
    if (info.dtype != dtype || info.shape != shape) {
      report.mismatched.push_back({name, Describe(info.dtype, info.shape), Describe(dtype, shape)});
    } else {
      report.restored.push_back(name);
    }
  }
  for (const std::string& name : stored) {
    if (!seen.contains(name)) report.extra.push_back(name);
  }
  std::sort(report.restored.begin(), report.restored.end());
  return report;
}

absl::Status Saver::Restore(Session& session, const std::string& prefix) {
  RETURN_IF_ERROR(scope_.status());
  RETURN_IF_ERROR(CheckpointExists(prefix, *options_.state.files));
  const absl::StatusOr<RestoreReport> report = Compare(prefix);
  if (report.ok() && !report->complete()) {
    return FailedPrecondition("checkpoint ", prefix, " does not fit the graph (is it of another model?): ", *report);
  }
  // NOT_FOUND: it is one of the older format.
  if (!report.ok() && !absl::IsNotFound(report.status())) return report.status();
  const auto is_whole = [&](const Item& item) { return Contains(report->restored, item.name); };
  if (report.ok() && !std::all_of(items_.begin(), items_.end(), is_whole)) {
    return RestoreMatching(session, prefix).status();  // parts under their own names
  }
  // Steps of other workers see all values of the checkpoint or none.
  return Prepend(
      session.Run({restore_}, {{filename_, Tensor::Scalar<std::string>(prefix)}}, {.one_moment = true}).status(),
      absl::StrCat("restoring ", prefix, ": "));
}

absl::StatusOr<RestoreReport> Saver::RestoreMatching(Session& session, const std::string& prefix) {
  RETURN_IF_ERROR(scope_.status());
  ASSIGN_OR_RETURN(RestoreReport report, Compare(prefix));
  if (report.restored.empty()) return report;
  const Output restore = AddRestore(scope_.SubScope("restore_matching"), filename_, report.restored);
  RETURN_IF_ERROR(scope_.status());
  RETURN_IF_ERROR(
      Prepend(session.Run({restore}, {{filename_, Tensor::Scalar<std::string>(prefix)}}, {.one_moment = true}).status(),
              absl::StrCat("restoring ", prefix, ": ")));
  return report;
}

}  // namespace thalweg
