// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/random/random_state.h"

#include <algorithm>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/random/random_fill.h"
#include "thalweg/ops/state/variable_update.h"

namespace thalweg {
namespace {

constexpr int64_t kStateSize = 3;  // two words of counter, one of key
constexpr uint64_t kBlocksPerSample = 256;

absl::Status CheckAlgorithmNumber(int64_t number) {
  switch (number) {
    case kPhiloxAlgorithm:
    case kAutoSelectAlgorithm:
      return absl::OkStatus();
    case kThreeFryAlgorithm:
      return Unimplemented("Non-XLA devices don't support the ThreeFry algorithm.");
    default:
      return InvalidArgument("Unsupported algorithm id: ", number);
  }
}

absl::StatusOr<int64_t> ScalarInput(KernelContext& c, int i) {
  const Tensor& t = c.input(i);
  if (t.rank() != 0) return InvalidArgument("input ", i, " (0-based) must have shape [], not ", t.shape());
  switch (t.dtype()) {
    case kInt32:
      return t.scalar<int32_t>();
    case kUint64:
      return static_cast<int64_t>(t.scalar<uint64_t>());
    case kInt64:
      return t.scalar<int64_t>();
    default:
      return InvalidArgument("dtype of input ", i, " (0-based) must be int64, not ", t.dtype());
  }
}

// Reads the generator and leaves it advanced. `old`: takes the first three words
// as they were.
absl::StatusOr<Philox> Advance(KernelContext& c, uint64_t samples, AlgorithmFrom from, int64_t* old = nullptr) {
  ASSIGN_OR_RETURN(const HeldVariable variable, FindVariable(c, 0));
  Philox generator(0);
  RETURN_IF_ERROR(variable->Update([&](Tensor& value) -> absl::Status {
    RETURN_IF_ERROR(CheckInitialized(*variable, value));
    if (value.dtype() != kInt64) {
      return InvalidArgument("dtype of RNG state variable must be int64, not ", value.dtype());
    }
    if (value.rank() != 1) {
      return InvalidArgument("RNG state must have one and only one dimension, not ", value.rank());
    }
    const int tag = from == AlgorithmFrom::kState ? 1 : 0;
    if (value.num_elements() < tag) return InvalidArgument("Size of tensor must be at least 1");
    if (tag == 1) RETURN_IF_ERROR(CheckAlgorithmNumber(value.data<int64_t>()[0]));
    if (value.num_elements() < tag + kStateSize) {
      return InvalidArgument("For the Philox algorithm, the size of state must be at least ", tag + kStateSize,
                             "; got ", value.num_elements());
    }
    RETURN_IF_ERROR(MakeWritable(value));
    int64_t* const words = value.mutable_data<int64_t>() + tag;
    if (old != nullptr) std::copy_n(words, kStateSize, old);
    generator = PhiloxFromWords(words[0], words[1], words[2]);
    Philox next = generator;
    next.Skip(samples * kBlocksPerSample);
    const Philox::Block& counter = next.counter();
    words[0] = static_cast<int64_t>(counter[0] | static_cast<uint64_t>(counter[1]) << 32);
    words[1] = static_cast<int64_t>(counter[2] | static_cast<uint64_t>(counter[3]) << 32);
    return absl::OkStatus();
  }));
  return generator;
}

// RngSkip and RngReadAndSkip.
absl::Status ComputeSkip(KernelContext& c) {
  RETURN_IF_ERROR(CheckAlgorithm(c, 1));
  ASSIGN_OR_RETURN(const int64_t delta, ScalarInput(c, 2));
  int64_t old[kStateSize] = {};
  RETURN_IF_ERROR(Advance(c, static_cast<uint64_t>(delta), AlgorithmFrom::kInput1, old).status());
  if (c.num_outputs() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(Tensor* const value, c.Allocate(0, Shape({kStateSize})));
  std::copy_n(old, kStateSize, value->mutable_data<int64_t>());
  return absl::OkStatus();
}

absl::Status SkipShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(1));
  RETURN_IF_ERROR(c.RequireScalar(2));
  if (c.num_outputs() > 0) c.set_output(0, PartialShape({kStateSize}));
  return absl::OkStatus();
}

const OpRegistration kRandomStateOps[] = {
    Op("RngSkip")
        .Input("resource: resource")
        .Input("algorithm: int64")
        .Input("delta: int64")
        .Stateful()
        .Shape(SkipShape)
        .Compute(ComputeSkip)
        .NotDifferentiable(),
    Op("RngReadAndSkip")
        .Input("resource: resource")
        .Input("alg: int32")
        .Input("delta: uint64")
        .Output("value: int64")
        .Stateful()
        .Shape(SkipShape)
        .Compute(ComputeSkip)
        .NotDifferentiable(),
};

}  // namespace

absl::Status CheckAlgorithm(KernelContext& context, int i) {
  ASSIGN_OR_RETURN(const int64_t number, ScalarInput(context, i));
  return CheckAlgorithmNumber(number);
}

absl::StatusOr<Philox> AdvanceState(KernelContext& context, uint64_t samples, AlgorithmFrom from) {
  if (from == AlgorithmFrom::kInput1) RETURN_IF_ERROR(CheckAlgorithm(context, 1));
  return Advance(context, samples, from);
}

}  // namespace thalweg
