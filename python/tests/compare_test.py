# SPDX-License-Identifier: Apache-2.0
"""Compares the values that ops compute with TensorFlow's, on the same GraphDef and the same feeds."""

import unittest

import tensorflow as tf
from tensorflow.python.framework import op_def_registry
from tensorflow_testlib import Failure, Step, difference, registered_ops, run_tensorflow, run_thalweg

import cases
from cases import stateful_ops

# Ops that cannot be tested with a case.
NOT_COMPARED = {
    "Abort": "it ends the process",
    "AccumulateNV2": "TensorFlow has no kernel: it rewrites the graph",
    "Conv2DBackpropFilterV2": "TensorFlow has no kernel", "Conv2DBackpropInputV2": "the same",
    "CTCLossV2": "TensorFlow has a kernel only for GPUs",
    "Placeholder": "every case feeds some",
    "PlaceholderV2": "TensorFlow has no shape function for it",
    "Enter": "programs_test.py has loops", "Exit": "the same", "LoopCond": "the same", "NextIteration": "the same",
    "RefNextIteration": "only hand-made graphs have it",
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "StatelessCase",
                     "While", "StatelessWhile", "For", "SymbolicGradient", "RemoteCall"), "functions_test.py has them"),
    **dict.fromkeys(("Batch", "BatchFunction", "Unbatch", "UnbatchGrad"), "batch_test.py has them"),
    **dict.fromkeys(("PyFunc", "PyFuncStateless", "EagerPyFunc"), "py_func_test.py has them"),
    **dict.fromkeys(("CollectiveBcastRecv", "CollectiveBcastRecvV2", "CollectiveBcastSend", "CollectiveBcastSendV2",
                     "CollectiveGather", "CollectiveGatherV2", "CollectiveReduce", "CollectiveReduceV2",
                     "CollectiveAllToAllV2", "CollectiveAssignGroupV2"),
                    "they need a cluster: cluster_programs_test.py has them"),
    **dict.fromkeys(("CollectiveReduceV3", "CollectiveAllToAllV3", "CollectiveInitializeCommunicator"),
                    "TensorFlow's tasks cannot share a communicator: client/collective_test.cc has them"),
    "CollectiveReduceScatterV2": "TensorFlow has an implementation only for GPUs",
    **dict.fromkeys((
        "TensorDataset", "TensorSliceDataset", "RangeDataset", "TFRecordDataset", "TextLineDataset",
        "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2", "RepeatDataset", "TakeDataset", "SkipDataset",
        "ConcatenateDataset", "BatchDataset", "BatchDatasetV2", "ParallelBatchDataset", "ZipDataset", "ShardDataset",
        "PrefetchDataset", "OptionsDataset", "ModelDataset", "ShuffleDataset", "ShuffleDatasetV3",
        "AnonymousSeedGenerator", "DummySeedGenerator", "PaddedBatchDataset", "PaddedBatchDatasetV2", "WindowDataset",
        "CacheDataset", "MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2", "FilterDataset", "FlatMapDataset",
        "InterleaveDataset", "ParallelInterleaveDatasetV4", "Iterator", "IteratorV2", "OneShotIterator",
        "MakeIterator", "IteratorGetNext", "IteratorGetNextSync", "IteratorToStringHandle", "IteratorFromStringHandle",
        "IteratorFromStringHandleV2", "SerializeIterator", "DeserializeIterator", "GetElementAtIndex",
        "DatasetToSingleElement", "DatasetCardinality",
        "OptimizeDataset", "OptimizeDatasetV2", "RewriteDataset", "FinalizeDataset",
        "MaxIntraOpParallelismDataset", "PrivateThreadPoolDataset", "ThreadPoolDataset", "ThreadPoolHandle",
        "NonSerializableDataset", "AssertNextDataset", "AssertCardinalityDataset", "IgnoreErrorsDataset",
        "SleepDataset", "MapAndBatchDataset", "ParallelFilterDataset", "TakeWhileDataset",
        "ParallelInterleaveDataset", "LegacyParallelInterleaveDatasetV2", "ParallelInterleaveDatasetV2",
        "ParallelInterleaveDatasetV3", "GroupByWindowDataset", "GroupByReducerDataset", "ScanDataset",
        "UniqueDataset", "UnbatchDataset", "RebatchDataset", "RebatchDatasetV2", "DenseToSparseBatchDataset",
        "SlidingWindowDataset", "SparseTensorSliceDataset", "DirectedInterleaveDataset",
        "ChooseFastestDataset", "AutoShardDataset", "ListDataset", "GeneratorDataset", "ShuffleDatasetV2",
        "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2", "AnonymousRandomSeedGenerator",
        "RandomDataset", "RandomDatasetV2", "SamplingDataset", "CacheDatasetV2", "AnonymousMemoryCache",
        "DummyMemoryCache", "ReduceDataset", "DatasetToTFRecord", "AnonymousIterator", "AnonymousIteratorV2",
        "AnonymousIteratorV3", "DeleteIterator", "DeleteSeedGenerator", "DeleteRandomSeedGenerator",
        "DeleteMemoryCache", "IteratorGetNextAsOptional", "IteratorGetDevice", "ExperimentalAssertNextDataset",
        "ExperimentalAutoShardDataset", "ExperimentalChooseFastestDataset", "ExperimentalDatasetCardinality",
        "ExperimentalDatasetToTFRecord", "ExperimentalDenseToSparseBatchDataset",
        "ExperimentalDirectedInterleaveDataset", "ExperimentalGroupByReducerDataset",
        "ExperimentalGroupByWindowDataset", "ExperimentalIgnoreErrorsDataset", "ExperimentalIteratorGetDevice",
        "ExperimentalMapAndBatchDataset", "ExperimentalMaxIntraOpParallelismDataset",
        "ExperimentalNonSerializableDataset", "ExperimentalParallelInterleaveDataset",
        "ExperimentalPrivateThreadPoolDataset", "ExperimentalRandomDataset", "ExperimentalRebatchDataset",
        "ExperimentalScanDataset", "ExperimentalSleepDataset", "ExperimentalSlidingWindowDataset",
        "ExperimentalTakeWhileDataset", "ExperimentalThreadPoolDataset", "ExperimentalThreadPoolHandle",
        "ExperimentalUnbatchDataset", "ExperimentalUniqueDataset",
        "CSVDataset", "CSVDatasetV2", "ExperimentalCSVDataset", "MatchingFilesDataset",
        "ExperimentalMatchingFilesDataset", "ParseExampleDataset", "ParseExampleDatasetV2",
        "ExperimentalParseExampleDataset", "MultiDeviceIterator", "MultiDeviceIteratorInit",
        "MultiDeviceIteratorGetNextFromShard", "MultiDeviceIteratorToStringHandle",
        "MultiDeviceIteratorFromStringHandle", "StatsAggregatorHandle", "ExperimentalStatsAggregatorHandle",
        "SetStatsAggregatorDataset", "ExperimentalSetStatsAggregatorDataset", "LatencyStatsDataset",
        "ExperimentalLatencyStatsDataset", "BytesProducedStatsDataset",
        "ExperimentalBytesProducedStatsDataset", "StatsAggregatorSummary", "ExperimentalStatsAggregatorSummary",
        "ComputeBatchSize", "GetOptions", "InitializeTableFromDataset", "LoadDataset", "SaveDataset", "SaveDatasetV2",
        "SnapshotDataset", "SnapshotDatasetV2", "TFRecordDatasetV2", "WindowOp", "SqlDataset", "ExperimentalSqlDataset"),
                    "dataset_test.py and dataset_clients_test.py have them"),
    **dict.fromkeys(("BoostedTreesBucketize", "BoostedTreesCalculateBestGainsPerFeature", "BoostedTreesCenterBias",
                     "BoostedTreesAggregateStats", "BoostedTreesSparseAggregateStats",
                     "BoostedTreesCalculateBestFeatureSplit", "BoostedTreesSparseCalculateBestFeatureSplit",
                     "BoostedTreesUpdateEnsembleV2",
                     "BoostedTreesCreateEnsemble", "BoostedTreesCreateQuantileStreamResource",
                     "BoostedTreesDeserializeEnsemble", "BoostedTreesEnsembleResourceHandleOp",
                     "BoostedTreesExampleDebugOutputs", "BoostedTreesFlushQuantileSummaries",
                     "BoostedTreesGetEnsembleStates", "BoostedTreesMakeQuantileSummaries",
                     "BoostedTreesMakeStatsSummary", "BoostedTreesPredict",
                     "BoostedTreesQuantileStreamResourceAddSummaries", "BoostedTreesQuantileStreamResourceDeserialize",
                     "BoostedTreesQuantileStreamResourceFlush",
                     "BoostedTreesQuantileStreamResourceGetBucketBoundaries",
                     "BoostedTreesQuantileStreamResourceHandleOp", "BoostedTreesSerializeEnsemble",
                     "BoostedTreesTrainingPredict", "BoostedTreesUpdateEnsemble", "IsBoostedTreesEnsembleInitialized",
                     "IsBoostedTreesQuantileStreamResourceInitialized"),
                    "only TensorFlow 1.15 has kernels: cluster_programs_test.py compares with it"),
    **dict.fromkeys(("WrapDatasetVariant", "UnwrapDatasetVariant", "AnonymousMultiDeviceIterator",
                     "AnonymousMultiDeviceIteratorV3", "DeleteMultiDeviceIterator", "ChooseFastestBranchDataset",
                     "LMDBDataset", "ExperimentalLMDBDataset", "LMDBReader", "FakeQueue"),
                    "dataset_clients_test.py has them"),
    "RecordInput": "its order is random",
    "HostConst": "on a CPU it is a Const", "SyncDevice": "it has no result",
    "QuantizedConcatV2": "TensorFlow has a kernel only with oneDNN",
    "Send": "only a runtime makes them, in pairs", "Recv": "the same",
    "Timestamp": "it is another one every time",
    "DeviceIndex": "TensorFlow rewrites the graph", "FakeParam": "its value is undefined",
    "SaveV2": "checkpoint_test.py has them", "RestoreV2": "the same", "MergeV2Checkpoints": "the same",
    "Save": "the same", "SaveSlices": "the same", "Restore": "the same", "RestoreSlice": "the same",
    "LoadAndRemapMatrix": "the same", "GenerateVocabRemapping": "the same",
    "DisableCopyOnRead": "the same",
    "ImageSummary": "summary_test.py looks into the images",
    **dict.fromkeys(("SummaryWriter", "CreateSummaryFileWriter", "FlushSummaryWriter", "CloseSummaryWriter",
                     "WriteSummary", "WriteScalarSummary", "WriteHistogramSummary", "WriteImageSummary",
                     "WriteAudioSummary", "WriteGraphSummary", "WriteRawProtoSummary", "ImportEvent"),
                    "summary_test.py reads what they wrote"),
}


