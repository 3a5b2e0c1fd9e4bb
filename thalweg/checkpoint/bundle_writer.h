// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/file_system.h"
#include "thalweg/checkpoint/bundle.h"
#include "thalweg/checkpoint/tensor_slice.h"
#include "thalweg/proto/tensor_bundle.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Writes a bundle with one data file. Everything is written to temporary files, which
// Finish() renames after they are synced. A failure before that leaves an older checkpoint of
// the same name unchanged. After an error, every call returns that error. Not thread-safe.
//
//   ASSIGN_OR_RETURN(auto writer, BundleWriter::Create(PosixFileSystem(), "/tmp/model.ckpt"));
//   RETURN_IF_ERROR(writer->Add("w", w));
//   RETURN_IF_ERROR(writer->Finish());
class BundleWriter {
 public:
  // `files` must outlive the writer. Creates the folder if it does not exist.
  static absl::StatusOr<std::unique_ptr<BundleWriter>> Create(FileSystem& files, std::string prefix);

  // INVALID_ARGUMENT if the name was added before, UNIMPLEMENTED for types that cannot leave
  // the process.
  [[nodiscard]] absl::Status Add(absl::string_view name, const Tensor& value);
  // Adds a slice of a tensor of shape `shape`. REQUIRES: slice.SliceShape(shape) is
  // value.shape().
  [[nodiscard]] absl::Status AddSlice(absl::string_view name, const Shape& shape, const TensorSlice& slice,
                                      const Tensor& value);
  [[nodiscard]] absl::Status Finish();

 private:
  BundleWriter(FileSystem& files, std::string prefix) : files_(files), prefix_(std::move(prefix)), temporary_(files) {}

  absl::Status TryAdd(absl::string_view name, const Tensor& value);
  absl::Status TryFinish();
  absl::Status Write(absl::string_view bytes);
  absl::Status WriteStrings(const Tensor& value);
  absl::Status WriteVariants(const Tensor& value);

  FileSystem& files_;
  const std::string prefix_;
  std::string data_path_;
  internal::TemporaryFiles temporary_;
  std::unique_ptr<WritableFile> data_;
  int64_t size_ = 0;  // size of the data file so far, in bytes
  uint32_t crc_ = 0;  // checksum of the tensor that is being written
  std::map<std::string, tensorflow::BundleEntryProto> entries_;
  absl::Status status_;
};

}  // namespace thalweg
