// SPDX-License-Identifier: Apache-2.0
// Shared by the ops that parse Examples and SequenceExamples: a feature of all records of a batch becomes a
// dense, sparse or ragged tensor.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/proto/example.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The type of its values; kInvalid if it has none.
DType FeatureType(const tensorflow::Feature& feature);

// A growing list of values of one of the three types.
class FeatureValues {
 public:
  // REQUIRES: kFloat, kInt64 or kString.
  explicit FeatureValues(DType dtype);
  int64_t size() const;
  // REQUIRES: the feature has this type.
  void Append(const tensorflow::Feature& feature);
  // REQUIRES: the shape has the right number of elements.
  absl::StatusOr<Tensor> Take(const Shape& shape);

 private:
  std::variant<std::vector<float>, std::vector<int64_t>, std::vector<std::string>> values_;
};

// The same for a tensor of known size, which may exceed the memory.
class FeatureWriter {
 public:
  static absl::StatusOr<FeatureWriter> Create(DType dtype, const Shape& shape);
  // REQUIRES, of each: there is room.
  void Append(const tensorflow::Feature& feature);
  void Append(const Tensor& values);
  void Append(int64_t count, const Tensor& value);  // an element, repeated
  int64_t size() const { return size_; }
  Tensor Take() { return std::move(tensor_); }

 private:
  explicit FeatureWriter(Tensor tensor) : tensor_(std::move(tensor)) {}
  template <typename F>
  void Write(F&& f);

  Tensor tensor_;
  int64_t size_ = 0;
};

int64_t CountValues(const tensorflow::Feature& feature);

// The specification of a dense feature.
struct DenseFeature {
  std::string key;
  DType dtype = kInvalid;
  PartialShape shape;            // the shape in one record; the first dimension may be unknown
  bool variable_length = false;  // that dimension is unknown; for a feature list: it may be missing
  int64_t stride = 1;            // product of the known dimensions
  Tensor default_value;
};
// INVALID_ARGUMENT unless only the first dimension is unknown. `index` is for
// the message.
absl::StatusOr<DenseFeature> MakeDenseFeature(int index, DType dtype, const PartialShape& shape);
// Checks that the default value fits.
absl::Status CheckDefault(int index, const DenseFeature& feature);

// One feature of all records; nullptr if it is missing in a record.
using FeatureColumn = std::vector<const tensorflow::Feature*>;

// Makes an error that names the record.
using RecordError = std::function<absl::Status(int64_t record, const std::string& text)>;

// Shape [records, max, ...] with `is_batch`, otherwise that of the only record.
absl::StatusOr<Tensor> ParseDense(const DenseFeature& feature, const FeatureColumn& column, bool is_batch,
                                  const RecordError& error);

struct SparseTensors {
  Tensor indices;
  Tensor values;
  Tensor shape;
};
absl::StatusOr<SparseTensors> ParseSparse(DType dtype, const FeatureColumn& column, bool is_batch,
                                          const RecordError& error);

struct RaggedTensors {
  Tensor values;
  Tensor splits;
};
absl::StatusOr<RaggedTensors> ParseRagged(DType dtype, DType splits_dtype, const FeatureColumn& column,
                                          const RecordError& error);

// Row splits as a tensor of type `dtype`.
Tensor MakeSplits(DType dtype, const std::vector<int64_t>& splits);

// Parses the messages in a vector or scalar of strings on several threads. INVALID_ARGUMENT, made by `error`,
// for one that does not parse.
template <typename Message>
absl::StatusOr<std::vector<Message>> ParseMessages(KernelContext& c, const Tensor& serialized,
                                                   const RecordError& error) {
  const absl::Span<const std::string> bytes = serialized.flat<std::string>();
  std::vector<Message> messages(bytes.size());
  std::vector<char> good(bytes.size(), 0);
  const double size =
      bytes.empty() ? 0 : static_cast<double>(serialized.TotalBytes()) / static_cast<double>(bytes.size());
  c.ParallelFor(static_cast<int64_t>(bytes.size()), 200 + 2 * size, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) good[i] = messages[i].ParseFromString(bytes[i]) ? 1 : 0;
  });
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (good[i] == 0) return error(static_cast<int64_t>(i), bytes[i]);
  }
  return messages;
}

// The column of `key`; `features` returns the feature map of a message.
template <typename Value, typename Message, typename Features>
std::vector<const Value*> Column(const std::vector<Message>& messages, const std::string& key, Features&& features) {
  std::vector<const Value*> column;
  for (const Message& message : messages) {
    const auto& map = features(message);
    const auto found = map.find(key);
    column.push_back(found == map.end() ? nullptr : &found->second);
  }
  return column;
}

}  // namespace thalweg
