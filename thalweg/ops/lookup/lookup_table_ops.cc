// SPDX-License-Identifier: Apache-2.0
// Tables: HashTable is filled once, from tensors or a text file; the mutable
// ones change at any time. By ref and by handle; the anonymous ones live as long
// as the step.
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "thalweg/base/status.h"
#include "thalweg/data/byte_stream.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/queue.h"
#include "thalweg/ops/lookup/lookup_table.h"
#include "thalweg/ops/lookup_ops.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

using Kind = LookupTableOptions::Kind;
using TablePtr = std::shared_ptr<LookupTable>;

constexpr char kAnonymous[] = "_anonymous_tables";

absl::StatusOr<LookupTableOptions> OptionsOf(const KernelInit& init) {
  LookupTableOptions options;
  const std::string& op = init.node().op();
  options.kind = absl::StrContains(op, "Dense")     ? Kind::kDense
                 : absl::StrContains(op, "Mutable") ? Kind::kMutable
                                                    : Kind::kFixed;
  ASSIGN_OR_RETURN(options.key_dtype, init.Attr<DType>("key_dtype"));
  ASSIGN_OR_RETURN(options.value_dtype, init.Attr<DType>("value_dtype"));
  const auto usable = [](DType t) { return t == kString || ElementSize(t) > 0; };
  if (!usable(options.key_dtype) || !usable(options.value_dtype)) {
    return Unimplemented("no table from ", options.key_dtype, " to ", options.value_dtype);
  }
  if (!HasAttr(init.node().def(), "value_shape")) return options;
  ASSIGN_OR_RETURN(const PartialShape shape, init.Attr<PartialShape>("value_shape"));
  const std::optional<Shape> value_shape = shape.AsShape();
  if (!value_shape.has_value()) return InvalidArgument("Shape ", shape, " is not fully defined");
  options.value_shape = *value_shape;
  if (options.kind == Kind::kMutable && !value_shape->is_vector()) {
    return InvalidArgument("Default value must be a vector, got shape ", *value_shape);
  }
  if (options.kind != Kind::kDense) return options;
  if (value_shape->rank() > 1) {
    return InvalidArgument("Empty value must be a scalar or a vector, got shape ", *value_shape);
  }
  ASSIGN_OR_RETURN(options.max_load, init.Attr<float>("max_load_factor"));
  if (!(options.max_load > 0 && options.max_load < 1)) {
    return InvalidArgument("max_load_factor must be between 0 and 1, got: ", options.max_load);
  }
  ASSIGN_OR_RETURN(options.buckets, init.Attr<int64_t>("initial_num_buckets"));
  if (options.buckets < 4 || (options.buckets & (options.buckets - 1)) != 0 || options.buckets > (int64_t{1} << 28)) {
    return InvalidArgument("Number of buckets must be at least 4 and a power of 2, got: ", options.buckets);
  }
  return options;
}

// The keys that dense tables are given.
absl::Status SetMarks(KernelContext& c, LookupTableOptions* options) {
  if (options->kind != Kind::kDense) return absl::OkStatus();
  options->empty_key = c.input(0);
  options->key_shape = c.input(0).shape();
  if (options->key_shape.rank() > 1) {
    return InvalidArgument("Empty key must be a scalar or a vector, got shape ", options->key_shape);
  }
  if (c.num_inputs() < 2) return absl::OkStatus();
  options->deleted_key = c.input(1);
  if (!(options->key_shape == c.input(1).shape())) {
    return InvalidArgument("Empty and deleted keys must have same shape, got shapes: ", options->key_shape, " and ",
                           c.input(1).shape());
  }
  RowsByKey equal(options->key_dtype, options->key_shape.num_elements());
  equal.Set(c.input(0), 0, 0);
  if (equal.Find(c.input(1), 0) == 0) return InvalidArgument("Empty and deleted keys cannot be equal");
  return absl::OkStatus();
}

