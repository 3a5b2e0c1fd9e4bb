// The first program: a constant, a session, one run.
#include <cstdio>

#include "thalweg/api.h"

namespace tw = thalweg;

int main() {
  tw::Graph graph;
  const auto hello = tw::Const(graph.root(), std::string("Hello, Thalweg!"));
  const auto session = tw::Session::Create(graph);
  const auto out = session.ok() ? (*session)->Run({hello}) : session.status();
  std::puts(out.ok() ? out->at(0).scalar<std::string>().c_str() : out.status().ToString().c_str());
  return out.ok() ? 0 : 1;
}
