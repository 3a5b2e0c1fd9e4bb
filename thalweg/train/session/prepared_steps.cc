// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/prepared_steps.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// A training has a few: with and without summaries, say.
constexpr size_t kMaxSteps = 16;

}  // namespace

PreparedSteps::PreparedSteps(const Graph& graph, Session& session)
    : graph_(graph), session_(session), global_step_(GetGlobalStep(graph)) {}

Output PreparedSteps::Increment(const std::vector<Fetch>& fetches) const {
  std::vector<bool> seen(graph_.num_nodes());
  std::vector<Node*> left;
  const auto visit = [&](Node* node) {
    if (node == nullptr || seen[node->id()]) return;
    seen[node->id()] = true;
    left.push_back(node);
  };
  for (const Fetch& fetch : fetches) {
    visit(graph_.FindNode(fetch.name.substr(0, fetch.name.find(':'))));
  }
  const std::vector<std::string>& updates = graph_.Collection(kGlobalStepUpdates);
  while (!left.empty()) {
    Node* const node = left.back();
    left.pop_back();
    if (node->op() == "AssignAdd" && node->input(0).node == global_step_.ref.node) return Output(node);
    if (std::find(updates.begin(), updates.end(), node->name()) != updates.end()) return Output(node);
    for (const Output& input : node->inputs()) visit(input.node);
    for (Node* const control : node->control_inputs()) visit(control);
  }
  return {};
}

absl::StatusOr<PreparedSteps::Step> PreparedSteps::Prepare(const std::vector<Fetch>& fetches,
                                                           const std::vector<Feed>& feeds) {
  Step step;
  std::vector<Fetch> distinct;
  const auto place = [&](const Fetch& fetch) {
    for (size_t i = 0; i < distinct.size(); ++i) {
      if (distinct[i] == fetch) return static_cast<int>(i);
    }
    distinct.push_back(fetch);
    return static_cast<int>(distinct.size()) - 1;
  };
  for (const Fetch& fetch : fetches) {
    step.fetches.push_back(fetch);
    step.places.push_back(place(fetch));
  }
  std::vector<Output> outputs;
  for (const Feed& feed : feeds) {
    if (std::find(step.feeds.begin(), step.feeds.end(), feed.name) != step.feeds.end()) {
      return InvalidArgument("'", feed.name, "' is fed twice: by the program or hooks");
    }
    step.feeds.push_back(feed.name);
    ASSIGN_OR_RETURN(const Output output, graph_.FindOutput(feed.name));
    outputs.push_back(output);
  }
  if (global_step_) {
    const Output increment = Increment(fetches);
    step.after_update = static_cast<bool>(increment);
    step.global_step = place(increment ? increment : global_step_.read);
  }
  ASSIGN_OR_RETURN(step.callable, session_.Prepare(distinct, outputs));
  return step;
}

absl::StatusOr<const PreparedSteps::Step*> PreparedSteps::Find(const std::vector<Fetch>& fetches,
                                                               const std::vector<Feed>& feeds) {
  const auto same_feeds = [&](const std::vector<std::string>& names) {
    return std::equal(feeds.begin(), feeds.end(), names.begin(), names.end(),
                      [](const Feed& feed, const std::string& name) { return feed.name == name; });
  };
  for (const Step& step : steps_) {
    if (step.fetches == fetches && same_feeds(step.feeds)) return &step;
  }
  ASSIGN_OR_RETURN(Step step, Prepare(fetches, feeds));
  if (steps_.size() == kMaxSteps) steps_.pop_back();
  return &*steps_.insert(steps_.begin(), std::move(step));
}

absl::StatusOr<StepResults> PreparedSteps::Run(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds,
                                               bool trace, RunOptions options) {
  ASSIGN_OR_RETURN(const Step* const step, Find(fetches, feeds));
  std::vector<Tensor> values;
  values.reserve(feeds.size());
  for (const Feed& feed : feeds) values.push_back(feed.value);
  options.trace = trace;
  StepResults results;
  ASSIGN_OR_RETURN(const std::vector<Tensor> given,
                   step->callable.Run(values, options, trace ? &results.metadata : nullptr));
  for (const int place : step->places) results.values.push_back(given[place]);
  if (step->global_step >= 0) {
    const Tensor& value = given[step->global_step];
    if (value.dtype() == kInt64 && value.num_elements() == 1) {
      results.global_step = {.value = value.scalar<int64_t>(), .after_update = step->after_update};
    }
  }
  return results;
}

}  // namespace thalweg
