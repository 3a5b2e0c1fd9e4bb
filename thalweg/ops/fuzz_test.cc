// SPDX-License-Identifier: Apache-2.0
// Feeds random attributes, types, shapes and values to every registered kernel.
// Any status is right; a signal, an exception, a hang or a result of another
// type than the op declares is not. Every case follows from the seed alone:
//
//   ops_test --gtest_filter='Fuzz*' --gtest_shuffle --gtest_repeat=200 --gtest_random_seed=7
//
// is a longer run; each round has a seed of its own. Without these flags the
// cases are always the same, and the ops that they reach are known. A case that
// dies says its op, its node and its inputs first.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/stubs/logging.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/notification.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/state/variable_update.h"
#include "thalweg/ops/support/fuzz_guard_testlib.h"
#include "thalweg/ops/support/fuzz_hints_testlib.h"
#include "thalweg/ops/support/fuzz_values_testlib.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

constexpr int kCasesPerOp = 8, kMostCasesPerOp = 320;
constexpr int kDegenerateCases = 6;  // cases per op

// Ops that give no result to any of the usual cases: most of them need a file, a
// cluster, or what another op has left in a resource.
constexpr char kOnlyRefused[] =
    R"(Abort Batch BatchFunction ChooseFastestBranchDataset ImmutableConst _ParallelConcatUpdate
        ExperimentalSqlDataset LoadDataset OptionalGetValue ParseExampleDataset SaveDataset
        SaveDatasetV2 SnapshotDatasetV2 SqlDataset ThalwegResourceAccumulatorTakeRound
        ThalwegSparseAccumulatorTakeRound Unbatch
        BoostedTreesCenterBias BoostedTreesCreateEnsemble ThalwegSnapshotValues
        BoostedTreesCreateQuantileStreamResource BoostedTreesDeserializeEnsemble
        BoostedTreesExampleDebugOutputs BoostedTreesFlushQuantileSummaries BoostedTreesGetEnsembleStates
        BoostedTreesPredict BoostedTreesQuantileStreamResourceAddSummaries
        BoostedTreesQuantileStreamResourceDeserialize BoostedTreesQuantileStreamResourceFlush
        BoostedTreesQuantileStreamResourceGetBucketBoundaries BoostedTreesSerializeEnsemble
        BoostedTreesTrainingPredict BoostedTreesUpdateEnsemble BoostedTreesUpdateEnsembleV2 CSVDataset CSVDatasetV2 CacheDataset
        CollectiveBcastRecv CollectiveBcastRecvV2 CollectiveBcastSend CollectiveBcastSendV2 CollectiveGather
        CollectiveGatherV2 CollectiveReduce CollectiveReduceV2 ThalwegCollectiveBarrier ThalwegCollectiveReduceBucket
        ThalwegCollectiveReduceBucketV2
        CollectiveReduceV3 CollectiveAllToAllV2 CollectiveAllToAllV3 CollectiveReduceScatterV2
        DatasetToSingleElement DatasetToTFRecord
        DeleteSessionTensor DeserializeIterator DeserializeManySparse DeserializeSparse
        DestroyTemporaryVariable EagerPyFunc ExperimentalCSVDataset ExperimentalDatasetToTFRecord
        ExperimentalGroupByReducerDataset ExperimentalGroupByWindowDataset ExperimentalMapAndBatchDataset
        ExperimentalParallelInterleaveDataset ExperimentalParseExampleDataset ExperimentalScanDataset
        ExperimentalStatsAggregatorSummary ExperimentalTakeWhileDataset FilterDataset StatsAggregatorSummary
        FixedLengthRecordDatasetV2 FlatMapDataset GenerateVocabRemapping GeneratorDataset GetElementAtIndex
        GetSessionTensor GroupByReducerDataset GroupByWindowDataset InitializeTableFromTextFile
        InitializeTableFromTextFileV2 InterleaveDataset IsBoostedTreesQuantileStreamResourceInitialized
        IteratorFromStringHandle IteratorFromStringHandleV2 IteratorGetNext IteratorGetNextAsOptional
        IteratorGetNextSync LegacyParallelInterleaveDatasetV2 LoadAndRemapMatrix MapAndBatchDataset MapDataset
        MapPeek MapUnstage MapUnstageNoKey MergeV2Checkpoints MultiDeviceIteratorFromStringHandle
        MultiDeviceIteratorGetNextFromShard OneShotIterator OrderedMapPeek OrderedMapUnstage
        OrderedMapUnstageNoKey PaddedBatchDataset PaddedBatchDatasetV2 ParallelFilterDataset ParallelInterleaveDataset
        QuantizedBatchNormWithGlobalNormalization
        ParallelInterleaveDatasetV2 ParallelInterleaveDatasetV3 ParallelInterleaveDatasetV4 ParallelMapDataset
        ParallelMapDatasetV2 ParseExampleDatasetV2 ParseSequenceExample ParseSingleSequenceExample Placeholder
        PlaceholderV2 PyFunc PyFuncStateless ReadFile ReaderRead ReaderReadUpTo ReaderReadUpToV2 ReaderReadV2 RecordInput
        ReduceDataset Restore RestoreSlice RestoreV2 ScanDataset SerializeIterator
        SparseAccumulatorApplyGradient StagePeek TakeManySparseFromTensorsMap TakeWhileDataset TensorArrayClose
        TensorArrayCloseV2 TensorArrayConcat TensorArrayConcatV2 TensorArrayGather TensorArrayGatherV2
        TensorArrayGrad TensorArrayGradV2 TensorArrayPack TensorArrayRead TensorArrayReadV2 TensorArrayScatter
        TensorArrayScatterV2 TensorArraySize TensorArraySizeV2 TensorArraySplit TensorArraySplitV2
        TensorArrayUnpack TensorArrayWrite TensorArrayWriteV2 TensorListPushBackBatch ThalwegRosterAwaitStep
        ThalwegRosterJoin Unstage _HostRecv _Recv Recv ConsumeMutexLock DecodeWav MapDefun RngReadAndSkip RngSkip
        StatefulRandomBinomial StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal
        StatefulUniform StatefulUniformFullInt StatefulUniformInt TensorMapErase TensorMapLookup
        _ShapeError TensorForestCreateTreeVariable TensorForestTreeDeserialize TensorForestTreePredict
        TensorForestTreeSerialize TensorForestTreeSize ZeroInitializer
        TensorMapStackKeys SparseMatrixSparseMatMul SparseMatrixMatMul CSRSparseMatrixComponents)";

