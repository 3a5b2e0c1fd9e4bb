// SPDX-License-Identifier: Apache-2.0
// thalweg checkpoint: lists, shows, verifies, compares and merges checkpoints.
#include <algorithm>
#include <cmath>
#include <map>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/status.h"
#include "thalweg/checkpoint/bundle.h"
#include "thalweg/checkpoint/bundle_reader.h"
#include "thalweg/cli/command.h"
#include "thalweg/cli/flags.h"
#include "thalweg/train/checkpoints/checkpoint_state.h"

ABSL_FLAG(std::string, tensor, "", "show: print the values of this tensor");
ABSL_FLAG(int, max_elements, 20, "show: maximum number of values to print");
ABSL_FLAG(double, tolerance, 0, "diff: largest difference between two numbers that counts as equal");

namespace thalweg::cli {
namespace {

using Arguments = std::vector<std::string>;

std::string Bytes(double n) {
  if (n < 1e3) return absl::StrFormat("%.0f B", n);
  if (n < 1e6) return absl::StrFormat("%.1f kB", n / 1e3);
  if (n < 1e9) return absl::StrFormat("%.1f MB", n / 1e6);
  return absl::StrFormat("%.1f GB", n / 1e9);
}

bool IsFolder(const std::string& path) { return PosixFileSystem().ListDirectory(path).ok(); }

// Resolves a path to the prefix of a checkpoint. The path is a prefix, one of the
// checkpoint's files, or a folder, which stands for the latest checkpoint in it.
// Unlike LatestCheckpoint(), this does not skip a damaged one.
absl::StatusOr<std::string> FindPrefix(const std::string& path) {
  if (IsFolder(path)) {
    const absl::StatusOr<CheckpointState> state = ReadCheckpointState(path);
    if (state.ok() && absl::IsDataLoss(CheckpointExists(state->latest))) return state->latest;
    absl::StatusOr<std::string> latest = LatestCheckpoint(path);
    if (absl::IsNotFound(latest.status())) return NotFound("there are no checkpoints in ", path);
    return latest;
  }
  absl::string_view prefix = path;
  for (const char* suffix : {".index", ".meta"}) {
    if (absl::ConsumeSuffix(&prefix, suffix)) break;
  }
  if (const size_t data = prefix.rfind(".data-"); data != absl::string_view::npos) prefix = prefix.substr(0, data);
  return std::string(prefix);
}

absl::StatusOr<std::unique_ptr<BundleReader>> Open(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string prefix, FindPrefix(path));
  absl::StatusOr<std::unique_ptr<BundleReader>> reader = BundleReader::Open(PosixFileSystem(), prefix);
  if (absl::IsNotFound(reader.status())) {
    RETURN_IF_ERROR(CheckpointExists(prefix));
    return Unimplemented(
        prefix,
        " is a checkpoint in the older format (V1); this command reads V2 only, restore it in a program instead");
  }
  return reader;
}

// The size of all files of a checkpoint, in bytes.
int64_t SizeOf(const std::string& prefix) {
  const std::string folder = internal::Folder(prefix);
  const std::string base = prefix.substr(prefix.rfind('/') == std::string::npos ? 0 : prefix.rfind('/') + 1);
  const absl::StatusOr<std::vector<std::string>> names = PosixFileSystem().ListDirectory(folder);
  int64_t size = 0;
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    if (name != base + ".index" && name.rfind(base + ".data-", 0) != 0) continue;
    const absl::StatusOr<uint64_t> bytes = PosixFileSystem().FileSize(absl::StrCat(folder, "/", name));
    if (bytes.ok()) size += static_cast<int64_t>(*bytes);
  }
  return size;
}

