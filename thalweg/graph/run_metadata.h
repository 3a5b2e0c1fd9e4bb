// SPDX-License-Identifier: Apache-2.0
// RunMetadata: what a step reports about itself.
//
//   RunMetadata metadata;
//   ASSIGN_OR_RETURN(const auto out, session->Run({y}, {}, {.trace = true}, &metadata));
//   files.WriteStringToFile("timeline.json", ChromeTrace(metadata));
#pragma once

#include <memory>
#include <string>

namespace tensorflow {
class RunMetadata;
}

namespace thalweg {

// Filled by Session::Run: when and where every node ran (RunOptions::trace), and the
// graphs that ran (RunOptions::output_partition_graphs). A value.
class RunMetadata {
 public:
  // Empty.
  RunMetadata();
  RunMetadata(const RunMetadata&);
  RunMetadata(RunMetadata&&) noexcept;
  RunMetadata& operator=(const RunMetadata&);
  RunMetadata& operator=(RunMetadata&&) noexcept;
  ~RunMetadata();

  // True if nothing was reported.
  bool empty() const;
  // Makes it empty.
  void Clear();
  // TensorFlow's tensorflow.RunMetadata message, in its binary format.
  std::string SerializeAsString() const;
  // The same as text, for people.
  std::string ToString() const;

  /// @cond INTERNAL
  const tensorflow::RunMetadata& proto() const { return *proto_; }
  tensorflow::RunMetadata& mutable_proto() { return *proto_; }
  /// @endcond

 private:
  std::unique_ptr<tensorflow::RunMetadata> proto_;  // never null, unless moved from
};

}  // namespace thalweg
