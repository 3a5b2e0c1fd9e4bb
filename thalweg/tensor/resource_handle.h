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
  std::string type_name;   // of the resource, for error messages
  uint64_t hash_code = 0;  // of the type; carried, not interpreted

  static ResourceHandle FromProto(const tensorflow::ResourceHandleProto& proto);
  void ToProto(tensorflow::ResourceHandleProto* proto) const;
  friend bool operator==(const ResourceHandle&, const ResourceHandle&) = default;
};

// What a variant element may hold. Values are immutable: they are shared.
class VariantValue {
 public:
  virtual ~VariantValue() = default;
  virtual std::string TypeName() const = 0;
  virtual std::string ToString() const = 0;
  // False if the value cannot leave the process.
  virtual bool Encode(tensorflow::VariantTensorDataProto* proto) const = 0;
};

class Variant {
 public:
  Variant() = default;
  explicit Variant(std::shared_ptr<const VariantValue> value) : value_(std::move(value)) {}
  bool empty() const { return value_ == nullptr; }
  const VariantValue* get() const { return value_.get(); }
  const std::shared_ptr<const VariantValue>& shared() const { return value_; }
  // nullptr if it holds something else.
  template <typename T>
  const T* As() const {
    return dynamic_cast<const T*>(value_.get());
  }

  // An empty proto is an empty variant, and the other way round. Values of every
  // type are read: as EncodedVariant.
  static Variant FromProto(const tensorflow::VariantTensorDataProto& proto);
  // False if the value cannot leave the process; the proto then has its type.
  bool ToProto(tensorflow::VariantTensorDataProto* proto) const;

 private:
  std::shared_ptr<const VariantValue> value_;
};

// A value from another process, as it was sent. Whoever knows its type reads
// the proto.
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