absl::Status ListTensors(std::ostream& out, const Arguments& paths) {
  const std::string& folder = paths[0];
  absl::StatusOr<CheckpointState> state = ReadCheckpointState(folder);
  if (absl::IsNotFound(state.status())) return NotFound("there are no checkpoints in ", folder);
  RETURN_IF_ERROR(state.status());
  if (state->saved.empty()) state->saved.push_back({.prefix = state->latest});
  for (const SavedCheckpoint& saved : state->saved) {
    const absl::Status status = CheckpointExists(saved.prefix);
    const std::string time =
        saved.timestamp > 0
            ? absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMicros(static_cast<int64_t>(1e6 * saved.timestamp)),
                               absl::LocalTimeZone())
            : "";
    out << absl::StrFormat("%-40s %9s  %-19s%s%s\n", saved.prefix, Bytes(static_cast<double>(SizeOf(saved.prefix))),
                           time, saved.prefix == state->latest ? "  latest" : "",
                           status.ok() ? "" : absl::StrCat("  ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status Show(std::ostream& out, const Arguments& paths) {
  ASSIGN_OR_RETURN(const auto reader, Open(paths[0]));
  if (const std::string name = absl::GetFlag(FLAGS_tensor); !name.empty()) {
    ASSIGN_OR_RETURN(const Tensor value, reader->Read(name));
    out << name << ": " << value.ToString(absl::GetFlag(FLAGS_max_elements)) << "\n";
    return absl::OkStatus();
  }
  int64_t elements = 0;
  double bytes = 0;
  const std::vector<std::string> names = reader->Names();
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const BundleReader::Info info, reader->Find(name));
    out << name << ": " << ToString(info.dtype) << " " << info.shape.ToString() << "\n";
    elements += info.shape.num_elements();
    if (info.dtype != kString && info.dtype != kVariant) {
      bytes += static_cast<double>(info.shape.num_elements()) * static_cast<double>(ElementSize(info.dtype));
    }
  }
  out << names.size() << " tensors, " << elements << " values, " << Bytes(bytes) << "\n";
  return absl::OkStatus();
}

// Reads every tensor, which checks all sizes and checksums.
absl::Status Verify(std::ostream& out, const Arguments& paths) {
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const auto reader, Open(path));
    absl::Status damage;
    int damaged = 0;
    const std::vector<std::string> names = reader->Names();
    for (const std::string& name : names) {
      const absl::Status status = reader->Read(name).status();
      if (status.ok()) continue;
      out << name << ": " << status.message() << "\n";
      damage = status;
      ++damaged;
    }
    ASSIGN_OR_RETURN(const std::string prefix, FindPrefix(path));
    if (damaged > 0) {
      return DataLoss(prefix, ": ", damaged, " of ", names.size(),
                      " tensors are damaged, the last: ", damage.message());
    }
    out << prefix << ": " << names.size() << " tensors, no damage found\n";
  }
  return absl::OkStatus();
}

template <typename T>
double LargestDifference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = static_cast<double>(a.data<T>()[i]), y = static_cast<double>(b.data<T>()[i]);
    if (std::isnan(x) && std::isnan(y)) continue;
    const double difference = std::abs(x - y);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

// Describes the difference of two tensors of the same type and shape. Empty if they
// are equal within --tolerance.
std::string Difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  switch (a.dtype()) {
    case kFloat:
      largest = LargestDifference<float>(a, b);
      break;
    case kDouble:
      largest = LargestDifference<double>(a, b);
      break;
    case kInt32:
      largest = LargestDifference<int32_t>(a, b);
      break;
    case kInt64:
      largest = LargestDifference<int64_t>(a, b);
      break;
    default: {
      const bool same = a.dtype() == kString ? a.flat<std::string>() == b.flat<std::string>()
                                             : a.ToString(1 << 20) == b.ToString(1 << 20);
      return same ? "" : "values differ";
    }
  }
  if (largest <= absl::GetFlag(FLAGS_tolerance)) return "";
  return absl::StrFormat("values differ by up to %g", largest);
}

absl::Status Diff(std::ostream& out, const Arguments& paths) {
  ASSIGN_OR_RETURN(const auto a, Open(paths[0]));
  ASSIGN_OR_RETURN(const auto b, Open(paths[1]));
  std::map<std::string, int> names;  // 1: in the first, 2: in the second, 3: in both
  for (const std::string& name : a->Names()) names[name] |= 1;
  for (const std::string& name : b->Names()) names[name] |= 2;
  int different = 0;
  for (const auto& [name, where] : names) {
    std::string what;
    if (where != 3) {
      what = absl::StrCat("only in ", paths[where - 1]);
    } else {
      ASSIGN_OR_RETURN(const BundleReader::Info x, a->Find(name));
      ASSIGN_OR_RETURN(const BundleReader::Info y, b->Find(name));
      if (x.dtype != y.dtype || x.shape != y.shape) {
        what = absl::StrCat(ToString(x.dtype), " ", x.shape.ToString(), " against ", ToString(y.dtype), " ",
                            y.shape.ToString());
      } else {
        ASSIGN_OR_RETURN(const Tensor u, a->Read(name));
        ASSIGN_OR_RETURN(const Tensor v, b->Read(name));
        what = Difference(u, v);
      }
    }
    if (what.empty()) continue;
    out << name << ": " << what << "\n";
    ++different;
  }
  if (different > 0) return FailedPrecondition(different, " of ", names.size(), " tensors differ");
  out << names.size() << " tensors, all equal\n";
  return absl::OkStatus();
}

