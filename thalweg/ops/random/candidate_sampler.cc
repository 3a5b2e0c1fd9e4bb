// SPDX-License-Identifier: Apache-2.0
// Candidate samplers draw num_sampled classes of [0, range_max), and compute the expected count of
// each of them, and of each true class, in such a draw. With the same seeds they return
// TensorFlow's samples.
//
// An expected count is p * num_sampled, or, if classes are unique and it took
// `tries` draws to find as many, 1 - (1 - p)^tries.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/random_fill.h"
#include "thalweg/ops/random/seeds.h"
#include "thalweg/ops/sampling_ops.h"
#include "thalweg/ops/support/uniform_below.h"

namespace thalweg {
namespace {

// A distribution over [0, range). Sample and Probability are called under the
// kernel's lock where it changes.
class Distribution {
 public:
  explicit Distribution(int64_t range) : range_(range) {}
  virtual ~Distribution() = default;
  int64_t range() const { return range_; }
  virtual int64_t Sample(PhiloxSingle& random) const = 0;
  virtual float Probability(int64_t value) const = 0;
  // Classes that can be drawn at all.
  virtual int64_t support() const { return range_; }
  virtual bool learns() const { return false; }
  virtual void Learn(absl::Span<const int64_t> values) {}

 private:
  const int64_t range_;
};

class UniformDistribution : public Distribution {
 public:
  using Distribution::Distribution;
  int64_t Sample(PhiloxSingle& random) const override { return UniformBelow(range(), random); }
  float Probability(int64_t value) const override { return static_cast<float>(1.0 / static_cast<double>(range())); }
};

class LogUniformDistribution : public Distribution {
 public:
  explicit LogUniformDistribution(int64_t range)
      : Distribution(range), log_range_(std::log1p(static_cast<double>(range))) {}
  int64_t Sample(PhiloxSingle& random) const override {
    const uint32_t a = random(), b = random();
    return (static_cast<int64_t>(std::exp(UnitDouble(a, b) * log_range_)) - 1) % range();
  }
  float Probability(int64_t value) const override {
    const double v = static_cast<double>(value);
    return static_cast<float>(std::log((v + 2) / (v + 1)) / log_range_);
  }

 private:
  const double log_range_;
};

// Learned frequencies, from 1 on: a tree of sums, node i above 2i and 2i + 1,
// whose leaves are the classes.
class UnigramDistribution : public Distribution {
 public:
  explicit UnigramDistribution(int64_t range) : Distribution(range) {
    while (leaves_ < range) leaves_ *= 2;
    sums_.assign(2 * leaves_, 0);
    std::fill_n(sums_.begin() + leaves_, range, 1);
    for (int64_t i = leaves_ - 1; i > 0; --i) sums_[i] = sums_[2 * i] + sums_[2 * i + 1];
  }
  int64_t Sample(PhiloxSingle& random) const override {
    int32_t rest =
        static_cast<int32_t>(UniformBelow<uint32_t>(static_cast<uint32_t>(sums_[1]), [&] { return random(); }));
    int64_t i = 1;
    while (i < leaves_) {
      i *= 2;
      if (rest >= sums_[i]) rest -= sums_[i++];
    }
    return i - leaves_;
  }
  float Probability(int64_t value) const override {
    return static_cast<float>(sums_[leaves_ + value]) / static_cast<float>(sums_[1]);
  }
  bool learns() const override { return true; }
  void Learn(absl::Span<const int64_t> values) override {
    const int64_t room = std::numeric_limits<int32_t>::max() - sums_[1];
    for (const int64_t value : values.subspan(0, static_cast<size_t>(room))) {
      for (int64_t i = leaves_ + value; i > 0; i /= 2) ++sums_[i];
    }
  }

