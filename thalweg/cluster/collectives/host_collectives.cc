// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/collectives/host_collectives.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"

namespace thalweg {
namespace {

// The same in all processes: absl::Hash is not.
uint64_t StableHash(absl::string_view text) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

// Who is in a group, for which key. Incarnations are random: no other group has the same.
std::string IdentityOf(const CollectiveGroup& group, int32_t group_key) {
  std::string text = absl::StrCat(group_key);
  for (const CollectiveGroup::Member& member : group.members) {
    absl::StrAppend(&text, "|", member.device, "#", member.incarnation);
  }
  return text;
}

}  // namespace

// This task's membership in one group: joined on a thread of its own, on which nobody waits.
class HostCollectives::Membership {
 public:
  Membership(HostGroupOptions options) : options_(std::move(options)) {
    options_.cancellation = &join_;
    options_.timeout = absl::InfiniteDuration();  // who waits watches the other members
    joiner_ = std::make_unique<Thread>("host-join", [this] { Join(); });
  }
  ~Membership() { Abort(Cancelled("The group is given up")); }

  bool failed() {
    MutexLock lock(&mutex_);
    return join_.cancelled() || !failed_.ok() || (group_ != nullptr && !group_->status().ok());
  }

  void Start(const HostCall& call, Done done) {
    HostGroup* group = nullptr;
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

  void Abort(const absl::Status& why) {
    join_.Cancel(why);
    MutexLock lock(&mutex_);
    if (group_ != nullptr) group_->Fail(why);
  }

 private:
  void Join() {
    absl::StatusOr<std::unique_ptr<HostGroup>> group = HostGroup::Join(options_);
    std::vector<std::pair<HostCall, Done>> waiting;
    {
      MutexLock lock(&mutex_);
      waiting.swap(waiting_);
      failed_ = group.status();
      if (group.ok()) {
        group_ = *std::move(group);
        if (join_.cancelled()) group_->Fail(join_.status());
      }
    }
    VLOG(1) << "Rank " << options_.rank << " of " << options_.ranks << " shares memory in group " << options_.name
            << ": " << failed_status();
    for (auto& [call, done] : waiting) Start(call, std::move(done));
  }
  absl::Status failed_status() {
    MutexLock lock(&mutex_);
    return failed_;
  }

  HostGroupOptions options_;
  Cancellation join_;
  Mutex mutex_;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<HostCall, Done>> waiting_ ABSL_GUARDED_BY(mutex_);  // until all have joined
  std::unique_ptr<HostGroup> group_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Thread> joiner_;
};

HostCollectives::~HostCollectives() { Close(Cancelled("The task ends")); }

bool HostCollectives::Serves(const CollectiveGroup& group) const {
  if (host_.empty() || group.members.size() > HostBoard::kMaxRanks || group.members.size() < 2) return false;
  if (group.members_per_task.size() != group.members.size()) return false;
  for (const CollectiveGroup::Member& member : group.members) {
    if (member.host != host_) return false;
  }
  return true;
}

void HostCollectives::Run(const CollectiveGroup& group, int32_t group_key, int rank, int64_t step_id, HostCall call,
                          Cancellation& cancellation, Done done) {
  std::shared_ptr<Membership> membership;
  absl::Status closed;
  {
    MutexLock lock(&mutex_);
    closed = closed_;
    if (closed.ok()) {
      ++starting_;
      const std::string identity = IdentityOf(group, group_key);
      std::shared_ptr<Membership>& entry = groups_[identity];
      if (entry != nullptr && entry->failed()) retired_.push_back(std::move(entry));
      if (entry == nullptr) {
        const std::string name =
            absl::StrCat(absl::Hex(StableHash(identity), absl::kZeroPad16), "-",
                         absl::Hex(StableHash(absl::StrCat("2", identity)), absl::kZeroPad16), "-", absl::Hex(step_id));
        HostGroupOptions options{.name = name, .rank = rank, .ranks = static_cast<int>(group.members.size())};
        for (const CollectiveGroup::Member& member : group.members) options.names.push_back(member.task);
        entry = std::make_shared<Membership>(std::move(options));
      }
      membership = entry;
    }
  }
  if (!closed.ok()) return done(closed);
  // The membership outlives the calls of it: it is destroyed by Purge() or Close().
  const auto id = cancellation.Register([weak = std::weak_ptr<Membership>(membership)](const absl::Status& why) {
    if (const auto held = weak.lock()) held->Abort(why);
  });
  if (!id.has_value()) {
    membership->Abort(cancellation.status());
    done(cancellation.status());
  } else {
    membership->Start(call, [&cancellation, id = *id, done = std::move(done)](const absl::Status& status) mutable {
      cancellation.TryDeregister(id);
      done(status);
    });
  }
  membership.reset();
  MutexLock lock(&mutex_);
  --starting_;
  changed_.SignalAll();
}

void HostCollectives::Purge() {
  std::vector<std::shared_ptr<Membership>> gone;
  MutexLock lock(&mutex_);
  // Nobody else may hold one: its threads must not end in themselves.
  std::erase_if(retired_, [&](std::shared_ptr<Membership>& entry) {
    if (entry.use_count() > 1) return false;
    gone.push_back(std::move(entry));
    return true;
  });
}

// Memberships stay until the end: operations that are being cancelled may still use them.
void HostCollectives::Close(const absl::Status& why) {
  std::vector<std::shared_ptr<Membership>> memberships;
  {
    MutexLock lock(&mutex_);
    if (closed_.ok()) closed_ = why;
    for (auto& [identity, membership] : groups_) retired_.push_back(std::move(membership));
    groups_.clear();
    memberships = retired_;
  }
  for (const auto& membership : memberships) membership->Abort(why);
  memberships.clear();
  MutexLock lock(&mutex_);
  while (starting_ > 0) changed_.Wait(&mutex_);
}

}  // namespace thalweg
