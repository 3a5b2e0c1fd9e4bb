// SPDX-License-Identifier: Apache-2.0
// Datasets that gather elements by a key, or carry a state from one to the next.
//
//   GroupByWindow(x): elements with the same key_func(x) are gathered; as soon as
//     window_size_func(key) of them are there, reduce_func(key, window) gives a
//     dataset whose elements come next. The rest follows at the end, by key.
//   GroupByReducer(x): for every key init_func(key), then state =
//     reduce_func(state, x) for its elements, in the end finalize_func(state)
//   Scan(x, state): (state, y) = f(state, x) for every x; gives the ys
//   Unique(x): without the elements that were there before
#include <map>

#include "absl/container/flat_hash_set.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/dataset/dataset_function.h"
#include "thalweg/ops/dataset/dataset_schema.h"

namespace thalweg {
namespace {

// Several functions, whose captured arguments follow each other after the inputs.
template <int kCount>
class FunctionsKernel : public Kernel {
 public:
  using Names = std::array<const char*, kCount>;
  FunctionsKernel(Names attrs, Names types) : attrs_(attrs), types_(types) {}
  absl::Status Init(const KernelInit& init) override {
    for (int i = 0; i < kCount; ++i) RETURN_IF_ERROR(functions_[i].Read(init, attrs_[i], types_[i]));
    return absl::OkStatus();
  }

 protected:
  using Functions = std::array<CapturedFunction, kCount>;
  Functions Capture(KernelContext& c, int first) const {
    Functions captured;
    for (int i = 0; i < kCount; ++i) captured[i] = functions_[i].Capture(c, &first);
    return captured;
  }
  static absl::Status Prepare(Functions& functions, Iteration& it) {
    for (CapturedFunction& f : functions) RETURN_IF_ERROR(f.Prepare(it.context));
    return absl::OkStatus();
  }

 private:
  const Names attrs_, types_;
  std::array<FunctionAttr, kCount> functions_;
};

class WindowGroups {
 public:
  WindowGroups(Next input, std::array<CapturedFunction, 3> functions)
      : input_(std::move(input)), key_(functions[0]), reduce_(functions[1]), size_(functions[2]) {}

  NextElement Take(Iteration& it) {
    while (true) {
      RETURN_IF_ERROR(it.Check());
      if (group_) {
        ASSIGN_OR_RETURN(std::optional<Element> element, group_(it));
        if (element) return element;
        group_ = nullptr;
      }
      if (ended_) {
        if (groups_.empty()) return std::nullopt;
        RETURN_IF_ERROR(Flush(groups_.begin()->first, it));
        continue;
      }
      ASSIGN_OR_RETURN(std::optional<Element> x, input_(it));
      ended_ = !x;
      if (x) RETURN_IF_ERROR(Add(*std::move(x), it));
    }
  }

 private:
  absl::Status Add(Element x, Iteration& it) {
    ASSIGN_OR_RETURN(const Element result, key_(it, x));
    ASSIGN_OR_RETURN(const int64_t key, IntResult(result, "`key_func`"));
    if (!sizes_.contains(key)) {
      ASSIGN_OR_RETURN(const Element size_result, size_(it, {Tensor::Scalar(key)}));
      ASSIGN_OR_RETURN(const int64_t size, IntResult(size_result, "`window_size_func`"));
      if (size <= 0) return InvalidArgument("Window size must be greater than zero, but got ", size, ".");
      sizes_[key] = size;
    }
    std::vector<Element>& group = groups_[key];
    group.push_back(std::move(x));
    if (static_cast<int64_t>(group.size()) < sizes_[key]) return absl::OkStatus();
    return Flush(key, it);
  }

  absl::Status Flush(int64_t key, Iteration& it) {
    auto group = groups_.extract(key);
    const DatasetPtr window = ListedDataset("Window", std::move(group.mapped()));
    ASSIGN_OR_RETURN(group_, reduce_.Open(it, {Tensor::Scalar(key), TensorOf(window)}));
    return absl::OkStatus();
  }