class TableKernel final : public ResourceKernel<LookupTable> {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(ResourceKernel::Init(init));
    ASSIGN_OR_RETURN(options_, OptionsOf(init));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    {
      MutexLock lock(&marks_mutex_);
      RETURN_IF_ERROR(SetMarks(c, &options_));
    }
    return ResourceKernel::Compute(c);
  }

 private:
  absl::StatusOr<TablePtr> Make(const std::string&) override {
    MutexLock lock(&marks_mutex_);
    return std::make_shared<LookupTable>(options_);
  }
  absl::Status Verify(const LookupTable& found) override {
    MutexLock lock(&marks_mutex_);
    const LookupTableOptions& have = found.options();
    if (have.key_dtype == options_.key_dtype && have.value_dtype == options_.value_dtype) return absl::OkStatus();
    return InvalidArgument("Conflicting key/value dtypes ", options_.key_dtype, "->", options_.value_dtype, " with ",
                           have.key_dtype, "-", have.value_dtype, " for table ", name_.name);
  }

  Mutex marks_mutex_;
  LookupTableOptions options_;  // marks_mutex_ guards the keys in it
};

class AnonymousTableKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(options_, OptionsOf(init));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    LookupTableOptions options = options_;
    RETURN_IF_ERROR(SetMarks(c, &options));
    if (c.step().resources == nullptr) return Internal("No step container.");
    const ResourceName name{kAnonymous, absl::StrCat(c.node().name(), "_", NextResourceNumber())};
    RETURN_IF_ERROR(c.step().resources->Create<LookupTable>(name.container, name.name,
                                                            std::make_shared<LookupTable>(std::move(options))));
    SetStepHandle(c, name, LookupTable::kTypeName, nullptr);
    return absl::OkStatus();
  }

 private:
  LookupTableOptions options_;
};

// `outputs` are those whose types the table determines.
absl::Status Match(KernelContext& c, std::vector<DType> inputs, const std::vector<DType>& outputs) {
  const Node& node = c.node();
  inputs.insert(inputs.begin(), node.input_type(0));
  if (inputs == node.input_types() && outputs == node.output_types()) return absl::OkStatus();
  return InvalidArgument("Signature mismatch, have: ", ListTypes(node.input_types()), "->",
                         ListTypes(node.output_types()), " expected: ", ListTypes(inputs), "->", ListTypes(outputs));
}

absl::Status Find(KernelContext& c) {
  ASSIGN_OR_RETURN(const TablePtr table, FindLookupTable(c));
  const LookupTableOptions& o = table->options();
  RETURN_IF_ERROR(Match(c, {o.key_dtype, o.value_dtype}, {o.value_dtype}));
  ASSIGN_OR_RETURN(const Shape shape, table->ValuesShape(c.input(1).shape()));
  const Shape& defaults = c.input(2).shape();
  if (!(defaults == o.value_shape) && !(defaults == shape)) {
    return InvalidArgument("Expected shape ", o.value_shape, " or ", shape, " for default value, got ", defaults);
  }
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, shape));
  return table->Find(c.input(1), c.input(2), out);
}

absl::Status Insert(KernelContext& c) {
  ASSIGN_OR_RETURN(const TablePtr table, FindLookupTable(c));
  RETURN_IF_ERROR(Match(c, {table->options().key_dtype, table->options().value_dtype}, {}));
  return table->Insert(c.input(1), c.input(2));
}

absl::Status Remove(KernelContext& c) {
  ASSIGN_OR_RETURN(const TablePtr table, FindLookupTable(c));
  RETURN_IF_ERROR(Match(c, {table->options().key_dtype}, {}));
  return table->Remove(c.input(1));
}

absl::Status Size(KernelContext& c) {
  ASSIGN_OR_RETURN(const TablePtr table, FindLookupTable(c));
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
  *out->mutable_data<int64_t>() = table->size();
  return absl::OkStatus();
}

