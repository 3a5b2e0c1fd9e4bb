// SPDX-License-Identifier: Apache-2.0
// Random ops without state: the values are a function of the shape and of a
// `seed` of two integers (first form), or of the key and counter of a generator
// (V2 forms, which take what StatelessRandomGetKeyCounter makes of a seed).
#include <array>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/random_fill.h"
#include "thalweg/ops/random_ops.h"

namespace thalweg {
namespace {

using Fill = absl::Status (*)(KernelContext&, const Philox&, Tensor&);

// Bounds, where there are any, are the inputs after the generator.
class StatelessKernel final : public Kernel {
 public:
  explicit StatelessKernel(Fill fill) : fill_(fill) {}  // nullptr: integers between bounds

  absl::Status Init(const KernelInit& init) override {
    is_v2_ =
        init.node().num_inputs() >= 4 && init.node().input_type(1) == kUint64 && init.node().input_type(3) == kInt32;
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const Shape shape, RandomShape(context.input(0)));
    ASSIGN_OR_RETURN(const Philox generator,
                     is_v2_ ? PhiloxFromKeyCounter(context.input(1), context.input(2), context.input(3))
                            : PhiloxFromSeed(context.input(1)));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    if (fill_ != nullptr) return fill_(context, generator, *out);
    const int first = is_v2_ ? 4 : 2;
    return FillIntegers(context, generator, context.input(first), context.input(first + 1), *out);
  }

 private:
  const Fill fill_;
  bool is_v2_ = false;
};

absl::Status GetKeyCounter(KernelContext& context) {
  ASSIGN_OR_RETURN(const Philox generator, PhiloxFromSeed(context.input(0)));
  ASSIGN_OR_RETURN(Tensor * key, context.Allocate(0, Shape({1})));
  ASSIGN_OR_RETURN(Tensor * counter, context.Allocate(1, Shape({2})));
  const Philox::Block& c = generator.counter();
  key->mutable_data<uint64_t>()[0] = generator.key()[0] | static_cast<uint64_t>(generator.key()[1]) << 32;
  counter->mutable_data<uint64_t>()[0] = c[0] | static_cast<uint64_t>(c[1]) << 32;
  counter->mutable_data<uint64_t>()[1] = c[2] | static_cast<uint64_t>(c[3]) << 32;
  if (context.num_outputs() > 2) {
    ASSIGN_OR_RETURN(Tensor * alg, context.Allocate(2, Shape()));
    *alg->mutable_data<int32_t>() = kPhiloxAlgorithm;
  }
  return absl::OkStatus();
}

absl::Status GetAlg(KernelContext& context) {
  ASSIGN_OR_RETURN(Tensor * alg, context.Allocate(0, Shape()));
  *alg->mutable_data<int32_t>() = kPhiloxAlgorithm;
  return absl::OkStatus();
}

absl::Status FromShapeInput(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 1).status());
  RETURN_IF_ERROR(c.WithRank(1, 1).status());
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status KeyCounterShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape seed, c.WithRank(0, 1));
  RETURN_IF_ERROR(PartialShape::Merge(seed, PartialShape({2})).status());
  c.set_output(0, PartialShape({1}));
  c.set_output(1, PartialShape({2}));
  if (c.num_outputs() > 2) c.set_output(2, PartialShape(Shape()));
  return absl::OkStatus();
}

constexpr char kFloats[] = "dtype: {half, bfloat16, float, double} = DT_FLOAT";

Op Stateless(absl::string_view name, Fill fill, absl::string_view dtype = kFloats,
             absl::string_view seeds = "Tseed: {int32, int64} = DT_INT64") {
  return Op(name)
      .Input("shape: T")
      .Input("seed: Tseed")
      .Output("output: dtype")
      .Attr(dtype)
      .Attr("T: {int32, int64} = DT_INT32")
      .Attr(seeds)
      .Shape(FromShapeInput)
      .Kernel<StatelessKernel>(fill)
      .NotDifferentiable();
}

Op StatelessV2(absl::string_view name, Fill fill, absl::string_view dtype = kFloats) {
  Op op(name);
  op.Input("shape: Tshape").Input("key: uint64").Input("counter: uint64").Input("alg: int32");
  if (fill == nullptr) op.Input("minval: dtype").Input("maxval: dtype");
  return op.Output("output: dtype")
      .Attr(dtype)
      .Attr("Tshape: {int32, int64} = DT_INT32")
      .Shape(FromShapeInput)
      .Kernel<StatelessKernel>(fill)
      .NotDifferentiable();
}