 private:
  int64_t leaves_ = 1;
  std::vector<int32_t> sums_;
};

// Given frequencies, by Walker's alias method: a class is drawn evenly and
// stays, or is replaced by its alias.
class FixedUnigramDistribution : public Distribution {
 public:
  explicit FixedUnigramDistribution(std::vector<float> weights)
      : Distribution(static_cast<int64_t>(weights.size())), weights_(std::move(weights)), cells_(weights_.size()) {
    double sum = 0;
    for (const float w : weights_) sum += w;
    for (const float w : weights_) total_ += w;
    std::vector<double> share(weights_.size());
    std::vector<int> high, low;
    for (size_t i = 0; i < weights_.size(); ++i) {
      share[i] = static_cast<double>(weights_[i] * static_cast<float>(weights_.size())) / sum;
      (share[i] < 1 ? low : high).push_back(static_cast<int>(i));
    }
    while (!high.empty() && !low.empty()) {
      const int l = low.back(), h = high.back();
      low.pop_back();
      high.pop_back();
      cells_[l].alias = h;
      share[h] -= 1 - share[l];
      (share[h] < 1 ? low : high).push_back(h);
    }
    for (size_t i = 0; i < cells_.size(); ++i) cells_[i].keep = static_cast<float>(share[i]);
    for (const std::vector<int>* rest : {&high, &low}) {  // 1, but for rounding
      for (const int i : *rest) cells_[i] = {1, i};
    }
  }
  int64_t Sample(PhiloxSingle& random) const override {
    const float r = UnitFloat(random());
    const uint32_t i = UniformBelow<uint32_t>(static_cast<uint32_t>(cells_.size()), [&] { return random(); });
    return r < cells_[i].keep ? static_cast<int64_t>(i) : cells_[i].alias;
  }
  float Probability(int64_t value) const override { return weights_[value] / total_; }
  int64_t support() const override {
    return std::count_if(weights_.begin(), weights_.end(), [](float w) { return w > 0; });
  }

 private:
  struct Cell {
    float keep = 0;
    int alias = 0;
  };
  const std::vector<float> weights_;
  float total_ = 0;
  std::vector<Cell> cells_;
};

// ---- Kernels ----

float ExpectedCount(float p, int64_t count, int64_t tries) {
  if (tries == count) return p * static_cast<float>(count);
  return static_cast<float>(-std::expm1(static_cast<double>(tries) * std::log1p(-static_cast<double>(p))));
}

class CandidateSamplerKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(num_true_, init.Attr<int64_t>("num_true"));
    ASSIGN_OR_RETURN(num_sampled_, init.Attr<int64_t>("num_sampled"));
    ASSIGN_OR_RETURN(unique_, init.Attr<bool>("unique"));
    RETURN_IF_ERROR(SeedFromAttrs(init, &generator_));
    int64_t range = num_sampled_;
    if (HasAttr(init.node().def(), "range_max")) {
      ASSIGN_OR_RETURN(range, init.Attr<int64_t>("range_max"));
    }
    const std::string& op = init.node().op();
    if (op == "UniformCandidateSampler") {
      distribution_ = std::make_unique<UniformDistribution>(range);
    } else if (op == "LogUniformCandidateSampler") {
      distribution_ = std::make_unique<LogUniformDistribution>(range);
    } else if (op == "FixedUnigramCandidateSampler") {
      ASSIGN_OR_RETURN(std::vector<float> weights, ReadWeights(init, range));
      distribution_ = std::make_unique<FixedUnigramDistribution>(std::move(weights));
    } else if (op != "AllCandidateSampler") {
      // The sums of the tree are int32, and it has memory for all classes.
      constexpr int64_t kMost = 1 << 28;
      if (range > kMost)
        return InvalidArgument("range_max ", range, " is more than a learned unigram sampler can have");
      distribution_ = std::make_unique<UnigramDistribution>(range);
    }
    range_ = range;
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& truth = context.input(0);
    if (truth.rank() != 2) return InvalidArgument("true_classes must be a matrix");
    if (truth.dim(1) != num_true_) {
      return InvalidArgument("true_classes must have num_true columns, expected: ", truth.dim(1), " was: ", num_true_);
    }
    if (unique_ && num_sampled_ > range_) return InvalidArgument("Sampler's range is too small.");
    for (const int64_t value : truth.flat<int64_t>()) {
      if (value < 0 || value >= range_) {
        return InvalidArgument("`true_candidate` out of range [0, ", range_, "), received ", value);
      }
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({num_sampled_}));
    ASSIGN_OR_RETURN(Tensor * sampled, context.Allocate(0, shape));
    ASSIGN_OR_RETURN(Tensor * true_counts, context.Allocate(1, truth.shape()));
    ASSIGN_OR_RETURN(Tensor * counts, context.Allocate(2, shape));
    if (distribution_ == nullptr) {  // all
      for (int64_t i = 0; i < num_sampled_; ++i) sampled->flat<int64_t>()[i] = i;
      std::fill_n(true_counts->mutable_data<float>(), truth.num_elements(), 1.0f);
      std::fill_n(counts->mutable_data<float>(), num_sampled_, 1.0f);
      return absl::OkStatus();
    }
    // Reserves as much of the sequence as TensorFlow: 2048 numbers per sample.
    PhiloxSingle random(generator_.Reserve(512 * num_sampled_));
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(const int64_t tries, Draw(random, context.step().cancellation, sampled->flat<int64_t>()));
    const auto expect = [&](absl::Span<const int64_t> values, float* out) {
      for (const int64_t value : values) {
        *out++ = ExpectedCount(distribution_->Probability(value), num_sampled_, tries);
      }
    };
    expect(absl::MakeConstSpan(sampled->data<int64_t>(), num_sampled_), counts->mutable_data<float>());
    expect(truth.flat<int64_t>(), true_counts->mutable_data<float>());
    if (distribution_->learns()) distribution_->Learn(truth.flat<int64_t>());
    return absl::OkStatus();
  }

