// SPDX-License-Identifier: Apache-2.0
// The status of a task in the text format of Prometheus.
#pragma once

#include <string>

#include "thalweg/proto/monitor.pb.h"

namespace thalweg {

std::string PrometheusText(const TaskStatus& status);

}  // namespace thalweg
