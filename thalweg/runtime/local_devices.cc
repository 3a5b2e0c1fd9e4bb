#include "thalweg/runtime/local_devices.h"

#include <algorithm>

#include "thalweg/base/thread.h"

namespace thalweg {
namespace {

int Threads(int asked) { return asked > 0 ? asked : AvailableCores(); }

}  // namespace

LocalDevices::LocalDevices(const LocalDevicesOptions& options)
    : crew_(Threads(options.threads) - 1), pool_("steps", Threads(options.threads)) {
  for (int i = 0; i < std::max(1, options.cpus); ++i) {
    DeviceName name;
    name.job = options.job;
    name.replica = 0;
    name.task = options.task;
    name.type = "CPU";
    name.id = i;
    devices_.push_back(std::make_shared<Device>(std::move(name), &crew_));
  }
}

std::vector<std::shared_ptr<Device>> LocalDevices::Isolated(const std::string& job, int task) {
  std::vector<std::shared_ptr<Device>> isolated;
  for (const auto& device : devices_) {
    DeviceName name = device->parsed_name();
    name.job = job;
    name.task = task;
    isolated.push_back(std::make_shared<Device>(std::move(name), &crew_, &device->allocator(), device->incarnation()));
  }
  return isolated;
}

Device* LocalDevices::Find(const std::string& full_name) const {
  for (const auto& device : devices_) {
    if (device->name() == full_name) return device.get();
  }
  return nullptr;
}

}  // namespace thalweg
