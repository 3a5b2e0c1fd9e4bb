// Attributes that op types got after TensorFlow 1.15.
//
// A worker of TensorFlow 1.15 refuses a node with an attribute that its op does not
// have, and one that lacks an attribute. Later ones add defaults themselves. A node
// that both understand has all attributes of 1.15, and the later ones only where
// they differ from their defaults.
#pragma once

#include "thalweg/graph/op_schema.h"

namespace thalweg {

// Removes the attributes of a node that TensorFlow 1.15 does not know and that have
// their default values. `op` is the type of the node.
void RemoveLaterDefaults(const tensorflow::OpDef& op, tensorflow::NodeDef& node);

}  // namespace thalweg
