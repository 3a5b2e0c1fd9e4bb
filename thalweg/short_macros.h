// SPDX-License-Identifier: Apache-2.0
// The short macros: LOG, VLOG, CHECK, RETURN_IF_ERROR and ASSIGN_OR_RETURN beside
// their long names THALWEG_LOG and so on. thalweg/api.h does not define them, because
// many programs have macros of these names.
//
//   #include <thalweg/api.h>
//   #include <thalweg/short_macros.h>
#pragma once

// IWYU pragma: begin_exports
#include "thalweg/base/logging.h"
#include "thalweg/base/short_macros.h"
#include "thalweg/base/status.h"
// IWYU pragma: end_exports