 private:
  // Fills `out`; returns how many draws it took.
  absl::StatusOr<int64_t> Draw(PhiloxSingle& random, Cancellation* cancellation, absl::Span<int64_t> out) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!unique_) {
      for (int64_t& value : out) value = distribution_->Sample(random);
      return num_sampled_;
    }
    if (num_sampled_ > distribution_->support()) return InvalidArgument("Sampler's range is too small.");
    absl::flat_hash_set<int64_t> used;
    int64_t tries = 0;
    for (size_t found = 0; found < out.size();) {
      if (++tries == std::numeric_limits<int32_t>::max()) {
        return InvalidArgument("did not find ", num_sampled_, " different classes in ", tries, " draws");
      }
      // Rare classes may take millions.
      if (tries % (1 << 16) == 0 && cancellation != nullptr) RETURN_IF_ERROR(cancellation->status());
      const int64_t value = distribution_->Sample(random);
      if (used.insert(value).second) out[found++] = value;
    }
    return tries;
  }

  // Weights ^ distortion, from the attribute or the last column of a file, of
  // the classes that belong to the shard; reserved ones have 0.
  static absl::StatusOr<std::vector<float>> ReadWeights(const KernelInit& init, int64_t range) {
    ASSIGN_OR_RETURN(const std::string file, init.Attr<std::string>("vocab_file"));
    ASSIGN_OR_RETURN(std::vector<float> unigrams, init.Attr<std::vector<float>>("unigrams"));
    ASSIGN_OR_RETURN(const float distortion, init.Attr<float>("distortion"));
    ASSIGN_OR_RETURN(const int64_t reserved, init.Attr<int64_t>("num_reserved_ids"));
    ASSIGN_OR_RETURN(const int64_t shards, init.Attr<int64_t>("num_shards"));
    ASSIGN_OR_RETURN(const int64_t shard, init.Attr<int64_t>("shard"));
    if (file.empty() && unigrams.empty()) return InvalidArgument("Must provide either vocab_file or unigrams.");
    if (!file.empty() && !unigrams.empty()) {
      return InvalidArgument("Must only provide one of vocab_file and unigrams.");
    }
    if (reserved / shards > range) return InvalidArgument("num_reserved_ids ", reserved, " is more than the range");
    std::vector<float> weights;
    for (int64_t id = shard; id < reserved; id += shards) weights.push_back(0);
    // The classes of the file follow the reserved ids.
    int64_t id = static_cast<int64_t>(weights.size());
    if (!file.empty()) {
      ASSIGN_OR_RETURN(const std::string text, PosixFileSystem().ReadFileToString(file));
      for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
        float weight = 0;
        const std::vector<absl::string_view> columns = absl::StrSplit(line, ',');
        if (id % shards == shard && !absl::SimpleAtof(columns.back(), &weight)) {
          return InvalidArgument("Wrong vocabulary format at line: ", line);
        }
        unigrams.push_back(weight);
        ++id;
      }
      id = static_cast<int64_t>(weights.size());
    }
    for (const float weight : unigrams) {
      if (id++ % shards != shard) continue;
      weights.push_back(std::pow(weight, distortion));
      if (!(weights.back() >= 0 && std::isfinite(weights.back()))) {
        return InvalidArgument("The weight of class ", weights.size() - 1, " is ", weight, " ^ ", distortion,
                               ", expected a number >= 0");
      }
    }
    if (static_cast<int64_t>(weights.size()) != range) {
      return InvalidArgument("range is ", range, " must be equal to weights size  ", weights.size());
    }
    return weights;
  }

  int64_t num_true_ = 1;
  int64_t num_sampled_ = 1;
  int64_t range_ = 0;
  bool unique_ = false;
  SharedPhilox generator_;
  Mutex mutex_;
  std::unique_ptr<Distribution> distribution_;  // none: all classes; what it learns is guarded by mutex_
};

class ComputeAccidentalHitsKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(num_true_, init.Attr<int64_t>("num_true"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &truth = context.input(0), &sampled = context.input(1);
    if (truth.rank() != 2 || truth.dim(1) != num_true_) {
      return InvalidArgument("true_candidates must be a batch_size * num_true matrix");
    }
    if (sampled.rank() != 1) {
      return InvalidArgument("sampled_candidates must be a vector, which is typically an output from CandidateSampler");
    }
    absl::flat_hash_map<int64_t, int64_t> position;
    for (int64_t i = 0; i < sampled.num_elements(); ++i) position[sampled.data<int64_t>()[i]] = i;
    std::vector<std::pair<int64_t, int64_t>> hits;  // row, position
    for (int64_t i = 0; i < truth.num_elements(); ++i) {
      const auto it = position.find(truth.data<int64_t>()[i]);
      if (it != position.end()) hits.emplace_back(i / num_true_, it->second);
    }
    const Shape shape({static_cast<int64_t>(hits.size())});
    ASSIGN_OR_RETURN(Tensor * indices, context.Allocate(0, shape));
    ASSIGN_OR_RETURN(Tensor * ids, context.Allocate(1, shape));
    ASSIGN_OR_RETURN(Tensor * weights, context.Allocate(2, shape));
    for (size_t i = 0; i < hits.size(); ++i) {
      indices->mutable_data<int32_t>()[i] = static_cast<int32_t>(hits[i].first);
      ids->mutable_data<int64_t>()[i] = hits[i].second;
      weights->mutable_data<float>()[i] = -FLT_MAX;
    }
    return absl::OkStatus();
  }

 private:
  int64_t num_true_ = 1;
};

absl::Status SamplerShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const int64_t num_sampled, c.Attr<int64_t>("num_sampled"));
  ASSIGN_OR_RETURN(const int64_t num_true, c.Attr<int64_t>("num_true"));
  ASSIGN_OR_RETURN(const PartialShape truth, c.WithRank(0, 2));
  c.set_output(0, PartialShape({num_sampled}));
  c.set_output(1, PartialShape({truth.dim(0), num_true}));
  c.set_output(2, PartialShape({num_sampled}));
  return absl::OkStatus();
}

