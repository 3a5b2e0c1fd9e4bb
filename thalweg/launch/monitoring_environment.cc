// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/monitoring_environment.h"

#include <cstdlib>

#include "thalweg/launch/job_sources.h"

namespace thalweg {

ServerOptions WithMonitoringOf(const Job::Environment& environment, ServerOptions options) {
  const ServerOptions defaults;
  if (const auto http = Variable(environment, "THALWEG_HTTP"); http && options.http == defaults.http) {
    options.http = http->value;
  }
  if (options.http == "off") options.http.clear();
  if (const auto token = Variable(environment, "THALWEG_HTTP_TOKEN"); token && options.http_token.empty()) {
    options.http_token = token->value;
  }
  if (const auto folder = Variable(environment, "THALWEG_FLIGHT_FOLDER"); folder && options.flight_folder.empty()) {
    options.flight_folder = folder->value;
  }
  if (const auto recorder = Variable(environment, "THALWEG_RECORDER"); recorder && recorder->value == "off") {
    options.recorder = false;
  }
  if (const auto links = Variable(environment, "THALWEG_LOCAL_LINKS"); links && links->value == "off") {
    options.local_links = false;
  }
  if (const auto links = Variable(environment, "THALWEG_TCP_LINKS"); links && options.tcp_links == defaults.tcp_links) {
    if (links->value == "on" || links->value == "off") options.tcp_links = links->value == "on";
  }
  return options;
}

ServerOptions WithMonitoringOfEnvironment(ServerOptions options) {
  Job::Environment environment;
  for (const char* name : {"THALWEG_HTTP", "THALWEG_HTTP_TOKEN", "THALWEG_FLIGHT_FOLDER", "THALWEG_RECORDER",
                           "THALWEG_LOCAL_LINKS", "THALWEG_TCP_LINKS"}) {
    if (const char* const value = std::getenv(name); value != nullptr) environment[name] = value;
  }
  return WithMonitoringOf(environment, std::move(options));
}

}  // namespace thalweg
