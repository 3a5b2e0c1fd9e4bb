// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/run_metadata.h"

#include "thalweg/proto/config.pb.h"

namespace thalweg {

using Proto = tensorflow::RunMetadata;

RunMetadata::RunMetadata() : proto_(std::make_unique<Proto>()) {}
RunMetadata::RunMetadata(const RunMetadata& other) : proto_(std::make_unique<Proto>(*other.proto_)) {}
RunMetadata::RunMetadata(RunMetadata&&) noexcept = default;
RunMetadata& RunMetadata::operator=(const RunMetadata& other) { return *this = RunMetadata(other); }
RunMetadata& RunMetadata::operator=(RunMetadata&&) noexcept = default;
RunMetadata::~RunMetadata() = default;

bool RunMetadata::empty() const { return proto_->ByteSizeLong() == 0; }
void RunMetadata::Clear() { proto_->Clear(); }
std::string RunMetadata::SerializeAsString() const { return proto_->SerializeAsString(); }
std::string RunMetadata::ToString() const { return proto_->DebugString(); }

}  // namespace thalweg
