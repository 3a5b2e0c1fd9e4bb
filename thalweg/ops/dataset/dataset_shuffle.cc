// SPDX-License-Identifier: Apache-2.0
// Datasets of random order, choice or numbers, as TensorFlow draws them.
//
//   Shuffle(x, n): each time a random one of the next n
//   ShuffleAndRepeat(x, n, count): Repeat(Shuffle(x, n), count), with the buffer
//     filled across the ends of the rounds
//   Random(): numbers of 32 bits without end
//   Sampling(x, rate): each element with that probability
#include <deque>
#include <random>

#include "absl/strings/match.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

// The seeds of successive sequences: always the same, or drawn from a generator. Thread-safe.
class Seeds final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow4data20SeedGeneratorManagerE";

  Seeds(int64_t seed, int64_t seed2, bool reshuffle) : seed_(seed), seed2_(seed2), reshuffle_(reshuffle) {
    if (seed == 0 && seed2 == 0) {
      std::random_device random;
      seed_ = random();
      seed2_ = random();
    }
    generator_ = PhiloxSingle(Philox(seed_, seed2_));
  }
  // A generator with the initial seeds.
  PhiloxSingle First() const { return PhiloxSingle(Philox(seed_, seed2_)); }
  PhiloxSingle Draw() {
    MutexLock lock(&mutex_);
    if (!reshuffle_) return First();
    const int64_t first = generator_(), second = generator_();
    return PhiloxSingle(Philox(first, second));
  }
  std::string Describe() const override { return "a generator of seeds"; }

 private:
  int64_t seed_, seed2_;
  const bool reshuffle_;
  Mutex mutex_;
  PhiloxSingle generator_ ABSL_GUARDED_BY(mutex_){Philox(0)};
};

// A generator of seeds that lives as long as the step: datasets made of its
// handle hold on to it.
absl::Status MakeSeeds(KernelContext& c, std::shared_ptr<Seeds> seeds) {
  if (c.step().resources == nullptr) return Internal("No step container.");
  const ResourceName name{"", absl::StrCat("seed_generator_", NextResourceNumber())};
  RETURN_IF_ERROR(c.step().resources->Create(name.container, name.name, std::move(seeds)));
  SetStepHandle(c, name, Seeds::kTypeName, nullptr);
  if (c.num_outputs() > 1) c.set_output(1, Tensor::Scalar(Variant()));
  return absl::OkStatus();
}

absl::Status ComputeSeedGenerator(KernelContext& c) {
  ASSIGN_OR_RETURN(const int64_t seed, IntArgument(c, 0, "seed"));
  ASSIGN_OR_RETURN(const int64_t seed2, IntArgument(c, 1, "seed2"));
  bool reshuffle = true;
  if (c.num_inputs() > 2) {
    ASSIGN_OR_RETURN(reshuffle, BoolArgument(c, 2, "reshuffle"));
  }
  return MakeSeeds(c, std::make_shared<Seeds>(seed, seed2, reshuffle));
}

absl::Status ComputeDummySeedGenerator(KernelContext& c) { return MakeSeeds(c, std::make_shared<Seeds>(1, 1, false)); }

// All elements of a sequence are wanted.
constexpr int64_t kManyWanted = 1 << 20;

// Elements in random order, one epoch after the other.
class ShuffleBuffer {
 public:
  // `count` epochs; -1 repeats forever. Every epoch has new seeds, unless `fused`: then the generator of the first
  // epoch continues.
  ShuffleBuffer(DatasetPtr input, int64_t size, int64_t count, std::shared_ptr<Seeds> seeds, bool fused)
      : input_(std::move(input)),
        size_(size),
        count_(count),
        seeds_(std::move(seeds)),
        fused_(fused),
        random_(fused ? seeds_->First() : seeds_->Draw()) {}

  absl::Status Start(Iteration& it) {
    files_ = it.files;
    counted_ = it.counted;
    if (count_ != 0) {
      it.counts_input = true;
      ASSIGN_OR_RETURN(next_, input_->Iterate(it));
    }
    rounds_.emplace_back();
    return absl::OkStatus();
  }
  // Begins with a sequence that has started. REQUIRES: there is one epoch.
  void Start(Next next) {
    next_ = std::move(next);
    rounds_.emplace_back();
  }

  NextElement Take(Iteration& it) {
    RETURN_IF_ERROR(Fill(it));
    if (held_ == 0) return std::nullopt;
    while (rounds_.front().empty()) {
      rounds_.pop_front();
      if (!fused_) random_ = seeds_->Draw();
    }
    std::deque<Element>& round = rounds_.front();
    std::swap(round.front(), round[random_() % round.size()]);
    Element element = std::move(round.front());
    round.pop_front();
    --held_;
    return element;
  }

