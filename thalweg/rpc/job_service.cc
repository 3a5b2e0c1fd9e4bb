// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/rpc/service_call.h"
#include "thalweg/rpc/services.h"

namespace thalweg {

std::vector<RpcMethod> JobService(JobCompletion& watch) {
  JobCompletion* w = &watch;
  return {
      {"/thalweg.JobService/AnnounceDone", Unary<AnnounceDoneRequest, AnnounceDoneResponse>(
                                               [w](const auto& request, const CallOptions&, auto* response, auto done) {
                                                 for (std::string& task : w->Announce(request.failed()))
                                                   response->add_unreached(std::move(task));
                                                 done(absl::OkStatus());
                                               })},
      {"/thalweg.JobService/TaskDone",
       Unary<TaskDoneRequest, TaskDoneResponse>([w](const auto& request, const CallOptions&, auto*, auto done) {
         if (request.job().empty() || request.index() < 0) {
           return done(
               InvalidArgument("TaskDone: there is no task ", request.index(), " of job \"", request.job(), "\""));
         }
         const TaskId task{request.job(), request.index()};
         request.failed() ? w->TaskFailed(task) : w->TaskDone(task);
         done(absl::OkStatus());
       })},
      {"/thalweg.JobService/GetTask",
       Unary<GetTaskRequest, GetTaskResponse>([w](const auto&, const CallOptions&, auto* response, auto done) {
         response->set_state(w->state());
         done(absl::OkStatus());
       })},
  };
}

}  // namespace thalweg
