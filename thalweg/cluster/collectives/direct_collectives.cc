// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/collectives/direct_collectives.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/transport/host_group.h"
#include "thalweg/transport/net_group.h"
#include "thalweg/transport/two_level.h"

namespace thalweg {
namespace {

// Limits the address space. Pages are allocated on first use.
constexpr size_t kArenaBytes = size_t{16} << 30;
// Larger tensors use TCP.
constexpr int64_t kMaxBytes = int64_t{2} << 30;

// Unlike absl::Hash, gives the same value in all processes.
uint64_t StableHash(absl::string_view text) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

// Identifies a group by its key and members. Incarnations are random, so no two groups share an identity.
std::string IdentityOf(const CollectiveGroup& group, int32_t group_key) {
  std::string text = absl::StrCat(group_key);
  for (const CollectiveGroup::Member& member : group.members) {
    absl::StrAppend(&text, "|", member.device, "#", member.incarnation);
  }
  return text;
}

// Identifies the connections of some members of a group.
std::string IdentityOf(DirectCollectives::Path path, const std::vector<int>& ranks, const std::string& group) {
  return absl::StrCat(path == DirectCollectives::Path::kTcp ? "tcp " : "memory ", absl::StrJoin(ranks, ","), " of ",
                      group);
}

RanksByHost RanksByHostOf(const CollectiveGroup& group) {
  std::vector<std::string> hosts;
  for (const CollectiveGroup::Member& member : group.members) hosts.push_back(member.place.host);
  return GroupByHost(hosts);
}

std::vector<int> AllRanks(const CollectiveGroup& group) {
  std::vector<int> ranks(group.members.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

// How to join a group: over TCP if it has addresses.
struct DirectCollectives::GroupOptions {
  std::string name;
  int rank = 0;
  std::vector<int> shown_ranks;
  std::vector<std::string> names, hosts;
  std::vector<NetAddress> addresses;
  NetEndpoint* endpoint = nullptr;

  absl::StatusOr<std::unique_ptr<ProcessGroup>> Join(const Cancellation* cancellation) const {
    // The runs that wait check that the other members are alive, so no timeout is needed.
    std::unique_ptr<ProcessGroup> group;
    if (addresses.empty()) {
      ASSIGN_OR_RETURN(group, HostGroup::Join({.name = name,
                                               .rank = rank,
                                               .ranks = static_cast<int>(names.size()),
                                               .names = names,
                                               .shown_ranks = shown_ranks,
                                               .arena_bytes = kArenaBytes,
                                               .timeout = absl::InfiniteDuration(),
                                               .cancellation = cancellation}));
    } else {
      ASSIGN_OR_RETURN(group, NetGroup::Join(*endpoint, {.name = name,
                                                         .rank = rank,
                                                         .addresses = addresses,
                                                         .names = names,
                                                         .hosts = hosts,
                                                         .timeout = absl::InfiniteDuration(),
                                                         .cancellation = cancellation}));
    }
    return group;
  }
};

// One call of Run() that is in progress.
struct DirectCollectives::Operation {
  std::string identity, group;
  int32_t group_key = 0;
  GroupOptions options;
  HostCall call;
  Cancellation* cancellation = nullptr;
  std::optional<Cancellation::CallbackId> callback;
  Done done;

  const std::string& task() const { return options.names[options.rank]; }
  void Cancel(const absl::Status& why);
  void End(const absl::Status& status) {
    cancellation->TryDeregister(*callback);
    done(status);
  }

  Mutex mutex;
  absl::Status cancelled ABSL_GUARDED_BY(mutex);
  std::shared_ptr<Membership> membership ABSL_GUARDED_BY(mutex);
};

// Joins on its own thread. No caller waits for it.
class DirectCollectives::Membership {
 public:
  explicit Membership(GroupOptions options)
      : options_(std::move(options)), joiner_(std::make_unique<Thread>("group-join", [this] { Join(); })) {}
  ~Membership() { Leave(Cancelled("The group is given up")); }

  bool failed() {
    MutexLock lock(&mutex_);
    return join_.cancelled() || !failed_.ok() || (group_ != nullptr && !group_->status().ok());
  }
  bool joining() {
    MutexLock lock(&mutex_);
    return failed_.ok() && group_ == nullptr;
  }

  std::optional<ProcessGroup::Memory> Allocate(size_t bytes) {
    ProcessGroup* group = nullptr;
    {
      MutexLock lock(&mutex_);
      group = group_.get();
    }
    // After a failure other members may still write to memory of operations that have ended here.
    if (group == nullptr || !group->status().ok()) return std::nullopt;
    absl::StatusOr<ProcessGroup::Memory> memory = group->Allocate(bytes);
    if (!memory.ok()) return std::nullopt;
    return *std::move(memory);
  }

  void Start(const HostCall& call, Done done) {
    ProcessGroup* group = nullptr;
    absl::Status failed;
    {
      MutexLock lock(&mutex_);
      failed = failed_;
      group = group_.get();
      if (failed.ok() && group == nullptr) {
        waiting_.emplace_back(call, std::move(done));
        return;
      }
    }
    if (!failed.ok()) return done(failed);
    group->Start(call, std::move(done));
  }

  // Ends an operation. While members are still joining, the other members do not know of it. Later, its step
  // fails for all members.
  void Cancel(const HostCall& call, const std::string& task, const absl::Status& why) {
    ProcessGroup* group = nullptr;
    std::vector<Done> ended;
    {
      MutexLock lock(&mutex_);
      group = group_.get();
      std::erase_if(waiting_, [&](auto& entry) {
        if (entry.first.key != call.key) return false;
        ended.push_back(std::move(entry.second));
        return true;
      });
    }
    if (group != nullptr) group->Fail(GivenUpBy(task, why), call.step);
    for (Done& done : ended) done(why);
  }

  void Leave(const absl::Status& why) {
    join_.Cancel(why);
    MutexLock lock(&mutex_);
    if (group_ != nullptr) group_->Fail(why, 0);
  }

 private:
  void Join() {
    absl::StatusOr<std::unique_ptr<ProcessGroup>> group = options_.Join(&join_);
    VLOG(1) << "Rank " << options_.rank << " of " << options_.names.size()
            << (options_.addresses.empty() ? " shares memory in group " : " is connected by TCP in group ")
            << options_.name << ": " << group.status();
    std::vector<std::pair<HostCall, Done>> waiting;
    {
      MutexLock lock(&mutex_);
      waiting.swap(waiting_);
      failed_ = group.status();
      if (group.ok()) {
        group_ = *std::move(group);
        if (join_.cancelled()) group_->Fail(join_.status(), 0);
      }
    }
    for (auto& [call, done] : waiting) Start(call, std::move(done));
  }

  const GroupOptions options_;
  Cancellation join_;
  Mutex mutex_;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);                             // why joining failed
  std::vector<std::pair<HostCall, Done>> waiting_ ABSL_GUARDED_BY(mutex_);  // for all members to join
  std::unique_ptr<ProcessGroup> group_ ABSL_GUARDED_BY(mutex_);             // constant once set
  std::unique_ptr<Thread> joiner_;
};

void DirectCollectives::Operation::Cancel(const absl::Status& why) {
  std::shared_ptr<Membership> where;
  {
    MutexLock lock(&mutex);
    cancelled = why;
    where = membership;
  }
  if (where != nullptr) where->Cancel(call, task(), why);
}

DirectCollectives::~DirectCollectives() { Close(Cancelled("The task ends")); }

CollectiveGroup::Place DirectCollectives::Report() {
  CollectiveGroup::Place place{.host = options_.host};
  MutexLock lock(&endpoint_mutex_);
  if (!std::exchange(listened_, true) && !options_.listen_on.empty()) {
    absl::StatusOr<std::unique_ptr<NetEndpoint>> endpoint = NetEndpoint::Listen(options_.listen_on, options_.reach_at);
    if (endpoint.ok()) {
      endpoint_ = *std::move(endpoint);
    } else {
      LOG(WARNING) << "Collectives between hosts use gRPC: " << endpoint.status();
    }
  }
  if (endpoint_ != nullptr) place.address = endpoint_->address().ToString();
  return place;
}

DirectCollectives::Path DirectCollectives::PathOf(const CollectiveGroup& group, int64_t bytes) {
  const std::vector<CollectiveGroup::Member>& members = group.members;
  if (members.size() < 2 || group.members_per_task.size() != members.size()) return Path::kNone;
  const auto all = [&](auto predicate) { return std::all_of(members.begin(), members.end(), predicate); };
  const bool one_host = !members[0].place.host.empty() &&
                        all([&](const auto& member) { return member.place.host == members[0].place.host; });
  if (one_host && members.size() <= HostControlBlock::kMaxRanks && bytes <= kMaxBytes) return Path::kSharedMemory;
  const bool have_addresses = all([](const auto& member) { return NetAddress::Parse(member.place.address).ok(); });
  if (!have_addresses) return Path::kNone;
  const RanksByHost by_host = RanksByHostOf(group);
  const bool fits = std::all_of(by_host.begin(), by_host.end(),
                                [](const auto& ranks) { return ranks.size() <= HostControlBlock::kMaxRanks; });
  const bool two_levels = by_host.size() > 1 && by_host.size() < members.size() && fits && bytes <= kMaxBytes;
  return two_levels ? Path::kTwoLevels : Path::kTcp;
}

std::optional<ProcessGroup::Memory> DirectCollectives::Allocate(const CollectiveGroup& group, int32_t group_key,
                                                                int rank, size_t bytes) {
  if (bytes <= HostControlBlock::kInlineBytes) return std::nullopt;
  const Path path = PathOf(group, static_cast<int64_t>(bytes));
  if (path != Path::kSharedMemory && path != Path::kTwoLevels) return std::nullopt;
  const std::vector<int> ranks = RanksOnHostOf(RanksByHostOf(group), rank);
  std::shared_ptr<Membership> membership;
  {
    MutexLock lock(&mutex_);
    const auto it = groups_.find(IdentityOf(Path::kSharedMemory, ranks, IdentityOf(group, group_key)));
    if (it != groups_.end()) membership = it->second.membership;
  }
  return membership == nullptr ? std::nullopt : membership->Allocate(bytes);
}

// Runs the stages of an operation one after the other. Keeps itself alive until then.
class DirectCollectives::StagedRun : public std::enable_shared_from_this<StagedRun> {
 public:
  StagedRun(DirectCollectives& direct, const CollectiveGroup& group, int32_t group_key, int rank, const HostCall& call,
            Cancellation& cancellation, Done done)
      : direct_(direct),
        group_(group),
        group_key_(group_key),
        rank_(rank),
        cancellation_(cancellation),
        done_(std::move(done)),
        all_(AllRanks(group)),
        by_host_(RanksByHostOf(group)),
        stages_(PlanTwoLevels(call, by_host_, rank)) {}

  void RunNext() {
    if (next_ == stages_.size()) return done_(absl::OkStatus());
    const TwoLevelStage& stage = stages_[next_++];
    direct_.RunAmong(stage.on_host ? RanksOnHostOf(by_host_, rank_) : all_,
                     stage.on_host ? Path::kSharedMemory : Path::kTcp, group_, group_key_, rank_, stage.call,
                     cancellation_, [self = shared_from_this()](const absl::Status& status) {
                       if (status.ok()) return self->RunNext();
                       self->done_(status);
                     });
  }

 private:
  DirectCollectives& direct_;
  const CollectiveGroup group_;
  const int32_t group_key_;
  const int rank_;
  Cancellation& cancellation_;
  Done done_;
  const std::vector<int> all_;
  const RanksByHost by_host_;
  const std::vector<TwoLevelStage> stages_;
  size_t next_ = 0;
};

void DirectCollectives::Run(Path path, const CollectiveGroup& group, int32_t group_key, int rank, const HostCall& call,
                            Cancellation& cancellation, Done done) {
  if (path == Path::kTwoLevels) {
    return std::make_shared<StagedRun>(*this, group, group_key, rank, call, cancellation, std::move(done))->RunNext();
  }
  RunAmong(AllRanks(group), path, group, group_key, rank, call, cancellation, std::move(done));
}

void DirectCollectives::RunAmong(const std::vector<int>& ranks, Path path, const CollectiveGroup& group,
                                 int32_t group_key, int rank, const HostCall& call, Cancellation& cancellation,
                                 Done done) {
  auto operation = std::make_shared<Operation>();
  operation->group = IdentityOf(group, group_key);
  operation->identity = IdentityOf(path, ranks, operation->group);
  operation->group_key = group_key;
  operation->options = {.name = absl::StrCat(absl::Hex(StableHash(operation->identity), absl::kZeroPad16), "-",
                                             absl::Hex(StableHash(absl::StrCat("2", operation->identity)))),
                        .rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin()),
                        .shown_ranks = ranks};
  for (const int r : ranks) {
    const CollectiveGroup::Member& member = group.members[r];
    operation->options.names.push_back(member.task);
    operation->options.hosts.push_back(member.place.host);
    if (path != Path::kTcp) continue;
    absl::StatusOr<NetAddress> address = NetAddress::Parse(member.place.address);
    if (!address.ok()) return done(address.status());
    operation->options.addresses.push_back(*std::move(address));
  }
  if (path == Path::kTcp) {
    MutexLock lock(&endpoint_mutex_);
    operation->options.endpoint = endpoint_.get();
    // The leader knows an address of this task, so the task listens.
    if (endpoint_ == nullptr || endpoint_->address().ToString() != group.members[rank].place.address)
      return done(Internal("The leader of group ", group_key, " does not know this task's address"));
  }
  operation->call = call;
  operation->cancellation = &cancellation;
  operation->done = std::move(done);
  {
    MutexLock lock(&mutex_);
    ++starting_;
  }
  operation->callback = cancellation.Register([operation](const absl::Status& why) { operation->Cancel(why); });
  if (operation->callback.has_value()) {
    Begin(operation);
  } else {
    operation->done(cancellation.status());
  }
  operation.reset();
  MutexLock lock(&mutex_);
  --starting_;
  changed_.SignalAll();
}

// Returns the membership in which an operation can run. Creates one if there is none or it has failed.
absl::StatusOr<std::shared_ptr<DirectCollectives::Membership>> DirectCollectives::Enter(const Operation& operation) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(closed_);
  Entry& entry = groups_[operation.identity];
  if (entry.membership != nullptr && entry.membership->failed()) retired_.push_back(std::move(entry.membership));
  if (entry.membership == nullptr) {
    // The key's former group had other members, of which at least one is gone. Nobody waits for it any longer.
    for (auto& [identity, other] : groups_) {
      if (other.group_key != operation.group_key || other.group == operation.group) continue;
      if (other.membership == nullptr || !other.membership->joining()) continue;
      other.membership->Leave(Aborted("Group ", operation.group_key, " has other members now"));
      retired_.push_back(std::move(other.membership));
    }
    entry = {operation.group_key, operation.group, std::make_shared<Membership>(operation.options)};
  }
  return entry.membership;
}

void DirectCollectives::Begin(const std::shared_ptr<Operation>& operation) {
  const absl::StatusOr<std::shared_ptr<Membership>> entered = Enter(*operation);
  if (!entered.ok()) return operation->End(entered.status());
  const std::shared_ptr<Membership>& membership = *entered;
  {
    MutexLock lock(&operation->mutex);
    operation->membership = membership;
  }
  // Keeps the membership alive, so that Purge() does not wait for the work that `done` starts.
  membership->Start(operation->call, [this, operation, membership](const absl::Status& status) {
    if (ProcessGroup::MayRestart(status)) return Begin(operation);
    operation->End(status);
  });
  absl::Status cancelled;
  {
    MutexLock lock(&operation->mutex);
    cancelled = operation->cancelled;
  }
  // It was cancelled before the membership knew of it.
  if (!cancelled.ok()) membership->Cancel(operation->call, operation->task(), cancelled);
}

void DirectCollectives::Purge() {
  std::vector<std::shared_ptr<Membership>> gone;
  MutexLock lock(&mutex_);
  for (auto it = groups_.begin(); it != groups_.end();) {
    std::shared_ptr<Membership>& membership = it->second.membership;
    if (membership != nullptr && membership->failed()) retired_.push_back(std::move(membership));
    it = membership == nullptr ? groups_.erase(it) : std::next(it);
  }
  // Only those with no other owner: the last owner joins the threads and must not run on one of them.
  std::erase_if(retired_, [&](std::shared_ptr<Membership>& entry) {
    if (entry.use_count() > 1) return false;
    gone.push_back(std::move(entry));
    return true;
  });
}

// Memberships are kept until the end, because operations that are being cancelled may still use them.
void DirectCollectives::Close(const absl::Status& why) {
  std::vector<std::shared_ptr<Membership>> memberships;
  {
    MutexLock lock(&mutex_);
    if (closed_.ok()) closed_ = why;
    for (auto& [identity, entry] : groups_) {
      if (entry.membership != nullptr) retired_.push_back(std::move(entry.membership));
    }
    groups_.clear();
    memberships = retired_;
  }
  for (const auto& membership : memberships) membership->Leave(Unavailable("A member has left: ", why.message()));
  memberships.clear();
  MutexLock lock(&mutex_);
  while (starting_ > 0) changed_.Wait(&mutex_);
}

}  // namespace thalweg