// Names a resource of this family, for ops whose own name does not.
constexpr std::pair<const char*, const char*> kFamilies[] = {{"Queue", "QueueV2"},
                                                             {"LookupTable", "TableV2"},
                                                             {"TensorArray", "TensorArrayV3"},
                                                             {"Stack", "StackV2"},
                                                             {"Reader", "ReaderV2"},
                                                             {"Barrier", "Barrier"},
                                                             {"Accumulator", "Accumulator"},
                                                             {"Iterator", "Iterator"},
                                                             {"Resource", "VarHandle"},
                                                             {"Variable", "VarHandle"},
                                                             {"Summary", "SummaryWriter"},
                                                             {"Initialize", "TableV2"},
                                                             {"TensorList", "TensorList"},
                                                             {"Optional", "Optional"},
                                                             {"SparseMatrix", "CSRSparse"},
                                                             {"TensorMap", "TensorMap"},
                                                             {"MutexLock", "MutexV2"},
                                                             {"ChooseFastest", "RangeDataset"},
                                                             {"Roster", "Roster"},
                                                             {"IsBoostedTreesEnsemble", "BoostedTreesEnsemble"},
                                                             {"SetStats", "RangeDataset"},
                                                             {"SetStats", "StatsAggregatorHandle"}};

// Ops whose first output is a handle or a variant, and that need neither.
const std::vector<const OpSchema*>& Makers(DType dtype) {
  static const auto* const kAll = [] {
    auto* const all = new std::map<DType, std::vector<const OpSchema*>>;
    for (const OpSchema* op : OpRegistry::Global().All()) {
      const auto& def = op->def;
      if (def.output_arg_size() == 0 || !KernelRegistry::Global().Has(def.name(), "CPU")) continue;
      bool nested = false;
      for (const auto& arg : def.input_arg()) {
        nested |= arg.type() == tensorflow::DT_RESOURCE || arg.type() == tensorflow::DT_VARIANT || arg.is_ref();
      }
      if (!nested) (*all)[static_cast<DType>(def.output_arg(0).type())].push_back(op);
    }
    return all;
  }();
  static const std::vector<const OpSchema*> kNone;
  const auto it = kAll->find(dtype);
  return it == kAll->end() ? kNone : it->second;
}

