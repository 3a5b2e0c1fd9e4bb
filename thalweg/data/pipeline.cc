// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/pipeline.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "thalweg/base/glob.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/data/record_order.h"

namespace thalweg::data {
namespace {

using Result = absl::StatusOr<std::optional<Tensors>>;

absl::Status CheckOptions(const PipelineOptions& o) {
  if (o.format == nullptr || o.decode == nullptr) return InvalidArgument("pipeline: format and decode are needed");
  if (o.files.empty()) return InvalidArgument("pipeline: there are no files, expected names or patterns");
  if (o.batch_size < 1 || o.threads < 1 || o.prefetch < 1) {
    return InvalidArgument("pipeline: batch_size, threads and prefetch must be at least 1, got ", o.batch_size, ", ",
                           o.threads, " and ", o.prefetch);
  }
  if (o.num_shards < 1 || o.shard < 0 || o.shard >= o.num_shards) {
    return InvalidArgument("pipeline: no shard ", o.shard, " of ", o.num_shards);
  }
  if (o.shuffle < 0 || o.epochs < 0) {
    return InvalidArgument("pipeline: shuffle and epochs must not be negative, got ", o.shuffle, " and ", o.epochs);
  }
  return absl::OkStatus();
}

// Puts files in the places of patterns. A file may have a name that looks like one.
absl::Status ExpandPatterns(PipelineOptions* o) {
  std::vector<std::string> files;
  for (const std::string& name : o->files) {
    if (name.find_first_of("*?[") == std::string::npos || o->file_system->FileExists(name).ok()) {
      files.push_back(name);
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> matching, MatchingPaths(*o->file_system, name));
    if (matching.empty()) return NotFound("pipeline: no file matches ", name);
    files.insert(files.end(), matching.begin(), matching.end());
  }
  o->files = std::move(files);
  return absl::OkStatus();
}

absl::Status Prepare(PipelineOptions* o) {
  RETURN_IF_ERROR(CheckOptions(*o));
  return ExpandPatterns(o);
}

void CopyExample(const Tensor& example, int64_t to, Tensor& batch) {
  const int64_t n = example.num_elements();
  if (example.dtype() == kString) {
    std::copy_n(example.data<std::string>(), n, batch.mutable_data<std::string>() + to * n);
  } else if (n > 0) {
    const size_t bytes = static_cast<size_t>(n) * ElementSize(example.dtype());
    std::memcpy(static_cast<char*>(batch.raw()) + to * bytes, example.raw(), bytes);
  }
}

}  // namespace

absl::StatusOr<Tensors> StackExamples(const std::vector<Tensors>& examples) {
  Tensors batch;
  if (examples.empty()) return batch;
  for (size_t e = 0; e < examples.size(); ++e) {
    if (examples[e].size() != examples[0].size()) {
      return InvalidArgument("example ", e, " of the batch has ", examples[e].size(), " tensors, the first has ",
                             examples[0].size());
    }
  }
  const int64_t count = static_cast<int64_t>(examples.size());
  for (size_t i = 0; i < examples[0].size(); ++i) {
    const Tensor& first = examples[0][i];
    Dims dims = {count};
    for (const int64_t d : first.shape().dims()) dims.push_back(d);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor stacked, Tensor::Allocate(first.dtype(), shape));
    for (int64_t e = 0; e < count; ++e) {
      const Tensor& one = examples[e][i];
      if (one.dtype() != first.dtype() || one.shape() != first.shape()) {
        return InvalidArgument("tensor ", i, " of example ", e, " of the batch is ", one.dtype(), " ", one.shape(),
                               ", that of the first is ", first.dtype(), " ", first.shape());
      }
      CopyExample(one, e, stacked);
    }
    batch.push_back(std::move(stacked));
  }
  return batch;
}

// Batches have numbers. A thread takes the next number and, before any other
// thread may, the records for it; it decodes them beside the others, and leaves
// the batch under its number.
class Pipeline::Core {
 public:
  explicit Core(PipelineOptions options)
      : prepared_(Prepare(&options)), options_(std::move(options)), order_(options_) {
    if (!prepared_.ok()) {
      ready_.emplace(0, prepared_);
      return;
    }
    for (int i = 0; i < std::min(options_.threads, options_.prefetch); ++i) {
      threads_.push_back(std::make_unique<Thread>("pipeline", [this] { Work(); }));
    }
  }
  ~Core() { Stop(); }

