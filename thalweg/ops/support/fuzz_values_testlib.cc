// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/fuzz_values_testlib.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "thalweg/graph/attr.h"
#include "thalweg/kernel/op.h"

namespace thalweg {

int64_t FuzzValues::AnyInt() {
  static constexpr int64_t kEdges[] = {0,
                                       1,
                                       -1,
                                       2,
                                       1 << 16,
                                       1 << 30,
                                       std::numeric_limits<int32_t>::max(),
                                       std::numeric_limits<int32_t>::min(),
                                       int64_t{1} << 32,
                                       int64_t{1} << 61,
                                       std::numeric_limits<int64_t>::max(),
                                       std::numeric_limits<int64_t>::min()};
  const int lowest = Chance(20) ? -2 : 0;
  if (Chance(85)) return lowest + Int(5);
  return Pick(kEdges);
}
double FuzzValues::AnyFloat() {
  static constexpr double kEdges[] = {0.0,
                                      -0.0,
                                      1.0,
                                      -1.0,
                                      1e-40,
                                      1e30,
                                      -1e300,
                                      std::numeric_limits<double>::infinity(),
                                      -std::numeric_limits<double>::infinity(),
                                      std::numeric_limits<double>::quiet_NaN()};
  return Chance(85) ? Int(2000) / 500.0 - 1 : Pick(kEdges);
}
std::string FuzzValues::AnyString() {
  static constexpr const char* kWords[] = {
      "",      "a",           "abc",      "1",    "-2.5", "1,2,3",   "file",  "dir/file", "ij,jk->ik", "...ij->...ji",
      "NHWC",  "NCHW",        "SAME",     "mean", "sum",  "float32", "(a+)*", "%s %d",    "\xff\xfe",  "\xe4\xbd\xa0",
      "UTF-8", "2 2 0,1:0,1", "log(info)"};
  if (Chance(80)) return Pick(kWords);
  std::string s(Int(40), ' ');
  for (char& c : s) c = static_cast<char>(Chance(30) ? Int(256) : 'a' + Int(26));
  for (char& c : s) c = c == '/' || c == '.' ? '_' : c;  // it may become the name of a file
  return s;
}

DType FuzzValues::AnyType() {
  static constexpr DType kTypes[] = {kFloat,   kFloat,    kInt32,      kInt64,  kDouble, kHalf,   kBfloat16, kInt8,
                                     kInt16,   kUint8,    kUint16,     kUint32, kUint64, kString, kBool,     kComplex64,
                                     kVariant, kResource, kComplex128, kQint8,  kQuint8, kQint32};
  return Pick(kTypes);
}

Shape FuzzValues::AnyShape(int max_rank) {
  Dims dims(Int(max_rank), 0);
  for (int64_t& d : dims) d = Chance(8) ? 0 : 1 + Int(4);
  return Shape(dims);
}
void FuzzValues::NewShapes(bool volumes) {
  shapes_like_image_ = Chance(30);
  all_same_ = Chance(40);
  base_ = AnyShape();
  if (!shapes_like_image_) return;
  base_ = Shape({1 + Int(2), 1 + Int(6), 1 + Int(6), 1 + Int(3)});
  if (volumes) base_.AddDim(1 + Int(3));
}

Shape FuzzValues::InputShape(int index) {
  if (Chance(3)) return DegenerateShape();
  if (index == 0 && shapes_like_image_) return base_;
  const int kind = Int(100);
  if (all_same_ && kind < 90) return base_;
  if (kind < 30) return base_;
  if (kind < 50) return Shape();
  if (kind < 75) return Shape({Chance(50) && base_.rank() > 0 ? base_.dim(Int(base_.rank())) : Int(5)});
  if (kind < 80) return Shape({int64_t{base_.rank()}});
  if (kind < 90 && base_.rank() > 0) {
    Shape shape = base_;
    shape.RemoveDim(Int(shape.rank()));
    return shape;
  }
  return AnyShape();
}

Tensor FuzzValues::AnyNumbers(DType dtype, const Shape& shape) {
  Tensor t = Tensor::Zeros(dtype, shape);
  const int kind = Int(4);
  if (dtype == kString) {
    for (std::string& s : t.flat<std::string>()) s = AnyString();
  } else if (dtype == kBool) {
    for (bool& b : t.flat<bool>()) b = Chance(50);
  } else if (StorageType(dtype) == dtype) {
    (void)Dispatch(NumberTypes(), dtype, [&]<typename T>() {
      int64_t rising = Int(3);
      for (T& v : t.flat<T>()) {
        if constexpr (std::is_integral_v<T>) {
          v = static_cast<T>(kind == 0 ? Int(3) : kind == 1 ? rising++ : AnyInt());
        } else {
          v = static_cast<T>(static_cast<float>(kind == 0 ? Int(3) : AnyFloat()));
        }
      }
      return absl::OkStatus();
    });
  } else if (ElementSize(dtype) > 0) {  // quantized: bytes of all kinds
    auto* const bytes = static_cast<uint8_t*>(t.raw());
    for (int64_t i = 0; i < t.TotalBytes(); ++i) bytes[i] = static_cast<uint8_t>(37 * i + 11);
  }
  return t;
}

Tensor FuzzValues::Mutant(const Tensor& t) {
  if (t.dtype() == kResource || t.dtype() == kVariant) return t;
  if (Chance(50) || t.num_elements() == 0) {
    Dims dims(t.shape().dims().begin(), t.shape().dims().end());
    const int kind = Int(4);
    const int at = Int(static_cast<int>(dims.size()) + (kind == 0 || dims.empty() ? 1 : 0));
    if (kind == 0 || dims.empty())
      dims.insert(dims.begin() + at, Int(3));
    else if (kind == 1)
      dims.erase(dims.begin() + at);
    else
      dims[at] = kind == 2 ? 0 : Int(9);
    const absl::StatusOr<Shape> shape = Shape::Make(dims);
    if (!shape.ok() || shape->num_elements() > 10000) return t;
    return AnyNumbers(t.dtype(), *shape);
  }
  Tensor other = AnyNumbers(t.dtype(), t.shape());
  if (Chance(50) || t.dtype() == kString || ElementSize(t.dtype()) == 0) return other;
  // One element only.
  Tensor result = t.Clone();
  const size_t size = ElementSize(t.dtype());
  const int64_t at = Int(static_cast<int>(t.num_elements())) * size;
  memcpy(static_cast<char*>(result.raw()) + at, static_cast<char*>(other.raw()) + at, size);
  return result;
}

int64_t FuzzValues::Huge() {
  static constexpr int kBits[] = {31, 32, 40, 60};
  return int64_t{1} << Pick(kBits);
}

Shape FuzzValues::DegenerateShape() {
  Dims dims(2 + Int(4), 0);
  for (int64_t& d : dims) d = 1 + Int(3);
  const int rank = static_cast<int>(dims.size()), huge = Int(rank);
  dims[huge] = Huge() / 32;  // what the others have must not overflow
  dims[(huge + 1 + Int(rank - 1)) % rank] = 0;
  return Shape(dims);
}

void FuzzValues::MakeDegenerate(absl::Span<Tensor> inputs) {
  std::vector<int> tensors;  // that may change
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() == kResource || inputs[i].dtype() == kVariant || !inputs[i].has_value()) continue;
    tensors.push_back(static_cast<int>(i));
    sizes.insert(sizes.end(), inputs[i].shape().dims().begin(), inputs[i].shape().dims().end());
  }
  if (tensors.empty()) return;
  const Shape chosen = inputs[Pick(tensors)].shape();
  const int kind = Int(4);
  const int64_t huge = Huge(), none = sizes.empty() ? 0 : Pick(sizes), many = sizes.empty() ? 0 : Pick(sizes);
  const int first = Int(std::max(1, chosen.rank())), second = Int(std::max(1, chosen.rank()));
  for (const int i : tensors) {
    Tensor& t = inputs[i];
    Dims dims(t.shape().dims().begin(), t.shape().dims().end());
    if (kind < 2) {
      for (int64_t& d : dims) d = d == none ? 0 : d == many ? huge : d;
      // Sizes that stand in a tensor fit, too.
      if (kind == 1 && t.rank() == 1 && t.dim(0) < 8 && (t.dtype() == kInt32 || t.dtype() == kInt64)) {
        t = t.Clone();
        (void)Dispatch(Types<int32_t, int64_t>(), t.dtype(), [&]<typename T>() {
          for (T& v : t.flat<T>()) v = v == none ? 0 : v == many ? static_cast<T>(huge) : v;
          return absl::OkStatus();
        });
      }
    } else if (t.shape() == chosen && !dims.empty()) {
      dims[first] = 0;
      if (second != first) dims[second] = huge;
      if (kind == 3 && second == first) dims.insert(dims.begin() + Int(chosen.rank() + 1), huge);
    }
    const absl::StatusOr<Shape> shape = Shape::Make(dims);
    if (shape.ok() && shape->num_elements() == 0) t = Tensor::Zeros(t.dtype(), *shape);
  }
}

