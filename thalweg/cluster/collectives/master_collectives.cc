// SPDX-License-Identifier: Apache-2.0
// Steps with collectives: all masters must give the same one the same number.
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/cluster/master/master_session.h"
#include "thalweg/cluster/master/master_step.h"

namespace thalweg {

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
  struct Question {
    tensorflow::GetStepSequenceRequest request;
    tensorflow::GetStepSequenceResponse response;
  };
  auto question = std::make_unique<Question>();
  Question& q = *question;
  q.request.add_graph_key(graph_key);
  // It may not have started yet. The step's own end, be it its deadline or the
  // end of the session, ends the question, too.
  const CallOptions ask{.cancellation = cancellation.get(), .wait_for_ready = true};
  worker->GetStepSequence(ask, q.request, &q.response,
                          [self = shared_from_this(), question = std::move(question), run = std::move(run), graph_key,
                           cancellation, done = std::move(done)](const absl::Status& status) mutable {
                            if (!status.ok()) {
                              { const auto ended = std::move(run); }  // and with it the step's scope
                              return done(cancellation->cancelled() ? cancellation->status() : status);
                            }
                            if (question->response.step_sequence_size() != 1) {
                              return done(Internal("The collectives' leader, ", self->collective_leader(),
                                                   ", has given no number for the step"));
                            }
                            const int64_t step_id = question->response.step_sequence(0).next_step_id();
                            self->options_.sequences->Set(self->handle(), graph_key, step_id);
                            run(step_id, std::move(done));
                          });
}

const std::string& MasterSession::collective_leader() const {
  const std::string& named = options_.config.experimental().collective_group_leader();
  return named.empty() ? options_.self : named;
}

}  // namespace thalweg
