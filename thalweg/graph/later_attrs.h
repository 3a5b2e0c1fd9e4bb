// SPDX-License-Identifier: Apache-2.0
// Attributes that were added to op types after TensorFlow 1.15.
//
// A TensorFlow 1.15 worker refuses a node with an unknown attribute, and a node that
// lacks an attribute. Later versions fill in defaults themselves. A node that both
// understand has all attributes of 1.15, and later ones only if they differ from their
// defaults.
#pragma once

#include "thalweg/graph/op_schema.h"

namespace thalweg {

// Removes the attributes of `node` that TensorFlow 1.15 does not know and that have
// their default values. `op` is the definition of the node's type.
void RemoveLaterDefaults(const tensorflow::OpDef& op, tensorflow::NodeDef& node);

// Adds the types of the arguments to a _FusedConv2D of a TensorFlow 1.15 master. There all of them have the type T, and
// the attribute TArgs does not exist.
void AddLaterTypes(const tensorflow::OpDef& op, tensorflow::NodeDef& node);

}  // namespace thalweg
