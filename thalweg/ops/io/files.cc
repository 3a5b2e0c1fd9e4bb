// SPDX-License-Identifier: Apache-2.0
// ReadFile and WriteFile: a file as one string. MatchingFiles: the files that
// patterns stand for, sorted; *, ? and [...] match within one folder.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "thalweg/base/file_system.h"
#include "thalweg/base/glob.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/file_role.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/io_ops.h"

namespace thalweg {
namespace {

absl::StatusOr<std::string> NameIn(const Tensor& t, const char* what) {
  if (!t.shape().is_scalar()) return InvalidArgument(what, " tensor must be scalar, but had shape: ", t.shape());
  return t.scalar<std::string>();
}

absl::Status Read(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::string name, NameIn(c.input(0), "Input filename"));
  ASSIGN_OR_RETURN(std::string contents, PosixFileSystem().ReadFileToString(name));
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
  *out->mutable_data<std::string>() = std::move(contents);
  return absl::OkStatus();
}

absl::Status Write(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::string name, NameIn(c.input(0), "Input filename"));
  ASSIGN_OR_RETURN(const std::string contents, NameIn(c.input(1), "Contents"));
  const size_t slash = name.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    RETURN_IF_ERROR(PosixFileSystem().CreateDirectories(name.substr(0, slash)));
  }
  return PosixFileSystem().WriteStringToFile(name, contents);
}

absl::Status Match(KernelContext& c) {
  const Tensor& patterns = c.input(0);
  if (patterns.rank() > 1) {
    return InvalidArgument("Input patterns tensor must be scalar or vector, but had shape: ", patterns.shape());
  }
  std::vector<std::string> names;
  for (const std::string& pattern : patterns.flat<std::string>()) {
    if (pattern.empty()) continue;
    ASSIGN_OR_RETURN(std::vector<std::string> found, MatchingPaths(PosixFileSystem(), pattern));
    std::move(found.begin(), found.end(), std::back_inserter(names));
  }
  std::sort(names.begin(), names.end());
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape({static_cast<int64_t>(names.size())})));
  std::move(names.begin(), names.end(), out->mutable_data<std::string>());
  return absl::OkStatus();
}

absl::Status ReadShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(0));
  return shapes::Scalar(c);
}
absl::Status WriteShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(0));
  return c.RequireScalar(1);
}
absl::Status MatchShape(ShapeContext& c) {
  if (c.input(0).rank() > 1) return InvalidArgument("Shape must be at most rank 1 but is rank ", c.input(0).rank());
  c.set_output(0, PartialShape({PartialShape::kUnknown}));
  return absl::OkStatus();
}

const OpRegistration kFilesOps[] = {
    Op("ReadFile")
        .Input("filename: string")
        .Output("contents: string")
        .Shape(ReadShape)
        .Compute(Read)
        .NotDifferentiable(),
    Op("WriteFile")
        .Input("filename: string")
        .Input("contents: string")
        .Stateful()
        .Shape(WriteShape)
        .Compute(Write)
        .NotDifferentiable(),
    Op("MatchingFiles")
        .Input("pattern: string")
        .Output("filenames: string")
        .Shape(MatchShape)
        .Compute(Match)
        .NotDifferentiable(),
};

const FileRoleRegistration kFileRoles[] = {{"WriteFile", FileRole::kWrite}};

}  // namespace

Output ReadFile(const Scope& s, Output filename) { return s.Add("ReadFile", {filename}); }
Output WriteFile(const Scope& s, Output filename, Output contents) { return s.Add("WriteFile", {filename, contents}); }
Output MatchingFiles(const Scope& s, Output pattern) { return s.Add("MatchingFiles", {pattern}); }

}  // namespace thalweg
