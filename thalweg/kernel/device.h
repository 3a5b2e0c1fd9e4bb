// SPDX-License-Identifier: Apache-2.0
// A device runs nodes and holds their resources. A task has one or more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "thalweg/base/intra_op_pool.h"
#include "thalweg/base/memory.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/proto/device.pb.h"

namespace thalweg {

// Thread-safe. An accelerator's backend derives from it and registers kernels
// for its type.
class Device {
 public:
  // `intra_op_pool` (borrowed) runs the parallel parts of kernels. Devices of one host
  // share it.
  Device(DeviceName name, IntraOpPool* intra_op_pool, Allocator* allocator = &HostAllocator());
  // The same device under another name, with the resources of `other` or its own.
  Device(const Device& other, DeviceName name, bool share_resources);
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }  // full
  const DeviceName& parsed_name() const { return parsed_; }
  const std::string& type() const { return *parsed_.type; }
  // A random number other than 0, which distinguishes a restarted task from the one
  // before.
  uint64_t incarnation() const { return incarnation_; }

  Allocator& allocator() const { return *allocator_; }
  IntraOpPool& intra_op_pool() const { return *intra_op_pool_; }
  ResourceManager& resources() { return *resources_; }

  tensorflow::DeviceAttributes Attributes() const;

 private:
  const DeviceName parsed_;
  const std::string name_;
  const uint64_t incarnation_;
  IntraOpPool* const intra_op_pool_;
  Allocator* const allocator_;
  const std::shared_ptr<ResourceManager> resources_;
};

}  // namespace thalweg