absl::Status Export(KernelContext& c) {
  ASSIGN_OR_RETURN(const TablePtr table, FindLookupTable(c));
  RETURN_IF_ERROR(Match(c, {}, {table->options().key_dtype, table->options().value_dtype}));
  Tensor keys, values;
  RETURN_IF_ERROR(table->Export(&keys, &values));
  c.set_output(0, std::move(keys));
  c.set_output(1, std::move(values));
  return absl::OkStatus();
}

absl::Status Import(KernelContext& c) {
  ASSIGN_OR_RETURN(const TablePtr table, FindLookupTable(c));
  RETURN_IF_ERROR(Match(c, {table->options().key_dtype, table->options().value_dtype}, {}));
  if (table->options().kind == Kind::kFixed && c.input(1).num_elements() == 0) {
    return InvalidArgument("keys and values cannot be empty tensors.");
  }
  return table->Import(c.input(1), c.input(2));
}

absl::Status CheckFixed(KernelContext& c, const LookupTable& table) {
  if (table.options().kind == Kind::kFixed) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(c, 0, LookupTable::kTypeName));
  return InvalidArgument("Table ", name.container, " ", name.name, " is not initializable");
}

absl::Status Initialize(KernelContext& c) {
  ASSIGN_OR_RETURN(const TablePtr table, FindLookupTable(c));
  RETURN_IF_ERROR(CheckFixed(c, *table));
  RETURN_IF_ERROR(Match(c, {table->options().key_dtype, table->options().value_dtype}, {}));
  const Tensor &keys = c.input(1), &values = c.input(2);
  if (!keys.shape().is_vector()) return InvalidArgument("Keys must be a vector, but received shape", keys.shape());
  if (!values.shape().is_vector()) {
    return InvalidArgument("Values must be a vector, but received shape", values.shape());
  }
  if (keys.num_elements() != values.num_elements()) {
    return InvalidArgument("Keys and values must have the same size ", keys.num_elements(), " vs ",
                           values.num_elements());
  }
  if (keys.num_elements() == 0) return InvalidArgument("keys and values cannot be empty tensors.");
  return table->Import(keys, values);
}

// A line of a text file becomes a key and a value. An index says which part of
// it: a column from 0 on, or one of these.
constexpr int64_t kLineNumber = -1, kWholeLine = -2;

class InitializeFromTextKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(lines_, init.Attr<int64_t>("vocab_size"));
    ASSIGN_OR_RETURN(key_index_, init.Attr<int64_t>("key_index"));
    ASSIGN_OR_RETURN(value_index_, init.Attr<int64_t>("value_index"));
    ASSIGN_OR_RETURN(offset_, init.Attr<int64_t>("offset"));
    ASSIGN_OR_RETURN(const std::string delimiter, init.Attr<std::string>("delimiter"));
    if (delimiter.size() != 1) return InvalidArgument("delimiter should be only 1 char");
    delimiter_ = delimiter[0];
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const TablePtr table, FindLookupTable(c));
    RETURN_IF_ERROR(CheckFixed(c, *table));
    if (!c.input(1).shape().is_scalar()) {
      return InvalidArgument("filename should be a single string, but got ", c.input(1).shape());
    }
    const std::string& file = c.input(1).scalar<std::string>();
    if (file.empty()) return InvalidArgument("filename cannot be empty.");
    RETURN_IF_ERROR(CheckTypes(table->options()));
    Columns columns;
    RETURN_IF_ERROR(ReadLines(file, table->options(), &columns));
    const absl::Status status = table->Import(columns.keys.Take(), columns.values.Take());
    // Another step may have filled it meanwhile, from the same file, because the name contains it.
    return absl::IsFailedPrecondition(status) && table->filled() ? absl::OkStatus() : status;
  }

 private:
  // Values of one type, read from text.
  struct Column {
    DType dtype = kInvalid;
    std::vector<std::string> strings;
    std::vector<int64_t> integers;
    std::vector<double> reals;

    Tensor Take() {
      if (dtype == kString) return Tensor::Vector<std::string>(strings);
      if (dtype == kInt64) return Tensor::Vector<int64_t>(integers);
      if (dtype == kInt32) {
        return Tensor::Vector<int32_t>(std::vector<int32_t>(integers.begin(), integers.end()));
      }
      if (dtype == kDouble) return Tensor::Vector<double>(reals);
      return Tensor::Vector<float>(std::vector<float>(reals.begin(), reals.end()));
    }
  };
  struct Columns {
    Column keys, values;
  };

  absl::Status CheckTypes(const LookupTableOptions& o) const {
    const auto whole = [](DType t) { return IsInteger(t) || t == kString; };
    if (key_index_ == kLineNumber && o.key_dtype != kInt64) {
      return InvalidArgument("Key index for line number requires table key dtype of int64, got ", o.key_dtype);
    }
    if (key_index_ == kWholeLine && !whole(o.key_dtype)) {
      return InvalidArgument("Key index for whole line requires string or integer table key, got ", o.key_dtype);
    }
    if (value_index_ == kLineNumber && o.value_dtype != kInt64) {
      return InvalidArgument("Value index for line number requires table value dtype of int64, got ", o.value_dtype);
    }
    if (value_index_ == kWholeLine && !whole(o.value_dtype)) {
      return InvalidArgument("Value index for whole line requires table value dtype of integer or string, got ",
                             o.value_dtype);
    }
    return absl::OkStatus();
  }

  absl::Status ReadLines(const std::string& file, const LookupTableOptions& o, Columns* columns) const {
    columns->keys.dtype = o.key_dtype;
    columns->values.dtype = o.value_dtype;
    ASSIGN_OR_RETURN(const std::unique_ptr<data::ByteStream> stream, data::OpenByteStream(file));
    const int64_t needed = std::max(key_index_, value_index_) + 1;
    std::string line;
    int64_t position = 0;
    for (int64_t number = 0;; ++number) {
      ASSIGN_OR_RETURN(const bool found, stream->ReadLine(&line));
      if (!found) {
        if (lines_ == -1 || number == lines_) return absl::OkStatus();
        return InvalidArgument("Invalid vocab_size in ", file, ": expected ", lines_, " but got ", number);
      }
      if (lines_ != -1 && number >= lines_) {
        LOG(WARNING) << file << " has more than " << lines_ << " lines; the rest is not read";
        return absl::OkStatus();
      }
      position += static_cast<int64_t>(line.size()) + 1;
      if (line.empty()) {
        return InvalidArgument("Invalid content in ", file, ": empty line found at position ", position, ".");
      }
      std::vector<absl::string_view> parts;
      if (needed > 0) parts = absl::StrSplit(line, delimiter_);
      if (static_cast<int64_t>(parts.size()) < needed) {
        return InvalidArgument("Invalid number of columns in ", file, " line ", number, " (", line,
                               ") : expected at least ", needed, " got ", parts.size());
      }
      RETURN_IF_ERROR(Add(line, parts, key_index_, number, &columns->keys));
      RETURN_IF_ERROR(Add(line, parts, value_index_, number, &columns->values));
    }
  }

  absl::Status Add(const std::string& line, const std::vector<absl::string_view>& parts, int64_t index, int64_t number,
                   Column* column) const {
    if (index == kLineNumber) {
      column->integers.push_back(number + offset_);
      return absl::OkStatus();
    }
    const absl::string_view text = index == kWholeLine ? line : parts[index];
    const auto bad = [&] {
      return InvalidArgument("Field ", text, " in line ", number, " is not a valid ", column->dtype, ".");
    };
    switch (column->dtype) {
      case kString:
        column->strings.emplace_back(text);
        return absl::OkStatus();
      case kInt32: {
        int32_t value = 0;
        if (!absl::SimpleAtoi(text, &value)) return bad();
        column->integers.push_back(value + offset_);
        return absl::OkStatus();
      }
      case kInt64: {
        int64_t value = 0;
        if (!absl::SimpleAtoi(text, &value)) return bad();
        column->integers.push_back(value);
        return absl::OkStatus();
      }
      case kFloat: {
        float value = 0;
        if (!absl::SimpleAtof(text, &value)) return bad();
        column->reals.push_back(value);
        return absl::OkStatus();
      }
      case kDouble: {
        double value = 0;
        if (!absl::SimpleAtod(text, &value)) return bad();
        column->reals.push_back(value);
        return absl::OkStatus();
      }
      default:
        return InvalidArgument("Data type ", column->dtype, " not supported.");
    }
  }

  int64_t lines_ = -1;
  int64_t key_index_ = 0, value_index_ = 0, offset_ = 0;
  char delimiter_ = '\t';
};

