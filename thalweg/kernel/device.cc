// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/device.h"

#include <random>
#include <utility>

#include "thalweg/base/logging.h"

namespace thalweg {
namespace {

uint64_t RandomIncarnation() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32 | random()) | 1;
}

}  // namespace

Device::Device(DeviceName name, IntraOpPool* intra_op_pool, Allocator* allocator)
    : parsed_(std::move(name)),
      name_(parsed_.ToString()),
      incarnation_(RandomIncarnation()),
      intra_op_pool_(intra_op_pool),
      allocator_(allocator),
      resources_(std::make_shared<ResourceManager>(parsed_.job.value_or("localhost"))) {
  CHECK(parsed_.is_full()) << "a device needs a full name, got " << name_;
}

Device::Device(const Device& other, DeviceName name, bool share_resources)
    : parsed_(std::move(name)),
      name_(parsed_.ToString()),
      incarnation_(other.incarnation_),
      intra_op_pool_(other.intra_op_pool_),
      allocator_(other.allocator_),
      resources_(share_resources ? other.resources_
                                 : std::make_shared<ResourceManager>(parsed_.job.value_or("localhost"))) {
  CHECK(parsed_.is_full()) << "a device needs a full name, got " << name_;
}

tensorflow::DeviceAttributes Device::Attributes() const {
  tensorflow::DeviceAttributes attributes;
  attributes.set_name(name_);
  attributes.set_device_type(type());
  attributes.set_memory_limit(256 << 20);
  attributes.mutable_locality();
  attributes.set_incarnation(incarnation_);
  return attributes;
}

}  // namespace thalweg
