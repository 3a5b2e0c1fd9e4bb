// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/accumulator.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/clock.h"
#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/data_flow/roster.h"

namespace thalweg {
namespace {

// Gradients beyond this number are added up on arrival, so that an accumulator from which nobody takes does not
// grow without limit.
constexpr size_t kMaxHeld = 64;

template <typename T>
THALWEG_SIMD void AddTo(const T* x, int64_t n, T* sum) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<T>(sum[i] + x[i]);
}

template <typename T>
THALWEG_SIMD void DivideBy(T divisor, int64_t n, T* x) {
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(x[i] / divisor);
}

// Blocks that stay in the first cache, so that memory is read and written once.
template <typename T>
void SumDense(const Accumulator::Gradients& gradients, int64_t divisor, int64_t begin, int64_t end, T* sum) {
  constexpr int64_t kBlock = 2048;
  for (; begin < end; begin += kBlock) {
    const int64_t size = std::min(kBlock, end - begin);
    std::copy_n(gradients[0].values.data<T>() + begin, size, sum + begin);
    for (size_t i = 1; i < gradients.size(); ++i) AddTo(gradients[i].values.data<T>() + begin, size, sum + begin);
    if (divisor != 1) DivideBy(static_cast<T>(static_cast<float>(divisor)), size, sum + begin);
  }
}

absl::StatusOr<AccumulatedGradient> DenseSum(const Accumulator::Gradients& gradients, bool mean,
                                             KernelContext* context) {
  AccumulatedGradient total;
  total.count = 0;
  for (const AccumulatedGradient& g : gradients) total.count += g.count;
  const int64_t divisor = mean ? total.count : 1;
  if (gradients.size() == 1 && divisor == 1) {
    total.values = gradients[0].values;
    return total;
  }
  ASSIGN_OR_RETURN(total.values, Tensor::Allocate(gradients[0].values.dtype(), gradients[0].values.shape()));
  RETURN_IF_ERROR(Dispatch(FloatTypes(), total.values.dtype(), [&]<typename T>() {
    T* const sum = total.values.mutable_data<T>();
    const auto part = [&](int64_t begin, int64_t end) { SumDense<T>(gradients, divisor, begin, end, sum); };
    const int64_t n = total.values.num_elements();
    if (context == nullptr) {
      part(0, n);
    } else {
      context->ParallelFor(n, 0.2 * static_cast<double>(gradients.size()), part);
    }
    return absl::OkStatus();
  }));
  return total;
}

// A row of the sum: which rows of which gradients it is made of, as a list.
struct Row {
  int64_t index;
  int32_t first, last;  // Source
  int32_t count;
};
struct Source {
  int32_t gradient;
  int64_t row;
  int32_t next;  // -1: none
};

// Merges like TensorFlow: one gradient after the other, reading both sides in order. If the indices are sorted,
// rows with the same index are added. Otherwise they may stay separate, which is a valid sum, too.
std::vector<Row> MergeRows(const Accumulator::Gradients& gradients, std::vector<Source>* sources) {
  std::vector<Row> rows;
  for (size_t g = 0; g < gradients.size(); ++g) {
    const auto indices = gradients[g].indices.flat<int64_t>();
    std::vector<Row> merged;
    merged.reserve(rows.size() + indices.size());
    size_t i = 0;
    for (size_t j = 0; j < indices.size(); ++j) {
      while (i < rows.size() && rows[i].index < indices[j]) merged.push_back(rows[i++]);
      const auto source = static_cast<int32_t>(sources->size());
      sources->push_back({static_cast<int32_t>(g), static_cast<int64_t>(j), -1});
      const int32_t count = gradients[g].counts.empty() ? 1 : gradients[g].counts[j];
      if (i < rows.size() && rows[i].index == indices[j]) {
        Row row = rows[i++];
        (*sources)[row.last].next = source;
        row.last = source;
        row.count += count;
        merged.push_back(row);
      } else {
        merged.push_back({indices[j], source, source, count});
      }
    }
    merged.insert(merged.end(), rows.begin() + static_cast<int64_t>(i), rows.end());
    rows = std::move(merged);
  }
  return rows;
}

absl::StatusOr<AccumulatedGradient> SparseSum(const Accumulator::Gradients& gradients, bool mean) {
  std::vector<Source> sources;
  const std::vector<Row> rows = MergeRows(gradients, &sources);
  AccumulatedGradient total;
  total.count = 0;
  for (const AccumulatedGradient& g : gradients) total.count += g.count;
  const auto n = static_cast<int64_t>(rows.size());
  Dims dims(gradients[0].values.shape().dims().begin(), gradients[0].values.shape().dims().end());
  dims[0] = n;
  ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  const int64_t width = shape.Product(1, shape.rank());
  ASSIGN_OR_RETURN(total.values, Tensor::Allocate(gradients[0].values.dtype(), std::move(shape)));
  ASSIGN_OR_RETURN(total.indices, Tensor::Allocate(kInt64, Shape({n})));
  total.counts.reserve(rows.size());
  for (int64_t r = 0; r < n; ++r) {
    total.indices.mutable_data<int64_t>()[r] = rows[r].index;
    total.counts.push_back(rows[r].count);
  }
  RETURN_IF_ERROR(Dispatch(FloatTypes(), total.values.dtype(), [&]<typename T>() {
    for (int64_t r = 0; r < n; ++r) {
      T* const sum = total.values.mutable_data<T>() + r * width;
      for (int32_t s = rows[r].first; s >= 0; s = sources[s].next) {
        const T* const row = gradients[sources[s].gradient].values.template data<T>() + sources[s].row * width;
        if (s == rows[r].first) {
          std::copy_n(row, width, sum);
        } else {
          AddTo(row, width, sum);
        }
      }
      if (mean && rows[r].count != 1) DivideBy(static_cast<T>(static_cast<float>(rows[r].count)), width, sum);
    }
    return absl::OkStatus();
  }));
  return total;
}

}  // namespace

