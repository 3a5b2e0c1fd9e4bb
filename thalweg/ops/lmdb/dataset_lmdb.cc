// SPDX-License-Identifier: Apache-2.0
// LMDB(files): the records of LMDB databases, database after database. An element is a key and a value.
#include "thalweg/base/status.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/lmdb/lmdb.h"

namespace thalweg {
namespace {

// Not thread-safe.
class LmdbElements {
 public:
  explicit LmdbElements(Tensor files) : files_(std::move(files)) {}

  NextElement Take(Iteration& it) {
    while (file_ < files_.num_elements()) {
      RETURN_IF_ERROR(it.Check());
      if (records_ == nullptr) {
        ASSIGN_OR_RETURN(records_, LmdbRecords::Open(files_.data<std::string>()[file_]));
      }
      std::string key, value;
      ASSIGN_OR_RETURN(const bool more, records_->Next(&key, &value));
      if (more) return Element{Tensor::Scalar(std::move(key)), Tensor::Scalar(std::move(value))};
      records_ = nullptr;
      ++file_;
    }
    return std::nullopt;
  }

 private:
  const Tensor files_;
  int64_t file_ = 0;
  std::unique_ptr<LmdbRecords> records_;
};

absl::Status ComputeLmdb(KernelContext& c) {
  const Tensor files = c.input(0);
  if (files.rank() > 1) return InvalidArgument("`filenames` must be a scalar or a vector.");
  return SetDataset(c, DatasetValue::kUnknown, [files](Iteration&) -> absl::StatusOr<Next> {
    return [elements = std::make_unique<LmdbElements>(files)](Iteration& it) { return elements->Take(it); };
  });
}

const OpRegistration kDatasetLmdbOps[] = {
    DatasetOp("LMDBDataset", "filenames: string", "TYPES").Stateful().Compute(ComputeLmdb),
    DatasetOp("ExperimentalLMDBDataset", "filenames: string", "TYPES").Stateful().Compute(ComputeLmdb),
};

}  // namespace
}  // namespace thalweg
