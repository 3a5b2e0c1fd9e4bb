// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/call_deduplicator.h"

#include <utility>

#include "thalweg/base/exception_boundary.h"

namespace thalweg {

bool CallDeduplicator::Begin(int64_t id, ServerCall& call) {
  if (id == 0) return true;
  absl::Status status;
  grpc::ByteBuffer answer;
  {
    MutexLock lock(&mutex_);
    const auto [it, is_new] = calls_.try_emplace(id);
    if (is_new) return true;
    if (!it->second.ended) {
      it->second.repetitions.push_back(&call);
      return false;
    }
    status = it->second.status;
    answer = it->second.answer;
  }
  call.Reply(status, answer);
  return false;
}

std::vector<ServerCall*> CallDeduplicator::End(int64_t id, const absl::Status& status, const grpc::ByteBuffer& answer) {
  std::vector<ServerCall*> repetitions;
  if (id == 0) return repetitions;
  MutexLock lock(&mutex_);
  const auto it = calls_.find(id);
  if (it == calls_.end() || it->second.ended) return repetitions;  // an exception has ended it already
  Entry& entry = it->second;
  repetitions.swap(entry.repetitions);
  entry.ended = true;
  entry.status = status;
  entry.answer = answer;  // shares the bytes
  ended_.push_back(id);
  bytes_ += answer.Length();
  while (ended_.size() > max_answers_ || bytes_ > max_bytes_) {
    const auto oldest = calls_.find(ended_.front());
    bytes_ -= oldest->second.answer.Length();
    calls_.erase(oldest);
    ended_.pop_front();
  }
  return repetitions;
}

void CallDeduplicator::Reply(int64_t id, ServerCall& call, const absl::Status& status, const grpc::ByteBuffer& answer) {
  const std::vector<ServerCall*> repetitions = End(id, status, answer);
  call.Reply(status, answer);
  for (ServerCall* repetition : repetitions) repetition->Reply(status, answer);
}

void CallDeduplicator::Serve(int64_t id, absl::FunctionRef<void()> serve) {
  try {
    serve();
  } catch (...) {
    const absl::Status status = StatusOfException();
    for (ServerCall* repetition : End(id, status, {})) repetition->Reply(status, grpc::ByteBuffer());
    throw;
  }
}

}  // namespace thalweg
