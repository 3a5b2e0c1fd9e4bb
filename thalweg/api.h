// The C++ API in one include: graphs, operations, sessions, training, data.
//
//   #include <thalweg/api.h>
//   namespace tw = thalweg;
#pragma once

// IWYU pragma: begin_exports
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/client/server.h"
#include "thalweg/client/session.h"
#include "thalweg/data/idx.h"
#include "thalweg/data/tfrecord.h"
#include "thalweg/graph/gradient.h"
#include "thalweg/graph/graph.h"
#include "thalweg/graph/scope.h"
#include "thalweg/observe/chrome_trace.h"
#include "thalweg/observe/summary_writer.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/image_ops.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/lookup_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/random_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/ops/string_ops.h"
#include "thalweg/ops/training_ops.h"
#include "thalweg/tensor/tensor.h"
#include "thalweg/train/checkpoint_state.h"
#include "thalweg/train/initializers.h"
#include "thalweg/train/layers.h"
#include "thalweg/train/losses.h"
#include "thalweg/train/optimizer.h"
#include "thalweg/train/optimizers.h"
#include "thalweg/train/partitioned_variable.h"
#include "thalweg/train/progress.h"
#include "thalweg/train/replica_device_setter.h"
#include "thalweg/train/save_slice.h"
#include "thalweg/train/sync_replicas.h"
#include "thalweg/train/saver.h"
#include "thalweg/train/variable.h"
// IWYU pragma: end_exports
