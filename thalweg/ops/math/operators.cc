// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/operators.h"

#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

using BinaryConstructor = Output (*)(const Scope&, Output, Output);

Output Apply(BinaryConstructor op, Output x, Output y) { return op(Scope::OfOperands({x, y}), x, y); }
Output Apply(BinaryConstructor op, Output x, NumberArg y) {
  const Scope s = Scope::OfOperands({x});
  return op(s, x, y.AsTensor(s, x.dtype()));
}
Output Apply(BinaryConstructor op, NumberArg x, Output y) {
  const Scope s = Scope::OfOperands({y});
  return op(s, x.AsTensor(s, y.dtype()), y);
}

}  // namespace

Output operator+(Output x, Output y) { return Apply(Add, x, y); }
Output operator+(Output x, NumberArg y) { return Apply(Add, x, y); }
Output operator+(NumberArg x, Output y) { return Apply(Add, x, y); }
Output operator-(Output x, Output y) { return Apply(Sub, x, y); }
Output operator-(Output x, NumberArg y) { return Apply(Sub, x, y); }
Output operator-(NumberArg x, Output y) { return Apply(Sub, x, y); }
Output operator*(Output x, Output y) { return Apply(Mul, x, y); }
Output operator*(Output x, NumberArg y) { return Apply(Mul, x, y); }
Output operator*(NumberArg x, Output y) { return Apply(Mul, x, y); }
Output operator/(Output x, Output y) { return Apply(Div, x, y); }
Output operator/(Output x, NumberArg y) { return Apply(Div, x, y); }
Output operator/(NumberArg x, Output y) { return Apply(Div, x, y); }
Output operator%(Output x, Output y) { return Apply(TruncateMod, x, y); }
Output operator%(Output x, NumberArg y) { return Apply(TruncateMod, x, y); }
Output operator-(Output x) { return Neg(Scope::OfOperands({x}), x); }
Output operator<(Output x, Output y) { return Apply(Less, x, y); }
Output operator<(Output x, NumberArg y) { return Apply(Less, x, y); }
Output operator<=(Output x, Output y) { return Apply(LessEqual, x, y); }
Output operator<=(Output x, NumberArg y) { return Apply(LessEqual, x, y); }
Output operator>(Output x, Output y) { return Apply(Greater, x, y); }
Output operator>(Output x, NumberArg y) { return Apply(Greater, x, y); }
Output operator>=(Output x, Output y) { return Apply(GreaterEqual, x, y); }
Output operator>=(Output x, NumberArg y) { return Apply(GreaterEqual, x, y); }

}  // namespace thalweg
