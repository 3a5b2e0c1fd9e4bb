// SPDX-License-Identifier: Apache-2.0
// Connects a target with libFuzzer. With the variable FUZZ_SEEDS, writes the valid inputs to that folder before
// the fuzzer reads its corpus.
#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "fuzz_target.h"
#include "google/protobuf/stubs/logging.h"
#include "thalweg/base/logging.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  thalweg::SetMinLogLevel(thalweg::LogLevel::kFatal);
  google::protobuf::SetLogHandler(nullptr);
  if (const char* folder = std::getenv("FUZZ_SEEDS")) {
    int i = 0;
    for (const std::string& seed : thalweg::fuzz::Seeds()) {
      std::ofstream(absl::StrCat(folder, "/seed", i++), std::ios::binary) << seed;
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thalweg::fuzz::TestOneInput({reinterpret_cast<const char*>(data), size});
  return 0;
}