  Next input_;
  CapturedFunction key_, reduce_, size_;
  std::map<int64_t, std::vector<Element>> groups_;
  absl::flat_hash_map<int64_t, int64_t> sizes_;
  Next group_;  // the group whose elements are returned now
  bool ended_ = false;
};

class GroupByWindowKernel final : public FunctionsKernel<3> {
 public:
  GroupByWindowKernel()
      : FunctionsKernel(
            {"key_func", "reduce_func", "window_size_func"},
            {"Tkey_func_other_arguments", "Treduce_func_other_arguments", "Twindow_size_func_other_arguments"}) {}
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
    return SetDataset(
        c, DatasetValue::kUnknown, [input, functions = Capture(c, 1)](Iteration& start) -> absl::StatusOr<Next> {
          Functions mine = functions;
          RETURN_IF_ERROR(Prepare(mine, start));
          ASSIGN_OR_RETURN(Next next, input->Iterate(start));
          return [groups = WindowGroups(std::move(next), mine)](Iteration& it) mutable { return groups.Take(it); };
        });
  }
};

class ReducedGroups {
 public:
  ReducedGroups(Next input, std::array<CapturedFunction, 4> functions)
      : input_(std::move(input)), functions_(std::move(functions)) {}

  NextElement Take(Iteration& it) {
    while (!ended_) {
      RETURN_IF_ERROR(it.Check());
      ASSIGN_OR_RETURN(std::optional<Element> x, input_(it));
      ended_ = !x;
      if (x) RETURN_IF_ERROR(Add(*std::move(x), it));
    }
    if (states_.empty()) return std::nullopt;
    auto first = states_.extract(states_.begin());
    return NotAnEnd(functions_[3](it, std::move(first.mapped())));
  }

 private:
  absl::Status Add(Element x, Iteration& it) {
    ASSIGN_OR_RETURN(const Element result, functions_[0](it, x));
    ASSIGN_OR_RETURN(const int64_t key, IntResult(result, "`key_func`"));
    auto state = states_.find(key);
    if (state == states_.end()) {
      ASSIGN_OR_RETURN(Element first, functions_[1](it, {Tensor::Scalar(key)}));
      state = states_.emplace(key, std::move(first)).first;
    }
    Element args = std::move(state->second);
    args.insert(args.end(), x.begin(), x.end());
    ASSIGN_OR_RETURN(state->second, functions_[2](it, std::move(args)));
    return absl::OkStatus();
  }

  Next input_;
  std::array<CapturedFunction, 4> functions_;  // key, init, reduce, finalize
  std::map<int64_t, Element> states_;
  bool ended_ = false;
};

class GroupByReducerKernel final : public FunctionsKernel<4> {
 public:
  GroupByReducerKernel()
      : FunctionsKernel({"key_func", "init_func", "reduce_func", "finalize_func"},
                        {"Tkey_func_other_arguments", "Tinit_func_other_arguments", "Treduce_func_other_arguments",
                         "Tfinalize_func_other_arguments"}) {}
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
    return SetDataset(
        c, DatasetValue::kUnknown, [input, functions = Capture(c, 1)](Iteration& start) -> absl::StatusOr<Next> {
          Functions mine = functions;
          RETURN_IF_ERROR(Prepare(mine, start));
          ASSIGN_OR_RETURN(Next next, input->Iterate(start));
          return [groups = ReducedGroups(std::move(next), mine)](Iteration& it) mutable { return groups.Take(it); };
        });
  }
};

class ScanKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(function_.Read(init, "f", "Targuments"));
    ASSIGN_OR_RETURN(types_, init.Attr<std::vector<DType>>("Tstate"));
    ASSIGN_OR_RETURN(preserve_, init.Attr<bool>("preserve_cardinality"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
    int place = 1;
    Element first;
    for (size_t i = 0; i < types_.size(); ++i) first.push_back(c.input(place++));
    const CapturedFunction function = function_.Capture(c, &place);
    const auto start = [input, first, function, types = types_](Iteration& it) -> absl::StatusOr<Next> {
      CapturedFunction mine = function;
      RETURN_IF_ERROR(mine.Prepare(it.context));
      ASSIGN_OR_RETURN(Next next, input->Iterate(it));
      return [next = std::move(next), state = first, mine, types](Iteration& now) mutable -> NextElement {
        ASSIGN_OR_RETURN(const std::optional<Element> x, next(now));
        if (!x) return std::nullopt;
        Element args = state;
        args.insert(args.end(), x->begin(), x->end());
        absl::StatusOr<Element> both = mine(now, std::move(args));
        // The function may end the sequence.
        if (absl::IsOutOfRange(both.status())) return std::nullopt;
        RETURN_IF_ERROR(both.status());
        return Split(*both, types, state);
      };
    };
    return SetDataset(c, preserve_ ? input->cardinality() : DatasetValue::kUnknown, start);
  }

 private:
  // The new state and what comes after it.
  static NextElement Split(const Element& both, const std::vector<DType>& types, Element& state) {
    if (both.size() < types.size()) {
      return InvalidArgument("`f` must return ", types.size(), " tensors of state, got ", both.size(), " values");
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (both[i].dtype() != types[i]) {
        return InvalidArgument("Got wrong type for scan_func return value ", i, " (expected ", types[i], ", got ",
                               both[i].dtype(), ").");
      }
      state[i] = both[i];
    }
    return Element(both.begin() + types.size(), both.end());
  }

  FunctionAttr function_;
  std::vector<DType> types_;
  bool preserve_ = false;
};

