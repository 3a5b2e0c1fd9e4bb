// SPDX-License-Identifier: Apache-2.0
// How a job is observed, and which paths its messages take, as the environment of its tasks says it.
#pragma once

#include "thalweg/launch/job.h"
#include "thalweg/server/server.h"

namespace thalweg {

// Sets what `options` leaves at its default:
//
//   THALWEG_HTTP           ServerOptions::http; "off": no HTTP port
//   THALWEG_HTTP_TOKEN     ServerOptions::http_token
//   THALWEG_FLIGHT_FOLDER  ServerOptions::flight_folder
//   THALWEG_RECORDER       "off": ServerOptions::recorder is false
//   THALWEG_LOCAL_LINKS    "off": ServerOptions::local_links is false
//   THALWEG_TCP_LINKS      "on" or "off": ServerOptions::tcp_links
ServerOptions WithMonitoringOf(const Job::Environment& environment, ServerOptions options);
// The same for the environment of this process.
ServerOptions WithMonitoringOfEnvironment(ServerOptions options);

}  // namespace thalweg
