// SPDX-License-Identifier: Apache-2.0
// MapStage: a staging area of tuples by key. A tuple may come in pieces, and be
// taken in pieces; it can be taken once it is complete.
#include <map>

#include "absl/strings/match.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/data_flow/staging.h"

namespace thalweg {
namespace {

class StagingMap : public StagingBase {
 public:
  // Also gets the key of the element that was taken.
  using GetDone = absl::AnyInvocable<void(const absl::Status&, int64_t key, Tuple)>;
  enum class How { kPeek, kTake };

  // Puts are not ordered: each waits for its own room.
  StagingMap(const StagingLimits& limits, const std::vector<DType>& types)
      : StagingBase(limits, /*puts_in_order=*/false), types_(types) {}

  // values[i] is component indices[i].
  void Put(int64_t key, std::vector<int32_t> indices, Tuple values, const WaitingCaller& caller, Done done) {
    absl::Status status = CheckIndices(indices, key);
    if (status.ok() && indices.size() != values.size()) {
      status = InvalidArgument("got ", values.size(), " values for ", indices.size(), " indices");
    }
    for (size_t i = 0; status.ok() && i < indices.size(); ++i) {
      if (values[i].dtype() != types_[indices[i]]) {
        status = InvalidArgument("Mismatch stage/unstage: component ", indices[i], " is of ", types_[indices[i]],
                                 ", got ", values[i].dtype());
      }
    }
    const int64_t bytes = BytesOf(values);
    if (status.ok()) status = CheckFits(limits_, bytes);
    if (!status.ok()) return done(status);
    StartPut(
        caller,
        [this, key, bytes, indices = std::move(indices), values = std::move(values)](absl::Status* error) mutable {
          mutex_.AssertHeld();
          const bool whole = indices.size() == types_.size();
          if (!HasRoomFor(bytes) || (whole && IsFull(complete_.size()))) return false;
          *error = PutLocked(key, indices, values, bytes);
          return true;
        },
        std::move(done));
  }

  // Gets some components of a key, or of the lowest key. `types` are the expected types.
  void Get(How how, std::optional<int64_t> key, std::vector<int32_t> indices, std::vector<DType> types,
           const WaitingCaller& caller, GetDone done) {
    if (const absl::Status status = CheckIndices(indices, key.value_or(0)); !status.ok()) return done(status, 0, {});
    struct Got {
      int64_t key = 0;
      Tuple tuple;
    };
    const auto got = std::make_shared<Got>();
    StartGet(
        caller,
        [this, how, key, got, indices = std::move(indices), types = std::move(types)](absl::Status* error) {
          mutex_.AssertHeld();
          const auto it = key.has_value() ? complete_.find(*key) : complete_.begin();
          if (it == complete_.end()) return false;
          got->key = it->first;
          *error = GetLocked(how, it, indices, types, &got->tuple);
          return true;
        },
        [got, done = std::move(done)](const absl::Status& status) mutable {
          done(status, got->key, std::move(got->tuple));
        });
  }

  void Clear() {
    ClearWith([this] {
      mutex_.AssertHeld();
      complete_.clear();
      incomplete_.clear();
    });
  }

  int64_t size() const {
    MutexLock lock(&mutex_);
    return static_cast<int64_t>(complete_.size());
  }
  int64_t incomplete_size() const {
    MutexLock lock(&mutex_);
    return static_cast<int64_t>(incomplete_.size());
  }
  std::string Describe() const override { return absl::StrCat("a staging map with ", size(), " keys"); }

 private:
  using Tuples = std::map<int64_t, Tuple>;  // a tensor without value is missing

  absl::Status CheckIndices(const std::vector<int32_t>& indices, int64_t key) const {
    if (indices.empty()) return InvalidArgument("Indices are empty");
    for (size_t i = 0; i < indices.size(); ++i) {
      if (i > 0 && indices[i - 1] >= indices[i]) return InvalidArgument("Indices are not strictly ordered");
      if (indices[i] < 0 || indices[i] >= static_cast<int64_t>(types_.size())) {
        return InvalidArgument("Index '", indices[i], "' for key '", key, "' was out of bounds '", types_.size(), "'.");
      }
    }
    return absl::OkStatus();
  }

  absl::Status PutLocked(int64_t key, const std::vector<int32_t>& indices, Tuple& values, int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (indices.size() == types_.size()) {
      // As in TensorFlow, the first value of a key stays.
      if (complete_.emplace(key, std::move(values)).second) bytes_ += bytes;
      return absl::OkStatus();
    }
    const auto it = incomplete_.emplace(key, Tuple(types_.size())).first;
    for (const int32_t i : indices) {
      if (!it->second[i].has_value()) continue;
      return InvalidArgument("The tensor for index '", i, "' for key '", key, "' was already initialized '",
                             types_.size(), "'.");
    }
    for (size_t i = 0; i < indices.size(); ++i) it->second[indices[i]] = std::move(values[i]);
    bytes_ += bytes;
    for (const Tensor& t : it->second) {
      if (!t.has_value()) return absl::OkStatus();
    }
    const int64_t whole = BytesOf(it->second);
    if (!complete_.emplace(key, std::move(it->second)).second) bytes_ -= whole;
    incomplete_.erase(it);
    return absl::OkStatus();
  }

