// SPDX-License-Identifier: Apache-2.0
// Ops that draw from their own sequence, which the attributes seed and seed2 start. Each call
// continues where the one before ended.
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/random_fill.h"
#include "thalweg/ops/random/seeds.h"
#include "thalweg/ops/random_ops.h"

namespace thalweg {
namespace {

// A call reserves 256 blocks per element, however many it takes: TensorFlow's
// sequences of calls depend on it.
constexpr int64_t kBlocksPerElement = 256;

class SeededKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override { return SeedFromAttrs(init, &generator_); }

 protected:
  SharedPhilox generator_;
};

class FloatKernel final : public SeededKernel {
 public:
  using Fill = absl::Status (*)(KernelContext&, const Philox&, Tensor&);
  explicit FloatKernel(Fill fill) : fill_(fill) {}

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const Shape shape, RandomShape(context.input(0)));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    return fill_(context, generator_.Reserve(shape.num_elements() * kBlocksPerElement), *out);
  }

 private:
  const Fill fill_;
};

class IntegerKernel final : public SeededKernel {
 public:
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const Shape shape, RandomShape(context.input(0)));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    const Philox generator = generator_.Reserve(shape.num_elements() * kBlocksPerElement);
    return FillIntegers(context, generator, context.input(1), context.input(2), *out);
  }
};

absl::Status OutputShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 1).status());
  for (int i = 1; i < c.num_inputs(); ++i) RETURN_IF_ERROR(c.RequireScalar(i));
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

Op FloatOp(absl::string_view name, FloatKernel::Fill fill) {
  return Op(name)
      .Input("shape: T")
      .Output("output: dtype")
      .Attr("seed: int = 0")
      .Attr("seed2: int = 0")
      .Attr("dtype: {half, bfloat16, float, double}")
      .Attr("T: {int32, int64}")
      .Stateful()
      .Shape(OutputShape)
      .Kernel<FloatKernel>(fill)
      .NotDifferentiable();
}

const OpRegistration kRandomOps[] = {
    FloatOp("RandomUniform", FillUniform),
    FloatOp("RandomStandardNormal", FillNormal),
    FloatOp("TruncatedNormal", FillTruncatedNormal),
    Op("RandomUniformInt")
        .Input("shape: T")
        .Input("minval: Tout")
        .Input("maxval: Tout")
        .Output("output: Tout")
        .Attr("seed: int = 0")
        .Attr("seed2: int = 0")
        .Attr("Tout: {int32, int64}")
        .Attr("T: {int32, int64}")
        .Stateful()
        .Shape(OutputShape)
        .Kernel<IntegerKernel>()
        .NotDifferentiable(),
};

Output AddFloat(const Scope& s, absl::string_view op, Output shape, DType dtype, const RandomOptions& options) {
  return s.Add(op, {shape}, {{"dtype", dtype}, {"seed", options.seed}, {"seed2", options.seed2}});
}

}  // namespace

RandomOptions OpSeed(const Scope& s, const std::optional<int64_t>& seed) {
  constexpr int64_t kDefaultGraphSeed = 87654321;
  if (!seed.has_value()) return {};
  const auto [graph_seed, op_seed] = SeedPair(s.graph().seed().value_or(kDefaultGraphSeed), *seed);
  return {.seed = graph_seed, .seed2 = op_seed};
}

Output RandomUniform(const Scope& s, const IntsArg& shape, DType dtype, const RandomOptions& options) {
  return AddFloat(s, "RandomUniform", shape.AsTensor(s, "shape"), dtype, options);
}

Output RandomStandardNormal(const Scope& s, const IntsArg& shape, DType dtype, const RandomOptions& options) {
  return AddFloat(s, "RandomStandardNormal", shape.AsTensor(s, "shape"), dtype, options);
}

Output TruncatedNormal(const Scope& s, const IntsArg& shape, DType dtype, const RandomOptions& options) {
  return AddFloat(s, "TruncatedNormal", shape.AsTensor(s, "shape"), dtype, options);
}

Output RandomUniformInt(const Scope& s, const IntsArg& shape, const ScalarArg& minval, const ScalarArg& maxval,
                        const RandomOptions& options) {
  return s.Add("RandomUniformInt", {shape.AsTensor(s, "shape"), minval.AsTensor(s, "min"), maxval.AsTensor(s, "max")},
               {{"seed", options.seed}, {"seed2", options.seed2}});
}

}  // namespace thalweg
