// SPDX-License-Identifier: Apache-2.0
// AttrArg: an attribute for an operation that Scope::Add adds by its name.
//
//   s.Add("Cumsum", {x, axis}, {{"exclusive", true}})
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "thalweg/tensor/dtype.h"
#include "thalweg/tensor/shape.h"
#include "thalweg/tensor/tensor.h"

namespace tensorflow {
class AttrValue;
}

namespace thalweg {

// The name and value of an attribute, made from any C++ type that an attribute can
// have: numbers, bool, text, DType, shapes, Tensor, and lists of them. A value.
struct AttrArg {
  std::string name;  // as the op's signature calls it

  AttrArg(const AttrArg&);
  AttrArg(AttrArg&&) noexcept;
  AttrArg& operator=(const AttrArg&);
  AttrArg& operator=(AttrArg&&) noexcept;
  ~AttrArg();
  // An attribute with this name and value:
  AttrArg(absl::string_view name, int64_t v);
  AttrArg(absl::string_view name, int v) : AttrArg(name, static_cast<int64_t>(v)) {}
  AttrArg(absl::string_view name, float v);
  AttrArg(absl::string_view name, double v) : AttrArg(name, static_cast<float>(v)) {}
  AttrArg(absl::string_view name, bool v);
  AttrArg(absl::string_view name, const char* v) : AttrArg(name, absl::string_view(v)) {}
  AttrArg(absl::string_view name, const std::string& v) : AttrArg(name, absl::string_view(v)) {}
  AttrArg(absl::string_view name, absl::string_view v);
  AttrArg(absl::string_view name, DType v);
  AttrArg(absl::string_view name, const PartialShape& v);
  AttrArg(absl::string_view name, const Shape& v) : AttrArg(name, PartialShape(v)) {}
  AttrArg(absl::string_view name, const Tensor& v);
  AttrArg(absl::string_view name, const std::vector<int64_t>& v);
  AttrArg(absl::string_view name, const std::vector<float>& v);
  AttrArg(absl::string_view name, const std::vector<bool>& v);
  AttrArg(absl::string_view name, const std::vector<std::string>& v);
  AttrArg(absl::string_view name, const std::vector<DType>& v);
  AttrArg(absl::string_view name, const std::vector<PartialShape>& v);

  /// @cond INTERNAL
  AttrArg(absl::string_view name, tensorflow::AttrValue v);
  const tensorflow::AttrValue& value() const { return *value_; }
  tensorflow::AttrValue& mutable_value() { return *value_; }
  /// @endcond

 private:
  explicit AttrArg(absl::string_view name);

  std::unique_ptr<tensorflow::AttrValue> value_;
};

}  // namespace thalweg
