// SPDX-License-Identifier: Apache-2.0
// Steps with collectives: all masters must give the same one the same number.
#include <memory>
#include <utility>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/cluster/master/master_session.h"
#include "thalweg/cluster/master/master_step.h"

namespace thalweg {
namespace {

// Asks the leader of collectives for the number of a step. A leader that is known to have started is watched, and its
// death ends the question. Others may not have started yet, and are waited for. The end of the step, be it its
// deadline or the end of the session, ends the question, too.
struct StepIdQuestion {
  static void Ask(std::shared_ptr<StepIdQuestion> question, bool wait_for_ready) {
    StepIdQuestion& q = *question;
    const bool seen = q.membership != nullptr && q.membership->Seen(q.leader.task);
    q.calls = std::make_unique<WatchedCalls>(q.health, seen ? std::vector<Peer>{q.leader} : std::vector<Peer>(),
                                             q.cancellation.get());
    const CallOptions ask{.cancellation = q.calls->cancellation().get(), .wait_for_ready = wait_for_ready};
    q.leader.worker->GetStepSequence(
        ask, q.request, &q.response, [question = std::move(question), wait_for_ready](const absl::Status& status) {
          StepIdQuestion& answered = *question;
          const absl::Status why = answered.calls->Explain(status);
          answered.calls = nullptr;
          const bool known = answered.membership != nullptr && answered.membership->Seen(answered.leader.task);
          if (absl::IsUnavailable(why) && !wait_for_ready && !known) return Ask(question, /*wait_for_ready=*/true);
          if (!why.ok()) return answered.done(why);
          if (answered.membership != nullptr) answered.membership->MarkSeen(answered.leader.task);
          if (answered.response.step_sequence_size() != 1) {
            return answered.done(
                Internal("The collectives' leader, ", answered.leader.task, ", has given no number for the step"));
          }
          answered.done(answered.response.step_sequence(0).next_step_id());
        });
  }

  std::shared_ptr<MasterSession> session;  // whose options are used
  Peer leader;
  PeerHealth* health = nullptr;
  Membership* membership = nullptr;
  std::shared_ptr<Cancellation> cancellation;
  tensorflow::GetStepSequenceRequest request;
  tensorflow::GetStepSequenceResponse response;
  std::unique_ptr<WatchedCalls> calls;
  absl::AnyInvocable<void(absl::StatusOr<int64_t>)> done;
};

}  // namespace

void MasterSession::RunCollective(MasterStepCall call) {
  const int64_t asked = call.run_options.experimental().collective_graph_key();
  const int64_t graph_key = asked != 0 ? asked : call.callable->collective_graph_key;
  CollectiveStepIds* const sequences = options_.sequences;
  const std::shared_ptr<Cancellation> cancellation = call.scope->shared_cancellation();
  Done done = std::move(call.done);
  auto run = [self = shared_from_this(), sequences, call = std::move(call)](int64_t step_id, Done ended) mutable {
    call.collective_step_id = step_id;
    call.done = [sequences, step_id, ended = std::move(ended)](const absl::Status& status) mutable {
      sequences->Retire(step_id);
      ended(status);
    };
    self->Start(std::move(call));
  };

  const std::string& leader = collective_leader();
  if (leader == options_.self) {
    const absl::StatusOr<int64_t> next = sequences->NextOfLeader(graph_key);
    return next.ok() ? run(*next, std::move(done)) : done(next.status());
  }
  if (const auto next = sequences->Next(handle(), graph_key)) return run(*next, std::move(done));
  Worker* const worker = options_.workers->Find(leader);
  if (worker == nullptr) {
    return done(InvalidArgument("collective_group_leader is \"", leader, "\", which is not a task of the cluster"));
  }
  auto question = std::make_shared<StepIdQuestion>();
  question->session = shared_from_this();
  question->leader = {leader, worker, options_.workers};
  question->health = options_.health;
  question->membership = options_.membership;
  question->cancellation = cancellation;
  question->request.add_graph_key(graph_key);
  question->done = [self = shared_from_this(), run = std::move(run), graph_key, cancellation,
                    done = std::move(done)](absl::StatusOr<int64_t> step_id) mutable {
    if (!step_id.ok()) {
      { const auto ended = std::move(run); }  // and with it the step's scope
      return done(cancellation->cancelled() ? cancellation->status() : step_id.status());
    }
    self->options_.sequences->Set(self->handle(), graph_key, *step_id);
    run(*step_id, std::move(done));
  };
  StepIdQuestion::Ask(std::move(question), /*wait_for_ready=*/false);
}

const std::string& MasterSession::collective_leader() const {
  const std::string& named = options_.config.experimental().collective_group_leader();
  return named.empty() ? options_.self : named;
}

}  // namespace thalweg
