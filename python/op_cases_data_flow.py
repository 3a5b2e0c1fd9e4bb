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

IN_PROGRAMS = {*QUEUES, *ACCUMULATORS}
