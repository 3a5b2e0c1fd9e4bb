// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cli/flags.h"

#include <algorithm>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "thalweg/base/status.h"

namespace thalweg::cli {
namespace {

using List = std::vector<std::string>;

absl::CommandLineFlag* Find(absl::string_view name, const List& allowed) {
  return std::find(allowed.begin(), allowed.end(), name) == allowed.end() ? nullptr : absl::FindCommandLineFlag(name);
}

// A command line argument "--name" or "--name=value", parsed.
struct Argument {
  absl::string_view name;
  absl::string_view value;
  bool has_value = false;
};

absl::StatusOr<Argument> Parse(absl::string_view text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "-") || rest.empty()) return InvalidArgument("unexpected argument '", text, "'");
  absl::ConsumePrefix(&rest, "-");
  const size_t equals = rest.find('=');
  if (equals == absl::string_view::npos) return Argument{.name = rest};
  return Argument{.name = rest.substr(0, equals), .value = rest.substr(equals + 1), .has_value = true};
}

absl::Status Set(absl::CommandLineFlag* flag, absl::string_view value, bool again) {
  std::string text(value);
  if (again && flag->IsOfType<List>()) text = absl::StrCat(flag->CurrentValue(), ",", value);
  std::string error;
  if (flag->ParseFrom(text, &error)) return absl::OkStatus();
  return InvalidArgument("--", flag->Name(), " cannot be '", value, "'", error.empty() ? "" : ": ", error);
}

}  // namespace

absl::Status SetFlags(absl::Span<const std::string> args, const List& allowed) {
  List seen;
  for (size_t i = 0; i < args.size(); ++i) {
    ASSIGN_OR_RETURN(Argument argument, Parse(args[i]));
    absl::CommandLineFlag* flag = Find(argument.name, allowed);
    if (flag == nullptr && !argument.has_value && absl::ConsumePrefix(&argument.name, "no")) {
      flag = Find(argument.name, allowed);
      if (flag != nullptr && !flag->IsOfType<bool>()) flag = nullptr;
      argument.value = "false";
      argument.has_value = true;
    }
    if (flag == nullptr) return InvalidArgument("unknown flag '", args[i], "'");
    if (!argument.has_value && flag->IsOfType<bool>()) {
      argument.value = "true";
    } else if (!argument.has_value) {
      if (i + 1 == args.size()) return InvalidArgument("--", flag->Name(), " needs a value");
      argument.value = args[++i];
    }
    const std::string name(flag->Name());
    const bool again = std::find(seen.begin(), seen.end(), name) != seen.end();
    RETURN_IF_ERROR(Set(flag, argument.value, again));
    seen.push_back(name);
  }
  return absl::OkStatus();
}

std::string DescribeFlags(const List& names) {
  std::string text;
  for (const std::string& name : names) {
    const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    CHECK(flag != nullptr) << "no flag is called " << name;
    const std::string initial = flag->DefaultValue();
    absl::StrAppendFormat(&text, "  --%-14s %s%s\n", name, flag->Help(),
                          initial.empty() ? "" : absl::StrCat(" (", initial, ")"));
  }
  return text;
}

}  // namespace thalweg::cli