  absl::Status GetLocked(How how, Tuples::iterator it, const std::vector<int32_t>& indices,
                         const std::vector<DType>& types, Tuple* out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const int32_t i : indices) {
      if (!it->second[i].has_value()) {
        return InvalidArgument("Tensor at index '", i, "' for key '", it->first, "' has already been removed.");
      }
      out->push_back(it->second[i]);
    }
    if (absl::Status status = CheckTypes(*out, types); !status.ok()) {
      out->clear();
      return status;
    }
    if (how == How::kPeek) return absl::OkStatus();
    bytes_ -= BytesOf(*out);
    for (const int32_t i : indices) it->second[i] = Tensor();
    for (const Tensor& t : it->second) {
      if (t.has_value()) return absl::OkStatus();
    }
    complete_.erase(it);
    return absl::OkStatus();
  }

  const std::vector<DType> types_;
  Tuples complete_ ABSL_GUARDED_BY(mutex_), incomplete_ ABSL_GUARDED_BY(mutex_);
};

// As in TensorFlow, ordered and unordered ops with the same name have separate areas.
class OrderedStagingMap final : public StagingMap {
 public:
  using StagingMap::StagingMap;
};

using Done = AsyncKernel::Done;
using How = StagingMap::How;

absl::StatusOr<int64_t> KeyOf(KernelContext& c) {
  if (c.input(0).num_elements() == 1) return c.input(0).scalar<int64_t>();
  if (c.input(0).num_elements() == 0) return InvalidArgument("key must not be empty");
  return InvalidArgument("key must be an int64 scalar, got tensor with shape: ", c.input(0).shape());
}
std::vector<int32_t> IndicesOf(const Tensor& t) {
  return std::vector<int32_t>(t.flat<int32_t>().begin(), t.flat<int32_t>().end());
}

template <typename Map>
void Put(KernelContext& c, const std::shared_ptr<Map>& map, Done done) {
  const absl::StatusOr<int64_t> key = KeyOf(c);
  if (!key.ok()) return done(key.status());
  Tuple values;
  for (int i = 2; i < c.num_inputs(); ++i) values.push_back(c.TakeInput(i));
  map->Put(*key, IndicesOf(c.input(1)), std::move(values), WaiterOf(c), std::move(done));
}

template <typename Map, How how>
void GetKey(KernelContext& c, const std::shared_ptr<Map>& map, Done done) {
  const absl::StatusOr<int64_t> key = KeyOf(c);
  if (!key.ok()) return done(key.status());
  map->Get(how, *key, IndicesOf(c.input(1)), c.node().output_types(), WaiterOf(c),
           [&c, done = std::move(done)](const absl::Status& status, int64_t, Tuple tuple) mutable {
             for (size_t i = 0; i < tuple.size(); ++i) c.set_output(static_cast<int>(i), std::move(tuple[i]));
             done(status);
           });
}

template <typename Map>
void TakeAny(KernelContext& c, const std::shared_ptr<Map>& map, Done done) {
  const std::vector<DType>& outputs = c.node().output_types();
  map->Get(How::kTake, std::nullopt, IndicesOf(c.input(0)), {outputs.begin() + 1, outputs.end()}, WaiterOf(c),
           [&c, done = std::move(done)](const absl::Status& status, int64_t key, Tuple tuple) mutable {
             if (status.ok()) c.set_output(0, Tensor::Scalar(key));
             for (size_t i = 0; i < tuple.size(); ++i) c.set_output(static_cast<int>(i) + 1, std::move(tuple[i]));
             done(status);
           });
}

template <typename Map>
void Size(KernelContext& c, const std::shared_ptr<Map>& map, Done done) {
  SetSize(c, map->size(), std::move(done));
}
template <typename Map>
void IncompleteSize(KernelContext& c, const std::shared_ptr<Map>& map, Done done) {
  SetSize(c, map->incomplete_size(), std::move(done));
}
template <typename Map>
void Clear(KernelContext& c, const std::shared_ptr<Map>& map, Done done) {
  map->Clear();
  done(absl::OkStatus());
}

template <typename Map>
Op Make(absl::string_view what, typename StagingKernel<Map>::Access access) {
  Op op = StagingOp(absl::StrCat(std::is_same_v<Map, OrderedStagingMap> ? "OrderedMap" : "Map", what));
  const bool keyed = what == "Stage" || what == "Peek" || what == "Unstage", any = what == "UnstageNoKey";
  const bool gives = what == "Peek" || what == "Unstage" || any;
  if (keyed) op.Input("key: int64");
  if (keyed || any) op.Input("indices: int32");
  if (what == "Stage") op.Input("values: fake_dtypes");
  if (any) op.Output("key: int64");
  if (gives) op.Output("values: dtypes").Shape(shapes::Unknown);
  if (absl::EndsWith(what, "Size")) op.Output("size: int32").Shape(shapes::Scalar);
  StagingAttrs(op, gives ? "dtypes: list(type) >= 1" : "dtypes: list(type)");
  if (what == "Stage") op.Attr("fake_dtypes: list(type) >= 1");
  StagingNames(op).Kernel<StagingKernel<Map>>(access);
  return op;
}

template <typename Map>
struct Family {
  const OpRegistration ops[7] = {
      Make<Map>("Stage", Put<Map>),
      Make<Map>("Peek", GetKey<Map, How::kPeek>),
      Make<Map>("Unstage", GetKey<Map, How::kTake>),
      Make<Map>("UnstageNoKey", TakeAny<Map>),
      Make<Map>("Size", Size<Map>),
      Make<Map>("IncompleteSize", IncompleteSize<Map>),
      Make<Map>("Clear", Clear<Map>),
  };
};
const Family<StagingMap> kMaps;
const Family<OrderedStagingMap> kOrderedMaps;

}  // namespace
}  // namespace thalweg
