// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/dtype.h"

#include <array>

#include "absl/strings/strip.h"

namespace thalweg {
namespace {

struct Row {
  absl::string_view name;
  size_t size;
};

// By number. Numbers that TensorFlow 2.15 does not use have no name.
constexpr std::array<Row, 31> kRows = {{
    {"INVALID", 0},     {"float", 4},         {"double", 8},    {"int32", 4},   {"uint8", 1},   {"int16", 2},
    {"int8", 1},        {"string", 0},        {"complex64", 8}, {"int64", 8},   {"bool", 1},    {"qint8", 1},
    {"quint8", 1},      {"qint32", 4},        {"bfloat16", 2},  {"qint16", 2},  {"quint16", 2}, {"uint16", 2},
    {"complex128", 16}, {"half", 2},          {"resource", 0},  {"variant", 0}, {"uint32", 4},  {"uint64", 8},
    {"float8_e5m2", 1}, {"float8_e4m3fn", 1}, {"", 0},          {"", 0},        {"", 0},        {"int4", 1},
    {"uint4", 1},
}};

// The row of a value type or a reference type; nullptr for other numbers.
const Row* Find(DType t) {
  const auto i = static_cast<size_t>(RemoveRef(t));
  return i < kRows.size() && !kRows[i].name.empty() ? &kRows[i] : nullptr;
}

}  // namespace

bool IsKnown(DType t) { return RemoveRef(t) != kInvalid && Find(t) != nullptr; }

std::string ToString(DType t) {
  const Row* const row = Find(t);
  if (row == nullptr) return absl::StrCat("unknown type ", static_cast<int>(t));
  return absl::StrCat(row->name, IsRef(t) ? "_ref" : "");
}

absl::Status NoKernelFor(DType dtype) { return Unimplemented("no kernel for type ", dtype); }

absl::StatusOr<DType> DTypeFromName(absl::string_view name) {
  absl::string_view base = name;
  const bool ref = absl::ConsumeSuffix(&base, "_ref");
  if (base == "float32") base = "float";
  if (base == "float64") base = "double";
  for (size_t i = 1; i < kRows.size(); ++i) {
    if (kRows[i].name != base || base.empty()) continue;
    const auto t = static_cast<DType>(i);
    return ref ? MakeRef(t) : t;
  }
  return InvalidArgument("no type is called '", name, "'");
}

size_t ElementSize(DType t) {
  const Row* const row = Find(t);
  return row == nullptr ? 0 : row->size;
}

bool IsFloating(DType t) { return t == kFloat || t == kDouble || t == kHalf || t == kBfloat16; }

bool IsInteger(DType t) {
  switch (t) {
    case kInt8:
    case kInt16:
    case kInt32:
    case kInt64:
    case kUint8:
    case kUint16:
    case kUint32:
    case kUint64:
      return true;
    default:
      return false;
  }
}

bool IsComplex(DType t) { return t == kComplex64 || t == kComplex128; }

DType StorageType(DType t) {
  switch (t) {
    case kQint8:
    case kInt4:
      return kInt8;
    case kQuint8:
    case kUint4:
    case kFloat8E5m2:
    case kFloat8E4m3fn:
      return kUint8;
    case kQint16:
      return kInt16;
    case kQuint16:
      return kUint16;
    case kQint32:
      return kInt32;
    default:
      return t;
  }
}

}  // namespace thalweg
