// Rendezvous: where a tensor that one part of a step produces meets the part
// that wants it, in either order. One per step. A producer never waits.
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
  // INVALID_ARGUMENT, with the text, if it is not of that form.
  static absl::StatusOr<RendezvousKey> Parse(absl::string_view text);
};

class Rendezvous {
 public:
  struct Value {
    Tensor tensor;
    bool dead = false;  // of a branch that was not taken
  };
  using RecvDone = absl::AnyInvocable<void(const absl::Status&, Value)>;

  virtual ~Rendezvous() = default;
  // Fails if the step was aborted, or the same key was sent twice.
  virtual absl::Status Send(const std::string& key, Value value) = 0;
  // `done` runs once: with the value, on the thread of this call or of Send, or
  // with the status of Abort.
  virtual void RecvAsync(const std::string& key, RecvDone done) = 0;
  // Ends every wait, now and later, with `status`.
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
    bool taken = false;  // a key is good for one transfer
    Value value;
    RecvDone waiter;
  };
  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
