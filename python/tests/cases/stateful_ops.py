# SPDX-License-Identifier: Apache-2.0
"""The ops whose state outlives a step. Programs of several steps in data_flow_test.py test them, not cases."""

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

READERS = ["ReadFile", "WriteFile", "MatchingFiles", "WholeFileReader"]
READERS += [f"{kind}ReaderV2" for kind in ("FixedLengthRecord", "Identity", "TextLine", "TFRecord", "WholeFile")]
READERS += [f"Reader{verb}{version}"
            for verb in ("NumRecordsProduced", "NumWorkUnitsCompleted", "Read", "ReadUpTo", "Reset", "RestoreState",
                         "SerializeState")
            for version in ("", "V2")]

TABLES = [name + version
          for name in ("HashTable", "InitializeTable", "InitializeTableFromTextFile", "LookupTableExport",
                       "LookupTableFind", "LookupTableImport", "LookupTableInsert", "LookupTableSize",
                       "MutableHashTable", "MutableHashTableOfTensors")
          for version in ("", "V2")]
TABLES += ["LookupTableRemoveV2", "MutableDenseHashTableV2", "AnonymousHashTable", "AnonymousMutableHashTable",
           "AnonymousMutableHashTableOfTensors", "AnonymousMutableDenseHashTable"]

TENSOR_LISTS = ["EmptyTensorList"]
TENSOR_LISTS += [f"TensorList{verb}"
                 for verb in ("Concat", "ConcatLists", "ConcatV2", "ElementShape", "FromTensor", "Gather", "GetItem",
                              "Length", "PopBack", "PushBack", "PushBackBatch", "Reserve", "Resize", "Scatter",
                              "ScatterIntoExistingList", "ScatterV2", "SetItem", "Split", "Stack")]

BARRIERS = ["Barrier"]
BARRIERS += [f"Barrier{verb}" for verb in ("Close", "IncompleteSize", "InsertMany", "ReadySize", "TakeMany")]
STAGES = ["Stage", "Unstage", "StageClear", "StagePeek", "StageSize"]
STAGES += [f"{kind}{verb}"
           for verb in ("Clear", "IncompleteSize", "Peek", "Size", "Stage", "Unstage", "UnstageNoKey")
           for kind in ("Map", "OrderedMap")]

IN_PROGRAMS = {*QUEUES, *ACCUMULATORS, *STACKS, *TENSOR_ARRAYS, *READERS, *TABLES, *TENSOR_LISTS, *BARRIERS, *STAGES}
# Steps that get what others gave: client/data_flow_test.cc.
SESSION_TENSORS = {"DeleteSessionTensor", "GetSessionHandle", "GetSessionHandleV2", "GetSessionTensor"}
# New graphs cannot have the op that makes what the first needs; TensorFlow's second cannot run.
OLD = {"TensorArrayConcatV2", "MutableDenseHashTable"}
ELSEWHERE = IN_PROGRAMS | SESSION_TENSORS | OLD
