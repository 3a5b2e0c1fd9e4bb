// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/snapshot.h"

#include <cstdio>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg::data {
namespace {

using tensorflow::data::experimental::SnapshotMetadataRecord;

constexpr int64_t kVersion = 2;  // TFRecords of TensorProto

std::string NewRun() {
  std::random_device random;
  return absl::StrCat((uint64_t{random()} << 32) | random());
}

std::string EightDigits(int64_t number) {
  char text[32];
  snprintf(text, sizeof(text), "%08llu", static_cast<unsigned long long>(number));
  return text;
}

std::string MetadataFile(const std::string& folder) { return absl::StrCat(folder, "/snapshot.metadata"); }

}  // namespace

absl::StatusOr<std::optional<SnapshotMetadataRecord>> ReadSnapshotMetadata(const std::string& folder,
                                                                           FileSystem& files) {
  const std::string path = MetadataFile(folder);
  absl::StatusOr<std::string> bytes = files.ReadFileToString(path);
  if (absl::IsNotFound(bytes.status())) return std::nullopt;
  RETURN_IF_ERROR(bytes.status());
  SnapshotMetadataRecord metadata;
  if (!metadata.ParseFromString(*bytes)) return DataLoss(path, " is damaged");
  if (metadata.finalized() && metadata.version() != kVersion) {
    return Unimplemented(path, ": data files of version ", metadata.version(), ", supported is ", kVersion,
                         ": save the dataset again with a newer TensorFlow");
  }
  // The name of a folder, never a path that leaves it.
  if (metadata.run_id().find('/') != std::string::npos || metadata.run_id() == "..") {
    return DataLoss(path, " is damaged: run '", metadata.run_id(), "'");
  }
  return metadata;
}

absl::StatusOr<std::vector<std::string>> SnapshotShards(const std::string& folder, const std::string& run,
                                                        FileSystem& files) {
  const std::string path = absl::StrCat(folder, "/", run);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.ListDirectory(path));
  std::vector<std::string> shards;
  for (const std::string& name : names) {
    if (name.ends_with(".shard")) shards.push_back(absl::StrCat(path, "/", name));
  }
  return shards;
}

SnapshotWriter::SnapshotWriter(std::string folder, const Options& options, FileSystem& files)
    : folder_(std::move(folder)), options_(options), files_(files), run_(NewRun()) {}

absl::StatusOr<std::unique_ptr<SnapshotWriter>> SnapshotWriter::Create(const std::string& folder,
                                                                       const Options& options, FileSystem& files) {
  std::unique_ptr<SnapshotWriter> writer(new SnapshotWriter(folder, options, files));
  RETURN_IF_ERROR(files.CreateDirectories(absl::StrCat(folder, "/", writer->run_)));
  RETURN_IF_ERROR(writer->WriteMetadata(false));
  return writer;
}

absl::Status SnapshotWriter::WriteMetadata(bool finalized) {
  SnapshotMetadataRecord metadata;
  metadata.set_graph_hash(options_.graph_hash);
  metadata.set_run_id(run_);
  metadata.set_creation_timestamp(absl::GetCurrentTimeNanos() / 1000);
  metadata.set_version(kVersion);
  for (const DType type : options_.types) metadata.add_dtype(static_cast<tensorflow::DataType>(type));
  metadata.set_num_elements(count_);
  metadata.set_finalized(finalized);
  const std::string path = MetadataFile(folder_), temporary = absl::StrCat(path, "-tmp-", run_);
  RETURN_IF_ERROR(files_.WriteStringToFile(temporary, metadata.SerializeAsString()));
  return files_.Rename(temporary, path);
}

absl::Status SnapshotWriter::Write(int64_t shard, absl::Span<const Tensor> element) {
  std::unique_ptr<RecordWriter>& writer = shards_[shard];
  if (writer == nullptr) {
    const std::string shard_folder = absl::StrCat(folder_, "/", run_, "/", EightDigits(shard), ".shard");
    RETURN_IF_ERROR(files_.CreateDirectories(shard_folder));
    ASSIGN_OR_RETURN(writer, RecordWriter::Open(absl::StrCat(shard_folder, "/", EightDigits(0), ".snapshot"),
                                                options_.compression, files_));
  }
  for (const Tensor& component : element) {
    RETURN_IF_ERROR(CheckEncodable(component));
    tensorflow::TensorProto proto;
    TensorToProto(component, &proto);
    std::string bytes;
    if (!proto.SerializeToString(&bytes)) return InvalidArgument("a component of 2 GB or more cannot be saved");
    RETURN_IF_ERROR(writer->Write(bytes));
  }
  ++count_;
  return absl::OkStatus();
}

absl::Status SnapshotWriter::Finish() {
  for (auto& [number, writer] : shards_) RETURN_IF_ERROR(writer->Close());
  shards_.clear();
  return WriteMetadata(true);
}

// A shard that was continued after a checkpoint has several files.
absl::StatusOr<bool> SnapshotShardReader::NextRecord(std::string* record) {
  while (true) {
    if (reader_ == nullptr) {
      const std::string path = absl::StrCat(folder_, "/", EightDigits(file_), ".snapshot");
      absl::StatusOr<std::unique_ptr<RecordReader>> reader = RecordReader::Open(path, compression_, files_);
      if (file_ > 0 && absl::IsNotFound(reader.status())) return false;
      RETURN_IF_ERROR(reader.status());
      reader_ = *std::move(reader);
    }
    ASSIGN_OR_RETURN(const bool more, reader_->Next(record));
    if (more) return true;
    reader_ = nullptr;
    ++file_;
  }
}

absl::StatusOr<std::optional<std::vector<Tensor>>> SnapshotShardReader::Next() {
  std::vector<Tensor> element;
  std::string record;
  for (size_t i = 0; i < types_.size(); ++i) {
    ASSIGN_OR_RETURN(const bool more, NextRecord(&record));
    if (!more && i == 0) return std::nullopt;
    tensorflow::TensorProto proto;
    if (!more || !proto.ParseFromString(record)) {
      return DataLoss(folder_, ": ", more ? "a record is not a TensorProto" : "the last element is incomplete");
    }
    ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(std::move(proto)));
    if (tensor.dtype() != types_[i]) {
      return DataLoss(folder_, ": component ", i, " has type ", tensor.dtype(), ", expected ", types_[i]);
    }
    element.push_back(std::move(tensor));
  }
  return element;
}

}  // namespace thalweg::data
