// Random values for the fuzz of kernels: mostly such that fit together, with edges
// among them. Everything follows from the seed.
#pragma once

#include <cstdint>
#include <iterator>
#include <random>
#include <string>

#include "absl/types/span.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// What is drawn depends on the seed alone: no expression draws twice in an order
// that is the compiler's choice.
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

  // What the inputs of one node have in common.
  void NewShapes(bool volumes);
  // Shapes that often fit together: the same for all, its rows, vectors, scalars.
  Shape InputShape(int index);

  // REQUIRES: no resources or variants.
  Tensor AnyNumbers(DType dtype, const Shape& shape);
  // Another shape, other elements, or one element that is different.
  Tensor Mutant(const Tensor& t);

  // No elements, and a dimension that no loop gets through.
  Shape HollowShape();
  // The inputs of a node made hollow such that they still fit together: one size
  // of their dimensions becomes 0 and another huge, wherever it stands; or two
  // dimensions of those that have one shape; or one tensor only.
  void Hollow(absl::Span<Tensor> inputs);

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
