// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/local_devices.h"

#include <algorithm>

#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/kernel/script_functions.h"

namespace thalweg {
namespace {

int Threads(int asked) { return asked > 0 ? asked : AvailableCores(); }

}  // namespace

absl::Status LocalDevicesOptions::Check() const {
  if (cpus < 1 || cpus > kMaxCpus) return InvalidArgument("cpu_devices is ", cpus, ", must be 1 to ", kMaxCpus);
  if (threads < 0 || threads > kMaxThreads) {
    return InvalidArgument("threads is ", threads, ", must be 1 to ", kMaxThreads, ", or 0 for one per core");
  }
  return absl::OkStatus();
}

LocalDevices::LocalDevices(const LocalDevicesOptions& options)
    : intra_op_pool_(Threads(options.threads) - 1), pool_("steps", Threads(options.threads)) {
  for (int i = 0; i < options.cpus; ++i) {
    DeviceName name;
    name.job = options.job;
    name.replica = 0;
    name.task = options.task;
    name.type = "CPU";
    name.id = i;
    devices_.push_back(std::make_shared<Device>(std::move(name), &intra_op_pool_));
  }
}

std::vector<std::shared_ptr<Device>> LocalDevices::ViewAs(const std::string& job, int task, bool share_resources) {
  std::vector<std::shared_ptr<Device>> views;
  for (const auto& device : devices_) {
    DeviceName name = device->parsed_name();
    name.job = job;
    name.task = task;
    views.push_back(std::make_shared<Device>(*device, std::move(name), share_resources));
    // The program's functions are not state of a session.
    if (share_resources) continue;
    if (auto functions = ScriptFunctions::On(*device); functions.ok()) {
      CHECK(ScriptFunctions::Install(*std::move(functions), *views.back()).ok());
    }
  }
  return views;
}

Device* LocalDevices::Find(const std::string& full_name) const {
  for (const auto& device : devices_) {
    if (device->name() == full_name) return device.get();
  }
  return nullptr;
}

}  // namespace thalweg
