// SPDX-License-Identifier: Apache-2.0
// The first program: a constant, a session, one run.
#include <cstdio>

#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

absl::Status Hello() {
  tw::Graph graph;
  const auto hello = tw::Const(graph.root(), "Hello, Thalweg!");
  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph));
  ASSIGN_OR_RETURN(const auto out, session->Run({hello}));
  std::puts(out[0].scalar<std::string>().c_str());
  return absl::OkStatus();
}

int main() { return tw::ExitCode(Hello()); }
