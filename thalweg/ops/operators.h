// SPDX-License-Identifier: Apache-2.0
// Expressions: C++ operators on tensors of a graph.
//
//   const Output y = x * w + b;
//   const Output scaled = (image - 127.5f) / 127.5f;
//   const Output mask = y > 0;
//
// Operators work on Output and on everything that converts to it, such as Var. Shapes
// broadcast as for the functions of math_ops.h. A C++ number takes the element type of
// the tensor beside it.
//
// An operator has no Scope argument. Its operation is added in the scope of the operand
// that was added to the graph last: it gets that operand's name prefix and device.
// (Scope::OfOperands.) Control dependencies of that scope already hold for the operand.
// To choose another scope, or a name, call the function: Mul(s.WithOpName("y"), x, w).
//
// `==`, `!=`, `!`, `&&` and `||` are not operators on elements: they ask whether handles
// are equal or empty. Use Equal, NotEqual, LogicalNot, LogicalAnd and LogicalOr.
#pragma once

#include "thalweg/graph/graph.h"
#include "thalweg/ops/arguments.h"

namespace thalweg {

// Elementwise sum (Add):
Output operator+(Output x, Output y);
Output operator+(Output x, NumberArg y);
Output operator+(NumberArg x, Output y);

// Elementwise difference (Sub):
Output operator-(Output x, Output y);
Output operator-(Output x, NumberArg y);
Output operator-(NumberArg x, Output y);

// Elementwise product (Mul); for matrices see MatMul:
Output operator*(Output x, Output y);
Output operator*(Output x, NumberArg y);
Output operator*(NumberArg x, Output y);

// Elementwise quotient (Div); of integers, truncated as in C++:
Output operator/(Output x, Output y);
Output operator/(Output x, NumberArg y);
Output operator/(NumberArg x, Output y);

// Elementwise remainder with the sign of x, as in C++ (TruncateMod):
Output operator%(Output x, Output y);
Output operator%(Output x, NumberArg y);

// Elementwise negation (Neg).
Output operator-(Output x);

// Elementwise comparison; gives a bool tensor:
Output operator<(Output x, Output y);
Output operator<(Output x, NumberArg y);
Output operator<=(Output x, Output y);
Output operator<=(Output x, NumberArg y);
Output operator>(Output x, Output y);
Output operator>(Output x, NumberArg y);
Output operator>=(Output x, Output y);
Output operator>=(Output x, NumberArg y);

// Lets `x` stand for the result: `x += y` is `x = x + y`. No variable changes; for that
// see AssignAdd:
inline Output& operator+=(Output& x, Output y) { return x = x + y; }
inline Output& operator+=(Output& x, NumberArg y) { return x = x + y; }
inline Output& operator-=(Output& x, Output y) { return x = x - y; }
inline Output& operator-=(Output& x, NumberArg y) { return x = x - y; }
inline Output& operator*=(Output& x, Output y) { return x = x * y; }
inline Output& operator*=(Output& x, NumberArg y) { return x = x * y; }
inline Output& operator/=(Output& x, Output y) { return x = x / y; }
inline Output& operator/=(Output& x, NumberArg y) { return x = x / y; }

}  // namespace thalweg