absl::StatusOr<AccumulatedGradient> SumGradients(const Accumulator::Gradients& gradients, bool mean,
                                                 KernelContext* context) {
  return gradients[0].indices.has_value() ? SparseSum(gradients, mean) : DenseSum(gradients, mean, context);
}

absl::Status Accumulator::Check(const AccumulatedGradient& gradient) const {
  const Shape& shape = gradient.values.shape();
  if (gradient.values.dtype() != options_.dtype) {
    return InvalidArgument("a gradient of type ", gradient.values.dtype(), " for an accumulator of ", options_.dtype);
  }
  if (!options_.sparse) {
    if (count_ > 0 && !(gradients_[0].values.shape() == shape)) {
      return InvalidArgument("Shape mismatch: expected ", gradients_[0].values.shape(), ", got ", shape);
    }
    if (!options_.shape.Accepts(shape)) {
      return InvalidArgument("Shape mismatch: expected ", options_.shape, ", got ", shape);
    }
    return absl::OkStatus();
  }
  const PartialShape& whole = options_.shape;
  if (whole.rank() > 0 && whole.dim(0) >= 0) {
    const auto indices = gradient.indices.flat<int64_t>();
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] >= whole.dim(0)) {
        return InvalidArgument("Shape mismatch: index of slice ", i, " exceeded limits of shape; index is ", indices[i],
                               " exceeded ", whole.dim(0));
      }
    }
  }
  // The rows must match the collected ones or, for the first gradient, the shape.
  const bool first = count_ == 0;
  const PartialShape rows = first ? whole : PartialShape(gradients_[0].values.shape());
  if (first ? rows.rank() > shape.rank() : rows.rank() != shape.rank()) {
    return InvalidArgument("Shape mismatch: expected values rank ", first ? "at least " : "", rows.rank(), ", got ",
                           shape.rank());
  }
  for (int i = 1; i < rows.rank(); ++i) {
    if (rows.dim(i) >= 0 && rows.dim(i) != shape.dim(i)) {
      return InvalidArgument("Shape mismatch: expected values dim ", i, " to be ", rows.dim(i), ", got ", shape.dim(i));
    }
  }
  return absl::OkStatus();
}