 private:
  absl::Status Fill(Iteration& it) {
    while (next_ && (size_ == DatasetValue::kUnknown || held_ < size_)) {
      const int64_t outer = it.wanted;
      const int64_t room = size_ == DatasetValue::kUnknown ? kManyWanted : size_ - held_;
      it.wanted = room - 1 + (counted_ ? outer : 1);
      ASSIGN_OR_RETURN(std::optional<Element> element, next_(it));
      it.wanted = outer;
      RETURN_IF_ERROR(it.Check());
      if (element) {
        any_ = true;
        rounds_.back().push_back(*std::move(element));
        ++held_;
        continue;
      }
      ++round_;
      next_ = nullptr;
      if (round_ == count_ || !any_) continue;  // an empty sequence stays empty
      it.files = files_;
      it.counts_input = true;
      ASSIGN_OR_RETURN(next_, input_->Iterate(it));
      it.files = {};
      rounds_.emplace_back();
      any_ = false;
    }
    return absl::OkStatus();
  }

  const DatasetPtr input_;
  const int64_t size_;
  const int64_t count_;
  const std::shared_ptr<Seeds> seeds_;
  const bool fused_;
  PhiloxSingle random_;
  FileSharding files_;
  bool counted_ = false;  // the consumer tells how many elements it wants
  Next next_;             // empty after the last round
  int64_t round_ = 0;
  bool any_ = false;  // element in this round
  std::deque<std::deque<Element>> rounds_;
  int64_t held_ = 0;
};

absl::Status SetShuffled(KernelContext& c, int64_t count, std::shared_ptr<Seeds> seeds) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t size, IntArgument(c, 1, "buffer_size"));
  if (size <= 0 && size != DatasetValue::kUnknown) {
    return InvalidArgument("buffer_size must be greater than zero or UNKNOWN_CARDINALITY");
  }
  const int64_t n = input->cardinality();
  const int64_t cardinality = count == 0 || n == 0                                       ? 0
                              : count < 0                                                ? DatasetValue::kInfinite
                              : n < 0 || n > std::numeric_limits<int64_t>::max() / count ? n
                                                                                         : n * count;
  const bool repeats = absl::StartsWith(c.node().op(), "ShuffleAndRepeat");
  const auto start_rounds = [=](Iteration& start, int64_t rounds) -> absl::StatusOr<Next> {
    if (start.files.postponed != nullptr && !repeats) {
      start.files.postponed->shuffle = [=](Next next) -> Next {
        ShuffleBuffer buffer(nullptr, size, 1, seeds, /*fused=*/false);
        buffer.Start(std::move(next));
        return [buffer = std::move(buffer)](Iteration& it) mutable { return buffer.Take(it); };
      };
      return input->Iterate(start);
    }
    ShuffleBuffer buffer(input, size, rounds, seeds, start.fuses_shuffle_and_repeat && rounds != 1);
    RETURN_IF_ERROR(buffer.Start(start));
    return [buffer = std::move(buffer)](Iteration& it) mutable { return buffer.Take(it); };
  };
  return SetDataset(
      c, cardinality, [=](Iteration& start) { return start_rounds(start, count); },
      c.node().op() == "ShuffleDataset" ? DatasetValue::StartRounds(start_rounds) : nullptr);
}

absl::StatusOr<std::shared_ptr<Seeds>> SeedArguments(KernelContext& c, int first, const char* attr) {
  ASSIGN_OR_RETURN(const int64_t seed, IntArgument(c, first, "seed"));
  ASSIGN_OR_RETURN(const int64_t seed2, IntArgument(c, first + 1, "seed2"));
  bool again = false;
  if (attr != nullptr) {
    ASSIGN_OR_RETURN(again, GetAttr<bool>(c.node().def(), attr));
  }
  return std::make_shared<Seeds>(seed, seed2, again);
}

absl::Status ComputeShuffle(KernelContext& c) {
  ASSIGN_OR_RETURN(std::shared_ptr<Seeds> seeds, SeedArguments(c, 2, "reshuffle_each_iteration"));
  return SetShuffled(c, 1, std::move(seeds));
}

absl::Status ComputeShuffleBySeeds(KernelContext& c) {
  ASSIGN_OR_RETURN(std::shared_ptr<Seeds> seeds, FindStepResource<Seeds>(c, 2));
  return SetShuffled(c, 1, std::move(seeds));
}

