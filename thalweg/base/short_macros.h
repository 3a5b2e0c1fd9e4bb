// SPDX-License-Identifier: Apache-2.0
// Short names of the macros in logging.h and status.h. The library's own sources have
// them everywhere (its build defines THALWEG_SHORT_MACROS); a user's program has them
// only if it asks for them. A name that the program has defined stays the program's.
#pragma once

#ifndef LOG
#define LOG(level) THALWEG_LOG(level)
#endif
#ifndef VLOG
#define VLOG(n) THALWEG_VLOG(n)
#endif
#ifndef CHECK
#define CHECK(condition) THALWEG_CHECK(condition)
#endif
#ifndef RETURN_IF_ERROR
#define RETURN_IF_ERROR(expression) THALWEG_RETURN_IF_ERROR(expression)
#endif
#ifndef ASSIGN_OR_RETURN
#define ASSIGN_OR_RETURN(lhs, expression) THALWEG_ASSIGN_OR_RETURN(lhs, expression)
#endif