absl::Status Accumulator::Apply(int64_t local_step, AccumulatedGradient gradient, int64_t worker, bool once,
                                const std::string& source) {
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    Entry& entry = ledger_[worker];
    Entry* const of_source = worker == kUnknownWorker ? &sources_[source] : nullptr;
    entry.last_step = local_step;
    const int64_t oldest = static_cast<int64_t>(staleness_.size()) - 1;
    ++staleness_[static_cast<size_t>(std::clamp<int64_t>(global_step_ - local_step, 0, oldest))];
    const auto count = [&](int64_t Entry::*what) {
      ++(entry.*what);
      if (of_source != nullptr) ++(of_source->*what);
    };
    entry.round = round_ + 1;
    if (local_step < global_step_) {
      entry.round = round_;
      count(&Entry::stale);
      return absl::OkStatus();
    }
    if (once && entry.held > 0) {
      count(&Entry::repeated);
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(Check(gradient));
    if (gradients_.size() >= kMaxHeld) {
      ASSIGN_OR_RETURN(AccumulatedGradient sum, SumGradients(gradients_, /*mean=*/false, nullptr));
      gradients_.clear();
      gradients_.push_back(std::move(sum));
    }
    gradients_.push_back(std::move(gradient));
    ++count_;
    count(&Entry::accepted);
    count(&Entry::held);
    takes_.Flush(&ended);
  }
  WaitList::End(std::move(ended));
  return absl::OkStatus();
}

void Accumulator::Take(int64_t required, const WaitingCaller& caller, TakeDone done) {
  if (required <= 0) {
    return done(InvalidArgument("Argument num_required must be positive, but was ", required), {});
  }
  const auto taken = std::make_shared<Gradients>();
  takes_.Start(
      shared_from_this(), &mutex_, "TakeGrad", caller,
      [this, required, taken, since_nanos = int64_t{0}](absl::Status*) mutable {
        mutex_.AssertHeld();
        if (!HasEnough(required, /*total=*/0, &since_nanos)) return false;
        *taken = TakeAll();
        return true;
      },
      [taken, done = std::move(done)](const absl::Status& status) mutable { done(status, std::move(*taken)); },
      [this](WaitList::Ended* ended) { takes_.Flush(ended); });
}

int64_t Accumulator::NumWanted(int64_t required) const {
  return Quorum(required, total_, static_cast<int64_t>(left_.size()));
}

bool Accumulator::HasEnough(int64_t required, int64_t total, int64_t* since_nanos) {
  if (count_ >= NumWanted(required)) return true;
  if (*since_nanos == 0) *since_nanos = NowNanos();
  wait_ = {.required = required, .total = total, .since_nanos = *since_nanos};
  return false;
}

Accumulator::Gradients Accumulator::TakeAll() {
  ++global_step_;
  return Empty(/*dropped=*/false);
}

Accumulator::Gradients Accumulator::Empty(bool dropped) {
  const auto empty = [dropped](Entry& entry) {
    if (dropped) entry.dropped += entry.held;
    entry.held = 0;
  };
  for (auto& [worker, entry] : ledger_) empty(entry);
  for (auto& [source, entry] : sources_) empty(entry);
  count_ = 0;
  return std::exchange(gradients_, {});
}

absl::Status Accumulator::CheckRound(int64_t round) const {
  if (round == round_ || round == round_ + 1) return absl::OkStatus();
  return Aborted("Round ", round, " of a synchronous training is over: its accumulators are at round ", round_);
}

void Accumulator::AwaitRound(int64_t required, int64_t total, int64_t round, const WaitingCaller& caller, Done done) {
  takes_.Start(
      shared_from_this(), &mutex_, "AwaitRound", caller,
      [this, required, total, round, since_nanos = int64_t{0}](absl::Status* status) mutable {
        mutex_.AssertHeld();
        *status = CheckRound(round);
        if (!status->ok() || round == round_) return true;
        taken_.clear();
        return HasEnough(required, total, &since_nanos);
      },
      [done = std::move(done)](const absl::Status& status) mutable { done(status); },
      [this](WaitList::Ended* ended) { takes_.Flush(ended); });
}

