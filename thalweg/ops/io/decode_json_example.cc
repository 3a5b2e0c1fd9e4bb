// SPDX-License-Identifier: Apache-2.0
// DecodeJSONExample: Examples from JSON to their binary form.
#include "absl/strings/escaping.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/json_util.h"
#include "thalweg/kernel/op.h"
#include "thalweg/proto/example.pb.h"

namespace thalweg {
namespace {

// In one order of the features: the bytes depend only on the text.
std::string Serialize(const tensorflow::Example& example) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  example.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

absl::Status ComputeDecode(KernelContext& c) {
  const Tensor& json = c.input(0);
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, json.shape()));
  for (int64_t i = 0; i < json.num_elements(); ++i) {
    const std::string& text = json.data<std::string>()[i];
    tensorflow::Example example;
    if (const auto status = google::protobuf::util::JsonStringToMessage(text, &example); !status.ok()) {
      constexpr size_t kShown = 200;
      return InvalidArgument("Error while parsing JSON: ", absl::CHexEscape(text.substr(0, kShown)), ": ",
                             absl::CHexEscape(status.ToString()));
    }
    out->mutable_data<std::string>()[i] = Serialize(example);
  }
  return absl::OkStatus();
}

const OpRegistration kDecodeJsonExample = Op("DecodeJSONExample")
                                              .Input("json_examples: string")
                                              .Output("binary_examples: string")
                                              .Shape(shapes::LikeInput0)
                                              .Compute(ComputeDecode)
                                              .NotDifferentiable();

}  // namespace
}  // namespace thalweg