// Bytes that are equal for equal tensors of one type.
std::string BytesOf(const Tensor& t) {
  std::string bytes = absl::StrCat(t.shape().ToString(), ":");
  if (t.dtype() == kString) {
    for (const std::string& s : t.flat<std::string>()) absl::StrAppend(&bytes, s.size(), ":", s);
  } else {
    bytes.append(static_cast<const char*>(t.raw()), t.num_elements() * ElementSize(t.dtype()));
  }
  return bytes;
}

absl::Status ComputeUnique(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const std::vector<DType> types, GetAttr<std::vector<DType>>(c.node().def(), "output_types"));
  if (types.size() != 1) return InvalidArgument("UniqueDataset only supports inputs with a single component.");
  if (types[0] != kInt32 && types[0] != kInt64 && types[0] != kString) {
    return InvalidArgument(
        "UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or `tf.string` component.");
  }
  return SetDataset(c, DatasetValue::kUnknown, [input, type = types[0]](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    return [next = std::move(next), type,
            seen = absl::flat_hash_set<std::string>()](Iteration& it) mutable -> NextElement {
      while (true) {
        ASSIGN_OR_RETURN(std::optional<Element> x, next(it));
        if (!x) return std::nullopt;
        if (x->size() != 1 || x->front().dtype() != type) return InvalidArgument("an element is not a single ", type);
        RETURN_IF_ERROR(it.Check());
        if (seen.insert(BytesOf(x->front())).second) return x;
      }
    };
  });
}

Op GroupByWindow(absl::string_view name, absl::string_view more) {
  return DatasetOp(name,
                   "input_dataset: variant, key_func_other_arguments: Tkey_func_other_arguments, "
                   "reduce_func_other_arguments: Treduce_func_other_arguments, "
                   "window_size_func_other_arguments: Twindow_size_func_other_arguments",
                   absl::StrCat("key_func: func, reduce_func: func, window_size_func: func, "
                                "Tkey_func_other_arguments: list(type) >= 0, "
                                "Treduce_func_other_arguments: list(type) >= 0, "
                                "Twindow_size_func_other_arguments: list(type) >= 0, TYPES",
                                more))
      .Kernel<GroupByWindowKernel>();
}
Op GroupByReducer(absl::string_view name) {
  return DatasetOp(name,
                   "input_dataset: variant, key_func_other_arguments: Tkey_func_other_arguments, "
                   "init_func_other_arguments: Tinit_func_other_arguments, "
                   "reduce_func_other_arguments: Treduce_func_other_arguments, "
                   "finalize_func_other_arguments: Tfinalize_func_other_arguments",
                   "key_func: func, init_func: func, reduce_func: func, finalize_func: func, "
                   "Tkey_func_other_arguments: list(type) >= 0, Tinit_func_other_arguments: list(type) >= 0, "
                   "Treduce_func_other_arguments: list(type) >= 0, Tfinalize_func_other_arguments: list(type) >= 0, "
                   "TYPES")
      .Stateful()
      .Kernel<GroupByReducerKernel>();
}
Op Scan(absl::string_view name, absl::string_view more) {
  return DatasetOp(name, "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments",
                   absl::StrCat(
                       "f: func, Tstate: list(type) >= 1, ARGUMENTS, TYPES, preserve_cardinality: bool = false", more))
      .Kernel<ScanKernel>();
}

const OpRegistration kDatasetGroupsOps[] = {
    GroupByWindow("GroupByWindowDataset", ", METADATA"),
    GroupByWindow("ExperimentalGroupByWindowDataset", ""),
    GroupByReducer("GroupByReducerDataset"),
    GroupByReducer("ExperimentalGroupByReducerDataset"),
    Scan("ScanDataset", ", use_default_device: bool = true, METADATA"),
    Scan("ExperimentalScanDataset", ""),
    DatasetOp("UniqueDataset", "input_dataset: variant", "TYPES, METADATA").Compute(ComputeUnique),
    DatasetOp("ExperimentalUniqueDataset", "input_dataset: variant", "TYPES").Compute(ComputeUnique),
};

}  // namespace
}  // namespace thalweg
