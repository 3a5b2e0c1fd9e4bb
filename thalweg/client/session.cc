// SPDX-License-Identifier: Apache-2.0
#include "thalweg/client/session.h"

#include "absl/strings/match.h"
#include "thalweg/base/malloc.h"
#include "thalweg/base/status.h"
#include "thalweg/client/session_backend.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/graph/scope.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/proto/device.pb.h"
#include "thalweg/runtime/local_devices.h"
#include "thalweg/runtime/prepare.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {
namespace {

// Results of nodes are empty tensors in their places.
void AddNodes(const std::vector<bool>& is_node, std::vector<Tensor>* results) {
  for (size_t i = 0; i < is_node.size(); ++i) {
    if (is_node[i]) results->insert(results->begin() + i, Tensor());
  }
}

tensorflow::RunMetadata* ProtoOf(RunMetadata* metadata) {
  return metadata == nullptr ? nullptr : &metadata->mutable_proto();
}

}  // namespace

Fetch::Fetch(Output output) {
  if (output.node == nullptr) return;  // found to be missing when it is run
  is_node = output.node->num_outputs() == 0 && output.node->schema() != nullptr;
  name = is_node ? output.node->name() : output.name();
}

Fetch::Fetch(std::string text) : name(std::move(text)) {}

Fetch Fetch::Target(Output output) { return Target(output.node == nullptr ? "" : output.node->name()); }

Fetch Fetch::Target(std::string node) {
  Fetch fetch(std::move(node));
  fetch.is_node = true;
  return fetch;
}

Session::Session(const Graph& graph, bool allow_soft_placement, std::unique_ptr<SessionBackend> backend)
    : graph_(graph), allow_soft_placement_(allow_soft_placement), backend_(std::move(backend)) {}
Session::~Session() = default;

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const Graph& graph, const SessionOptions& options) {
  ConfigureMalloc();
  RETURN_IF_ERROR((LocalDevicesOptions{.cpus = options.cpu_devices, .threads = options.threads}.Check()));
  RETURN_IF_ERROR(graph.build_status());
  std::unique_ptr<SessionBackend> backend;
  if (options.target.empty()) {
    backend = MakeDirectBackend(options);
  } else {
    ASSIGN_OR_RETURN(backend, MakeRemoteBackend(options));
  }
  auto session = std::unique_ptr<Session>(new Session(graph, options.allow_soft_placement, std::move(backend)));
  RETURN_IF_ERROR(session->ExtendIfGrown());
  return session;
}

// Sends the nodes that were added to the graph since the last call. Usually there are none: that costs one load.
absl::Status Session::ExtendIfGrown() {
  if (known_nodes_.load(std::memory_order_acquire) == graph_.num_nodes()) return absl::OkStatus();
  MutexLock lock(&extend_mutex_);
  const int known = known_nodes_.load(std::memory_order_relaxed);
  if (known == graph_.num_nodes()) return absl::OkStatus();
  RETURN_IF_ERROR(graph_.build_status());
  RETURN_IF_ERROR(backend_->Extend(graph_.Export(known)));
  known_nodes_.store(graph_.num_nodes(), std::memory_order_release);
  return absl::OkStatus();
}

absl::Status Session::AddFetches(const std::vector<Fetch>& fetches, Signature* signature,
                                 std::vector<bool>* is_node) const {
  for (const Fetch& fetch : fetches) {
    if (fetch.name.empty()) return InvalidArgument("a fetch is missing: it was made of a graph with an error");
    bool runs = fetch.is_node;
    if (!runs && !absl::StrContains(fetch.name, ':')) {
      const Node* node = graph_.FindNode(fetch.name);
      runs = node != nullptr && node->schema() != nullptr && node->num_outputs() == 0;
    }
    is_node->push_back(runs);
    (runs ? signature->targets : signature->fetches).push_back(fetch.name);
  }
  return absl::OkStatus();
}

absl::StatusOr<Session::Callable> Session::Prepare(const std::vector<Fetch>& fetches,
                                                   const std::vector<Output>& feeds) {
  std::vector<std::string> names;
  for (const Output& feed : feeds) {
    if (feed.node == nullptr) return InvalidArgument("a feed is missing: it was made of a graph with an error");
    names.push_back(feed.name());
  }
  RETURN_IF_ERROR(ExtendIfGrown());
  Signature signature{.feeds = std::move(names)};
  Callable callable;
  RETURN_IF_ERROR(AddFetches(fetches, &signature, &callable.is_node_));
  ASSIGN_OR_RETURN(callable.callable_, backend_->Prepare(signature));
  return callable;
}

absl::StatusOr<std::vector<Tensor>> Session::Callable::Run(absl::Span<const Tensor> feeds, const RunOptions& options,
                                                           RunMetadata* metadata) const {
  if (callable_ == nullptr) return InvalidArgument("a callable that was not prepared");
  std::vector<Tensor> results;
  results.reserve(is_node_.size());
  RETURN_IF_ERROR(callable_->Run(feeds, options, &results, ProtoOf(metadata)));
  AddNodes(is_node_, &results);
  return results;
}

absl::StatusOr<std::vector<Tensor>> Session::Run(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds,
                                                 const RunOptions& options, RunMetadata* metadata) {
  std::vector<std::string> names;
  std::vector<Tensor> values;
  names.reserve(feeds.size());
  values.reserve(feeds.size());
  for (const Feed& feed : feeds) {
    if (feed.name.empty()) return InvalidArgument("a feed is missing: it was made of a graph with an error");
    names.push_back(absl::StrContains(feed.name, ':') ? feed.name : absl::StrCat(feed.name, ":0"));
    values.push_back(feed.value);
  }
  RETURN_IF_ERROR(ExtendIfGrown());
  Signature signature{.feeds = std::move(names)};
  std::vector<bool> is_node;
  RETURN_IF_ERROR(AddFetches(fetches, &signature, &is_node));
  std::vector<Tensor> results;
  results.reserve(is_node.size());
  RETURN_IF_ERROR(backend_->Run(signature, values, options, &results, ProtoOf(metadata)));
  AddNodes(is_node, &results);
  return results;
}

absl::StatusOr<std::vector<Placed>> Session::ExplainPlacement(const std::vector<Fetch>& fetches) {
  RETURN_IF_ERROR(graph_.build_status());
  Signature signature;
  std::vector<bool> is_node;
  RETURN_IF_ERROR(AddFetches(fetches, &signature, &is_node));
  PrepareOptions options{.placer = {.allow_soft_placement = allow_soft_placement_}};
  ASSIGN_OR_RETURN(const std::vector<DeviceInfo> devices, ListDevices());
  for (const DeviceInfo& device : devices) {
    ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(device.name));
    options.placer.devices.push_back({std::move(name)});
  }
  SessionGraph graph;
  RETURN_IF_ERROR(graph.Import(graph_.Export()));
  return graph.ExplainPlacement(signature, options);
}

absl::StatusOr<std::vector<DeviceInfo>> Session::ListDevices() {
  ASSIGN_OR_RETURN(const std::vector<tensorflow::DeviceAttributes> devices, backend_->ListDevices());
  std::vector<DeviceInfo> infos;
  for (const tensorflow::DeviceAttributes& device : devices) {
    infos.push_back({.name = device.name(),
                     .type = device.device_type(),
                     .memory_limit = device.memory_limit(),
                     .incarnation = device.incarnation()});
  }
  return infos;
}

absl::Status Session::Close() { return backend_->Close(); }

}  // namespace thalweg
