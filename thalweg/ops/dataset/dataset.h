// SPDX-License-Identifier: Apache-2.0
// A dataset is a scalar variant that describes how to produce a sequence of elements, each a list of
// tensors. Ops like BatchDataset wrap one dataset in another. An iterator (iterator.h) produces the elements.
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
#include "thalweg/base/exception_boundary.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/ops/dataset/iterator_context.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {

using Element = std::vector<Tensor>;
using NextElement = absl::StatusOr<std::optional<Element>>;  // none: the sequence has ended

// The files or elements that one of several tasks reads: every `count`-th, starting at `index`.
struct Shard {
  int64_t count = 1;
  int64_t index = 0;
};

struct PostponedShuffle;

// How a sequence is sharded by file.
struct FileSharding {
  std::optional<Shard> shard;  // of the files to read
  // Set in a sequence of file names that is about to be sharded: shuffles leave the order alone, and store themselves
  // here instead.
  std::shared_ptr<PostponedShuffle> postponed;
};

class StatsAggregator;

// Collects the statistics of datasets under names with this prefix. Does nothing without an aggregator.
struct StatsSink {
  std::shared_ptr<StatsAggregator> aggregator;
  std::string prefix;
};

// The context in which a sequence is started or an element is produced.
struct Iteration {
  IteratorContext& context;    // shared by all stages of an iterator
  Cancellation& cancellation;  // cancels the call that requests the element
  // While a sequence is started: the kinds of the enclosing datasets, outermost first, and how its files are sharded.
  std::vector<std::string> path = {};
  FileSharding files = {};
  bool files_found = false;  // a stage that reads files has applied the shard
  // The pipeline comes from TensorFlow 1.15, which fuses Repeat(Shuffle(x)).
  bool fuses_shuffle_and_repeat = false;
  StatsSink stats = {};
  // A stage that is certain to take several elements, unless its input ends before, tells its input so. A generator in
  // Python then makes them in one go. A stage passes this on if it needs at least one element for each that it gives.
  bool counted = false;       // while a sequence is started: its consumer sets `wanted`
  bool counts_input = false;  // set by a stage that starts its input, if it sets `wanted` or passes it on
  int64_t wanted = 1;         // while an element is produced: the elements that the consumer needs, this one included

  Device& device() const { return context.device(); }
  // Not OK if the request was cancelled. Loops check this in every iteration.
  absl::Status Check() const { return cancellation.status(); }
};

// Produces the next element. One call at a time.
class Next {
 public:
  Next() = default;
  Next(std::nullptr_t) {}  // NOLINT
  template <typename F>
  requires std::is_invocable_r_v<NextElement, F&, Iteration&> Next(F call)  // NOLINT: lambdas are these
      : call_(std::move(call)) {}
  // `ready` tells whether a call would return without waiting.
  Next(absl::AnyInvocable<NextElement(Iteration&)> call, absl::AnyInvocable<bool()> ready)
      : call_(std::move(call)), ready_(std::move(ready)) {}

  explicit operator bool() const { return static_cast<bool>(call_); }
  // An exception, as for want of memory, is an error of the element: threads of a dataset have no caller to tell.
  NextElement operator()(Iteration& it) {
    try {
      return call_(it);
    } catch (...) {
      return StatusOfException();
    }
  }
  bool ready() { return ready_ && ready_(); }

 private:
  absl::AnyInvocable<NextElement(Iteration&)> call_;
  absl::AnyInvocable<bool()> ready_;
};

// The innermost shuffle of a sequence of file names, which shuffles the shard instead.
struct PostponedShuffle {
  std::function<Next(Next)> shuffle;  // empty if there is none
};

// The node that made a dataset, and its inputs.
struct DatasetOrigin {
  tensorflow::NodeDef node;
  Element inputs;
};

// Immutable, like every variant value.
class DatasetValue final : public VariantValue {
 public:
  static constexpr int64_t kInfinite = -1, kUnknown = -2;
  using Start = std::function<absl::StatusOr<Next>(Iteration&)>;

  // Starts a sequence of several epochs, for datasets in which that differs from concatenated epochs.
  using StartRounds = std::function<absl::StatusOr<Next>(Iteration&, int64_t rounds)>;

  DatasetValue(std::string kind, int64_t cardinality, Start start, StartRounds start_rounds = nullptr,
               std::optional<DatasetOrigin> origin = std::nullopt)
      : kind_(std::move(kind)),
        cardinality_(cardinality),
        start_(std::move(start)),
        start_rounds_(std::move(start_rounds)),
        origin_(std::move(origin)) {}

  // The number of elements, kInfinite or kUnknown.
  int64_t cardinality() const { return cardinality_; }
  // Starts a new sequence at the first element.
  absl::StatusOr<Next> Iterate(Iteration& iteration) const;
  const StartRounds& start_rounds() const { return start_rounds_; }
  // None if no op made it, such as the elements of a window.
  const std::optional<DatasetOrigin>& origin() const { return origin_; }

  std::string TypeName() const override { return "tensorflow::DatasetVariantWrapper"; }
  std::string ToString() const override { return kind_; }  // the op type
  bool Encode(tensorflow::VariantTensorDataProto*) const override { return false; }

 private:
  const std::string kind_;  // the op that created it
  const int64_t cardinality_;
  const Start start_;
  const StartRounds start_rounds_;
  const std::optional<DatasetOrigin> origin_;
};

using DatasetPtr = std::shared_ptr<const DatasetValue>;

// INVALID_ARGUMENT if it is not a dataset.
absl::StatusOr<DatasetPtr> DatasetIn(const Tensor& tensor);
Tensor TensorOf(DatasetPtr dataset);
// A number for the pipeline: the same in every process for the same ops, attributes, functions and inputs. Names of
// nodes and functions do not matter.
uint64_t FingerprintOf(const DatasetValue& dataset);
// Sets output 0 to a dataset of the op's kind.
absl::Status SetDataset(KernelContext& c, int64_t cardinality, DatasetValue::Start start,
                        DatasetValue::StartRounds start_rounds = nullptr);
// A dataset of these elements.
DatasetPtr ListedDataset(std::string kind, std::vector<Element> elements);
// The elements of one shard of `input`. With `require`, the shards that have an element fail if another has none.
absl::StatusOr<Next> ShardOf(const DatasetValue& input, const Shard& shard, bool require, Iteration& it);

// The value of input i, which must have one element; otherwise INVALID_ARGUMENT.
absl::StatusOr<int64_t> IntArgument(KernelContext& c, int i, absl::string_view name);
absl::StatusOr<bool> BoolArgument(KernelContext& c, int i, absl::string_view name);
absl::StatusOr<std::string> StringArgument(KernelContext& c, int i, absl::string_view name);

// Adds at most `count` elements of `next`, fewer if it ends before, to `elements`.
absl::Status Collect(Next& next, int64_t count, Iteration& it, std::vector<Element>* elements);
// Stacks elements of the same shapes along a new first dimension.
absl::StatusOr<Element> MakeBatch(const std::vector<Element>& rows);
// The cardinality of batches of `size` elements out of `n`.
int64_t BatchCardinality(int64_t n, int64_t size, bool drop_remainder);

}  // namespace thalweg