absl::StatusOr<Accumulator::Gradients> Accumulator::TakeRound(int64_t round) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckRound(round));
  if (round == round_ + 1 && count_ > 0) {
    taken_ = TakeAll();
    round_ = round;
  }
  if (round != round_ || taken_.empty()) return Aborted("Round ", round, " of a synchronous training has no gradients");
  return taken_;
}

void Accumulator::Reset(int64_t step, int64_t round) {
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    Empty(/*dropped=*/true);
    taken_.clear();
    global_step_ = step;
    round_ = round;
    takes_.Flush(&ended);
  }
  WaitList::End(std::move(ended));
}

void Accumulator::SetGlobalStep(int64_t step) {
  MutexLock lock(&mutex_);
  if (step < global_step_) {
    LOG(WARNING) << "the step of an accumulator is set back from " << global_step_ << " to " << step
                 << "; its gradients are dropped";
    Empty(/*dropped=*/true);  // they belong to variables that were replaced
  }
  global_step_ = step;
}

int64_t Accumulator::num_accumulated() const {
  MutexLock lock(&mutex_);
  return count_;
}
int64_t Accumulator::accepted() const {
  int64_t n = 0;
  for (const auto& [worker, entry] : ledger()) n += entry.accepted;
  return n;
}
int64_t Accumulator::refused() const {
  int64_t n = 0;
  for (const auto& [worker, entry] : ledger()) n += entry.refused();
  return n;
}
void Accumulator::Report(ResourceReport* report) const {
  MutexLock lock(&mutex_);
  ++report->accumulators;
  const auto add = [&](const std::string& worker, const Entry& entry) {
    ResourceReport::Gradients& sum = report->gradients[worker];
    sum.accepted += entry.accepted;
    sum.stale += entry.stale;
    sum.dropped += entry.repeated + entry.dropped;
  };
  for (const auto& [worker, entry] : ledger_) {
    if (worker != kUnknownWorker) add(absl::StrCat("worker ", worker), entry);
  }
  for (const auto& [source, entry] : sources_) add(source, entry);
  for (size_t i = 0; i < staleness_.size(); ++i) report->staleness[i] += staleness_[i];
  if (takes_.size() > 0) ReportWait(report);
}

void Accumulator::ReportWait(ResourceReport* report) const {
  const auto [known, is_new] = report->gradient_waits.try_emplace(global_step_);
  ResourceReport::GradientWait& wait = known->second;
  wait.have = is_new ? count_ : std::min(wait.have, count_);
  wait.wanted = std::max(wait.wanted, NumWanted(wait_.required));
  wait.since_nanos = is_new ? wait_.since_nanos : std::min(wait.since_nanos, wait_.since_nanos);
  for (int64_t worker = 0; worker < wait_.total; ++worker) {
    const auto entry = ledger_.find(worker);
    const bool given = entry != ledger_.end() && entry->second.held > 0;
    if (!given && !left_.contains(worker)) wait.missing.insert(absl::StrCat("worker ", worker));
  }
  for (const auto& [source, entry] : sources_) {
    if (entry.held == 0) wait.missing.insert(source);
  }
}

Accumulator::Ledger Accumulator::ledger() const {
  MutexLock lock(&mutex_);
  return ledger_;
}

int64_t Accumulator::RoundOf(int64_t worker) const {
  MutexLock lock(&mutex_);
  const auto it = ledger_.find(worker);
  return it == ledger_.end() ? -1 : it->second.round;
}

void Accumulator::Leave(int64_t worker, int64_t total) {
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    left_.insert(worker);
    total_ = total;
    takes_.Flush(&ended);
  }
  WaitList::End(std::move(ended));
}

void Accumulator::Join(int64_t worker) {
  MutexLock lock(&mutex_);
  if (worker == kUnknownWorker) {
    left_.clear();
  } else {
    left_.erase(worker);
  }
}

std::string Accumulator::Describe() const {
  return absl::StrCat("an accumulator of ", ToString(options_.dtype), " ", options_.shape.ToString(), ": ", accepted(),
                      " gradients accepted, ", refused(), " refused");
}

}  // namespace thalweg