def step_of(table, cases):
    """A step that fetches all tensors, with only the feeds that they depend on: there are thousands of feeds."""
    fetches = [name for case in cases for name in case.fetches]
    graph = table.graph
    seen, todo = set(), [graph.as_graph_element(name).op if ":" in name else graph.get_operation_by_name(name)
                         for name in fetches]
    while todo:
        op = todo.pop()
        if op not in seen:
            seen.add(op)
            todo += [t.op for t in op.inputs] + list(op.control_inputs)
    needed = {op.name + ":0" for op in seen}
    return Step(feeds={name: value for name, value in table.feeds.items() if name in needed}, fetches=fetches)


class CompareTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.ops = {name: op for name, op in registered_ops().items() if not name.startswith("Thalweg")}  # our own
        cls.table = cases.build(set(cls.ops))
        cls.types = {op.name: op.type for op in cls.table.graph.get_operations()}

    def report(self, problems, total):
        if problems:
            self.fail(f"{len(problems)} of {total} differ:\n" + "\n".join(sorted(problems)))

    def run_all(self, run, cases):
        """The values of each case. A step contains many cases; if it fails, each case runs separately."""
        batches = [cases[i:i + 200] for i in range(0, len(cases), 200)]
        steps = [step_of(self.table, batch) for batch in batches]
        together = run(self.table.graph, steps)
        failed = [case for batch, values in zip(batches, together) if isinstance(values, Failure) for case in batch]
        singly = iter(run(self.table.graph, [step_of(self.table, [case]) for case in failed]) if failed else [])
        for batch, values in zip(batches, together):
            if isinstance(values, Failure):
                yield from (next(singly) for _ in batch)
            else:
                values = iter(values)
                yield from ([next(values) for _ in case.fetches] for case in batch)

    def test_values(self):
        cases = self.table.cases
        theirs = list(self.run_all(run_tensorflow, cases))
        for flags in ((), ("--nooptimize",)):
            with self.subTest(flags=flags):
                ours = self.run_all(lambda graph, steps: run_thalweg(graph, steps, flags), cases)
                problems = []
                for case, a, b in zip(cases, ours, theirs):
                    if isinstance(b, Failure):
                        problems.append(f"{case.label}: not a case, TensorFlow fails: {b.message!r}")
                    elif isinstance(a, Failure):
                        problems.append(f"{case.label}: {a.message[:200]!r}")
                    else:
                        found = [difference(x, y, case.tolerance) for x, y in zip(a, b)]
                        problems += [f"{case.label} [{i}]: {text}" for i, text in enumerate(found) if text]
                self.report(problems, len(cases))

    def test_errors(self):
        steps = [step_of(self.table, [case]) for case in self.table.failing]
        ours, theirs = run_thalweg(self.table.graph, steps), run_tensorflow(self.table.graph, steps)
        problems = []
        for case, a, b in zip(self.table.failing, ours, theirs):
            if not isinstance(b, Failure):
                problems.append(f"{case.label}: not a case, TensorFlow does not fail")
            elif not isinstance(a, Failure):
                problems.append(f"{case.label}: gives a value, TensorFlow fails: {b.message!r}")
            elif a.code != b.code:
                problems.append(f"{case.label}: code {a.code} {a.message[:200]!r}, TensorFlow's {b.code} {b.message!r}")
        self.report(problems, len(steps))

    def test_every_op_is_compared(self):
        removed = {op for op in self.ops if op_def_registry.get(op).deprecation.version}  # no new graph has them
        elsewhere = removed | NOT_COMPARED.keys() | stateful_ops.ELSEWHERE
        missing = self.ops.keys() - set(self.types.values()) - elsewhere
        self.assertEqual(sorted(missing), [], "add cases for them to python/tests/cases")


if __name__ == "__main__":
    tf.compat.v1.disable_eager_execution()
    unittest.main()
