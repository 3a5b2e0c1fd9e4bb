// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/in_process_master.h"

#include <unistd.h>

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "thalweg/base/logging.h"

namespace thalweg {
namespace {

// The masters of this process, by address. A session knows its server by address only.
struct Masters {
  Mutex mutex;
  absl::flat_hash_map<std::string, std::weak_ptr<InProcessMaster>> by_address ABSL_GUARDED_BY(mutex);
};

Masters& AllMasters() {
  static Masters* const masters = new Masters;  // servers may outlive static objects
  return *masters;
}

}  // namespace

InProcessMaster::InProcessMaster(InProcessMasterOptions options) : options_(std::move(options)), process_(getpid()) {}

std::shared_ptr<InProcessMaster> InProcessMaster::Register(InProcessMasterOptions options) {
  const std::shared_ptr<InProcessMaster> master(new InProcessMaster(std::move(options)));
  Masters& masters = AllMasters();
  MutexLock lock(&masters.mutex);
  masters.by_address[master->options_.address] = master;
  return master;
}

std::shared_ptr<InProcessMaster> InProcessMaster::Find(absl::string_view address) {
  Masters& masters = AllMasters();
  MutexLock lock(&masters.mutex);
  const auto it = masters.by_address.find(address);
  std::shared_ptr<InProcessMaster> master = it == masters.by_address.end() ? nullptr : it->second.lock();
  return master != nullptr && master->process_ == getpid() ? master : nullptr;
}

bool InProcessMaster::Enter() {
  active_.fetch_add(1);
  if (!closed_.load()) return true;
  Leave();
  return false;
}

void InProcessMaster::Leave() {
  if (active_.fetch_sub(1) > 1 || !closed_.load()) return;
  MutexLock lock(&mutex_);
  ended_.SignalAll();
}

void InProcessMaster::Close() {
  closed_.store(true);
  Masters& masters = AllMasters();
  MutexLock lock(&masters.mutex);
  const auto it = masters.by_address.find(options_.address);
  if (it != masters.by_address.end() && it->second.lock().get() == this) masters.by_address.erase(it);
}

void InProcessMaster::WaitForCalls() {
  MutexLock lock(&mutex_);
  while (active_.load() > 0) {
    if (ended_.WaitWithTimeout(&mutex_, absl::Seconds(10))) {
      LOG(INFO) << "The server at " << options_.address << " is shutting down and waits for " << active_.load()
                << " calls of this process to end";
    }
  }
}

}  // namespace thalweg
