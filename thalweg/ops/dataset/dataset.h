// Datasets: a scalar variant that says how to make a sequence of elements, each
// a list of tensors. Ops like BatchDataset wrap one around another; an iterator
// (iterator.h) draws the elements.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/ops/dataset/iterator_context.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {

using Element = std::vector<Tensor>;
using NextElement = absl::StatusOr<std::optional<Element>>;  // none: the sequence has ended

// The files, or the elements, that a task of several reads: every `count`-th,
// from `index` on.
struct Shard {
  int64_t count = 1;
  int64_t index = 0;
};

class StatsAggregator;

// Where datasets count what they do, under names with this prefix; nowhere if
// there is no aggregator.
struct StatsSink {
  std::shared_ptr<StatsAggregator> aggregator;
  std::string prefix;
};

// Under what circumstances a sequence is started, or an element made.
struct Iteration {
  IteratorContext& context;    // what all parts of an iterator share
  Cancellation& cancellation;  // ends the call that wants the element
  // While a sequence is started: the kinds of the datasets around it, the
  // outermost first, and which of the files are to be read.
  std::vector<std::string> path = {};
  std::optional<Shard> files = std::nullopt;
  bool files_found = false;  // a part that reads files has heeded it
  // The pipeline comes from TensorFlow 1.15, which makes one of Repeat(Shuffle(x)).
  bool fuses_shuffle_and_repeat = false;
  StatsSink stats = {};

  Device& device() const { return context.device(); }
  // The reason if nobody wants the element any more. Loops ask in every round.
  absl::Status Check() const { return cancellation.status(); }
};

// Makes the next element. One call at a time.
class Next {
 public:
  Next() = default;
  Next(std::nullptr_t) {}  // NOLINT
  template <typename F>
  requires std::is_invocable_r_v<NextElement, F&, Iteration&> Next(F call)  // NOLINT: lambdas are these
      : call_(std::move(call)) {}
  // `ready` tells whether a call would not wait now.
  Next(absl::AnyInvocable<NextElement(Iteration&)> call, absl::AnyInvocable<bool()> ready)
      : call_(std::move(call)), ready_(std::move(ready)) {}

  explicit operator bool() const { return static_cast<bool>(call_); }
  NextElement operator()(Iteration& it) { return call_(it); }
  bool ready() { return ready_ && ready_(); }

 private:
  absl::AnyInvocable<NextElement(Iteration&)> call_;
  absl::AnyInvocable<bool()> ready_;
};

// Immutable, as every variant.
class DatasetValue final : public VariantValue {
 public:
  static constexpr int64_t kInfinite = -1, kUnknown = -2;
  using Start = std::function<absl::StatusOr<Next>(Iteration&)>;

  // A sequence of several rounds, where that is not the same as one after the other.
  using StartRounds = std::function<absl::StatusOr<Next>(Iteration&, int64_t rounds)>;

  DatasetValue(std::string kind, int64_t cardinality, Start start, StartRounds start_rounds = nullptr)
      : kind_(std::move(kind)),
        cardinality_(cardinality),
        start_(std::move(start)),
        start_rounds_(std::move(start_rounds)) {}

  // How many elements there are, or kInfinite, or kUnknown.
  int64_t cardinality() const { return cardinality_; }
  // A new sequence, from the first element on.
  absl::StatusOr<Next> Iterate(Iteration& iteration) const;
  const StartRounds& start_rounds() const { return start_rounds_; }

  std::string TypeName() const override { return "tensorflow::DatasetVariantWrapper"; }
  std::string ToString() const override { return kind_; }
  bool Encode(tensorflow::VariantTensorDataProto*) const override { return false; }

 private:
  const std::string kind_;  // the op that made it
  const int64_t cardinality_;
  const Start start_;
  const StartRounds start_rounds_;
};

using DatasetPtr = std::shared_ptr<const DatasetValue>;

// INVALID_ARGUMENT if it is not a dataset.
absl::StatusOr<DatasetPtr> DatasetIn(const Tensor& tensor);
Tensor TensorOf(DatasetPtr dataset);
// Shows in output 0 a dataset of the op's own kind.
absl::Status SetDataset(KernelContext& c, int64_t cardinality, DatasetValue::Start start,
                        DatasetValue::StartRounds start_rounds = nullptr);
// A dataset of these elements.
DatasetPtr ListedDataset(std::string kind, std::vector<Element> elements);
// Every `count`-th element of another, from `index` on. With `require`, fewer
// elements than shards are an error.
absl::StatusOr<Next> ShardOf(const DatasetValue& input, const Shard& shard, bool require, Iteration& it);

// The value of input i, which has one element. INVALID_ARGUMENT if it has not.
absl::StatusOr<int64_t> IntArgument(KernelContext& c, int i, absl::string_view name);
absl::StatusOr<bool> BoolArgument(KernelContext& c, int i, absl::string_view name);
absl::StatusOr<std::string> StringArgument(KernelContext& c, int i, absl::string_view name);

// Adds at most `count` elements of `next`, fewer if it ends before, to `elements`.
absl::Status Collect(Next& next, int64_t count, Iteration& it, std::vector<Element>* elements);
// Elements of the same shapes as one, with a new first dimension.
absl::StatusOr<Element> MakeBatch(const std::vector<Element>& rows);
// The cardinality of batches of `size` elements out of `n`.
int64_t BatchCardinality(int64_t n, int64_t size, bool drop_remainder);

}  // namespace thalweg