absl::Status AccidentalHitsShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const int64_t num_true, c.Attr<int64_t>("num_true"));
  ASSIGN_OR_RETURN(const PartialShape truth, c.WithRank(0, 2));
  RETURN_IF_ERROR(PartialShape::Merge(truth, PartialShape({-1, num_true})).status());
  for (int i = 0; i < 3; ++i) c.set_output(i, PartialShape::OfRank(1));
  return absl::OkStatus();
}

Op Sampler(const char* name) {
  const absl::string_view op = name;
  Op sampler(name);
  sampler.Input("true_classes: int64")
      .Output("sampled_candidates: int64")
      .Output("true_expected_count: float")
      .Output("sampled_expected_count: float")
      .Attr("num_true: int >= 1")
      .Attr("num_sampled: int >= 1")
      .Attr("unique: bool");
  if (op != "AllCandidateSampler") sampler.Attr("range_max: int >= 1");
  if (op == "FixedUnigramCandidateSampler") {
    sampler.Attr("vocab_file: string = ''")
        .Attr("distortion: float = 1.0")
        .Attr("num_reserved_ids: int = 0")
        .Attr("num_shards: int >= 1 = 1")
        .Attr("shard: int >= 0 = 0")
        .Attr("unigrams: list(float) = []");
  }
  return sampler.Attr("seed: int = 0")
      .Attr("seed2: int = 0")
      .Stateful()
      .Shape(SamplerShape)
      .Kernel<CandidateSamplerKernel>()
      .NotDifferentiable();
}

const OpRegistration kCandidateSamplerOps[] = {
    Sampler("UniformCandidateSampler"),
    Sampler("LogUniformCandidateSampler"),
    Sampler("LearnedUnigramCandidateSampler"),
    Sampler("ThreadUnsafeUnigramCandidateSampler"),
    Sampler("FixedUnigramCandidateSampler"),
    Sampler("AllCandidateSampler"),
    Op("ComputeAccidentalHits")
        .Input("true_classes: int64")
        .Input("sampled_candidates: int64")
        .Output("indices: int32")
        .Output("ids: int64")
        .Output("weights: float")
        .Attr("num_true: int")
        .Attr("seed: int = 0")
        .Attr("seed2: int = 0")
        .Shape(AccidentalHitsShape)
        .Kernel<ComputeAccidentalHitsKernel>()
        .NotDifferentiable(),
};

CandidateSamplerResult AddSampler(const Scope& s, const char* op, Output true_classes, int64_t num_true,
                                  int64_t num_sampled, int64_t range_max, const CandidateSamplerOptions& options) {
  Node* const node = s.Add(op, {true_classes},
                           {{"num_true", num_true},
                            {"num_sampled", num_sampled},
                            {"unique", options.unique},
                            {"range_max", range_max},
                            {"seed", options.seed},
                            {"seed2", options.seed2}});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1), node->out(2)};
}

}  // namespace

CandidateSamplerResult LogUniformCandidateSampler(const Scope& s, Output true_classes, int64_t num_true,
                                                  int64_t num_sampled, int64_t range_max,
                                                  const CandidateSamplerOptions& options) {
  return AddSampler(s, "LogUniformCandidateSampler", true_classes, num_true, num_sampled, range_max, options);
}
CandidateSamplerResult UniformCandidateSampler(const Scope& s, Output true_classes, int64_t num_true,
                                               int64_t num_sampled, int64_t range_max,
                                               const CandidateSamplerOptions& options) {
  return AddSampler(s, "UniformCandidateSampler", true_classes, num_true, num_sampled, range_max, options);
}
AccidentalHitsResult ComputeAccidentalHits(const Scope& s, Output true_classes, Output sampled_candidates,
                                           int64_t num_true) {
  Node* const node = s.Add("ComputeAccidentalHits", {true_classes, sampled_candidates}, {{"num_true", num_true}});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1), node->out(2)};
}

}  // namespace thalweg