  Result Next() {
    MutexLock lock(&mu_);
    const absl::Time start = absl::Now();
    while (!stopped_ && ready_.find(given_) == ready_.end()) {
      if (changed_.WaitWithTimeout(&mu_, absl::Seconds(10))) {
        LOG(WARNING) << "waiting for batch " << given_ << " of " << options_.files.size() << " files from "
                     << options_.files[0] << " for "
                     << absl::FormatDuration(absl::Trunc(absl::Now() - start, absl::Seconds(1)));
      }
    }
    if (stopped_) return Cancelled("the pipeline was stopped");
    const auto it = ready_.find(given_);
    // The end, or an error, stays.
    if (!it->second.ok() || !it->second->has_value()) return it->second;
    Result batch = std::move(it->second);
    ready_.erase(it);
    ++given_;
    changed_.SignalAll();
    return batch;
  }

  void Stop() {
    MutexLock lock(&mu_);
    stopped_ = true;
    changed_.SignalAll();
  }

 private:
  void Work() {
    for (;;) {
      int64_t number;
      {
        MutexLock lock(&mu_);
        while (!stopped_ && !ended_ && (reading_ || taken_ >= given_ + options_.prefetch)) changed_.Wait(&mu_);
        if (stopped_ || ended_) return;
        reading_ = true;
        number = taken_++;
      }
      std::vector<Record> records;
      const absl::Status read = ReadBatch(&records);
      const bool last = !read.ok() || static_cast<int64_t>(records.size()) < options_.batch_size;
      {
        MutexLock lock(&mu_);
        reading_ = false;
        ended_ = ended_ || last;
        changed_.SignalAll();
      }
      Result batch = read.ok() ? DecodeBatch(records, last) : Result(read);
      MutexLock lock(&mu_);
      if (!batch.ok()) ended_ = true;
      // The end marker after the last batch; no other thread uses that number.
      if (last && batch.ok() && batch->has_value()) ready_.emplace(number + 1, std::nullopt);
      ready_.emplace(number, std::move(batch));
      changed_.SignalAll();
    }
  }

  // REQUIRES: reading_ was set by this thread.
  absl::Status ReadBatch(std::vector<Record>* records) {
    while (static_cast<int64_t>(records->size()) < options_.batch_size) {
      Record record;
      ASSIGN_OR_RETURN(const bool found, order_.Next(&record));
      if (!found) break;
      records->push_back(std::move(record));
    }
    return absl::OkStatus();
  }

  Result DecodeBatch(const std::vector<Record>& records, bool last) const {
    if (records.empty() || (last && options_.drop_remainder)) return Result(std::nullopt);
    std::vector<Tensors> examples;
    for (const Record& record : records) {
      absl::StatusOr<Tensors> example = options_.decode(record);
      if (!example.ok()) {
        return Prepend(example.status(), absl::StrCat(options_.files[record.file], ", record ", record.number, ": "));
      }
      examples.push_back(*std::move(example));
    }
    absl::StatusOr<Tensors> batch = StackExamples(examples);
    if (!batch.ok()) {
      return Prepend(batch.status(), absl::StrCat("batch that begins with ", options_.files[records[0].file],
                                                  ", record ", records[0].number, ": "));
    }
    return Result(*std::move(batch));
  }

  const absl::Status prepared_;  // before the options, which it has changed
  const PipelineOptions options_;
  RecordOrder order_;  // used by the thread that set reading_

  Mutex mu_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;    // all records were read
  bool reading_ ABSL_GUARDED_BY(mu_) = false;  // a thread takes records
  int64_t taken_ ABSL_GUARDED_BY(mu_) = 0;     // numbers that threads took
  int64_t given_ ABSL_GUARDED_BY(mu_) = 0;     // batches that Next gave
  std::map<int64_t, Result> ready_ ABSL_GUARDED_BY(mu_);

  std::vector<std::unique_ptr<Thread>> threads_;  // last: joined while the rest lives
};

Pipeline::Pipeline(const PipelineOptions& options) : core_(std::make_unique<Core>(options)) {}
Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;

absl::StatusOr<std::optional<Tensors>> Pipeline::Next() {
  Result batch = core_->Next();
  status_ = batch.status();
  return batch;
}

void Pipeline::Stop() { core_->Stop(); }

Pipeline::Iterator& Pipeline::Iterator::operator++() {
  Result batch = pipeline_->Next();
  batch_ = batch.ok() ? *std::move(batch) : std::nullopt;
  return *this;
}

}  // namespace thalweg::data
