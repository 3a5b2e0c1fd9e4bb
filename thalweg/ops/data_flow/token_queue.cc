// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/token_queue.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// Other tasks, such as parameter servers, neither train nor apply gradients.
bool IsReplica(const std::string& task) {
  return !absl::StartsWith(task, "/job:ps/") && !absl::StartsWith(task, "/job:evaluator/");
}

}  // namespace

bool TokenQueue::Is(const QueueConfig& options) {
  return options.name == "sync_token_q" && options.types.size() == 1 &&
         (options.types[0] == kInt64 || options.types[0] == kInt32);
}

absl::StatusOr<std::shared_ptr<Queue>> TokenQueue::Make(QueueConfig options) {
  RETURN_IF_ERROR(Queue::Check(options));
  return std::shared_ptr<Queue>(new TokenQueue(std::move(options), FifoStore()));
}

void TokenQueue::HasPut(const std::string& task) {
  has_had_tokens_ = true;
  over_ = false;
  if (!task.empty()) sources_.insert(task);
}

void TokenQueue::HasTaken(const std::string& task, const Tuple& token) {
  if (!task.empty()) holders_[task] = token;
}

Tuple TokenQueue::TokenOfAnyStep() const {
  if (options().types[0] == kInt32) return {Tensor::Scalar(std::numeric_limits<int32_t>::max())};
  return {Tensor::Scalar(std::numeric_limits<int64_t>::max())};
}

std::optional<Tuple> TokenQueue::TokenOf(const std::string& task) {
  if (const auto it = holders_.find(task); it != holders_.end()) {
    Tuple token = std::move(it->second);
    holders_.erase(it);
    return token;
  }
  if (!has_had_tokens_ && IsReplica(task)) return TokenOfAnyStep();
  return std::nullopt;
}

void TokenQueue::TaskLeft(const std::string& task) {
  bool was_last_source = false;
  std::optional<Tuple> token;
  {
    MutexLock lock(&mutex_);
    was_last_source = sources_.erase(task) > 0 && sources_.empty();
    over_ = over_ || was_last_source;
    token = TokenOf(task);
    if (over_) token.reset();  // the gradient would not be used
  }
  if (was_last_source) {
    LOG(INFO) << "synchronous training ends: " << task << ", which applies the gradients, is done";
    return Starve(OutOfRange(options().kind, " '", options().name, "' gets no more tokens: ", task,
                             ", which enqueues them, is done"));
  }
  if (!token.has_value()) return;
  LOG(INFO) << task << " is done: the remaining workers compute its gradients in synchronous training (" << ++returned_
            << " workers have left)";
  Enqueue(*std::move(token), {}, [](const absl::Status&) {});  // fails if the queue is closed, which is fine
}

absl::Time TokenQueue::AllWaitSince(const std::map<std::string, TaskFailure>& failed) const {
  std::map<std::string, absl::Time> waits;
  for (const auto& [task, since] : WaitingTasks()) {
    if (!failed.contains(task)) waits.emplace(task, since);
  }
  if (waits.empty()) return absl::InfiniteFuture();
  // A worker that has a token and does not wait computes a gradient.
  for (const auto& [task, token] : holders_) {
    if (!failed.contains(task) && !waits.contains(task)) return absl::InfiniteFuture();
  }
  absl::Time all = absl::InfinitePast();
  for (const auto& [task, since] : waits) all = std::max(all, since);
  return all;
}

void TokenQueue::TasksFailed(const std::map<std::string, TaskFailure>& failed, absl::Duration limit) {
  constexpr absl::Duration kReportAfter = absl::Seconds(10);
  const auto first = std::min_element(failed.begin(), failed.end(),
                                      [](const auto& a, const auto& b) { return a.second.when < b.second.when; });
  const absl::Time now = absl::Now();
  std::string whom;
  absl::Duration left;
  {
    MutexLock lock(&mutex_);
    const absl::Time since = AllWaitSince(failed);
    if (since == absl::InfiniteFuture()) return;
    whom = absl::StrCat(sources_.contains(first->first) ? "tokens of " : "gradients of ", first->first, ", which ",
                        first->second.Describe(now));
    const absl::Duration waited = now - std::max(since, first->second.when);
    left = limit - waited;
    if (left > absl::ZeroDuration()) {
      if (waited < kReportAfter || now < next_report_) return;
      next_report_ = now + waited;
    }
  }
  if (left <= absl::ZeroDuration()) {
    return FailDequeues(DeadlineExceeded("synchronous training waits for ", whom, " and was not restarted within ",
                                         absl::FormatDuration(limit), " (--failed_after)"));
  }
  LOG(INFO) << "synchronous training waits for " << whom << "; it fails in "
            << absl::FormatDuration(absl::Ceil(left, absl::Seconds(1))) << " unless the task is restarted";
}

}  // namespace thalweg
