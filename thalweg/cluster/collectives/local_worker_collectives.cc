// SPDX-License-Identifier: Apache-2.0
// The worker's methods for members of collective groups.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/cluster/worker/local_worker.h"

namespace thalweg {
namespace {

constexpr int kMaxGraphKeys = 1000;  // masters ask for one

// Whether a member asks for the group that it has been in, not another program for one of its own.
bool IsFor(const tensorflow::CompleteGroupRequest& request, const std::vector<CollectiveGroup::Member>& members) {
  return request.group_size() == static_cast<int>(members.size()) &&
         std::any_of(members.begin(), members.end(), [&](const CollectiveGroup::Member& member) {
           return member.device == request.device_attributes().name();
         });
}

}  // namespace

void LocalWorker::RecvBuf(const CallOptions& options, const tensorflow::RecvBufRequest& request, Tensor* value,
                          Done done) {
  // Sessions may know this task by another name, but not by another number.
  const auto& devices = options_.devices->devices();
  const bool known = std::any_of(devices.begin(), devices.end(), [&](const auto& device) {
    return device->incarnation() == request.src_incarnation();
  });
  if (!known) {
    return done(Aborted("RecvBuf expects a different device incarnation: ", request.src_incarnation(), " vs. ",
                        devices[0]->incarnation(), ". Your worker job that contains the device (\"",
                        request.src_device(),
                        "\") was probably restarted. Check your worker job for the reason why "
                        "it was restarted."));
  }
  collectives_.buffers().TakeAsync(
      request.step_id(), request.buf_rendezvous_key(), options.cancellation,
      [value, key = request.buf_rendezvous_key(), bytes = request.num_bytes(), done = std::move(done)](
          const absl::Status& status, Tensor taken) mutable {
        if (!status.ok()) return done(status);
        if (taken.TotalBytes() != bytes) {
          return done(Internal("Tensor Size Mismatch: ", taken.TotalBytes(), " bytes are there for ", key,
                               ", and the member wants ", bytes));
        }
        *value = std::move(taken);
        done(absl::OkStatus());
      });
}

void LocalWorker::CompleteGroup(const CallOptions& options, const tensorflow::CompleteGroupRequest& request,
                                tensorflow::CompleteGroupResponse* response, Done done) {
  if (!request.has_device_attributes()) {
    return done(
        Internal("CompleteGroupRequest device_attributes is not set. Make sure you're running the same version "
                 "of Tensorflow on all workers."));
  }
  collectives_.StartWatch();
  CollectiveGroups& groups = collectives_.groups();
  const std::vector<CollectiveGroup::Member> members = groups.Unchecked(request.group_key());
  if (members.empty()) return groups.Join(options, request, response, std::move(done));

  // Sessions have ended since the group was formed. Tasks may have, too.
  struct Check {
    explicit Check(size_t members) : left(members), responses(members) {}
    Mutex mutex;
    size_t left ABSL_GUARDED_BY(mutex);
    bool all_there ABSL_GUARDED_BY(mutex) = true;
    absl::Status unreachable ABSL_GUARDED_BY(mutex);  // the first error of a member of the cluster
    std::vector<tensorflow::GetStatusResponse> responses;
  };
  const auto check = std::make_shared<Check>(members.size());
  auto join = [&groups, options, &request, response, members, done = std::move(done)](
                  bool all_there, const absl::Status& unreachable) mutable {
    // If the caller has given up, so did the questions. They say nothing about the members.
    const bool asked = options.cancellation == nullptr || !options.cancellation->cancelled();
    if (asked) groups.Checked(request.group_key(), members, all_there);
    // Others may be in a step with this group already. The error makes the caller tell them that the step has failed.
    if (asked && !unreachable.ok() && IsFor(request, members)) return done(unreachable);
    groups.Join(options, request, response, std::move(done));
  };
  const auto shared_join = std::make_shared<decltype(join)>(std::move(join));
  for (size_t i = 0; i < members.size(); ++i) {
    Worker* const worker = default_session_->workers()->Find(members[i].task);
    const auto answered = [check, shared_join, member = members[i], in_cluster = worker != nullptr,
                           i](const absl::Status& status) {
      const auto& devices = check->responses[i].device_attributes();
      const bool there = status.ok() && std::any_of(devices.begin(), devices.end(), [&](const auto& device) {
                           return device.incarnation() == member.incarnation;
                         });
      bool all_there = false;
      absl::Status unreachable;
      {
        MutexLock lock(&check->mutex);
        check->all_there = check->all_there && there;
        if (!status.ok() && in_cluster && check->unreachable.ok()) {
          check->unreachable = Aborted("Task ", member.task,
                                       ", a member of the collective group, cannot be reached: ", status.message());
        }
        if (--check->left > 0) return;
        all_there = check->all_there;
        unreachable = check->unreachable;
      }
      (*shared_join)(all_there, unreachable);
    };
    if (worker == nullptr) {
      answered(NotFound(members[i].task));
    } else {
      worker->GetStatus({.timeout = collectives_.peer_timeout(), .cancellation = options.cancellation},
                        &check->responses[i], answered);
    }
  }
}

void LocalWorker::CompleteInstance(const CallOptions& options, const tensorflow::CompleteInstanceRequest& request,
                                   tensorflow::CompleteInstanceResponse* response, Done done) {
  collectives_.groups().Declare(options, request, response, std::move(done));
}

void LocalWorker::GetStepSequence(const CallOptions&, const tensorflow::GetStepSequenceRequest& request,
                                  tensorflow::GetStepSequenceResponse* response, Done done) {
  if (request.graph_key_size() > kMaxGraphKeys) {
    return done(InvalidArgument("GetStepSequence for ", request.graph_key_size(), " graphs at once"));
  }
  for (const int64_t key : request.graph_key()) {
    const absl::StatusOr<int64_t> next = options_.sequences->NextOfLeader(key);
    if (!next.ok()) return done(next.status());
    tensorflow::StepSequence* sequence = response->add_step_sequence();
    sequence->set_graph_key(key);
    sequence->set_next_step_id(*next);
  }
  done(absl::OkStatus());
}

void LocalWorker::AbortCollective(const CallOptions&, const tensorflow::AbortCollectiveRequest& request, Done done) {
  const auto code = static_cast<absl::StatusCode>(request.code());
  const absl::Status why(code == absl::StatusCode::kOk ? absl::StatusCode::kAborted : code, request.message());
  collectives_.AbortStep(request.step_id(), GivenUpBy(request.task(), why));
  done(absl::OkStatus());
}

}  // namespace thalweg
