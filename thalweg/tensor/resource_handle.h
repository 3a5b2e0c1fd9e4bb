// SPDX-License-Identifier: Apache-2.0
// Elements of resource and variant tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace tensorflow {
class ResourceHandleProto;
class VariantTensorDataProto;
}  // namespace tensorflow

namespace thalweg {

// Names a resource (a variable, a queue, ...) that lives on a device.
struct ResourceHandle {
  std::string device;
  std::string container;
  std::string name;
  std::string type_name;   // the resource's type, for error messages
  uint64_t hash_code = 0;  // hash of the type; passed on, not interpreted

  static ResourceHandle FromProto(const tensorflow::ResourceHandleProto& proto);
  void ToProto(tensorflow::ResourceHandleProto* proto) const;
  friend bool operator==(const ResourceHandle&, const ResourceHandle&) = default;
};

// The value of a variant element. Values are immutable because tensors share them.
class VariantValue {
 public:
  virtual ~VariantValue() = default;
  virtual std::string TypeName() const = 0;
  virtual std::string ToString() const = 0;
  // Returns false if the value cannot leave the process.
  virtual bool Encode(tensorflow::VariantTensorDataProto* proto) const = 0;
};

class Variant {
 public:
  Variant() = default;
  explicit Variant(std::shared_ptr<const VariantValue> value) : value_(std::move(value)) {}
  bool empty() const { return value_ == nullptr; }
  const VariantValue* get() const { return value_.get(); }
  const std::shared_ptr<const VariantValue>& shared() const { return value_; }
  // nullptr if the variant holds a value of another type.
  template <typename T>
  const T* As() const {
    return dynamic_cast<const T*>(value_.get());
  }

  // An empty proto becomes an empty variant, any other proto an EncodedVariant.
  static Variant FromProto(const tensorflow::VariantTensorDataProto& proto);
  // Returns false if the value cannot leave the process; the proto then holds only its
  // type.
  bool ToProto(tensorflow::VariantTensorDataProto* proto) const;

 private:
  std::shared_ptr<const VariantValue> value_;
};

// A value from another process, as it was sent. The kernels of its type decode the
// proto.
class EncodedVariant final : public VariantValue {
 public:
  explicit EncodedVariant(const tensorflow::VariantTensorDataProto& proto);
  ~EncodedVariant() override;
  std::string TypeName() const override;
  std::string ToString() const override;
  bool Encode(tensorflow::VariantTensorDataProto* proto) const override;
  const tensorflow::VariantTensorDataProto& proto() const { return *proto_; }

 private:
  const std::unique_ptr<const tensorflow::VariantTensorDataProto> proto_;
};

}  // namespace thalweg
