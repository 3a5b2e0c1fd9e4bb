// Hooks: code that goes with a training and runs around its steps: stopping,
// checkpoints, summaries, the bookkeeping of a synchronous optimizer.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "thalweg/client/session.h"
#include "thalweg/graph/scope.h"

namespace thalweg {

// What a hook wants of a step, beside what the program asks for.
struct StepRequest {
  std::vector<Fetch> fetches;
  std::vector<Feed> feeds;
  bool trace = false;  // when and where every node ran, into StepContext::metadata
};

// A step as hooks see it.
class StepContext {
 public:
  StepContext(Session& session, const RunMetadata* metadata) : session_(session), metadata_(metadata) {}

  Session& session() const { return session_; }
  // After the step; nullptr if nobody asked for a trace.
  const RunMetadata* metadata() const { return metadata_; }
  // No step after this one.
  void RequestStop() { stop_requested_ = true; }
  bool stop_requested() const { return stop_requested_; }

 private:
  Session& session_;
  const RunMetadata* metadata_;
  bool stop_requested_ = false;
};

// Called from the thread that runs the steps, in this order. An error ends the
// training, except that of a lost task, after which the session is made anew
// and AfterCreateSession comes again.
class Hook {
 public:
  virtual ~Hook() = default;

  // Once, before the first session: the last chance to add to the graph.
  virtual absl::Status Begin(const Scope& s) { return absl::OkStatus(); }
  // Variables are initialized or restored.
  virtual absl::Status AfterCreateSession(Session& session) { return absl::OkStatus(); }
  virtual absl::StatusOr<StepRequest> BeforeRun(StepContext& context) { return StepRequest{}; }
  // `results` are those of the fetches that this hook asked for.
  virtual absl::Status AfterRun(StepContext& context, absl::Span<const Tensor> results) { return absl::OkStatus(); }
  // The training ended well; the session is still open.
  virtual absl::Status End(Session& session) { return absl::OkStatus(); }
  // The session is about to go, for whatever reason (its end, an error, a lost
  // task): the last call for it, made for every session that AfterCreateSession
  // was called for. Threads of the hook must not use the session afterwards.
  virtual void BeforeCloseSession(Session& session) {}
};

using HookList = std::vector<std::shared_ptr<Hook>>;

// First those of `a`, then those of `b`.
inline HookList operator+(HookList a, const HookList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace thalweg
