// SPDX-License-Identifier: Apache-2.0
// For the thread sanitizer protobuf gives map fields two counters more. Debian's
// library, which is not built for it, knows nothing of them: with the header as it
// is, both would disagree about where a field of a message lies.
#pragma once

// What the header includes sees the sanitizer.
#include <google/protobuf/arena.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/generated_message_reflection.h>
#include <google/protobuf/generated_message_util.h>
#include <google/protobuf/map_entry.h>
#include <google/protobuf/map_field_lite.h>
#include <google/protobuf/map_type_handler.h>
#include <google/protobuf/message.h>
#include <google/protobuf/port.h>
#include <google/protobuf/repeated_field.h>
#include <google/protobuf/stubs/mutex.h>
#include <google/protobuf/unknown_field_set.h>

#include <atomic>
#include <functional>

#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include_next <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")
