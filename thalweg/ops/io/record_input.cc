// SPDX-License-Identifier: Apache-2.0
// RecordInput gives batches of records of TFRecord files, in random order and
// without end. An epoch is over when every record was given once; files come in
// another order in each, and the first of them rotates by a share of their number.
#include <cmath>
#include <deque>
#include <random>

#include "thalweg/base/file_system.h"
#include "thalweg/base/glob.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/data/tfrecord.h"
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

class RecordInputKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(pattern_, init.Attr<std::string>("file_pattern"));
    ASSIGN_OR_RETURN(const int64_t seed, init.Attr<int64_t>("file_random_seed"));
    ASSIGN_OR_RETURN(shift_ratio_, init.Attr<float>("file_shuffle_shift_ratio"));
    ASSIGN_OR_RETURN(buffer_size_, init.Attr<int64_t>("file_buffer_size"));
    ASSIGN_OR_RETURN(const int64_t parallelism, init.Attr<int64_t>("file_parallelism"));
    ASSIGN_OR_RETURN(batch_size_, init.Attr<int64_t>("batch_size"));
    if (!(shift_ratio_ >= 0 && shift_ratio_ <= 1)) {
      return InvalidArgument("file_shuffle_shift_ratio must be between 0 and 1, got ", shift_ratio_);
    }
    if (batch_size_ <= 0) return InvalidArgument("batch_size must be positive, got ", batch_size_);
    if (buffer_size_ <= 0) return InvalidArgument("file_buffer_size must be positive, got ", buffer_size_);
    if (parallelism <= 0) return InvalidArgument("file_parallelism must be positive, got ", parallelism);
    ASSIGN_OR_RETURN(const std::string compression, init.Attr<std::string>("compression_type"));
    ASSIGN_OR_RETURN(compression_, data::CompressionFromName(compression));
    MutexLock lock(&mutex_);
    random_.seed(static_cast<uint64_t>(seed));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(Tensor * y, c.Allocate(0, Shape({batch_size_})));
    MutexLock lock(&mutex_);
    for (std::string& record : y->flat<std::string>()) {
      RETURN_IF_ERROR(c.step().cancellation->status());
      ASSIGN_OR_RETURN(record, NextRecord());
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::string> NextRecord() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    RETURN_IF_ERROR(FillBuffer());
    if (buffer_.empty()) {
      RETURN_IF_ERROR(StartEpoch());
      RETURN_IF_ERROR(FillBuffer());
      if (buffer_.empty()) return NotFound("the files '", pattern_, "' have no records");
    }
    std::swap(buffer_.back(), buffer_[random_() % buffer_.size()]);
    std::string record = std::move(buffer_.back());
    buffer_.pop_back();
    return record;
  }

  absl::Status StartEpoch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ASSIGN_OR_RETURN(std::vector<std::string> paths, MatchingPaths(PosixFileSystem(), pattern_));
    if (paths.empty()) return NotFound("Found no files at ", pattern_);
    std::shuffle(paths.begin(), paths.end(), random_);
    const auto shift = static_cast<size_t>(std::floor(static_cast<double>(epoch_++) * shift_ratio_ * paths.size()));
    std::rotate(paths.begin(), paths.begin() + shift % paths.size(), paths.end());
    files_.assign(paths.begin(), paths.end());
    return absl::OkStatus();
  }

  // From the files that are left of this epoch.
  absl::Status FillBuffer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (static_cast<int64_t>(buffer_.size()) < buffer_size_ && (reader_ != nullptr || !files_.empty())) {
      if (reader_ == nullptr) {
        const std::string path = std::move(files_.front());
        files_.pop_front();
        ASSIGN_OR_RETURN(reader_, data::RecordReader::Open(path, compression_));
      }
      std::string record;
      const absl::StatusOr<bool> more = reader_->Next(&record);
      if (more.ok() && *more) {
        buffer_.push_back(std::move(record));
      } else {
        reader_.reset();
        RETURN_IF_ERROR(more.status());
      }
    }
    return absl::OkStatus();
  }

  std::string pattern_;
  float shift_ratio_ = 0;
  int64_t buffer_size_ = 0;
  int64_t batch_size_ = 0;
  data::Compression compression_ = data::Compression::kNone;
  Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  int64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::string> files_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<data::RecordReader> reader_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> buffer_ ABSL_GUARDED_BY(mutex_);
};

const OpRegistration kRecordInput = Op("RecordInput")
                                        .Output("records: string")
                                        .Attr("file_pattern: string")
                                        .Attr("file_random_seed: int = 301")
                                        .Attr("file_shuffle_shift_ratio: float = 0")
                                        .Attr("file_buffer_size: int = 10000")
                                        .Attr("file_parallelism: int = 16")
                                        .Attr("batch_size: int = 32")
                                        .Attr("compression_type: string = ''")
                                        .Stateful()
                                        .Shape([](ShapeContext& c) {
                                          ASSIGN_OR_RETURN(const int64_t size, c.Attr<int64_t>("batch_size"));
                                          c.set_output(0, PartialShape({std::max<int64_t>(size, -1)}));
                                          return absl::OkStatus();
                                        })
                                        .Kernel<RecordInputKernel>()
                                        .NotDifferentiable();

}  // namespace
}  // namespace thalweg
