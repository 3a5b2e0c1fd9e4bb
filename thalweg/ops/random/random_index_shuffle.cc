// SPDX-License-Identifier: Apache-2.0
// RandomIndexShuffle: where an index in [0, max_index] goes in a random order of
// them all, without building that order. The order is a permutation of a block
// of bits by a few rounds of the Simon cipher (Beaulieu et al. 2013), applied
// again until the result is not above max_index.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

constexpr int kLeastBlockBits = 16;

// Words of 8 to 32 bits.
class Simon {
 public:
  Simon(int word_bits, const std::array<uint32_t, 3>& key, int rounds)
      : bits_(word_bits), mask_(~uint64_t{0} >> (64 - word_bits)) {
    constexpr uint64_t kConstant = 0xfffffffc;
    // As many bits of the sequence as a word has, which is what TensorFlow keeps.
    uint64_t sequence = uint64_t{0x7369f885192c0ef5} & mask_;
    for (const uint32_t word : key) keys_.push_back(word & mask_);
    for (int i = 3; i < rounds; ++i) {
      const uint64_t last = keys_[i - 1];
      keys_.push_back((kConstant & mask_) ^ (sequence & 1) ^ keys_[i - 3] ^ Left(last, bits_ - 3) ^
                      Left(last, bits_ - 4));
      sequence >>= 1;
    }
  }

  uint64_t operator()(uint64_t block) const {
    uint64_t left = block >> bits_ & mask_, right = block & mask_;
    for (size_t i = 0; i + 1 < keys_.size(); i += 2) {
      left ^= Mix(right) ^ keys_[i];
      right ^= Mix(left) ^ keys_[i + 1];
    }
    return left << bits_ | right;
  }

 private:
  uint64_t Left(uint64_t x, int by) const { return (x << by | x >> (bits_ - by)) & mask_; }
  uint64_t Mix(uint64_t x) const { return (Left(x, 1) & Left(x, 8 % bits_)) ^ Left(x, 2); }

  const int bits_;
  const uint64_t mask_;
  std::vector<uint64_t> keys_;
};

int BlockBits(uint64_t max_index) {
  const int bits = max_index <= 1 ? 0 : 64 - std::countl_zero(max_index - 1);
  return std::max(bits + bits % 2, kLeastBlockBits);
}

template <typename T>
uint64_t At(const Tensor& t, int64_t i) {
  return static_cast<uint64_t>(t.data<T>()[t.rank() == 0 ? 0 : i]);
}

using Integers = Types<int32_t, uint32_t, int64_t, uint64_t>;

class IndexShuffleKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(rounds_, init.Attr<int64_t>("rounds"));
    if (rounds_ < 4 || rounds_ % 2 != 0 || rounds_ > 1024) {
      return InvalidArgument("rounds must be an even number of at least 4, got ", rounds_);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor &index = c.input(0), &seed = c.input(1), &max_index = c.input(2);
    const int64_t n = std::max({index.num_elements(), max_index.num_elements(), seed.num_elements() / 3});
    const auto fits = [n](const Tensor& t) { return t.rank() == 0 || (t.rank() == 1 && t.dim(0) == n); };
    if (!fits(index)) return InvalidArgument("Index bust be a scalar or vector.");
    if (!(seed.rank() == 1 && seed.dim(0) == 3) && !(seed.rank() == 2 && seed.dim(0) == n && seed.dim(1) == 3)) {
      return InvalidArgument("Seed must be a vector of size [3] or a matrix of size [", n, ", 3] but got ",
                             seed.shape(), ".");
    }
    if (!fits(max_index)) {
      return InvalidArgument("Maxval must be a scalar or a vector of the same size as index but got ",
                             max_index.shape());
    }
    const bool scalar = index.rank() == 0 && seed.rank() == 1 && max_index.rank() == 0;
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, scalar ? Shape() : Shape({n})));
    return Dispatch(Integers(), index.dtype(), [&]<typename T>() {
      return Dispatch(Integers(), seed.dtype(), [&]<typename S>() -> absl::Status {
        for (int64_t i = 0; i < n; ++i) {
          const uint64_t most = At<T>(max_index, i), from = At<T>(index, i);
          // A larger one might never come back into the range.
          if (from > most) return InvalidArgument("index ", from, " is larger than max_index ", most);
          const S* const words = seed.data<S>() + (seed.rank() == 1 ? 0 : 3 * i);
          const std::array<uint32_t, 3> key = {static_cast<uint32_t>(words[0]), static_cast<uint32_t>(words[1]),
                                               static_cast<uint32_t>(words[2])};
          const Simon permute(BlockBits(most) / 2, key, static_cast<int>(rounds_));
          uint64_t to = permute(from);
          while (to > most) to = permute(to);
          out->mutable_data<T>()[i] = static_cast<T>(to);
        }
        return absl::OkStatus();
      });
    });
  }

 private:
  int64_t rounds_ = 4;
};

absl::Status IndexShuffleShape(ShapeContext& c) {
  int64_t n = -1;
  for (const int i : {0, 1, 2}) {
    if (!c.input(i).has_rank()) return shapes::Unknown(c);
    if (c.input(i).rank() == (i == 1 ? 2 : 1) && c.input(i).dim(0) >= 0) n = c.input(i).dim(0);
  }
  const bool scalar = c.input(0).rank() == 0 && c.input(1).rank() == 1 && c.input(2).rank() == 0;
  c.set_output(0, scalar ? PartialShape(Shape()) : PartialShape({n}));
  return absl::OkStatus();
}

const OpRegistration kIndexShuffle = Op("RandomIndexShuffle")
                                         .Input("index: dtype")
                                         .Input("seed: Tseed")
                                         .Input("max_index: dtype")
                                         .Output("output: dtype")
                                         .Attr("rounds: int = 4")
                                         .Attr("dtype: {int32, uint32, int64, uint64}")
                                         .Attr("Tseed: {int32, uint32, int64, uint64}")
                                         .Shape(IndexShuffleShape)
                                         .Kernel<IndexShuffleKernel>()
                                         .NotDifferentiable();

}  // namespace
}  // namespace thalweg