class Fuzzer : private FuzzValues {
 public:
  // Shared by a whole run.
  struct Run {
    FuzzWatch watch;
    std::set<std::string> refused;  // "op|type" of types that a kernel does not take
  };

  Fuzzer(const OpSchema& op, uint64_t seed, Run* run) : FuzzValues(seed), op_(op), run_(run) {}

  // A case of its own. Most are drawn until the shape function likes one: what
  // it refuses does not get far in the kernel either.
  absl::Status RunNew() {
    const int draws = Chance(70) ? 30 : 1;
    absl::Status status;
    for (int i = 0; i < draws; ++i) {
      Clear();
      status = Build(/*known_shapes=*/draws > 1);
      if (status.ok()) break;
    }
    RETURN_IF_ERROR(status);
    if (Chance(80)) Prepare();
    return Execute();
  }

  // The case that ran last, with one thing changed.
  absl::Status RunMutant() {
    tensorflow::NodeDef def = node_->def();
    std::vector<Slot> inputs(slots_.begin(), slots_.begin() + node_->num_inputs());
    const int attrs = op_.def.attr_size(), changes = 1 + Int(2);
    for (int k = 0; k < changes && attrs + inputs.size() > 0; ++k) {
      const int which = Int(static_cast<int>(inputs.size()) * 2 + attrs);
      if (which < attrs) {
        const auto& attr = op_.def.attr(which);
        if (attr.type() != "type" && attr.type() != "list(type)") (*def.mutable_attr())[attr.name()] = AnyAttr(attr);
      } else if (Slot& slot = inputs[(which - attrs) / 2]; slot.variable == nullptr && slot.tensor.has_value()) {
        slot.tensor = Mutant(slot.tensor);
      }
    }
    // The values as they were before the kernel took them over.
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].tensor.has_value() && inputs[i].variable == nullptr) inputs[i].tensor = originals_[i];
    }
    return RunWith(def, std::move(inputs));
  }

  // The case that ran last, `times` times with inputs that have no elements but
  // huge dimensions; then it is as it was. Returns how often there was a result.
  absl::StatusOr<int> RunDegenerate(int times) {
    if (node_ == nullptr) return FailedPrecondition("there is no case");
    const tensorflow::NodeDef def = node_->def();
    std::vector<Slot> inputs(slots_.begin(), slots_.begin() + node_->num_inputs());
    std::vector<Variable*> variables;
    std::vector<std::shared_ptr<ResourceVariable>> held;
    std::vector<Tensor> values;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].variable == nullptr) inputs[i].tensor = originals_[i];
      variables.push_back(inputs[i].variable);
      if (originals_[i].dtype() == kResource && originals_[i].num_elements() == 1) {
        const auto& handle = originals_[i].scalar<ResourceHandle>();
        auto found = device_->resources().Find<ResourceVariable>(handle.container, handle.name);
        if (found.ok()) variables.back() = held.emplace_back(*std::move(found)).get();
      }
      values.push_back(variables[i] != nullptr ? variables[i]->Read() : inputs[i].tensor);
    }
    int good = 0;
    for (int k = 0; k < times; ++k) {
      std::vector<Slot> degenerate = inputs;
      std::vector<Tensor> degenerate_values = values;
      MakeDegenerate(absl::MakeSpan(degenerate_values));
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (variables[i] == nullptr) {
          degenerate[i].tensor = degenerate_values[i];
        } else {
          variables[i]->Assign(degenerate_values[i]);
        }
      }
      good += RunWith(def, std::move(degenerate)).ok();
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (variables[i] != nullptr) variables[i]->Assign(values[i]);
    }
    RETURN_IF_ERROR(SetCase(def, std::move(inputs)));
    return good;
  }

 private:
  absl::Status SetCase(const tensorflow::NodeDef& def, std::vector<Slot> inputs) {
    graph_ = Graph();
    node_ = nullptr;
    slots_ = std::move(inputs);
    RETURN_IF_ERROR(CheckAttrs(op_.def, def));
    return AddNode(def, /*known_shapes=*/false);
  }
  absl::Status RunWith(const tensorflow::NodeDef& def, std::vector<Slot> inputs) {
    RETURN_IF_ERROR(SetCase(def, std::move(inputs)));
    return Execute();
  }

  Tensor AnyTensor(DType dtype, const Shape& shape) {
    return dtype == kResource || dtype == kVariant ? AnyHandle(dtype, shape) : AnyNumbers(dtype, shape);
  }

  // A value for an input of this name.
  Tensor Named(absl::string_view name, DType dtype, int index) {
    static constexpr const char* kScalars[] = {"lr",      "alpha", "beta",    "rho",  "epsilon",    "momentum",
                                               "l1",      "l2",    "size",    "axis", "dim",        "num_",
                                               "count",   "scale", "step",    "seed", "_threshold", "filename",
                                               "timeout", "index", "flow_in", "min",  "max"};
    if (like_sparse_ && Chance(95)) {
      if (absl::StrContains(name, "indices") && dtype == kInt64) {
        Tensor t(kInt64, {rows_, columns_});
        for (int64_t k = 0; k < t.num_elements(); ++k) t.flat<int64_t>()[k] = Chance(95) ? k / columns_ : AnyInt();
        return t;
      }
      if (absl::StrContains(name, "values")) return AnyTensor(dtype, {rows_});
      if (absl::StrContains(name, "shape") && dtype == kInt64) {
        Tensor t(kInt64, {columns_});
        for (int64_t& v : t.flat<int64_t>()) v = Chance(95) ? rows_ + 1 : AnyInt();
        return t;
      }
    }
    for (const char* scalar : kScalars) {
      if (absl::StrContains(name, scalar) && dtype != kResource && Chance(80)) return AnyTensor(dtype, Shape());
    }
    return AnyTensor(dtype, InputShape(index));
  }

  // An element made by an op that makes such things, of a fitting family if
  // there is one; sometimes of none.
  Tensor AnyHandle(DType dtype, const Shape& shape) {
    Tensor t(dtype, Chance(90) ? Shape() : shape);
    if (Chance(8) || depth_ > 2) return t;
    std::vector<const OpSchema*> makers = Makers(dtype), fitting;
    for (const OpSchema* op : makers) {
      for (const auto& [mine, its] : kFamilies) {
        if (absl::StrContains(op_.def.name(), mine) && absl::StrContains(op->def.name(), its)) fitting.push_back(op);
      }
    }
    if (!fitting.empty() && Chance(90)) makers = fitting;
    if (makers.empty()) return t;
    const OpSchema* const maker = Pick(makers);
    for (int attempt = 0; attempt < 8; ++attempt) {
      Fuzzer inner(*maker, Bits(), run_);
      inner.device_ = device_;
      inner.home = home;
      inner.depth_ = depth_ + 1;
      if (!inner.Build(/*known_shapes=*/true).ok()) continue;
      const std::string outer = FuzzCase();
      const bool made = inner.Execute().ok() && inner.slots_[inner.node_->num_inputs()].tensor.dtype() == dtype;
      FuzzCase() = outer;
      if (!made) continue;
      Tensor result = inner.slots_[inner.node_->num_inputs()].tensor;
      if (result.num_elements() == 0) continue;
      if (maker->def.name() == "VarHandleOp" && Chance(90)) Fill(result.data<ResourceHandle>()[0], inner);
      made_ += absl::StrCat("  of ", inner.Describe(), "\n");
      kept_.push_back(std::move(inner.kernel_));
      for (auto& kernel : inner.kept_) kept_.push_back(std::move(kernel));
      return result;
    }
    return t;
  }
  void Fill(const ResourceHandle& handle, Fuzzer& maker) {
    const DType dtype = *GetAttr<DType>(maker.node_->def(), "dtype");
    if (dtype == kResource || dtype == kVariant) return;
    absl::StatusOr<std::shared_ptr<ResourceVariable>> variable = device_->resources().FindOrCreate<ResourceVariable>(
        handle.container, handle.name, [&] { return std::make_shared<ResourceVariable>(handle.name, dtype); });
    if (variable.ok()) (*variable)->Assign(AnyTensor(dtype, InputShape(0)));
  }

  void Clear() {
    home = Chance(60) ? kFloat : AnyType();
    graph_ = Graph();
    node_ = nullptr;
    made_.clear();
    slots_.clear();
    variables_.clear();
  }

  // The node, its inputs and their values.
  absl::Status Build(bool known_shapes) {
    NewShapes(/*volumes=*/absl::StrContains(op_.def.name(), "3D"));
    usual_attrs_ = Chance(70);
    like_sparse_ = absl::StrContains(op_.def.name(), "Sparse") && Chance(80);
    rows_ = Int(5);
    columns_ = 1 + Int(3);
    tensorflow::NodeDef def;
    def.set_name("fuzzed");
    def.set_op(op_.def.name());
    for (const auto& attr : op_.def.attr()) {
      if (attr.has_default_value() && Chance(usual_attrs_ ? 95 : 60)) continue;
      (*def.mutable_attr())[attr.name()] = AnyAttr(attr);
    }
    // Lists of inputs are short.
    for (const auto& arg : op_.def.input_arg()) {
      if (arg.number_attr().empty()) continue;
      const tensorflow::OpDef::AttrDef* const attr = FindAttr(op_.def, arg.number_attr());
      (*def.mutable_attr())[arg.number_attr()].set_i(attr->minimum() + Int(4));
    }
    const FuzzHint* const hint = Chance(60) ? FindFuzzHint(op_.def.name()) : nullptr;
    if (hint != nullptr) SetHintedAttrs(*hint, op_.def, &def);
    AddDefaultAttrs(op_.def, def);
    RETURN_IF_ERROR(CheckAttrs(op_.def, def));
    ASSIGN_OR_RETURN(const NodeTypes types, ComputeTypes(op_.def, def));
    for (size_t i = 0; i < types.inputs.size(); ++i) {
      const DType dtype = RemoveRef(types.inputs[i]);
      if (!IsKnown(dtype)) return InvalidArgument("no such type");
      Slot slot;
      const auto arg = std::upper_bound(types.input_starts.begin(), types.input_starts.end(), i);
      slot.tensor = Named(op_.def.input_arg(arg - types.input_starts.begin() - 1).name(), dtype, static_cast<int>(i));
      if (hint != nullptr)
        ReplaceByHint(*hint, op_.def.input_arg(arg - types.input_starts.begin() - 1).name(), dtype, def, &slot);
      if (IsRef(types.inputs[i])) {
        variables_.push_back(std::make_unique<Variable>("v", dtype));
        if (Chance(95)) variables_.back()->Assign(std::exchange(slot.tensor, Tensor()));
        slot.variable = variables_.back().get();
        if (dtype == kString && Chance(90)) MakeRefHandle(&slot);
      }
      if (i == 0 && given_ != nullptr) slot = *given_;
      slots_.push_back(std::move(slot));
    }
    return AddNode(def, known_shapes);
  }

  // The handle of ops that name their resource by two strings.
  void MakeRefHandle(Slot* slot) {
    std::vector<const OpSchema*> fitting;
    for (const OpSchema* op : OpRegistry::Global().All()) {
      const auto& def = op->def;
      const bool makes = def.output_arg_size() == 1 && def.output_arg(0).is_ref() && def.input_arg_size() == 0 &&
                         def.output_arg(0).type() == tensorflow::DT_STRING;
      if (!makes || !KernelRegistry::Global().Has(def.name(), "CPU")) continue;
      for (const auto& [mine, its] : kFamilies) {
        const absl::string_view kind = absl::string_view(its).substr(0, absl::string_view(its).find("V"));
        if (absl::StrContains(op_.def.name(), mine) && absl::StrContains(def.name(), kind)) fitting.push_back(op);
      }
    }
    if (fitting.empty()) return;
    for (int attempt = 0; attempt < 8; ++attempt) {
      const OpSchema& maker = *Pick(fitting);  // one draw after the other, whatever the compiler
      Fuzzer inner(maker, Bits(), run_);
      if (!RunInner(inner)) continue;
      slot->variable = inner.slots_[inner.node_->num_inputs()].variable;
      kept_.push_back(std::move(inner.kernel_));
      return;
    }
  }
  bool RunInner(Fuzzer& inner) {
    inner.device_ = device_;
    inner.home = home;
    inner.depth_ = depth_ + 1;
    const std::string outer = FuzzCase();
    const bool ok = inner.Build(/*known_shapes=*/true).ok() && inner.Execute().ok();
    FuzzCase() = outer;
    return ok;
  }

  // Puts something into a resource of which the op takes it out.
  void Prepare() {
    static constexpr std::pair<const char*, const char*> kBefore[] = {
        {"QueueDequeue", "QueueEnqueue"},
        {"StackPop", "StackPush"},
        {"TensorArrayRead", "TensorArrayWrite"},
        {"TensorArrayGather", "TensorArrayScatter"},
        {"TensorArrayConcat", "TensorArraySplit"},
        {"TensorArrayPack", "TensorArrayUnpack"},
        {"LookupTableExport", "LookupTableInsert"},
        {"LookupTableFind", "LookupTableInsert"},
        {"BarrierTakeMany", "BarrierInsertMany"},
        {"AccumulatorTakeGradient", "AccumulatorApplyGradient"},
        {"SummaryWriter", "CreateSummaryFileWriter"},
        {"Write", "CreateSummaryFileWriter"},
        {"ImportEvent", "CreateSummaryFileWriter"},
    };
    if (slots_.empty() || (slots_[0].variable == nullptr && slots_[0].tensor.dtype() != kResource)) return;
    std::string version = op_.def.name().substr(op_.def.name().size() - 2);
    if (version != "V2" && version != "V3") version.clear();
    for (const auto& [mine, its] : kBefore) {
      if (!absl::StrContains(op_.def.name(), mine)) continue;
      std::string name = its;
      if (absl::StartsWith(op_.def.name(), "Resource") || absl::StartsWith(op_.def.name(), "Sparse")) {
        name = absl::StrCat(op_.def.name().substr(0, op_.def.name().find("Accumulator")), its);
      }
      const OpSchema* op = OpRegistry::Global().Find(name + version);
      if (op == nullptr) op = OpRegistry::Global().Find(name);
      if (op == nullptr || op->def.name() == op_.def.name()) continue;
      for (int attempt = 0; attempt < 12; ++attempt) {
        Fuzzer inner(*op, Bits(), run_);
        inner.given_ = &slots_[0];
        if (RunInner(inner)) break;
      }
    }
  }

  void ReplaceByHint(const FuzzHint& hint, absl::string_view input, DType dtype, const tensorflow::NodeDef& def,
                     Slot* slot) {
    DType element = kFloat;  // element type of the resource behind a handle
    for (const char* attr : {"T", "dtype"}) {
      if (const auto it = def.attr().find(attr); it != def.attr().end())
        element = static_cast<DType>(it->second.type());
    }
    std::optional<Tensor> value = HintedInput(hint, input, dtype, element, Int(1 << 20), *device_);
    if (value.has_value()) slot->tensor = *std::move(value);
  }

  absl::Status AddNode(const tensorflow::NodeDef& def, bool known_shapes) {
    const Scope scope = graph_.root();
    std::vector<Output> sources;
    originals_.clear();
    for (const Slot& slot : slots_) {
      const Tensor& value = slot.tensor;
      originals_.push_back(value);
      if (slot.variable != nullptr) {
        sources.push_back(scope.Add("VariableV2", {}, {{"dtype", slot.variable->dtype()}, {"shape", PartialShape()}}));
      } else if (value.dtype() != kResource && value.dtype() != kVariant && Chance(25)) {
        sources.push_back(scope.Add("Const", {}, {{"dtype", value.dtype()}, {"value", value}}));
      } else {
        sources.push_back(scope.Add("_Arg", {}, {{"T", value.dtype()}, {"index", 0}}));
        if (known_shapes && sources.back()) sources.back().node->set_output_shape(0, value.shape());
      }
      RETURN_IF_ERROR(scope.status());
    }
    FuzzCase() = absl::StrCat("the shape function of ", def.ShortDebugString());
    ASSIGN_OR_RETURN(node_, graph_.AddNode(def, sources, {}));
    return absl::OkStatus();
  }

  std::string Describe() const {
    std::string text = absl::StrCat(node_->def().ShortDebugString(), "\n", made_);
    for (const Slot& slot : slots_) {
      const Tensor value = slot.variable == nullptr ? slot.tensor : slot.variable->Read();
      absl::StrAppend(&text, slot.variable == nullptr ? "  input " : "  variable ", value.ToString(16), "\n");
    }
    return text;
  }

  absl::Status Execute() {
    FuzzCase() = Describe();
    const int inputs = node_->num_inputs();
    slots_.resize(inputs + node_->num_outputs());
    ASSIGN_OR_RETURN(kernel_, KernelRegistry::Global().Make(*node_, *device_));
    std::vector<int32_t> indices(inputs);
    for (int i = 0; i < inputs; ++i) indices[i] = i;
    const KernelContext::Call call{.inputs = indices.data(),
                                   .num_inputs = inputs,
                                   .first_output = inputs,
                                   .num_outputs = node_->num_outputs(),
                                   .last_use = static_cast<uint32_t>(Chance(50) ? Bits() : 0),
                                   .node = node_,
                                   .device = device_.get()};
    Cancellation cancellation;
    LocalRendezvous rendezvous;
    static ThreadPool* const pool = new ThreadPool("fuzz", 1);
    Step step{.id = 1,
              .rendezvous = &rendezvous,
              .cancellation = &cancellation,
              .pool = pool,
              .resources = &device_->resources(),
              .session_resources = &device_->resources()};
    KernelContext context(&step, slots_.data(), &call);
    run_->watch.Begin(&cancellation);
    absl::Status status;
    try {
      status = kernel_->is_async() ? Await(context, cancellation, rendezvous) : kernel_->Compute(context);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what() << " thrown in " << FuzzCase();
    }
    run_->watch.Begin(nullptr);
    absl::string_view text = status.message();
    if (absl::IsUnimplemented(status) && absl::ConsumePrefix(&text, "no kernel for type ")) {
      run_->refused.insert(absl::StrCat(op_.def.name(), "|", text));
    }
    for (int i = 0; status.ok() && i < node_->num_outputs(); ++i) {
      const Slot& slot = slots_[inputs + i];
      if (slot.dead || slot.variable != nullptr || !slot.tensor.has_value()) continue;
      EXPECT_EQ(slot.tensor.dtype(), RemoveRef(node_->output_type(i))) << "output " << i << " of " << Describe();
    }
    return status;
  }

  // Ops that wait for others are cancelled and must end then.
  absl::Status Await(KernelContext& context, Cancellation& cancellation, Rendezvous& rendezvous) {
    const auto result = std::make_shared<std::pair<absl::Status, Notification>>();
    static_cast<AsyncKernel&>(*kernel_).ComputeAsync(context, [result](const absl::Status& status) {
      result->first = status;
      result->second.Notify();
    });
    if (!result->second.HasBeenNotified()) {
      cancellation.Cancel(absl::CancelledError("the case is over"));
      rendezvous.Abort(absl::CancelledError("the case is over"));
      CHECK(result->second.WaitForNotificationWithTimeout(absl::Seconds(30))) << "not cancelled: " << Describe();
    }
    return result->first;
  }

  static std::shared_ptr<Device> MakeDevice() {
    static FuzzAllocator* const allocator = new FuzzAllocator;
    static IntraOpPool* const intra_op_pool = new IntraOpPool(1);
    return std::make_shared<Device>(*DeviceName::Parse("/job:localhost/replica:0/task:0/device:CPU:0"), intra_op_pool,
                                    allocator);
  }

  const OpSchema& op_;
  Run* const run_;
  std::shared_ptr<Device> device_ = MakeDevice();
  int depth_ = 0;                // nesting of makers whose inputs need makers
  const Slot* given_ = nullptr;  // input 0, if another case made it
  bool usual_attrs_ = false;
  bool like_sparse_ = false;  // inputs are indices [rows_,columns_], values [rows_] and a shape [columns_]
  int rows_ = 0;
  int columns_ = 0;
  Graph graph_;
  Node* node_ = nullptr;
  std::string made_;  // how handles were made
  std::vector<std::unique_ptr<Kernel>> kept_;
  std::vector<std::unique_ptr<Variable>> variables_;
  std::vector<Slot> slots_;        // inputs, then outputs
  std::vector<Tensor> originals_;  // inputs, before kernels took them over
  std::unique_ptr<Kernel> kernel_;
};

