// SPDX-License-Identifier: Apache-2.0
// A rendezvous passes tensors from one part of a step to another by key. Send and
// receive may come in either order. There is one per step. Senders never block.
#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Names one transfer: "src_device;incarnation;dst_device;edge;frame:iteration".
struct RendezvousKey {
  std::string source_device;
  uint64_t source_incarnation = 0;
  std::string destination_device;
  std::string edge;
  uint64_t frame = 0;
  int64_t iteration = 0;

  std::string ToString() const;
  // INVALID_ARGUMENT, quoting the text, if it does not have that form.
  static absl::StatusOr<RendezvousKey> Parse(absl::string_view text);
};

class Rendezvous {
 public:
  struct Value {
    Tensor tensor;
    bool dead = false;  // it belongs to a branch that was not taken
  };
  using RecvDone = absl::AnyInvocable<void(const absl::Status&, Value)>;

  virtual ~Rendezvous() = default;
  // Fails if the step was aborted or the key was sent before.
  virtual absl::Status Send(const std::string& key, Value value) = 0;
  // Calls `done` once: with the value, on the thread of this call or of Send(), or with
  // the status of Abort().
  virtual void RecvAsync(const std::string& key, RecvDone done) = 0;
  // Ends all current and future waits with `status`.
  virtual void Abort(const absl::Status& status) = 0;
};

// Within one process. Thread-safe.
class LocalRendezvous : public Rendezvous {
 public:
  ~LocalRendezvous() override;
  absl::Status Send(const std::string& key, Value value) override;
  void RecvAsync(const std::string& key, RecvDone done) override;
  void Abort(const absl::Status& status) override;

 private:
  struct Entry {
    bool has_value = false;
    bool taken = false;  // the value was received; a key serves one transfer only
    Value value;
    RecvDone waiter;
  };
  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
