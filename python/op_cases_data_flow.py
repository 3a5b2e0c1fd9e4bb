"""The ops whose state outlives a step. Programs of several steps show them, in data_flow_test.py: not single cases."""

QUEUES = [name + version
          for name in ("FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "RandomShuffleQueue", "QueueClose",
                       "QueueDequeue", "QueueDequeueMany", "QueueDequeueUpTo", "QueueEnqueue", "QueueEnqueueMany",
                       "QueueIsClosed", "QueueSize")
          for version in ("", "V2")]

ACCUMULATORS = [form + name
                for name in ("AccumulatorApplyGradient", "AccumulatorNumAccumulated", "AccumulatorSetGlobalStep",
                             "AccumulatorTakeGradient", "ConditionalAccumulator")
                for form in ("", "Resource")]
ACCUMULATORS += ["SparseAccumulatorApplyGradient", "SparseAccumulatorTakeGradient", "SparseConditionalAccumulator"]

STACKS = [name + version for name in ("Stack", "StackPush", "StackPop", "StackClose") for version in ("", "V2")]
TENSOR_ARRAYS = [f"TensorArray{name}V3"
                 for name in ("", "Close", "Concat", "Gather", "Grad", "Read", "Scatter", "Size", "Split", "Write")]
TENSOR_ARRAYS += ["TensorArrayGradWithShape"]

IN_PROGRAMS = {*QUEUES, *ACCUMULATORS, *STACKS, *TENSOR_ARRAYS}
# Their graphs cannot be made any more, but for this one.
OLD = {"TensorArrayConcatV2"}
