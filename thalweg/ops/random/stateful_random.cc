// SPDX-License-Identifier: Apache-2.0
// The ops of tf.random.Generator: random numbers from a generator whose state is
// a resource variable, with TensorFlow's values for the same state.
#include <random>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/random/random_fill.h"
#include "thalweg/ops/random/random_state.h"

namespace thalweg {
namespace {

using Fill = absl::Status (*)(KernelContext&, const Philox&, Tensor&);

class StatefulKernel final : public Kernel {
 public:
  // `fill` nullptr: integers between the bounds in inputs 3 and 4.
  StatefulKernel(Fill fill, AlgorithmFrom from) : fill_(fill), from_(from) {}

  absl::Status Compute(KernelContext& context) override {
    if (from_ == AlgorithmFrom::kInput1) RETURN_IF_ERROR(CheckAlgorithm(context, 1));
    ASSIGN_OR_RETURN(const Shape shape, RandomShape(context.input(from_ == AlgorithmFrom::kInput1 ? 2 : 1)));
    ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(0, shape));
    if (fill_ == nullptr) RETURN_IF_ERROR(CheckBounds(context));
    ASSIGN_OR_RETURN(const Philox generator, AdvanceState(context, shape.num_elements(), from_));
    if (fill_ != nullptr) return fill_(context, generator, *out);
    return FillIntegers(context, generator, context.input(3), context.input(4), *out);
  }

 private:
  // An element drawn before the state moves: bad bounds must not advance it.
  static absl::Status CheckBounds(KernelContext& context) {
    ASSIGN_OR_RETURN(Tensor one, context.AllocateTemporary(context.output_type(0), Shape({1})));
    return FillIntegers(context, Philox(0), context.input(3), context.input(4), one);
  }

  const Fill fill_;
  const AlgorithmFrom from_;
};

// Full 64-bit numbers of the machine's entropy.
absl::Status ComputeNonDeterministicInts(KernelContext& context) {
  ASSIGN_OR_RETURN(const Shape shape, RandomShape(context.input(0)));
  ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(0, shape));
  std::random_device entropy;
  const uint64_t key = static_cast<uint64_t>(entropy()) << 32 | entropy();
  return FillFullIntegers(context, Philox(key, static_cast<uint64_t>(entropy()) << 32 | entropy()), *out);
}

template <int kShape>
absl::Status ShapeOf(ShapeContext& c) {
  if (kShape == 2) RETURN_IF_ERROR(c.RequireScalar(1));
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(kShape));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status UniformIntShape(ShapeContext& c) {
  for (const int i : {3, 4}) {
    if (c.RequireScalar(i).ok()) continue;
    return InvalidArgument(i == 3 ? "minval" : "maxval", " must be a scalar; got a tensor of shape ", c.input(i));
  }
  return ShapeOf<2>(c);
}

Op Stateful(absl::string_view name, Fill fill, absl::string_view dtype = "dtype: type = DT_FLOAT") {
  Op op(name);
  op.Input("resource: resource").Input("algorithm: int64").Input("shape: shape_dtype");
  if (fill == nullptr) op.Input("minval: dtype").Input("maxval: dtype");
  return op.Output("output: dtype")
      .Attr(dtype)
      .Attr("shape_dtype: type = DT_INT64")
      .Stateful()
      .Shape(fill == nullptr ? UniformIntShape : ShapeOf<2>)
      .Kernel<StatefulKernel>(fill, AlgorithmFrom::kInput1)
      .NotDifferentiable();
}

const OpRegistration kStatefulRandomOps[] = {
    Stateful("StatefulUniform", FillUniform),
    Stateful("StatefulStandardNormalV2", FillNormal),
    Stateful("StatefulTruncatedNormal", FillTruncatedNormal),
    Stateful("StatefulUniformFullInt", FillFullIntegers, "dtype: type = DT_UINT64"),
    Stateful("StatefulUniformInt", nullptr, "dtype: type = DT_INT64"),
    Op("StatefulStandardNormal")
        .Input("resource: resource")
        .Input("shape: shape_dtype")
        .Output("output: dtype")
        .Attr("dtype: type = DT_FLOAT")
        .Attr("shape_dtype: type = DT_INT64")
        .Stateful()
        .Shape(ShapeOf<1>)
        .Kernel<StatefulKernel>(Fill{FillNormal}, AlgorithmFrom::kState)
        .NotDifferentiable(),
    Op("NonDeterministicInts")
        .Input("shape: shape_dtype")
        .Output("output: dtype")
        .Attr("dtype: type = DT_INT64")
        .Attr("shape_dtype: type = DT_INT64")
        .Stateful()
        .Shape(ShapeOf<0>)
        .Compute(ComputeNonDeterministicInts)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
