// SPDX-License-Identifier: Apache-2.0
// Runs a target with its seeds, the files of its corpus, and seeded mutations of both.
//
//   fuzz_messages --mutations=20000 --seed=1 [FOLDER OR FILE...]
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "fuzz_target.h"
#include "google/protobuf/stubs/logging.h"
#include "thalweg/base/logging.h"

ABSL_FLAG(int64_t, mutations, 20000, "number of mutated inputs");
ABSL_FLAG(uint64_t, seed, 1, "seed of the mutations");

namespace thalweg::fuzz {
namespace {

std::string Mutate(const std::vector<std::string>& inputs, std::mt19937_64& random) {
  std::string text = inputs[random() % inputs.size()];
  const int changes = 1 + static_cast<int>(random() % 6);
  for (int i = 0; i < changes; ++i) {
    const size_t at = text.empty() ? 0 : random() % text.size();
    switch (random() % 7) {
      case 0:
        if (!text.empty()) text[at] ^= static_cast<char>(1 << (random() % 8));
        break;
      case 1:
        if (!text.empty()) text[at] = static_cast<char>(random());
        break;
      case 2:
        text.insert(at, 1, static_cast<char>(random()));
        break;
      case 3:
        if (!text.empty()) text.erase(at, 1 + random() % 8);
        break;
      case 4:  // lengths and counts at their limits
        text.insert(at, random() % 2 ? "\xff\xff\xff\xff\x0f" : std::string(8, '\xff'));
        break;
      case 5: {
        const std::string& other = inputs[random() % inputs.size()];
        const size_t from = other.empty() ? 0 : random() % other.size();
        text = text.substr(0, at) + other.substr(from, random() % 64) + text.substr(at);
        break;
      }
      default:
        text.resize(at);
    }
  }
  return text;
}

int Main(const std::vector<char*>& arguments) {
  SetMinLogLevel(LogLevel::kFatal);
  google::protobuf::SetLogHandler(nullptr);
  std::vector<std::string> inputs = Seeds();
  const auto add = [&](const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  };
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (!std::filesystem::exists(arguments[i])) {
      std::fprintf(stderr, "there is no %s\n", arguments[i]);
      return 2;
    }
    if (!std::filesystem::is_directory(arguments[i])) {
      add(arguments[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(arguments[i])) add(entry.path());
  }
  for (const std::string& input : inputs) TestOneInput(input);
  std::mt19937_64 random(absl::GetFlag(FLAGS_seed));
  const int64_t mutations = absl::GetFlag(FLAGS_mutations);
  for (int64_t i = 0; i < mutations; ++i) TestOneInput(Mutate(inputs, random));
  std::printf("%zu inputs and %ld mutations\n", inputs.size(), static_cast<long>(mutations));
  return 0;
}

}  // namespace
}  // namespace thalweg::fuzz

int main(int argc, char** argv) { return thalweg::fuzz::Main(absl::ParseCommandLine(argc, argv)); }