// Merges the checkpoints that several tasks wrote into one, and records it as the
// latest of its folder.
absl::Status Merge(std::ostream& out, const Arguments& paths) {
  const std::string& merged = paths[0];
  if (CheckpointExists(merged).ok()) return AlreadyExists("checkpoint ", merged, " already exists");
  std::vector<std::string> prefixes;
  for (size_t i = 1; i < paths.size(); ++i) {
    ASSIGN_OR_RETURN(prefixes.emplace_back(), FindPrefix(paths[i]));
    RETURN_IF_ERROR(CheckpointExists(prefixes.back()));
  }
  RETURN_IF_ERROR(MergeBundles(PosixFileSystem(), prefixes, merged));
  const std::string folder = internal::Folder(merged);
  absl::StatusOr<CheckpointState> state = ReadCheckpointState(folder);
  if (absl::IsNotFound(state.status())) state = CheckpointState();
  RETURN_IF_ERROR(state.status());
  state->saved.push_back({.prefix = merged, .timestamp = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch())});
  state->latest = merged;
  RETURN_IF_ERROR(WriteCheckpointState(folder, *state));
  ASSIGN_OR_RETURN(const auto reader, Open(merged));
  out << merged << ": " << reader->Names().size() << " tensors, the latest of " << folder << "\n";
  return absl::OkStatus();
}

const std::vector<std::string>& Flags() {
  static const std::vector<std::string>& flags = *new std::vector<std::string>{"tensor", "max_elements", "tolerance"};
  return flags;
}

// Splits off the flags, which may also follow the paths. All flags of this command
// take a value.
absl::StatusOr<Arguments> TakeFlags(const Arguments& args) {
  Arguments paths, flags;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].rfind("-", 0) != 0) {
      paths.push_back(args[i]);
      continue;
    }
    flags.push_back(args[i]);
    if (args[i].find('=') == std::string::npos && i + 1 < args.size()) flags.push_back(args[++i]);
  }
  RETURN_IF_ERROR(SetFlags(flags, Flags()));
  return paths;
}

absl::Status RunCheckpoint(std::ostream& out, const Arguments& args) {
  ASSIGN_OR_RETURN(const Arguments rest, TakeFlags(args));
  struct Verb {
    const char* name;
    const char* arguments;
    size_t least, most;
    absl::Status (*run)(std::ostream&, const Arguments&);
  };
  constexpr Verb kVerbs[] = {{"list", "FOLDER", 1, 1, ListTensors},
                             {"show", "CHECKPOINT", 1, 1, Show},
                             {"verify", "CHECKPOINT...", 1, 1000, Verify},
                             {"diff", "CHECKPOINT CHECKPOINT", 2, 2, Diff},
                             {"merge", "NEW CHECKPOINT...", 2, 1000, Merge}};
  if (rest.empty()) return InvalidArgument("expected an action: list, show, verify, diff or merge");
  for (const Verb& verb : kVerbs) {
    if (rest[0] != verb.name) continue;
    if (rest.size() - 1 < verb.least || rest.size() - 1 > verb.most) {
      return InvalidArgument("expected: thalweg checkpoint ", verb.name, " ", verb.arguments);
    }
    return verb.run(out, Arguments(rest.begin() + 1, rest.end()));
  }
  return InvalidArgument("unknown action '", rest[0], "': expected list, show, verify, diff or merge");
}

}  // namespace

Command CheckpointCommand() {
  return {.name = "checkpoint",
          .summary = "Lists, shows, verifies, compares or merges checkpoints.",
          .details =
              "A CHECKPOINT is a prefix (dir/model.ckpt-100), one of its files, or a folder, which stands for the\n"
              "latest checkpoint in it.\n"
              "\n"
              "  list    lists the checkpoints of a folder\n"
              "  show    lists the tensors of a checkpoint, or prints the values of one (--tensor)\n"
              "  verify  reads all tensors and checks sizes and checksums; exits with code 1 if any is damaged\n"
              "  diff    compares two checkpoints; exits with code 1 if they differ\n"
              "  merge   moves the tensors of several checkpoints, such as those that orphaned parameter servers\n"
              "          wrote, into one, and makes it the latest of its folder",
          .usage =
              "list FOLDER | show CHECKPOINT | verify CHECKPOINT... | diff CHECKPOINT CHECKPOINT |\n"
              "       merge NEW CHECKPOINT...",
          .flags = Flags(),
          .run_with_rest = RunCheckpoint};
}

}  // namespace thalweg::cli