absl::Status ComputeShuffleAndRepeat(KernelContext& c) {
  ASSIGN_OR_RETURN(std::shared_ptr<Seeds> seeds, SeedArguments(c, 2, "reshuffle_each_iteration"));
  ASSIGN_OR_RETURN(const int64_t count, IntArgument(c, 4, "count"));
  if (count < -1) return InvalidArgument("count must be greater than or equal to -1.");
  return SetShuffled(c, count, std::move(seeds));
}

absl::Status ComputeRandom(KernelContext& c) {
  const bool second = c.node().op() == "RandomDatasetV2";
  ASSIGN_OR_RETURN(const std::shared_ptr<Seeds> seeds,
                   SeedArguments(c, 0, second ? "rerandomize_each_iteration" : nullptr));
  return SetDataset(c, DatasetValue::kInfinite, [seeds](Iteration&) -> absl::StatusOr<Next> {
    return [random = seeds->Draw()](Iteration&) mutable -> NextElement {
      return Element{Tensor::Scalar<int64_t>(random())};
    };
  });
}

// In [0, 1): the upper 23 bits as the fraction of a number in [1, 2).
float UnitFloat(uint32_t bits) { return std::bit_cast<float>((bits & 0x7fffffu) | 0x3f800000u) - 1.0f; }

absl::Status ComputeSampling(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  if (c.input(1).rank() != 0) return InvalidArgument("rate must be a scalar");
  const float rate = c.input(1).scalar<float>();
  ASSIGN_OR_RETURN(const std::shared_ptr<Seeds> seeds, SeedArguments(c, 2, nullptr));
  return SetDataset(c, DatasetValue::kUnknown, [input, rate, seeds](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    return [next = std::move(next), rate, random = seeds->Draw()](Iteration& it) mutable -> NextElement {
      while (true) {
        ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
        if (!element || UnitFloat(random()) < rate) return element;
        RETURN_IF_ERROR(it.Check());
      }
    };
  });
}

Op SeedGenerator(absl::string_view name, absl::string_view inputs, absl::string_view outputs) {
  return SpecifiedOp(name, inputs, outputs, "").Stateful().Shape(shapes::Scalar);
}

constexpr char kShuffleInputs[] = "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64";

const OpRegistration kDatasetShuffleOps[] = {
    DatasetOp("ShuffleDataset", kShuffleInputs, "reshuffle_each_iteration: bool = true, TYPES, METADATA")
        .Compute(ComputeShuffle),
    DatasetOp("ShuffleDatasetV2", "input_dataset: variant, buffer_size: int64, seed_generator: resource",
              "TYPES, METADATA")
        .Stateful()
        .Compute(ComputeShuffleBySeeds),
    DatasetOp("ShuffleDatasetV3", absl::StrCat(kShuffleInputs, ", seed_generator: resource"),
              "reshuffle_each_iteration: bool = true, TYPES, METADATA")
        .Stateful()
        .Compute(ComputeShuffle),
    DatasetOp("ShuffleAndRepeatDataset", absl::StrCat(kShuffleInputs, ", count: int64"),
              "TYPES, reshuffle_each_iteration: bool = true, METADATA")
        .Compute(ComputeShuffleAndRepeat),
    DatasetOp("ShuffleAndRepeatDatasetV2", absl::StrCat(kShuffleInputs, ", count: int64, seed_generator: resource"),
              "reshuffle_each_iteration: bool = true, TYPES, METADATA")
        .Stateful()
        .Compute(ComputeShuffleAndRepeat),
    SeedGenerator("AnonymousSeedGenerator", "seed: int64, seed2: int64, reshuffle: bool",
                  "handle: resource, deleter: variant")
        .Compute(ComputeSeedGenerator),
    SeedGenerator("AnonymousRandomSeedGenerator", "seed: int64, seed2: int64", "handle: resource, deleter: variant")
        .Compute(ComputeSeedGenerator),
    SeedGenerator("DummySeedGenerator", "", "handle: resource").Compute(ComputeDummySeedGenerator),
    DatasetOp("RandomDataset", "seed: int64, seed2: int64", "TYPES, METADATA").Stateful().Compute(ComputeRandom),
    DatasetOp("ExperimentalRandomDataset", "seed: int64, seed2: int64", "TYPES").Stateful().Compute(ComputeRandom),
    DatasetOp("RandomDatasetV2", "seed: int64, seed2: int64, seed_generator: resource",
              "rerandomize_each_iteration: bool = false, TYPES, METADATA")
        .Stateful()
        .Compute(ComputeRandom),
    DatasetOp("SamplingDataset", "input_dataset: variant, rate: float, seed: int64, seed2: int64", "TYPES")
        .Compute(ComputeSampling),
};

}  // namespace
}  // namespace thalweg
