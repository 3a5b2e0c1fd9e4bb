// SPDX-License-Identifier: Apache-2.0
// A bucket in [0, num_buckets) for every string, by its hash: of FarmHash
// (StringToHashBucketFast), of SipHash with a key (StringToHashBucketStrong), or
// of the 64-bit MurmurHash2 (StringToHashBucket). The numbers are TensorFlow's:
// models are trained on them.
#include "thalweg/ops/string/string_hash.h"

#include <farmhash.h>

#include <bit>
#include <cstring>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/string_ops.h"

namespace thalweg {
namespace {

uint64_t Load64(const char* bytes, size_t n = 8) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, n);
  return value;
}

}  // namespace

uint64_t MurmurHash(absl::string_view text) {
  constexpr uint64_t kSeed = 0xDECAFCAFFE;
  constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995;
  constexpr int kShift = 47;
  uint64_t hash = kSeed ^ (text.size() * kMultiplier);
  for (; text.size() >= 8; text.remove_prefix(8)) {
    uint64_t k = Load64(text.data()) * kMultiplier;
    k ^= k >> kShift;
    hash = (hash ^ (k * kMultiplier)) * kMultiplier;
  }
  if (!text.empty()) hash = (hash ^ Load64(text.data(), text.size())) * kMultiplier;
  hash = (hash ^ (hash >> kShift)) * kMultiplier;
  return hash ^ (hash >> kShift);
}

uint64_t SipHash(const uint64_t key[2], absl::string_view text) {
  uint64_t v0 = key[0] ^ 0x736f6d6570736575, v1 = key[1] ^ 0x646f72616e646f6d;
  uint64_t v2 = key[0] ^ 0x6c7967656e657261, v3 = key[1] ^ 0x7465646279746573;
  const auto rounds = [&](int n) {
    for (int i = 0; i < n; ++i) {
      v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
      v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
    }
  };
  const auto absorb = [&](uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  };
  const uint64_t size = text.size();
  for (; text.size() >= 8; text.remove_prefix(8)) absorb(Load64(text.data()));
  absorb(size << 56 | (text.empty() ? 0 : Load64(text.data(), text.size())));
  v2 ^= 0xff;
  rounds(4);
  return v0 ^ v1 ^ v2 ^ v3;
}

namespace {

enum class Hash { kFarm, kSip, kMurmur };

class HashBucketKernel : public Kernel {
 public:
  explicit HashBucketKernel(Hash hash) : hash_(hash) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(num_buckets_, init.Attr<int64_t>("num_buckets"));
    if (hash_ != Hash::kSip) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<int64_t> key, init.Attr<std::vector<int64_t>>("key"));
    if (key.size() != 2) return InvalidArgument("Key must have 2 elements");
    std::copy(key.begin(), key.end(), key_);
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const std::string& text = input.data<std::string>()[i];
      const uint64_t hash = hash_ == Hash::kFarm  ? util::Fingerprint64(text.data(), text.size())
                            : hash_ == Hash::kSip ? SipHash(key_, text)
                                                  : MurmurHash(text);
      out->mutable_data<int64_t>()[i] = static_cast<int64_t>(hash % static_cast<uint64_t>(num_buckets_));
    }
    return absl::OkStatus();
  }

 private:
  const Hash hash_;
  int64_t num_buckets_ = 1;
  uint64_t key_[2] = {};
};

// The hash of the decimal digits of integers: AsString and StringToHashBucketFast, fused by TensorFlow's optimizer.
class IntegerHashBucketKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(num_buckets_, init.Attr<int64_t>("num_buckets"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor input = c.input(0);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    return Dispatch(Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>(), input.dtype(),
                    [&]<typename T>() {
                      for (int64_t i = 0; i < input.num_elements(); ++i) {
                        const std::string text = std::to_string(input.data<T>()[i]);
                        const uint64_t hash = util::Fingerprint64(text.data(), text.size());
                        out->mutable_data<int64_t>()[i] =
                            static_cast<int64_t>(hash % static_cast<uint64_t>(num_buckets_));
                      }
                      return absl::OkStatus();
                    });
  }

 private:
  int64_t num_buckets_ = 1;
};

const OpRegistration kStringHashOps[] = {
    Op("_TensorToHashBucketFast")
        .Input("input: T")
        .Output("output: int64")
        .Attr("T: {int8, uint8, int16, uint16, int32, uint32, int64, uint64}")
        .Attr("num_buckets: int >= 1")
        .Shape(shapes::LikeInput0)
        .Kernel<IntegerHashBucketKernel>()
        .NotDifferentiable(),
    Op("StringToHashBucketFast")
        .Input("input: string")
        .Output("output: int64")
        .Attr("num_buckets: int >= 1")
        .Shape(shapes::LikeInput0)
        .Kernel<HashBucketKernel>(Hash::kFarm)
        .NotDifferentiable(),
    Op("StringToHashBucketStrong")
        .Input("input: string")
        .Output("output: int64")
        .Attr("num_buckets: int >= 1")
        .Attr("key: list(int)")
        .Shape(shapes::LikeInput0)
        .Kernel<HashBucketKernel>(Hash::kSip)
        .NotDifferentiable(),
    Op("StringToHashBucket")
        .Input("string_tensor: string")
        .Output("output: int64")
        .Attr("num_buckets: int >= 1")
        .Shape(shapes::LikeInput0)
        .Kernel<HashBucketKernel>(Hash::kMurmur)
        .NotDifferentiable(),
};

}  // namespace

Output StringToHashBucketFast(const Scope& s, Output input, int64_t num_buckets) {
  return s.Add("StringToHashBucketFast", {input}, {{"num_buckets", num_buckets}});
}
Output StringToHashBucketStrong(const Scope& s, Output input, int64_t num_buckets, const std::vector<int64_t>& key) {
  return s.Add("StringToHashBucketStrong", {input}, {{"num_buckets", num_buckets}, {"key", key}});
}

}  // namespace thalweg
