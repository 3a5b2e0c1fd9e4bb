// SPDX-License-Identifier: Apache-2.0
#include <farmhash.h>

#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "thalweg/ops/dataset/dataset.h"

namespace thalweg {
namespace {

class Fingerprint {
 public:
  void Add(uint64_t number) { value_ = util::Hash128to64({value_, number}); }
  void Add(absl::string_view bytes) { Add(util::Fingerprint64(bytes.data(), bytes.size())); }

  // The op and its attributes, without those that the runtime adds.
  void AddNode(const tensorflow::NodeDef& node) {
    Add(node.op());
    const std::map<std::string, const tensorflow::AttrValue*> attrs = Sorted(node);
    for (const auto& [name, value] : attrs) {
      if (absl::StartsWith(name, "_graph_of_")) {
        Add(name);
        AddBody(value->s());
      } else if (name[0] != '_' && name != "metadata" && !value->has_func()) {
        Add(name);
        AddAttr(*value);
      }
    }
  }

  void AddTensor(const Tensor& tensor) {
    Add(absl::StrCat(static_cast<int>(tensor.dtype()), tensor.shape().ToString()));
    if (tensor.dtype() == kString) {
      for (const std::string& text : tensor.flat<std::string>()) Add(text);
    } else if (tensor.dtype() == kVariant) {
      // Other variants, and resources, do not say what they hold.
      if (const absl::StatusOr<DatasetPtr> dataset = DatasetIn(tensor); dataset.ok()) Add(FingerprintOf(**dataset));
    } else if (tensor.dtype() != kResource) {
      Add(absl::string_view(static_cast<const char*>(tensor.raw()),
                            tensor.num_elements() * ElementSize(tensor.dtype())));
    }
  }

  uint64_t value() const { return value_; }

 private:
  static std::map<std::string, const tensorflow::AttrValue*> Sorted(const tensorflow::NodeDef& node) {
    std::map<std::string, const tensorflow::AttrValue*> attrs;
    for (const auto& [name, value] : node.attr()) attrs[name] = &value;
    return attrs;
  }

  void AddAttr(const tensorflow::AttrValue& value) {
    std::string bytes;
    {
      google::protobuf::io::StringOutputStream stream(&bytes);
      google::protobuf::io::CodedOutputStream coded(&stream);
      coded.SetSerializationDeterministic(true);
      value.SerializeToCodedStream(&coded);
    }
    Add(bytes);
  }

  // Edges are added as numbers of nodes, because names depend on the rest of the program.
  void AddBody(const std::string& bytes) {
    tensorflow::GraphDef def;
    if (!def.ParseFromString(bytes)) return;
    absl::flat_hash_map<std::string, int> numbers;
    for (const auto& node : def.node()) numbers.emplace(node.name(), static_cast<int>(numbers.size()));
    for (const auto& node : def.node()) {
      AddNode(node);
      for (const std::string& input : node.input()) {
        const bool control = absl::StartsWith(input, "^");
        const std::string name = input.substr(control ? 1 : 0, input.find(':') - (control ? 1 : 0));
        const size_t colon = input.find(':');
        const auto number = numbers.find(name);
        Add(absl::StrCat(control ? "^" : "", number == numbers.end() ? -1 : number->second,
                         colon == std::string::npos ? "" : input.substr(colon)));
      }
    }
  }

  uint64_t value_ = 0;
};

}  // namespace

uint64_t FingerprintOf(const DatasetValue& dataset) {
  Fingerprint fingerprint;
  if (!dataset.origin()) {
    fingerprint.Add(dataset.ToString());
    return fingerprint.value();
  }
  fingerprint.AddNode(dataset.origin()->node);
  for (const Tensor& input : dataset.origin()->inputs) fingerprint.AddTensor(input);
  return fingerprint.value();
}

}  // namespace thalweg