TEST(FuzzTest, NoInputKillsAKernel) {
  // Kernels write to a temporary folder, and their log lines are discarded.
  const LogLevel level = MinLogLevel();
  SetMinLogLevel(LogLevel::kFatal);
  google::protobuf::LogHandler* const handler = google::protobuf::SetLogHandler(nullptr);
  const std::filesystem::path before = std::filesystem::current_path();
  std::string folder = std::filesystem::temp_directory_path() / "fuzz-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::filesystem::current_path(folder);
  const bool given = testing::GTEST_FLAG(shuffle) || testing::GTEST_FLAG(random_seed) != 0;
  const uint64_t seed = given ? ::testing::UnitTest::GetInstance()->random_seed() : 0;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  const std::set<std::string> expected = absl::StrSplit(kOnlyRefused, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  int ran = 0, succeeded = 0, ops = 0;
  std::vector<std::string> never;
  {
    FuzzGuard guard;
    Fuzzer::Run run;
    for (const OpSchema* op : OpRegistry::Global().All()) {
      const std::string& name = op->def.name();
      if (!KernelRegistry::Global().Has(name, "CPU") || absl::StartsWith(name, "Print")) continue;
      int good = 0;
      int cases = 0;
      // More of them for an op that was unlucky.
      const int most = expected.contains(name) ? kCasesPerOp : kMostCasesPerOp;
      for (int i = 0; i < kCasesPerOp || (good == 0 && i < most); ++i) {
        FuzzCase() = absl::StrCat("making a case for ", name);
        guard.StartCase();
        Fuzzer fuzzer(*op, std::hash<std::string>()(absl::StrCat(name, "/", i, "/", seed)), &run);
        bool ok = fuzzer.RunNew().ok();
        good += ok;
        const absl::StatusOr<int> degenerate = fuzzer.RunDegenerate(kDegenerateCases);
        cases += degenerate.ok() ? kDegenerateCases : 0;
        good += degenerate.value_or(0);
        ok = ok && degenerate.ok();
        for (int k = 0; ok && k < 6; ++k, ++cases) {
          ok = fuzzer.RunMutant().ok();
          good += ok;
        }
        ++cases;
      }
      ran += cases;
      succeeded += good;
      ++ops;
      if (good == 0) never.push_back(name);
    }
    RecordProperty("refused", absl::StrJoin(run.refused, " "));
  }
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
  google::protobuf::SetLogHandler(handler);
  SetMinLogLevel(level);
  RecordProperty("cases", ran);
  RecordProperty("succeeded", succeeded);
  RecordProperty("never", absl::StrJoin(never, " "));
  std::cout << ops - never.size() << " of " << ops << " ops gave results; " << ran << " cases" << std::endl;
  // A fuzzer that only meets refusals finds nothing.
  EXPECT_GT(succeeded, ran / 8) << absl::StrJoin(never, " ");
  if (given) return;  // other cases may be unlucky
  std::erase_if(never, [&](const std::string& op) { return expected.contains(op); });
  EXPECT_TRUE(never.empty()) << "only refused, so that nothing is known about them: " << absl::StrJoin(never, " ")
                             << "; fuzz_hints_testlib.cc says what an op likes";
}

}  // namespace
}  // namespace thalweg
