// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/collectives/ring.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thalweg {
namespace {

constexpr int64_t kMaxChunkBytes = 4 << 20;
constexpr int kSubdivisionsPerDevice = 2;  // where the op leaves the number open
constexpr int64_t kChunkAlignment = 64;

// Elements of a chunk of a reduce: the bytes of an even share, rounded up to
// the next multiple of the alignment above it. Members must agree on this.
int64_t ChunkElements(int64_t elements, int64_t chunks, int64_t element_size) {
  const int64_t bytes = (elements + chunks - 1) / chunks * element_size;
  return (bytes / kChunkAlignment + 1) * kChunkAlignment / element_size;
}

class RingRun : public std::enable_shared_from_this<RingRun> {
 public:
  RingRun(RingCall call, std::shared_ptr<Links> links, Links::Done done)
      : call_(std::move(call)),
        members_(static_cast<int>(call_.rings[0].size())),
        flat_(call_.values.WithShape(Shape({call_.values.num_elements()}))),
        transfers_(std::make_shared<Transfers>(std::move(links), std::move(done))) {
    const int64_t chunks = members_ * static_cast<int64_t>(call_.rings.size());
    const int64_t elements = flat_.num_elements();
    chunk_elements_ = call_.merge == nullptr
                          ? elements / chunks
                          : ChunkElements(elements, chunks, static_cast<int64_t>(ElementSize(flat_.dtype())));
  }

  void Start() {
    for (int chunk = 0; chunk < members_; ++chunk) {
      for (size_t s = 0; s < call_.rings.size(); ++s) StartField(chunk, static_cast<int>(s));
    }
    transfers_->Finish();
  }

 private:
  // One subdivision of one chunk, which makes its way on its own.
  struct Field {
    int chunk = 0;
    int section = 0;  // its number in the tensor
    int position = 0;
    int before = 0;  // ranks
    int after = 0;
    Tensor values;
    Tensor received;
  };

  bool IsBefore(const Field& f, int steps) const { return f.position == (f.chunk + 2 * members_ - steps) % members_; }
  std::string Key(const Field& f, int pass, int source) const {
    return absl::StrCat(call_.key, ":", pass, ":", f.section, ":", source);
  }

  void StartField(int chunk, int subdivision) {
    const std::vector<int>& ring = call_.rings[subdivision];
    auto f = std::make_shared<Field>();
    f->chunk = chunk;
    f->section = chunk * static_cast<int>(call_.rings.size()) + subdivision;
    f->position = static_cast<int>(std::find(ring.begin(), ring.end(), call_.rank) - ring.begin());
    f->before = ring[(f->position + members_ - 1) % members_];
    f->after = ring[(f->position + 1) % members_];
    const int64_t elements = flat_.num_elements();
    const int64_t begin = std::min(elements, f->section * chunk_elements_);
    const int64_t end = std::min(elements, begin + chunk_elements_);
    if (begin == end) return;
    f->values = flat_.Rows(begin, end);
    if (f->position == chunk) return SendPartial(*f, f);
    const bool reduces = call_.merge != nullptr;
    f->received = reduces ? Tensor(flat_.dtype(), Shape({end - begin})) : f->values;
    Receive(*f, 0, f->received, [self = shared_from_this(), f] {
      if (self->call_.merge != nullptr) self->Merge(*f);
      self->SendPartial(*f, f);
    });
  }

  void Merge(Field& f) {
    const int64_t n = f.values.num_elements();
    call_.merge(f.values.raw(), f.received.raw(), n);
    if (IsBefore(f, 1) && call_.finish != nullptr) call_.finish(f.values.raw(), n, members_);
    f.received.Reset();
  }

  void SendPartial(Field& f, std::shared_ptr<Field> keep) {
    if (!IsBefore(f, 1)) transfers_->Send(f.after, Key(f, 0, f.position), f.values);
    if (call_.merge == nullptr) return;
    if (IsBefore(f, 1)) return SendWhole(f);
    // The values may be overwritten: the chunk that comes back was made from the one just sent.
    Receive(f, 1, f.values, [self = shared_from_this(), keep = std::move(keep)] { self->SendWhole(*keep); });
  }

  void SendWhole(const Field& f) {
    if (!IsBefore(f, 2)) transfers_->Send(f.after, Key(f, 1, f.position), f.values);
  }

  void Receive(const Field& f, int pass, const Tensor& into, absl::AnyInvocable<void()> next) {
    transfers_->Receive(f.before, Key(f, pass, (f.position + members_ - 1) % members_), into, std::move(next));
  }

  const RingCall call_;
  const int members_;
  const Tensor flat_;
  const std::shared_ptr<Transfers> transfers_;
  int64_t chunk_elements_ = 0;
};

}  // namespace

std::vector<std::vector<int>> MakeRings(const std::vector<int>& members_per_task, const std::vector<int>& offsets) {
  std::vector<std::vector<int>> rings;
  for (const int offset : offsets) {
    std::vector<int>& ring = rings.emplace_back();
    int first = 0;  // first rank of the task
    for (const int members : members_per_task) {
      for (int i = 0; i < members; ++i) {
        const int at = static_cast<int>((i + std::abs(static_cast<int64_t>(offset))) % members);
        ring.push_back(first + (offset < 0 ? members - 1 - at : at));
      }
      first += members;
    }
  }
  return rings;
}

std::vector<int> SubdivisionOffsets(int members, int tasks, int64_t bytes, int max_per_device) {
  if (max_per_device == -1) return {0};
  const int devices = std::max(1, members / tasks);
  const int64_t most = static_cast<int64_t>(devices) * (max_per_device > 0 ? max_per_device : kSubdivisionsPerDevice);
  int count = 1;
  while (bytes / (static_cast<int64_t>(members) * count) > kMaxChunkBytes && count < most) ++count;
  const int stride = std::max(1, devices / count);
  std::vector<int> offsets(count);
  for (int i = 0; i < count; ++i) offsets[i] = i % 2 == 1 ? -stride * i : stride * i;
  return offsets;
}

void RunRing(RingCall call, std::shared_ptr<Links> links, Links::Done done) {
  std::make_shared<RingRun>(std::move(call), std::move(links), std::move(done))->Start();
}

}  // namespace thalweg
