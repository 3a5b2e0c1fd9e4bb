// SPDX-License-Identifier: Apache-2.0
// Complex numbers and their parts.
#include <complex>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

struct RealFn {
  template <typename T>
  auto operator()(T x) const {
    return x.real();
  }
};
struct ImagFn {
  template <typename T>
  auto operator()(T x) const {
    return x.imag();
  }
};
struct ConjFn {
  template <typename T>
  T operator()(T x) const {
    return std::conj(x);
  }
};
struct ComplexAbsFn {
  template <typename T>
  auto operator()(T x) const {
    return std::abs(x);
  }
};
struct AngleFn {
  template <typename T>
  auto operator()(T x) const {
    return std::arg(x);
  }
};
struct ComplexFn {
  template <typename T>
  std::complex<T> operator()(T real, T imag) const {
    return {real, imag};
  }
};

DType PartType(DType complex) { return RemoveRef(complex) == kComplex128 ? kDouble : kFloat; }
DType WholeType(DType real) { return RemoveRef(real) == kDouble ? kComplex128 : kComplex64; }

// Tout may be any of its types in a GraphDef, but only one fits T.
template <typename K>
class FittingTypes : public K {
 public:
  using K::K;
  absl::Status Init(const KernelInit& init) override {
    const DType in = RemoveRef(init.node().input_type(0)), out = RemoveRef(init.node().output_type(0));
    const DType expected = IsComplex(in) ? PartType(in) : WholeType(in);
    if (out != expected) return InvalidArgument(init.node().op(), " of ", in, " gives ", expected, ", not ", out);
    return K::Init(init);
  }
};

absl::Status RealGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Complex(s, g.dy(), s.Add("ZerosLike", {g.dy()})));
  return absl::OkStatus();
}
absl::Status ImagGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Complex(s, s.Add("ZerosLike", {g.dy()}), g.dy()));
  return absl::OkStatus();
}
absl::Status ConjGradient(GradientContext& g) {
  g.set_dx(0, Conj(g.scope(), g.dy()));
  return absl::OkStatus();
}
absl::Status ComplexGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const auto [real, imag] = SumBroadcast(s, g.input(0), g.input(1), Real(s, g.dy()), Imag(s, g.dy()));
  g.set_dx(0, real);
  g.set_dx(1, imag);
  return absl::OkStatus();
}
// dy sign(x).
absl::Status ComplexAbsGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output dy = Complex(s, g.dy(), s.Add("ZerosLike", {g.dy()}));
  g.set_dx(0, Mul(s, dy, Sign(s, g.input(0))));
  return absl::OkStatus();
}
absl::Status AngleGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = g.input(0);
  const Output z = Reciprocal(s, Complex(s, Imag(s, x), Real(s, x)));
  const Output dy = Complex(s, g.dy(), s.Add("ZerosLike", {g.dy()}));
  g.set_dx(0, Mul(s, Neg(s, dy), z));
  return absl::OkStatus();
}

Op PartOp(absl::string_view name, absl::string_view in, absl::string_view out) {
  return Op(name)
      .Input(absl::StrCat(in, ": T"))
      .Output(absl::StrCat(out, ": Tout"))
      .Attr("T: {complex64, complex128} = DT_COMPLEX64")
      .Attr("Tout: {float, double} = DT_FLOAT")
      .Shape(shapes::LikeInput0);
}

using PartKernel = FittingTypes<UnaryKernel>;

const OpRegistration kComplexOps[] = {
    PartOp("Real", "input", "output").Kernel<PartKernel>(SelectUnary<RealFn, ComplexTypes>).Gradient(RealGradient),
    PartOp("Imag", "input", "output").Kernel<PartKernel>(SelectUnary<ImagFn, ComplexTypes>).Gradient(ImagGradient),
    PartOp("ComplexAbs", "x", "y")
        .Kernel<PartKernel>(SelectUnary<ComplexAbsFn, ComplexTypes>)
        .Gradient(ComplexAbsGradient),
    PartOp("Angle", "input", "output").Kernel<PartKernel>(SelectUnary<AngleFn, ComplexTypes>).Gradient(AngleGradient),
    Op("Conj")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: {complex64, complex128, variant} = DT_COMPLEX64")
        .Shape(shapes::LikeInput0)
        .Kernel<UnaryKernel>(SelectUnary<ConjFn, ComplexTypes>)
        .Gradient(ConjGradient),
    Op("Complex")
        .Input("real: T")
        .Input("imag: T")
        .Output("out: Tout")
        .Attr("T: {float, double} = DT_FLOAT")
        .Attr("Tout: {complex64, complex128} = DT_COMPLEX64")
        .Shape(shapes::Broadcast)
        .Kernel<FittingTypes<BinaryKernel>>(SelectBinary<ComplexFn, Types<float, double>>)
        .Gradient(ComplexGradient),
};

}  // namespace

Output Complex(const Scope& s, Output real, Output imag) {
  return s.Add("Complex", {real, imag}, {{"Tout", real ? WholeType(real.dtype()) : kComplex64}});
}
Output Real(const Scope& s, Output x) {
  if (x && !IsComplex(RemoveRef(x.dtype()))) return x;
  return s.Add("Real", {x}, {{"Tout", x ? PartType(x.dtype()) : kFloat}});
}
Output Imag(const Scope& s, Output x) { return s.Add("Imag", {x}, {{"Tout", x ? PartType(x.dtype()) : kFloat}}); }
Output Conj(const Scope& s, Output x) {
  if (x && !IsComplex(RemoveRef(x.dtype()))) return x;
  return s.Add("Conj", {x});
}
Output ComplexAbs(const Scope& s, Output x) {
  return s.Add("ComplexAbs", {x}, {{"Tout", x ? PartType(x.dtype()) : kFloat}});
}
Output Angle(const Scope& s, Output x) { return s.Add("Angle", {x}, {{"Tout", x ? PartType(x.dtype()) : kFloat}}); }

}  // namespace thalweg