// One value per key, where the op that made the table says so.
absl::Status FindShape(ShapeContext& c) {
  const std::string& source = HandleSource(c, 0)->op();
  const bool scalars = absl::StrContains(source, "HashTable") && !absl::StrContains(source, "OfTensors") &&
                       !absl::StrContains(source, "Dense");
  if (scalars) c.set_output(0, c.input(1));
  return absl::OkStatus();
}

bool ByHandle(absl::string_view name) { return absl::EndsWith(name, "V2"); }

Op Make(absl::string_view name) {
  Op op(name);
  const bool anonymous = absl::StartsWith(name, "Anonymous"), dense = absl::StrContains(name, "Dense");
  if (dense) op.Input("empty_key: key_dtype");
  if (dense && (anonymous || ByHandle(name))) op.Input("deleted_key: key_dtype");
  op.Output(anonymous || ByHandle(name) ? "table_handle: resource" : "table_handle: Ref(string)");
  if (!anonymous) {
    op.Attr("container: string = ''").Attr("shared_name: string = ''").Attr("use_node_name_sharing: bool = false");
  }
  op.Attr("key_dtype: type").Attr("value_dtype: type");
  if (dense || absl::StrContains(name, "OfTensors")) op.Attr("value_shape: shape = {}");
  if (dense) op.Attr("initial_num_buckets: int = 131072").Attr("max_load_factor: float = 0.8");
  op.Stateful().Shape(HandleShape).NotDifferentiable();
  if (anonymous) {
    op.Kernel<AnonymousTableKernel>();
  } else {
    op.Kernel<TableKernel>();
  }
  return op;
}

Op Use(absl::string_view name) { return HandleUser(name, "table_handle", ByHandle(name)); }

Op FindOp(absl::string_view name) {
  return Use(name)
      .Input("keys: Tin")
      .Input("default_value: Tout")
      .Output("values: Tout")
      .Attr("Tin: type")
      .Attr("Tout: type")
      .Shape(FindShape)
      .Compute(Find);
}
Op PairsOp(absl::string_view name, absl::Status (*compute)(KernelContext&)) {
  const bool initialize = absl::StartsWith(name, "Initialize");
  return Use(name)
      .Input(initialize ? "keys: Tkey" : "keys: Tin")
      .Input(initialize ? "values: Tval" : "values: Tout")
      .Attr(initialize ? "Tkey: type" : "Tin: type")
      .Attr(initialize ? "Tval: type" : "Tout: type")
      .Shape(shapes::NoOutputs)
      .Compute(compute);
}
Op SizeOp(absl::string_view name) { return Use(name).Output("size: int64").Shape(shapes::Scalar).Compute(Size); }
Op ExportOp(absl::string_view name) {
  return Use(name)
      .Output("keys: Tkeys")
      .Output("values: Tvalues")
      .Attr("Tkeys: type")
      .Attr("Tvalues: type")
      .Shape(shapes::Unknown)
      .Compute(Export);
}
Op TextOp(absl::string_view name) {
  return Use(name)
      .Input("filename: string")
      .Attr("key_index: int >= -2")
      .Attr("value_index: int >= -2")
      .Attr("vocab_size: int >= -1 = -1")
      .Attr("delimiter: string = '\t'")
      .Attr("offset: int = 0")
      .Shape(shapes::NoOutputs)
      .Kernel<InitializeFromTextKernel>();
}

