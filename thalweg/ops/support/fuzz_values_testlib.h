// SPDX-License-Identifier: Apache-2.0
// Random values for fuzzing kernels: mostly values that fit together, with edge cases among them.
// Everything is determined by the seed.
#pragma once

#include <cstdint>
#include <iterator>
#include <random>
#include <string>

#include "absl/types/span.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Deterministic: no expression draws twice in an order that the compiler may choose.
class FuzzValues {
 public:
  explicit FuzzValues(uint64_t seed) : random_(seed) {}

  int Int(int below) { return static_cast<int>(Bits() % below); }
  bool Chance(int percent) { return Int(100) < percent; }
  template <typename C>
  const auto& Pick(const C& c) {
    return c[Int(static_cast<int>(std::size(c)))];
  }

  uint64_t Bits() { return random_(); }
  int64_t AnyInt();
  double AnyFloat();
  std::string AnyString();
  DType AnyType();
  Shape AnyShape(int max_rank = 5);

  // Shared by the inputs of one node.
  void NewShapes(bool volumes);
  // Shapes that often fit together: one shape for all inputs, its rows, vectors, scalars.
  Shape InputShape(int index);

  // REQUIRES: no resources or variants.
  Tensor AnyNumbers(DType dtype, const Shape& shape);
  // A mutation of t: another shape, other elements, or one changed element.
  Tensor Mutant(const Tensor& t);

  // A shape without elements that has a huge dimension.
  Shape DegenerateShape();
  // Gives the inputs of a node such shapes, so that they still fit together: one dimension size becomes 0
  // and another huge, wherever they occur; or two dimensions of inputs with the same shape; or only one
  // tensor.
  void MakeDegenerate(absl::Span<Tensor> inputs);

  tensorflow::AttrValue AnyAttr(const tensorflow::OpDef::AttrDef& attr);

  DType home = kInvalid;  // the type of most attributes

 private:
  int64_t Huge();
  std::mt19937_64 random_;
  bool shapes_like_image_ = false;
  bool all_same_ = false;
  Shape base_;
};

}  // namespace thalweg
