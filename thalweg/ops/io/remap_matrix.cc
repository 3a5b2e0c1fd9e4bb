// SPDX-License-Identifier: Apache-2.0
// Warm starts with another vocabulary. GenerateVocabRemapping outputs for every word of the new vocabulary its line
// in the old one, or -1. LoadAndRemapMatrix loads a matrix from a checkpoint, reorders its rows and columns, and
// fills new ones.
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_split.h"
#include "thalweg/checkpoint/bundle_reader.h"
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

absl::StatusOr<std::vector<std::string>> ReadLines(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, PosixFileSystem().ReadFileToString(path));
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (std::string& line : lines) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
  }
  return lines;
}

class VocabRemappingKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(offset_, init.Attr<int64_t>("new_vocab_offset"));
    ASSIGN_OR_RETURN(count_, init.Attr<int64_t>("num_new_vocab"));
    ASSIGN_OR_RETURN(old_size_, init.Attr<int64_t>("old_vocab_size"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    std::vector<std::string> lines[2];
    for (int i = 0; i < 2; ++i) {
      const char* const name = i == 0 ? "new_vocab_file" : "old_vocab_file";
      if (c.input(i).rank() != 0) {
        return InvalidArgument(name, " should be a single string, but got ", c.input(i).shape());
      }
      if (c.input(i).scalar<std::string>().empty()) return InvalidArgument("new vocab filename cannot be empty.");
      ASSIGN_OR_RETURN(lines[i], ReadLines(c.input(i).scalar<std::string>()));
    }
    const int64_t size = static_cast<int64_t>(lines[0].size());
    if (offset_ > size || count_ > size - offset_) {
      return InvalidArgument("lookup table size must be larger than last new vocab entry's line");
    }
    int64_t old_size = static_cast<int64_t>(lines[1].size());
    if (old_size_ > old_size) {
      return InvalidArgument("Invalid vocab_size in ", c.input(1).scalar<std::string>(), ": expected ", old_size_,
                             " but got ", old_size);
    }
    if (old_size_ >= 0) old_size = old_size_;
    absl::flat_hash_map<std::string, int64_t> old_ids;
    for (int64_t i = 0; i < old_size; ++i) {
      if (!old_ids.emplace(lines[1][i], i).second) {
        return FailedPrecondition("HashTable has different value for same key. Key ", lines[1][i], " has ",
                                  old_ids[lines[1][i]], " and trying to add value ", i);
      }
    }
    ASSIGN_OR_RETURN(Tensor* const remapping, c.Allocate(0, Shape({count_})));
    int32_t present = 0;
    for (int64_t i = 0; i < count_; ++i) {
      const auto found = old_ids.find(lines[0][offset_ + i]);
      remapping->mutable_data<int64_t>()[i] = found == old_ids.end() ? -1 : found->second;
      if (found != old_ids.end()) ++present;
    }
    c.set_output(1, Tensor::Scalar<int32_t>(present));
    return absl::OkStatus();
  }

 private:
  int64_t offset_ = 0, count_ = 0, old_size_ = -1;
};

absl::Status VocabRemappingShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(0));
  RETURN_IF_ERROR(c.RequireScalar(1));
  ASSIGN_OR_RETURN(const int64_t count, c.Attr<int64_t>("num_new_vocab"));
  c.set_output(0, {count});
  c.set_output(1, PartialShape(Shape()));
  return absl::OkStatus();
}

// New places by old ones. UNIMPLEMENTED if an old one goes to two.
absl::StatusOr<absl::flat_hash_map<int64_t, int64_t>> Invert(const Tensor& remapping) {
  absl::flat_hash_map<int64_t, int64_t> places;
  for (int64_t i = 0; i < remapping.num_elements(); ++i) {
    const int64_t old = remapping.data<int64_t>()[i];
    if (old < 0) continue;
    const auto [place, is_new] = places.emplace(old, i);
    if (!is_new) {
      return Unimplemented("Old ID ", old, " is mapped to both new ID ", place->second, " and ", i,
                           ", which is not supported.");
    }
  }
  return places;
}

class RemapMatrixKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(rows_, init.Attr<int64_t>("num_rows"));
    ASSIGN_OR_RETURN(columns_, init.Attr<int64_t>("num_cols"));
    ASSIGN_OR_RETURN(max_rows_, init.Attr<int64_t>("max_rows_in_memory"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& row_map = c.input(2);
    const Tensor& column_map = c.input(3);
    if (row_map.rank() != 1) {
      return InvalidArgument("The `row_remapping` tensor must be 1-D, got a tensor of shape ", row_map.shape());
    }
    if (row_map.num_elements() != rows_) {
      return InvalidArgument("Size of row_remapping is ", row_map.num_elements(),
                             " instead of being equal to num_rows=", rows_);
    }
    if (column_map.rank() != 1 || (column_map.num_elements() > 0 && column_map.num_elements() != columns_)) {
      return InvalidArgument("Provided col_remapping, but its size is ", column_map.num_elements(),
                             " instead of being equal to num_cols=", columns_);
    }
    for (int i = 0; i < 2; ++i) {
      if (c.input(i).num_elements() != 1) {
        return InvalidArgument("The `", i == 0 ? "ckpt_path" : "old_tensor_name",
                               "` tensor must have exactly one element, got tensor of shape ", c.input(i).shape());
      }
    }
    ASSIGN_OR_RETURN(const auto new_rows, Invert(row_map));
    ASSIGN_OR_RETURN(const auto new_columns, Invert(column_map));
    const std::string& name = c.input(1).scalar<std::string>();
    ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader,
                     BundleReader::Open(PosixFileSystem(), c.input(0).scalar<std::string>()));
    ASSIGN_OR_RETURN(const BundleReader::Info info, reader->Find(name));
    RETURN_IF_ERROR(CheckStored(name, info, column_map.num_elements() > 0));
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({rows_, columns_}));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    RETURN_IF_ERROR(
        LoadRows(*reader, name, info, new_rows, column_map.num_elements() > 0 ? &new_columns : nullptr, out));
    return FillMissing(row_map, column_map, c.input(4), out);
  }

 private:
  using Places = absl::flat_hash_map<int64_t, int64_t>;

  absl::Status CheckStored(const std::string& name, const BundleReader::Info& info, bool remap_columns) const {
    if (info.dtype != kFloat) {
      return InvalidArgument("Tensor ", name, " has invalid type ", info.dtype, " instead of expected type float");
    }
    if (info.shape.rank() != 2) {
      return InvalidArgument("Tensor ", name, " has shape ", info.shape, " of invalid rank ", info.shape.rank(),
                             " instead of expected shape of rank 2.");
    }
    if (!remap_columns && info.shape.dim(1) != columns_) {
      return InvalidArgument("Tensor ", name, " has shape ", info.shape, ", where the size of its 2nd dimension is ",
                             info.shape.dim(1), " instead of being equal to num_cols=", columns_);
    }
    return absl::OkStatus();
  }

  // The old rows between the first and the last that are wanted, at most
  // max_rows_ at a time.
  absl::Status LoadRows(const BundleReader& reader, const std::string& name, const BundleReader::Info& info,
                        const Places& new_rows, const Places* new_columns, Tensor* out) const {
    if (new_rows.empty()) return absl::OkStatus();
    int64_t first = new_rows.begin()->first, last = first;
    for (const auto& [old, place] : new_rows) {
      first = std::min(first, old);
      last = std::max(last, old);
    }
    float* const to = out->mutable_data<float>();
    for (int64_t begin = first; begin <= last;) {
      const int64_t count = max_rows_ <= 0 ? last - begin + 1 : std::min(max_rows_, last - begin + 1);
      const TensorSlice slice({{begin, count}, {}});
      ASSIGN_OR_RETURN(const Tensor old, reader.ReadSlice(name, slice));
      for (int64_t row = 0; row < count; ++row) {
        const auto new_row = new_rows.find(begin + row);
        if (new_row == new_rows.end()) continue;
        for (int64_t column = 0; column < info.shape.dim(1); ++column) {
          int64_t new_column = column;
          if (new_columns != nullptr) {
            const auto found = new_columns->find(column);
            if (found == new_columns->end()) continue;
            new_column = found->second;
          }
          to[new_row->second * columns_ + new_column] = old.data<float>()[row * info.shape.dim(1) + column];
        }
      }
      begin += count;
    }
    // A row or column that the matrix does not have is not part of a slice, but
    // columns are not sliced.
    if (new_columns != nullptr) {
      for (const auto& [old, place] : *new_columns) {
        if (old >= info.shape.dim(1)) return InvalidArgument("col_remapping wants column ", old, " of ", info.shape);
      }
    }
    return absl::OkStatus();
  }

  absl::Status FillMissing(const Tensor& row_map, const Tensor& column_map, const Tensor& values, Tensor* out) const {
    int64_t used = 0;
    for (int64_t i = 0; i < rows_; ++i) {
      const bool has_row = row_map.data<int64_t>()[i] >= 0;
      for (int64_t j = 0; j < columns_; ++j) {
        if (has_row && (column_map.num_elements() == 0 || column_map.data<int64_t>()[j] >= 0)) continue;
        if (used == values.num_elements()) {
          return InvalidArgument("initializing_values contained ", values.num_elements(),
                                 " elements, but more missing values remain.");
        }
        out->mutable_data<float>()[i * columns_ + j] = values.data<float>()[used++];
      }
    }
    if (used == values.num_elements()) return absl::OkStatus();
    return InvalidArgument("initializing_values contained ", values.num_elements(), " elements, but only ", used,
                           " elements were used to fill in missing values.");
  }

  int64_t rows_ = 0, columns_ = 0, max_rows_ = -1;
};

absl::Status RemapMatrixShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const int64_t rows, c.Attr<int64_t>("num_rows"));
  ASSIGN_OR_RETURN(const int64_t columns, c.Attr<int64_t>("num_cols"));
  c.set_output(0, {rows, columns});
  return absl::OkStatus();
}

const OpRegistration kRemapMatrixOps[] = {
    Op("GenerateVocabRemapping")
        .Input("new_vocab_file: string")
        .Input("old_vocab_file: string")
        .Output("remapping: int64")
        .Output("num_present: int32")
        .Attr("new_vocab_offset: int >= 0")
        .Attr("num_new_vocab: int >= 0")
        .Attr("old_vocab_size: int >= -1 = -1")
        .Shape(VocabRemappingShape)
        .Kernel<VocabRemappingKernel>()
        .NotDifferentiable(),
    Op("LoadAndRemapMatrix")
        .Input("ckpt_path: string")
        .Input("old_tensor_name: string")
        .Input("row_remapping: int64")
        .Input("col_remapping: int64")
        .Input("initializing_values: float")
        .Output("output_matrix: float")
        .Attr("num_rows: int >= 0")
        .Attr("num_cols: int >= 1")
        .Attr("max_rows_in_memory: int = -1")
        .Stateful()
        .Shape(RemapMatrixShape)
        .Kernel<RemapMatrixKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