const OpRegistration kLookupTableOps[] = {
    Make("HashTable"),
    Make("HashTableV2"),
    Make("MutableHashTable"),
    Make("MutableHashTableV2"),
    Make("MutableHashTableOfTensors"),
    Make("MutableHashTableOfTensorsV2"),
    Make("MutableDenseHashTable"),
    Make("MutableDenseHashTableV2"),
    Make("AnonymousHashTable"),
    Make("AnonymousMutableHashTable"),
    Make("AnonymousMutableHashTableOfTensors"),
    Make("AnonymousMutableDenseHashTable"),
    FindOp("LookupTableFind"),
    FindOp("LookupTableFindV2"),
    PairsOp("LookupTableInsert", Insert),
    PairsOp("LookupTableInsertV2", Insert),
    PairsOp("LookupTableImport", Import),
    PairsOp("LookupTableImportV2", Import),
    PairsOp("InitializeTable", Initialize),
    PairsOp("InitializeTableV2", Initialize),
    Use("LookupTableRemoveV2").Input("keys: Tin").Attr("Tin: type").Shape(shapes::NoOutputs).Compute(Remove),
    SizeOp("LookupTableSize"),
    SizeOp("LookupTableSizeV2"),
    ExportOp("LookupTableExport"),
    ExportOp("LookupTableExportV2"),
    TextOp("InitializeTableFromTextFile"),
    TextOp("InitializeTableFromTextFileV2"),
};

std::vector<AttrArg> Attributes(DType key, DType value, const TableOptions& a) {
  return {{"key_dtype", key}, {"value_dtype", value}, {"container", a.container}, {"shared_name", a.shared_name}};
}

}  // namespace

absl::StatusOr<std::shared_ptr<LookupTable>> FindLookupTable(KernelContext& c) {
  ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(c, 0, LookupTable::kTypeName));
  if (name.container == kAnonymous) return FindStepResource<LookupTable>(c, 0);
  return FindResource<LookupTable>(c, 0);
}

Output HashTable(const Scope& s, DType key, DType value, const TableOptions& a) {
  return s.Add("HashTableV2", {}, Attributes(key, value, a));
}
Output MutableHashTable(const Scope& s, DType key, DType value, const TableOptions& a) {
  return s.Add("MutableHashTableV2", {}, Attributes(key, value, a));
}
Output InitializeTable(const Scope& s, Output table, Output keys, Output values) {
  return s.Add("InitializeTableV2", {table, keys, values});
}
Output InitializeTableFromTextFile(const Scope& s, Output table, Output filename, const TextFileOptions& a) {
  return s.Add("InitializeTableFromTextFileV2", {table, filename},
               {{"key_index", a.key_index},
                {"value_index", a.value_index},
                {"vocab_size", a.vocab_size},
                {"delimiter", a.delimiter}});
}
Output LookupTableFind(const Scope& s, Output table, Output keys, const ScalarArg& default_value) {
  return s.Add("LookupTableFindV2", {table, keys, default_value.AsTensor(s, "default_value")});
}
Output LookupTableInsert(const Scope& s, Output table, Output keys, Output values) {
  return s.Add("LookupTableInsertV2", {table, keys, values});
}
Output LookupTableRemove(const Scope& s, Output table, Output keys) {
  return s.Add("LookupTableRemoveV2", {table, keys});
}
Output LookupTableSize(const Scope& s, Output table) { return s.Add("LookupTableSizeV2", {table}); }
TableResult LookupTableExport(const Scope& s, Output table, DType key, DType value) {
  Node* const node = s.Add("LookupTableExportV2", {table}, {{"Tkeys", key}, {"Tvalues", value}});
  return node == nullptr ? TableResult{} : TableResult{node->out(0), node->out(1)};
}
Output LookupTableImport(const Scope& s, Output table, Output keys, Output values) {
  return s.Add("LookupTableImportV2", {table, keys, values});
}

}  // namespace thalweg
