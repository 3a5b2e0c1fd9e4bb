// SPDX-License-Identifier: Apache-2.0
// _Arg and _Retval stand where values enter and leave a graph that is run: the
// feeds and fetches of a step. The runtime fills and empties them; they have no
// kernels.
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

const OpRegistration kArgRetvalOps[] = {
    Op("_Arg")
        .Output("output: T")
        .Attr("T: type")
        .Attr("index: int >= 0")
        .Stateful()
        .Shape(shapes::Unknown)
        .NotDifferentiable(),
    Op("_Retval")
        .Input("input: T")
        .Attr("T: type")
        .Attr("index: int >= 0")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