tensorflow::AttrValue FuzzValues::AnyAttr(const tensorflow::OpDef::AttrDef& attr) {
  tensorflow::AttrValue value;
  const auto& allowed = attr.allowed_values().list();
  const absl::string_view type = attr.type();
  const auto any_int = [&] {
    const int64_t v = AnyInt();
    return attr.has_minimum() && v < attr.minimum() ? attr.minimum() + Int(3) : v;
  };
  const auto any_type = [&]() -> tensorflow::DataType {
    const bool fits = allowed.type_size() == 0 ||
                      std::count(allowed.type().begin(), allowed.type().end(), static_cast<int>(home)) > 0;
    if (fits && Chance(85)) return static_cast<tensorflow::DataType>(home);
    if (allowed.type_size() == 0) return static_cast<tensorflow::DataType>(AnyType());
    return static_cast<tensorflow::DataType>(allowed.type(Int(allowed.type_size())));
  };
  if (type == "int") {
    value.set_i(any_int());
  } else if (type == "float") {
    value.set_f(static_cast<float>(AnyFloat()));
  } else if (type == "bool") {
    value.set_b(Chance(50));
  } else if (type == "string") {
    value.set_s(allowed.s_size() > 0 ? allowed.s(Int(allowed.s_size())) : AnyString());
  } else if (type == "type") {
    value.set_type(any_type());
  } else if (type == "shape") {
    value = AttrArg("", Chance(30) ? PartialShape() : PartialShape(Chance(50) ? base_ : AnyShape())).value();
  } else if (type == "tensor") {
    static constexpr DType kTypes[] = {kFloat, kInt32, kInt64, kString};
    const Shape shape = AnyShape();
    value = AttrArg("", AnyNumbers(Pick(kTypes), shape)).value();
  } else if (type == "func") {
    value.mutable_func()->set_name(AnyString());
  } else {
    auto& list = *value.mutable_list();
    const int n = std::max<int>(type == "list(type)" && Chance(70) ? 1 : Int(6),
                                attr.has_minimum() ? static_cast<int>(attr.minimum()) : 0);
    // Windows and strides of images have ones at both ends.
    const bool window = type == "list(int)" && Chance(60);
    for (int i = 0; i < (window ? std::max(4, base_.rank()) : n); ++i) {
      if (type == "list(int)") {
        const bool end = i == 0 || i == std::max(4, base_.rank()) - 1;
        list.add_i(!window ? AnyInt() : end ? 1 : Chance(95) ? 1 + Int(3) : AnyInt());
      } else if (type == "list(float)") {
        list.add_f(static_cast<float>(AnyFloat()));
      } else if (type == "list(bool)") {
        list.add_b(Chance(50));
      } else if (type == "list(string)") {
        list.add_s(AnyString());
      } else if (type == "list(type)") {
        list.add_type(any_type());
      } else if (type == "list(shape)") {
        *list.add_shape() = AttrArg("", PartialShape(AnyShape())).value().shape();
      } else if (type == "list(func)") {
        list.add_func()->set_name(AnyString());
      }
    }
  }
  return value;
}

}  // namespace thalweg