const OpRegistration kStatelessRandomOps[] = {
    Stateless("StatelessRandomUniform", FillUniform),
    Stateless("StatelessRandomNormal", FillNormal),
    Stateless("StatelessTruncatedNormal", FillTruncatedNormal),
    Stateless("StatelessRandomUniformFullInt", FillFullIntegers, "dtype: {int32, int64, uint32, uint64} = DT_UINT64",
              "Tseed: {int32, int64, uint32, uint64} = DT_INT64"),
    Op("StatelessRandomUniformInt")
        .Input("shape: T")
        .Input("seed: Tseed")
        .Input("minval: dtype")
        .Input("maxval: dtype")
        .Output("output: dtype")
        .Attr("dtype: {int32, int64}")
        .Attr("T: {int32, int64}")
        .Attr("Tseed: {int32, int64} = DT_INT64")
        .Shape(FromShapeInput)
        .Kernel<StatelessKernel>(Fill{nullptr})
        .NotDifferentiable(),
    StatelessV2("StatelessRandomUniformV2", FillUniform),
    StatelessV2("StatelessRandomNormalV2", FillNormal),
    StatelessV2("StatelessTruncatedNormalV2", FillTruncatedNormal),
    StatelessV2("StatelessRandomUniformFullIntV2", FillFullIntegers,
                "dtype: {int32, int64, uint32, uint64} = DT_UINT64"),
    StatelessV2("StatelessRandomUniformIntV2", nullptr, "dtype: {int32, int64, uint32, uint64}"),
    Op("StatelessRandomGetKeyCounter")
        .Input("seed: Tseed")
        .Output("key: uint64")
        .Output("counter: uint64")
        .Attr("Tseed: {int32, int64} = DT_INT64")
        .Shape(KeyCounterShape)
        .Compute(GetKeyCounter)
        .NotDifferentiable(),
    Op("StatelessRandomGetKeyCounterAlg")
        .Input("seed: Tseed")
        .Output("key: uint64")
        .Output("counter: uint64")
        .Output("alg: int32")
        .Attr("Tseed: {int32, int64} = DT_INT64")
        .Shape(KeyCounterShape)
        .Compute(GetKeyCounter)
        .NotDifferentiable(),
    Op("StatelessRandomGetAlg")
        .Output("alg: int32")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(GetAlg)
        .NotDifferentiable(),
};

}  // namespace

Output StatelessRandomUniform(const Scope& s, const IntsArg& shape, const IntsArg& seed, DType dtype) {
  return s.Add("StatelessRandomUniform", {shape.AsTensor(s, "shape"), seed.AsTensor(s, "seed")}, {{"dtype", dtype}});
}

Output StatelessRandomNormal(const Scope& s, const IntsArg& shape, const IntsArg& seed, DType dtype) {
  return s.Add("StatelessRandomNormal", {shape.AsTensor(s, "shape"), seed.AsTensor(s, "seed")}, {{"dtype", dtype}});
}

Output StatelessTruncatedNormal(const Scope& s, const IntsArg& shape, const IntsArg& seed, DType dtype) {
  return s.Add("StatelessTruncatedNormal", {shape.AsTensor(s, "shape"), seed.AsTensor(s, "seed")}, {{"dtype", dtype}});
}

Output StatelessRandomUniformInt(const Scope& s, const IntsArg& shape, const IntsArg& seed, const ScalarArg& minval,
                                 const ScalarArg& maxval) {
  return s.Add("StatelessRandomUniformInt", {shape.AsTensor(s, "shape"), seed.AsTensor(s, "seed"),
                                             minval.AsTensor(s, "minval"), maxval.AsTensor(s, "maxval")});
}

Output StatelessRandomUniformFullInt(const Scope& s, const IntsArg& shape, const IntsArg& seed, DType dtype) {
  return s.Add("StatelessRandomUniformFullInt", {shape.AsTensor(s, "shape"), seed.AsTensor(s, "seed")},
               {{"dtype", dtype}});
}

}  // namespace thalweg
