// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/master/master_partial_run.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/cluster/request_id.h"

namespace thalweg {
namespace {

absl::Status TakeOne(const char* what, const char* done, const std::string& name, const std::vector<std::string>& all,
                     std::set<std::string>& left) {
  if (left.erase(name) == 1) return absl::OkStatus();
  if (std::find(all.begin(), all.end(), name) == all.end()) {
    return InvalidArgument("The ", what, " ", name, " was not specified in partial_run_setup.");
  }
  return InvalidArgument("The ", what, " ", name, " has already been ", done, ".");
}

}  // namespace

// One call of the client's, in all parts.
struct MasterPartialRun::Exchanged {
  std::vector<RunGraphResult> results;
  std::vector<std::vector<int>> fetches;  // by part: places in the result
  bool is_last = false;
  Mutex mutex;
  size_t left ABSL_GUARDED_BY(mutex) = 0;
  absl::Status status ABSL_GUARDED_BY(mutex);
  Master::Done done;
  std::optional<WatchedCalls> calls;
};

MasterPartialRun::MasterPartialRun(std::string session_handle, std::shared_ptr<const ClusterCallable> callable,
                                   PeerHealth* health)
    : session_handle_(std::move(session_handle)),
      callable_(std::move(callable)),
      health_(health),
      step_id_(NewStepId()),
      feeds_left_(callable_->signature.feeds.begin(), callable_->signature.feeds.end()),
      fetches_left_(callable_->signature.fetches.begin(), callable_->signature.fetches.end()) {}

absl::Status MasterPartialRun::Take(const RunStepCall& call, const CheckComputable& check, bool* is_last) {
  MutexLock lock(&mutex_);
  std::set<std::string> feeds = feeds_left_;
  std::set<std::string> fetches = fetches_left_;
  for (const auto& [name, value] : call.feeds) {
    RETURN_IF_ERROR(TakeOne("feed", "fed", name, callable_->signature.feeds, feeds));
  }
  for (const std::string& name : call.fetches) {
    RETURN_IF_ERROR(TakeOne("fetch", "fetched", name, callable_->signature.fetches, fetches));
  }
  for (const std::string& name : call.fetches) RETURN_IF_ERROR(check(name, feeds));
  *is_last = feeds.empty() && fetches.empty();
  feeds_left_ = std::move(feeds);
  fetches_left_ = std::move(fetches);
  return absl::OkStatus();
}

void MasterPartialRun::Exchange(const CallOptions& options, RunStepCall call, bool is_last, RunStepResult* result,
                                Master::Done done) {
  const std::vector<ClusterCallable::Part>& parts = callable_->parts;
  const auto exchange = std::make_shared<Exchanged>();
  exchange->results.resize(parts.size());
  exchange->fetches.resize(parts.size());
  exchange->is_last = is_last;
  exchange->done = std::move(done);
  exchange->calls.emplace(health_, *callable_->peers, options.cancellation);
  const CallOptions call_options{.cancellation = exchange->calls->cancellation().get()};
  result->fetches.resize(call.fetches.size());
  {
    MutexLock lock(&exchange->mutex);
    exchange->left = parts.size();
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    RunGraphCall part_call{.session_handle = session_handle_,
                           .graph_handle = parts[i].graph_handle,
                           .step_id = step_id_,
                           .request_id = NewRequestId(),
                           .is_partial = true,
                           .is_last_partial = is_last};
    for (const auto& [index, key] : parts[i].feeds) {
      for (const auto& [name, value] : call.feeds) {
        if (name == callable_->signature.feeds[index]) part_call.send.emplace_back(key, value);
      }
    }
    for (const auto& [index, key] : parts[i].fetches) {
      for (size_t k = 0; k < call.fetches.size(); ++k) {
        if (call.fetches[k] != callable_->signature.fetches[index]) continue;
        part_call.recv_keys.push_back(key);
        exchange->fetches[i].push_back(static_cast<int>(k));
      }
    }
    parts[i].worker->RunGraph(call_options, std::move(part_call), &exchange->results[i],
                              [self = shared_from_this(), exchange, result, i](const absl::Status& status) {
                                absl::Status first;
                                {
                                  MutexLock lock(&exchange->mutex);
                                  if (exchange->status.ok() && !status.ok()) {
                                    exchange->status =
                                        FromTask(exchange->calls->Explain(status), self->callable_->parts[i].task);
                                  }
                                  if (--exchange->left > 0) return;
                                  first = exchange->status;
                                }
                                exchange->calls.reset();
                                self->Ended(*exchange, first, result);
                                exchange->done(first);
                              });
  }
}

void MasterPartialRun::Ended(const Exchanged& exchange, const absl::Status& status, RunStepResult* result) const {
  for (size_t p = 0; p < exchange.fetches.size() && status.ok(); ++p) {
    for (size_t k = 0; k < exchange.fetches[p].size(); ++k) {
      result->fetches[exchange.fetches[p][k]] = exchange.results[p].recv[k].second;
    }
  }
  if (exchange.is_last || !status.ok()) CleanUp();
  result->step_failed = !status.ok();
}

}  // namespace thalweg
