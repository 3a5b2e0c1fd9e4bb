// SPDX-License-Identifier: Apache-2.0
// Launchers that number their tasks: Slurm, MPI and PMIx. The first are parameter
// servers, the rest workers.
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "thalweg/base/status.h"
#include "thalweg/launch/job_sources.h"

namespace thalweg {
namespace {

// Ports derived from the job id are below the system's range for outgoing connections, in
// blocks, so that two jobs on a host rarely collide.
constexpr int kFirstPort = 12000;
constexpr int kBlock = 64;
constexpr int kBlocks = 300;

int PortsOf(absl::string_view job_name) {
  uint32_t hash = 2166136261u;  // FNV-1a: the same in every process
  for (const char c : job_name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return kFirstPort + static_cast<int>(hash % kBlocks) * kBlock;
}

// The host of a rank, and the number of lower ranks on that host.
struct Place {
  std::string host;
  int index_on_host = 0;
};

// The roles, for places in the order of their ranks.
absl::StatusOr<Job> Assign(const std::vector<Place>& places, const Setting& rank, const Roles& roles, int default_port,
                           std::string source) {
  const int size = static_cast<int>(places.size());
  ASSIGN_OR_RETURN(const int self, Number(rank));
  if (self >= size) return InvalidArgument(rank.name, "=", rank.value, ": expected less than ", size, ", the tasks");
  int num_ps = size > 1 ? 1 : 0;
  if (!roles.num_ps.value.empty()) {
    ASSIGN_OR_RETURN(num_ps, Number(roles.num_ps));
    if (num_ps >= size) {
      return InvalidArgument(roles.num_ps.name, "=", num_ps, ": of ", size, " tasks at least one has to be a worker");
    }
  }
  int port = default_port;
  if (!roles.base_port.value.empty()) {
    ASSIGN_OR_RETURN(port, Number(roles.base_port));
    if (port < 1 || port > 65535) {
      return InvalidArgument(roles.base_port.name, "=", port, ": expected a port, 1 to 65535");
    }
  }
  Job job{.source = std::move(source)};
  for (int i = 0; i < size; ++i) {
    const TaskId task = i < num_ps ? TaskId{"ps", i} : TaskId{"worker", i - num_ps};
    RETURN_IF_ERROR(job.cluster.AddTask(task, absl::StrCat(places[i].host, ":", port + places[i].index_on_host)));
    if (i == self) job.task = task;
  }
  return job;
}

// "2(x3),1" as 2, 2, 2, 1.
absl::StatusOr<std::vector<int>> ExpandCounts(const Setting& setting) {
  std::vector<int> counts;
  for (const absl::string_view part : absl::StrSplit(setting.value, ',')) {
    const std::pair<absl::string_view, absl::string_view> pieces = absl::StrSplit(part, absl::MaxSplits("(x", 1));
    int count = 0, times = 1;
    if (!absl::SimpleAtoi(pieces.first, &count) || count < 0 ||
        (pieces.first.size() != part.size() &&
         (!absl::SimpleAtoi(absl::StripSuffix(pieces.second, ")"), &times) || times < 1 || times > 1 << 20))) {
      return InvalidArgument(setting.name, "=", setting.value, ": expected numbers of tasks, as 2(x3),1");
    }
    counts.insert(counts.end(), times, count);
  }
  return counts;
}

// Ranks fill one host after the other, or go round the hosts.
std::vector<Place> Distribute(const std::vector<std::string>& hosts, const std::vector<int>& counts, bool cyclic) {
  std::vector<Place> places;
  if (!cyclic) {
    for (size_t h = 0; h < hosts.size(); ++h) {
      for (int i = 0; i < counts[h]; ++i) places.push_back({hosts[h], i});
    }
    return places;
  }
  bool more = true;
  for (int round = 0; more; ++round) {
    more = false;
    for (size_t h = 0; h < hosts.size(); ++h) {
      if (round < counts[h]) places.push_back({hosts[h], round});
      more = more || round + 1 < counts[h];
    }
  }
  return places;
}

// "node1:2,node2:2": hosts and how many ranks each has, in the order of ranks.
absl::StatusOr<std::vector<Place>> ReadHosts(const Setting& setting) {
  std::vector<std::string> hosts;
  std::vector<int> counts;
  for (const absl::string_view part : absl::StrSplit(setting.value, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> pieces = absl::StrSplit(part, absl::MaxSplits(':', 1));
    int count = 1;
    if (pieces.first.empty() ||
        (pieces.first.size() != part.size() && (!absl::SimpleAtoi(pieces.second, &count) || count < 1))) {
      return InvalidArgument(setting.name, "=", setting.value, ": expected host:tasks,host:tasks, got \"", part, "\"");
    }
    hosts.emplace_back(pieces.first);
    counts.push_back(count);
  }
  return Distribute(hosts, counts, /*cyclic=*/false);
}

// "1-3,07" as 1, 2, 3, 07.
absl::StatusOr<std::vector<std::string>> ExpandRanges(absl::string_view ranges) {
  std::vector<std::string> numbers;
  for (const absl::string_view range : absl::StrSplit(ranges, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
    const absl::string_view last_text = ends.first.size() == range.size() ? ends.first : ends.second;
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.first, &first) || !absl::SimpleAtoi(last_text, &last) || first < 0 || last < first ||
        last - first > 1 << 20) {
      return InvalidArgument("\"", range, "\" is not a valid range");
    }
    for (int i = first; i <= last; ++i) {
      numbers.push_back(absl::StrFormat("%0*d", static_cast<int>(ends.first.size()), i));
    }
  }
  return numbers;
}

// One entry of a list of nodes: "rack[1-2]node[1-3]".
absl::Status ExpandNode(absl::string_view text, const std::string& prefix, std::vector<std::string>& nodes) {
  const size_t open = text.find('[');
  if (open == absl::string_view::npos) {
    nodes.push_back(prefix + std::string(text));
    if (nodes.back().empty()) return InvalidArgument("a name is empty");
    return absl::OkStatus();
  }
  const size_t close = text.find(']', open);
  if (close == absl::string_view::npos) return InvalidArgument("a [ is not closed");
  ASSIGN_OR_RETURN(const auto numbers, ExpandRanges(text.substr(open + 1, close - open - 1)));
  for (const std::string& number : numbers) {
    RETURN_IF_ERROR(
        ExpandNode(text.substr(close + 1), absl::StrCat(prefix, std::string(text.substr(0, open)), number), nodes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandNodeList(const Setting& list) {
  std::vector<std::string> nodes;
  absl::string_view rest = list.value;
  while (true) {
    // Up to the next comma that is in no brackets.
    size_t end = 0;
    for (int depth = 0; end < rest.size() && (depth > 0 || rest[end] != ','); ++end) {
      depth += rest[end] == '[' ? 1 : rest[end] == ']' ? -1 : 0;
    }
    if (const absl::Status status = ExpandNode(rest.substr(0, end), "", nodes); !status.ok()) {
      return InvalidArgument(list.name, "=", list.value,
                             ": expected names of nodes, as node[1-3,07],other: ", status.message());
    }
    if (end == rest.size()) return nodes;
    rest.remove_prefix(end + 1);
  }
}

absl::StatusOr<Job> JobFromSlurm(const Job::Environment& environment, const Roles& roles) {
  const Setting rank = *Variable(environment, "SLURM_PROCID");
  const auto tasks = FirstVariable(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  if (!tasks) return InvalidArgument("SLURM_NTASKS is missing: expected the number of tasks beside SLURM_PROCID");
  const auto nodes = FirstVariable(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (!nodes) return InvalidArgument("SLURM_JOB_NODELIST is missing: expected the nodes beside SLURM_PROCID");
  ASSIGN_OR_RETURN(const int size, Number(*tasks));
  ASSIGN_OR_RETURN(const std::vector<std::string> hosts, ExpandNodeList(*nodes));

  // Without a list of counts the tasks are spread evenly.
  std::vector<int> counts;
  const auto per_node = FirstVariable(environment, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (per_node) {
    ASSIGN_OR_RETURN(counts, ExpandCounts(*per_node));
    if (counts.size() != hosts.size()) {
      return InvalidArgument(per_node->name, "=", per_node->value, " has ", counts.size(), " nodes, ", nodes->name, "=",
                             nodes->value, " has ", hosts.size());
    }
  } else {
    const int n = static_cast<int>(hosts.size());
    for (int h = 0; h < n; ++h) counts.push_back(size / n + (h < size % n ? 1 : 0));
  }
  const auto distribution = Variable(environment, "SLURM_DISTRIBUTION");
  const bool cyclic = distribution && absl::StartsWith(distribution->value, "cyclic");
  const std::vector<Place> places = Distribute(hosts, counts, cyclic);
  if (static_cast<int>(places.size()) != size) {
    return InvalidArgument(tasks->name, "=", tasks->value, ", but the nodes have ", places.size(), " tasks",
                           per_node ? absl::StrCat(" (", per_node->name, "=", per_node->value, ")") : "");
  }
  // The order in which ranks are spread can be chosen in more ways than are
  // understood here; this task knows where it is itself.
  if (const auto node = Variable(environment, "SLURM_NODEID")) {
    ASSIGN_OR_RETURN(const int own, Number(*node));
    ASSIGN_OR_RETURN(const int self, Number(rank));
    if (own >= static_cast<int>(hosts.size()) || (self < size && places[self].host != hosts[own])) {
      return InvalidArgument("SLURM_NODEID=", own, " does not go with ", rank.name, "=", self, " and ", nodes->name,
                             "=", nodes->value, ": expected a distribution of tasks by block or cyclic",
                             distribution ? absl::StrCat(", got ", distribution->value) : "");
    }
  }
  // srun --resv-ports sets ports aside.
  int port = 0;
  const auto reserved = Variable(environment, "SLURM_STEP_RESV_PORTS");
  if (!reserved || !absl::SimpleAtoi(reserved->value.substr(0, reserved->value.find_first_of("-,")), &port)) {
    const auto id = FirstVariable(environment, {"SLURM_JOB_ID", "SLURM_JOBID"});
    const auto step = FirstVariable(environment, {"SLURM_STEP_ID", "SLURM_STEPID"});
    port = PortsOf(absl::StrCat(id ? id->value : "", ".", step ? step->value : ""));
  }
  return Assign(places, rank, roles, port, "Slurm");
}

absl::StatusOr<Job> JobFromMpi(const Setting& rank, const Job::Environment& environment, const Roles& roles) {
  const auto size = FirstVariable(environment, {"OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "PMI_SIZE"});
  const auto local_size = FirstVariable(environment, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"});
  const auto name = FirstVariable(environment, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_ID", "PMI_PORT"});
  std::vector<Place> places;
  if (!roles.hosts.value.empty()) {
    ASSIGN_OR_RETURN(places, ReadHosts(roles.hosts));
    if (size && size->value != absl::StrCat(places.size())) {
      return InvalidArgument(roles.hosts.name, "=", roles.hosts.value, " has ", places.size(), " tasks, ", size->name,
                             "=", size->value);
    }
  } else if (!size) {
    return InvalidArgument("The number of tasks is missing beside ", rank.name, "=", rank.value,
                           ": expected OMPI_COMM_WORLD_SIZE or PMI_SIZE, or --hosts=node1:2,node2:2");
  } else {
    ASSIGN_OR_RETURN(const int n, Number(*size));
    if (local_size && local_size->value != size->value) {
      return InvalidArgument(local_size->name, "=", local_size->value, " of ", size->name, "=", size->value,
                             " tasks are on this host: expected --hosts=node1:2,node2:2 (or THALWEG_HOSTS), as MPI "
                             "does not tell where the others are");
    }
    places = Distribute({"localhost"}, {n}, /*cyclic=*/false);
  }
  return Assign(places, rank, roles, PortsOf(name ? name->value : ""), "MPI");
}

}  // namespace thalweg
