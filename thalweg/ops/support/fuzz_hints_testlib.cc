// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/fuzz_hints_testlib.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/state/variable_update.h"
#include "thalweg/tensor/resource_handle.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

// Ops by name, '*' for anything. Inputs by name:
//   x:[2,3]        small numbers of the input's type; a resource is a variable of them
//   x:[3]<4        integers below 4; x:[3]/4: the same, sorted
//   x:[2]=0,-1     these
//   x:"text"       a scalar; x:[2]"text" of a shape; "@png", "@jpeg", "@gif", "@bmp", "@tensor" are such
// Attributes as name=value, lists in brackets.
constexpr FuzzHint kHints[] = {
    {"*SparseApply*",
     "var:[4,2] accum:[4,2] accum_update:[4,2] ms:[4,2] mg:[4,2] mom:[4,2] linear:[4,2] gradient_accumulator:[4,2] "
     "gradient_squared_accumulator:[4,2] lr:[] rho:[] epsilon:[] momentum:[] l1:[] l2:[] lr_power:[]=-1 "
     "l2_shrinkage:[] alpha:[] global_step:[]=1 grad:[3,2] indices:[3]<4",
     ""},
    {"*Apply*",
     "var:[4,2] accum:[4,2] accum_update:[4,2] ms:[4,2] mg:[4,2] mom:[4,2] linear:[4,2] gradient_accumulator:[4,2] "
     "gradient_squared_accumulator:[4,2] m:[4,2] v:[4,2] vhat:[4,2] lr:[] rho:[] epsilon:[] momentum:[] l1:[] l2:[] "
     "lr_power:[]=-1 l2_shrinkage:[] alpha:[] beta:[] beta1:[] beta2:[] beta1_power:[] beta2_power:[] sign_decay:[] "
     "logbase:[] global_step:[]=1 grad:[4,2] delta:[4,2]",
     ""},
    {"MatrixTriangularSolve BandedTriangularSolve", "matrix:[2,2] rhs:[2,2]", ""},
    {"BoostedTreesCalculateBestGainsPerFeature",
     "node_id_range:[2]=0,2 stats_summary_list:[3,4,2] l1:[] l2:[]=1 tree_complexity:[] min_node_weight:[]=0",
     "max_splits=3 num_features=2"},
    {"BoostedTreesAggregateStats", "node_ids:[3]<2 gradients:[3,1] hessians:[3,1] feature:[3,2]<4",
     "max_splits=2 num_buckets=4"},
    {"BoostedTreesSparseAggregateStats",
     "node_ids:[2]<2 gradients:[2,1] hessians:[2,1] feature_indices:[2,2]=0,1,1,0 feature_values:[2]<4 "
     "feature_shape:[2]=2,2",
     "max_splits=2 num_buckets=4"},
    {"BoostedTreesCalculateBestFeatureSplit",
     "node_id_range:[2]=0,2 stats_summary:[2,2,4,2] l1:[] l2:[]=1 tree_complexity:[] min_node_weight:[]=0",
     "logits_dimension=1"},
    {"BoostedTreesSparseCalculateBestFeatureSplit",
     "node_id_range:[2]=0,2 stats_summary_indices:[2,4]=0,0,1,0,0,0,1,1 stats_summary_values:[2] "
     "stats_summary_shape:[4]=2,2,4,2 l1:[] l2:[]=1 tree_complexity:[] min_node_weight:[]=0",
     "logits_dimension=1"},
    {"SdcaOptimizer*",
     "sparse_example_indices:[2]=0,1 sparse_feature_indices:[2]=0,1 sparse_feature_values:[2] dense_features:[2,3] "
     "example_weights:[2]=1,1 example_labels:[2]=0,1 sparse_indices:[2]=0,1 sparse_weights:[2] dense_weights:[3] "
     "example_state_data:[2,4]=0,0,0,0,0,0,0,0",
     "num_sparse_features=1 num_sparse_features_with_values=1 num_dense_features=1 l1=0 l2=1"},
    {"Reshape", "tensor:[2,3] shape:[2]=3,-1", ""},
    {"BatchNormWithGlobalNormalization*", "t:[1,2,2,3] m:[3] v:[3] beta:[3] gamma:[3] backprop:[1,2,2,3]", ""},
    {"CombinedNonMaxSuppression",
     "boxes:[2,4,1,4] scores:[2,4,3] max_output_size_per_class:[]=2 max_total_size:[]=3 iou_threshold:[]=1 "
     "score_threshold:[]=0",
     ""},
    {"_FusedMatMul", "a:[2,3] b:[3,4] args:[4]", "num_args=1 fused_ops=[BiasAdd,Relu]"},
    {"_FusedConv2D", "input:[1,4,4,2] filter:[2,2,2,3] args:[3]",
     "num_args=1 fused_ops=[BiasAdd,Elu] strides=[1,1,1,1] padding=SAME data_format=NHWC filter_format=HWIO "
     "num_host_args=0"},
    {"_UnaryOpsComposition", "x:[2,3]", "op_names=[Abs,Sqrt,Tanh]"},
    {"CompareAndBitpack", "input:[2,16] threshold:[]", ""},
    {"QuantizedResizeBilinear", "images:[1,3,4,2] size:[2]=5,6 min:[]=0 max:[]=1", "half_pixel_centers=false"},
    {"ExtractGlimpse*", "input:[2,4,4,1] size:[2]=2,3 offsets:[2,2]", "noise=uniform uniform_noise=true"},
    {"ImageProjectiveTransform*", "images:[2,3,3,1] transforms:[1,8] output_shape:[2]=4,2 fill_value:[]",
     "interpolation=BILINEAR fill_mode=REFLECT"},
    {"AdjustHsvInYiq", "images:[2,2,3] delta_h:[] scale_s:[] scale_v:[]", "T=float"},
    {"BipartiteMatch", "distance_mat:[2,3] num_valid_rows:[]=-1", ""},
    {"ImageConnectedComponents", "image:[2,3,3]", ""},
    {"DecodeLibsvm", "input:[2]\"1 1:2.5 3:4\"", "num_features=4 dtype=float"},
    {"ReduceSlice*", "data:[4,3] indices:[2,2]=0,2,1,4 axis:[]=0", ""},
    {"ObtainNext", "list:[2]\"a\" counter:[]=1", ""},
    {"TensorForestTreePredict", "dense_features:[2,3]", "logits_dimension=2"},
    {"TensorForest*", "tree_config:\"\"", ""},
    {"QuantizedBiasAdd", "input:[2,3] bias:[3] min_input:[]=0 max_input:[]=1 min_bias:[]=0 max_bias:[]=1", ""},
    {"StochasticCastToInt", "input:[2,3] key:[1] counter:[2] alg:[]=1", ""},
    {"SparseToDense", "sparse_indices:[2]=0,2 output_shape:[1]=4 sparse_values:[2] default_value:[]", ""},
    {"StringToHashBucketStrong", "", "key=[1,2] num_buckets=5"},
    {"InTopKV2", "predictions:[2,3] targets:[2]<3 k:[]=2", ""},
    {"InTopK", "predictions:[2,3] targets:[2]<3", "k=2"},
    {"Reverse", "tensor:[2,3] dims:[2]", ""},
    {"AdjustHue AdjustSaturation", "images:[2,2,3] delta:[] scale:[]", ""},
    {"ConcatOffset", "concat_dim:[]=0 shape:[2]=2,3", ""},
    {"CountUpTo", "ref:[]=1", "limit=5"},
    {"StatelessMultinomial", "logits:[2,3] num_samples:[]=4 seed:[2]=1,2", ""},
    {"StatelessRandomBinomial", "shape:[2]=2,3 seed:[2]=1,2 counts:[3] probs:[3]", ""},
    {"StatelessParameterizedTruncatedNormal",
     "shape:[1]=4 seed:[2]=1,2 means:[] stddevs:[]=1 minvals:[]=-1 maxvals:[]=1", ""},
    {"ExtractVolumePatches", "input:[1,3,3,3,1]", "ksizes=[1,2,2,2,1] strides=[1,1,1,1,1] padding=VALID"},
    {"DepthwiseConv2dNative", "input:[1,4,4,2] filter:[3,3,2,2]",
     "strides=[1,1,1,1] padding=SAME data_format=NHWC dilations=[1,1,1,1] explicit_paddings=[]"},
    {"Dilation2D", "input:[1,4,4,2] filter:[2,2,2]", "strides=[1,1,1,1] rates=[1,1,1,1] padding=SAME"},
    {"QuantizeAndDequantizeV3", "input:[2,3] input_min:[]=-1 input_max:[]=1 num_bits:[]=8", "axis=-1"},
    {"RFFT2D", "input:[3,4] fft_length:[2]=3,4", ""},
    {"RFFT3D", "input:[3,4,2] fft_length:[3]=3,4,2", ""},
    {"FakeQuantWithMinMaxVarsGradient", "inputs:[2,3] gradients:[2,3] min:[]=-1 max:[]=1", "num_bits=8"},
    {"AvgPoolGrad", "orig_input_shape:[4]=2,4,4,3 grad:[2,2,2,3]",
     "ksize=[1,2,2,1] strides=[1,2,2,1] padding=VALID data_format=NHWC"},
    {"AvgPool3DGrad", "orig_input_shape:[5]=1,4,4,4,2 grad:[1,2,2,2,2]",
     "ksize=[1,2,2,2,1] strides=[1,2,2,2,1] padding=VALID data_format=NDHWC"},
    {"MaxPool3DGrad", "orig_input:[1,4,4,4,2] orig_output:[1,2,2,2,2] grad:[1,2,2,2,2]",
     "ksize=[1,2,2,2,1] strides=[1,2,2,2,1] padding=VALID data_format=NDHWC"},
    {"MaxPool3DGradGrad", "orig_input:[1,4,4,4,2] orig_output:[1,2,2,2,2] grad:[1,4,4,4,2]",
     "ksize=[1,2,2,2,1] strides=[1,2,2,2,1] padding=VALID data_format=NDHWC"},
    {"MaxPoolGradWithArgmax", "input:[1,4,4,1] grad:[1,2,2,1] argmax:[1,2,2,1]<16",
     "ksize=[1,2,2,1] strides=[1,2,2,1] padding=VALID"},
    {"MaxPoolGradGrad*",
     "orig_input:[2,4,4,3] orig_output:[2,2,2,3] grad:[2,4,4,3] ksize:[4]=1,2,2,1 strides:[4]=1,2,2,1",
     "ksize=[1,2,2,1] strides=[1,2,2,1] padding=VALID data_format=NHWC"},
    {"MaxPoolGrad* MaxPoolV2",
     "input:[2,4,4,3] orig_input:[2,4,4,3] orig_output:[2,2,2,3] grad:[2,2,2,3] ksize:[4]=1,2,2,1 strides:[4]=1,2,2,1",
     "ksize=[1,2,2,1] strides=[1,2,2,1] padding=VALID data_format=NHWC explicit_paddings=[]"},
    {"Fractional*PoolGrad",
     "orig_input_tensor_shape:[4]=1,4,4,1 orig_input:[1,4,4,1] orig_output:[1,2,2,1] out_backprop:[1,2,2,1] "
     "row_pooling_sequence:[3]=0,2,4 col_pooling_sequence:[3]=0,2,4",
     ""},
    {"Fractional*Pool", "value:[1,4,4,1]", "pooling_ratio=[1,1.5,1.5,1]"},
    {"DepthwiseConv2dNativeBackprop*",
     "input:[1,4,4,2] input_sizes:[4]=1,4,4,2 filter:[3,3,2,2] filter_sizes:[4]=3,3,2,2 out_backprop:[1,4,4,4]",
     "strides=[1,1,1,1] padding=SAME data_format=NHWC dilations=[1,1,1,1] explicit_paddings=[]"},
    {"Conv2DBackprop*",
     "input:[1,4,4,2] input_sizes:[4]=1,4,4,2 filter:[3,3,2,3] filter_sizes:[4]=3,3,2,3 out_backprop:[1,4,4,3]",
     "strides=[1,1,1,1] padding=SAME data_format=NHWC dilations=[1,1,1,1] explicit_paddings=[]"},
    {"Conv3DBackprop*",
     "input:[1,3,3,3,2] input_sizes:[5]=1,3,3,3,2 filter:[2,2,2,2,3] filter_sizes:[5]=2,2,2,2,3 "
     "out_backprop:[1,3,3,3,3]",
     "strides=[1,1,1,1,1] padding=SAME data_format=NDHWC dilations=[1,1,1,1,1]"},
    {"Dilation2DBackprop*", "input:[1,4,4,2] filter:[2,2,2] out_backprop:[1,4,4,2]",
     "strides=[1,1,1,1] rates=[1,1,1,1] padding=SAME"},
    {"Conv", "input:[1,4,4,2] filter:[3,3,2,3]",
     "strides=[1,1,1,1] padding=SAME dilations=[] explicit_paddings=[] data_format=CHANNELS_LAST batch_dims=1 "
     "groups=1"},
    {"FusedBatchNormGrad*",
     "y_backprop:[2,3,3,2] x:[2,3,3,2] scale:[2] reserve_space_1:[2] reserve_space_2:[2] reserve_space_3:[2]",
     "data_format=NHWC"},
    {"FusedBatchNorm*", "x:[2,3,3,2] scale:[2] offset:[2] mean:[0] variance:[0]", "data_format=NHWC is_training=true"},
    {"BlockLSTM*",
     "seq_len_max:[]=2 x:[2,1,3] cs_prev:[1,2] h_prev:[1,2] w:[5,8] wci:[2] wcf:[2] wco:[2] b:[8] i:[2,1,2] cs:[2,1,2] "
     "f:[2,1,2] o:[2,1,2] ci:[2,1,2] co:[2,1,2] h:[2,1,2] cs_grad:[2,1,2] h_grad:[2,1,2]",
     ""},
    {"LSTMBlockCell*",
     "x:[1,3] cs_prev:[1,2] h_prev:[1,2] w:[5,8] wci:[2] wcf:[2] wco:[2] b:[8] i:[1,2] cs:[1,2] f:[1,2] o:[1,2] "
     "ci:[1,2] co:[1,2] cs_grad:[1,2] h_grad:[1,2]",
     ""},
    {"GRUBlockCell*", "x:[1,3] h_prev:[1,2] w_ru:[5,4] w_c:[5,2] b_ru:[4] b_c:[2] r:[1,2] u:[1,2] c:[1,2] d_h:[1,2]",
     ""},
    {"Roll", "input:[2,3] shift:[2]=1,-2 axis:[2]=0,1", ""},
    {"Cross", "a:[2,3] b:[2,3]", ""},
    {"SparseMatMul", "a:[2,3] b:[3,2]", "transpose_a=false transpose_b=false"},
    {"*MatrixSetDiag*", "input:[2,3,4] diagonal:[2,3] k:[]=0", ""},
    {"MatrixDiagPart*", "input:[2,3,4] k:[]=1 padding_value:[]", ""},
    {"MatrixDiag*", "diagonal:[2,3] k:[]=-1 num_rows:[]=-1 num_cols:[]=-1 padding_value:[]", ""},
    {"BatchToSpace*", "input:[4,2,2,1] crops:[2,2]=0,0,0,0 block_shape:[2]=2,2", "block_size=2"},
    {"SpaceToBatch*", "input:[1,4,4,1] paddings:[2,2]=0,0,0,0 block_shape:[2]=2,2", "block_size=2"},
    {"DepthToSpace", "input:[1,2,2,4]", "block_size=2 data_format=NHWC"},
    {"CTCBeam*", "inputs:[3,2,3] sequence_length:[2]=3,2", "beam_width=3 top_paths=2"},
    {"CTC*", "inputs:[3,2,3] labels_indices:[2,2]=0,0,1,0 labels_values:[2]<2 sequence_length:[2]=3,2", ""},
    {"ComputeAccidentalHits", "true_classes:[2,1]<5 sampled_candidates:[4]<5", "num_true=1"},
    {"*CandidateSampler", "true_classes:[2,1]<5",
     "num_true=1 num_sampled=3 range_max=5 unique=false vocab_file= num_reserved_ids=0 num_shards=1 shard=0 "
     "distortion=1 unigrams=[1,2,3,1,1]"},
    {"CropAndResize*",
     "image:[1,4,4,1] boxes:[2,4] box_ind:[2]=0,0 crop_size:[2]=2,3 grads:[2,2,3,1] image_size:[4]=1,4,4,1", ""},
    {"DrawBoundingBoxes*", "images:[1,4,4,3] boxes:[1,2,4] colors:[1,3]", ""},
    {"NonMaxSuppression*",
     "boxes:[3,4] scores:[3] overlaps:[3,3] max_output_size:[]=2 iou_threshold:[]=0.5 overlap_threshold:[]=0.5 "
     "score_threshold:[]=0.1 soft_nms_sigma:[]=0",
     "iou_threshold=0.5"},
    {"*SampleDistortedBoundingBox*",
     "image_size:[3]=9,9,3 bounding_boxes:[1,1,4]=0,0,1,1 min_object_covered:[]=0.1 seed:[2]=1,2",
     "aspect_ratio_range=[0.75,1.33] area_range=[0.05,1] min_object_covered=0.1 max_attempts=20"},
    {"ScaleAndTranslate*",
     "images:[1,3,3,1] size:[2]=2,4 scale:[2] translation:[2] grads:[1,2,4,1] original_image:[1,3,3,1]",
     "kernel_type=lanczos3"},
    {"Resize*Grad", "grads:[1,2,4,1] original_image:[1,3,3,1] size:[2]=3,3", ""},
    {"Resize*", "images:[1,3,3,1] size:[2]=2,4", "half_pixel_centers=false"},
    {"DecodePng DecodeImage", "contents:\"@png\"", "channels=0"},
    {"DecodeBmp", "contents:\"@bmp\"", "channels=0"},
    {"DecodeGif", "contents:\"@gif\"", ""},
    {"FusedPadConv2D FusedResizeAndPadConv2D",
     "input:[1,4,4,2] size:[2]=5,3 paddings:[4,2]=0,0,1,1,1,0,0,0 filter:[3,3,2,3]",
     "strides=[1,1,1,1] padding=SAME mode=REFLECT"},
    {"DecodeAndCropJpeg DecodeJpeg ExtractJpegShape", "contents:\"@jpeg\" crop_window:[4]=0,0,1,2",
     "channels=0 ratio=1"},
    {"EncodeJpeg*", "image:[2,3,3] images:[2,3,3] quality:[]=50", "quality=90 format="},
    {"DecodeCSV", "records:[2]\"1.5\" record_defaults:[0]", "OUT_TYPE=[float] field_delim=, select_cols=[]"},
    {"DecodePaddedRaw", "input_bytes:[2]\"abcd\" fixed_length:[]=4", "out_type=uint8"},
    {"ParseTensor", "serialized:\"@tensor\"", "out_type=float"},
    {"DecodeProtoV2", "bytes:[2]\"@tensor\"",
     "message_type=tensorflow.TensorProto field_names=[dtype,float_val,tensor_shape] output_types=[int32,float,string] "
     "descriptor_source=local:// message_format=binary"},
    {"EncodeProto", "sizes:[2,2]=1,1,2,0 values:[2,2]",
     "message_type=tensorflow.TensorProto field_names=[float_val,double_val] Tinput_types=[float,double] "
     "descriptor_source=local://"},
    {"ParseExample", "serialized:[1]\"\" names:[0]", "Nsparse=0 Ndense=0 sparse_types=[] Tdense=[] dense_shapes=[]"},
    {"ParseExampleV2", "serialized:[1]\"\" names:[0] sparse_keys:[0] dense_keys:[0] ragged_keys:[0]",
     "num_sparse=0 sparse_types=[] Tdense=[] dense_shapes=[] ragged_value_types=[] ragged_split_types=[]"},
    {"ParseSingleExample", "serialized:\"\"",
     "num_sparse=0 sparse_keys=[] dense_keys=[] sparse_types=[] Tdense=[] dense_shapes=[]"},
    {"StringToNumber", "string_tensor:[2]\"1.5\"", ""},
    {"UnicodeEncode", "input_values:[3]=97,98,20320 input_splits:[3]=0,2,3", "output_encoding=UTF-8"},
    {"Unicode*", "input:[2]\"abc\"", "input_encoding=UTF-8 output_encoding=UTF-16-BE"},
    {"DenseToDenseSetOperation", "set1:[2,2] set2:[2,3]", "set_operation=union T=int32"},
    {"*SetOperation SetSize",
     "set1:[2,2] set1_indices:[2,2]=0,0,1,0 set1_values:[2] set1_shape:[2]=2,2 set2_indices:[2,2]=0,0,1,0 "
     "set2_values:[2] set2_shape:[2]=2,2 set_indices:[2,2]=0,0,1,0 set_values:[2] set_shape:[2]=2,2",
     "set_operation=intersection T=int32"},
    {"EditDistance",
     "hypothesis_indices:[2,2]=0,0,0,1 hypothesis_values:[2] hypothesis_shape:[2]=1,2 truth_indices:[1,2]=0,0 "
     "truth_values:[1] truth_shape:[2]=1,1",
     ""},
    {"Einsum", "inputs:[2,2]", "equation=ij,jk->ik N=2"},
    {"FakeQuantWithMinMaxVarsPerChannel*", "inputs:[2,3] gradients:[2,3] min:[3]=-1,-2,0 max:[3]=1,1,1", "num_bits=8"},
    {"Fingerprint", "data:[2,3] method:\"farmhash64\"", ""},
    {"HistogramFixedWidth", "values:[5] value_range:[2]=0,5 nbins:[]=3", ""},
    {"IRFFT3D", "input:[2,2,2,2] fft_length:[3]=2,2,2", ""},
    {"ImageSummary WriteImageSummary", "tag:\"t\" tensor:[1,2,2,1] bad_color:[4] step:[]=1", ""},
    {"AudioSummary* WriteAudioSummary", "tag:\"t\" tensor:[1,4] sample_rate:[]=8 step:[]=1", "sample_rate=8"},
    {"Inplace*", "x:[3,2] i:[2]<3 v:[2,2]", ""},
    {"Max", "input:[2,3] reduction_indices:[1]<2", ""},
    {"Pad PadV2 MirrorPad", "input:[2,3] paddings:[2,2]=1,0,0,1 constant_values:[]", ""},
    {"MirrorPadGrad", "input:[3,4] paddings:[2,2]=1,0,0,1", "mode=SYMMETRIC"},
    {"*ParameterizedTruncatedNormal",
     "shape:[1]=4 seed:[2]=1,2 means:[1] stdevs:[1] stddevs:[1] minvals:[1]=-1 maxvals:[1]=1", ""},
    {"StatelessRandom* StatelessTruncated*",
     "shape:[1]=4 seed:[2]=1,2 key:[1]=5 counter:[2]=1,2 alg:[]=1 minval:[]=0 maxval:[]=9 alpha:[4] lam:[4]", ""},
    {"RaggedCross",
     "ragged_values:[3] ragged_row_splits:[3]=0,1,3 sparse_indices:[2,2]=0,0,1,0 sparse_values:[2] "
     "sparse_shape:[2]=2,1 "
     "dense_inputs:[2,1]",
     "Nsparse=1 input_order=RSD ragged_values_types=[string] ragged_splits_types=[int64] sparse_values_types=[string] "
     "dense_types=[int64] hashed_output=true out_values_type=int64 num_buckets=7"},
    {"RaggedBincount", "splits:[3]=0,2,4 values:[4] size:[]=3 weights:[4]", ""},
    {"RaggedFillEmptyRowsGrad SparseFillEmptyRowsGrad", "reverse_index_map:[2]=0,2 grad_values:[4]", ""},
    {"RaggedFillEmptyRows", "value_rowids:[3]/4 values:[3] nrows:[]=4 default_value:[]", ""},
    {"RaggedGather", "params_nested_splits:[3]=0,2,4 params_dense_values:[4] indices:[2]<2",
     "PARAMS_RAGGED_RANK=1 OUTPUT_RAGGED_RANK=1"},
    {"RaggedTensorToTensor", "shape:[2]=-1,-1 values:[4] default_value:[] row_partition_tensors:[3]=0,2,4",
     "num_row_partition_tensors=1 row_partition_types=[ROW_SPLITS]"},
    {"CollectiveAssignGroupV2", "group_assignment:[2,2]=0,1,2,3 device_index:[]=1 base_key:[]=5", ""},
    {"CollectiveInitializeCommunicator", "group_key:[]=1 rank:[]=0 group_size:[]=2", ""},
    {"Requantiz*PerChannel",
     "input:[1,2,2,3] input_min:[3] input_max:[3] requested_output_min:[]=-1 requested_output_max:[]=1",
     "clip_value_max=3"},
    {"RaggedTensorToVariantGradient", "encoded_ragged_grad:[2] row_splits:[3]=0,2,4 dense_values_shape:[1]=4", ""},
    {"RaggedTensorToSparse RaggedTensorToVariant", "rt_nested_splits:[3]=0,2,4 rt_dense_values:[4]", "RAGGED_RANK=1"},
    {"ResourceGatherNd ResourceScatterNd* ScatterNd? ScatterNd??? ScatterNdUpdate TensorScatter* "
     "ScatterNdNonAliasingAdd",
     "resource:[4,2] ref:[4,2] tensor:[4,2] input:[4,2] params:[4,2] indices:[3,1]<4 updates:[3,2]", ""},
    {"ScatterNd", "indices:[3,1]<4 updates:[3,2] shape:[2]=4,2", ""},
    {"ResourceGather ResourceScatter* Scatter*", "resource:[4,2] ref:[4,2] indices:[3]<4 updates:[3,2]",
     "batch_dims=0"},
    {"AssignSubVariableOp AssignAddVariableOp", "resource:[3] value:[3]", ""},
    {"ResourceCountUpTo", "resource:[]", "T=int32 limit=5"},
    {"*StridedSliceAssign StridedSliceGrad TensorStridedSliceUpdate",
     "ref:[4,2] input:[4,2] shape:[2]=4,2 begin:[1]=1 end:[1]=3 strides:[1]=1 value:[2,2] dy:[2,2]",
     "begin_mask=0 end_mask=0 ellipsis_mask=0 new_axis_mask=0 shrink_axis_mask=0"},
    {"GatherTree", "step_ids:[3,2,2]<4 parent_ids:[3,2,2]<2 max_sequence_lengths:[2]=3,2 end_token:[]=3", ""},
    {"SkipGram*", "input_tensor:[9] min_skips:[]=1 max_skips:[]=3 start:[]=1 limit:[]=-1 emit_self_as_target:[]", ""},
    {"Slice", "input:[3,4] begin:[2]=1,0 size:[2]=2,-1", ""},
    {"ReverseSequence", "input:[2,3] seq_lengths:[2]<3", "seq_dim=1 batch_dim=0"},
    {"SparseAdd",
     "a_indices:[2,1]=0,2 a_values:[2] a_shape:[1]=4 b_indices:[2,1]=1,2 b_values:[2] b_shape:[1]=4 thresh:[]=0", ""},
    {"SparseAddGrad", "backprop_val_grad:[3] a_indices:[2,1]=0,2 b_indices:[2,1]=1,2 sum_indices:[3,1]=0,1,2", ""},
    {"Resampler*", "data:[2,3,4,2] warp:[2,5,2] grad_output:[2,5,2]", ""},
    {"MaskedMatmul", "a:[3,2] b:[2,4] mask_indices:[5,2]<3 transpose_a:[]=0 transpose_b:[]=0", ""},
    {"WALSComputePartialLhsAndRhs",
     "factors:[3,2] factor_weights:[0] unobserved_weights:[] input_weights:[0] input_indices:[4,2]<3 input_values:[4] "
     "entry_weights:[4] input_block_size:[]=3 input_is_transpose:[]=0",
     ""},
    {"SparseConcat", "indices:[2,2]=0,0,1,1 values:[2] shapes:[2]=2,2", "concat_dim=0 N=2"},
    {"SparseCross*",
     "indices:[2,2]=0,0,1,0 values:[2] shapes:[2]=2,1 dense_inputs:[2,1] sep:\"x\" num_buckets:[]=5 strong_hash:[]=0 "
     "salt:[2]",
     "N=1 sparse_types=[string] dense_types=[int64] hashed_output=true out_type=int64 internal_type=int64 "
     "num_buckets=7"},
    {"SparseFeatureCross*", "indices:[2,2]=0,0,1,0 values:[2] shapes:[2]=2,1 dense:[2,1]",
     "N=1 sparse_types=[string] dense_types=[int64] hashed_output=true out_type=int64 internal_type=int64 "
     "num_buckets=7"},
    {"SparseSegment*Grad*", "grad:[2,2] indices:[3]<4 segment_ids:[3]/2 output_dim0:[]=4 dense_output_dim0:[]=4", ""},
    {"SparseSegment*", "data:[4,2] indices:[3]<4 segment_ids:[3]/2 num_segments:[]=3", ""},
    {"SparseSlice", "indices:[2,2]=0,0,1,1 values:[2] shape:[2]=2,2 start:[2]=0,0 size:[2]=1,2", ""},
    {"SparseSliceGrad",
     "backprop_val_grad:[1] input_indices:[2,2]=0,0,1,1 input_start:[2]=0,0 output_indices:[1,2]=0,0", ""},
    {"SparseSoftmaxCrossEntropyWithLogits", "features:[3,4] labels:[3]<4", ""},
    {"SparseSplit", "split_dim:[]=0 indices:[2,2]=0,0,1,1 values:[2] shape:[2]=2,2", "num_split=2"},
    {"SparseDenseCwise*", "sp_indices:[2,2]=0,0,1,1 sp_values:[2] sp_shape:[2]=2,2 dense:[2,2]", ""},
    {"SparseTensorDenseAdd SparseTensorDenseMatMul", "a_indices:[2,2]=0,0,1,1 a_values:[2] a_shape:[2]=2,2 b:[2,2]",
     ""},
    {"SplitV", "value:[4,2] size_splits:[2]=1,3 split_dim:[]=0", "num_split=2"},
    {"TridiagonalMatMul", "superdiag:[1,3] maindiag:[1,3] subdiag:[1,3] rhs:[3,2]", "T=double"},
    {"TridiagonalSolve", "diagonals:[3,3] rhs:[3,2]", "T=double"},
    {"UniqueV2 UniqueWithCountsV2", "x:[4] axis:[1]=0", ""},
    {"UnravelIndex", "indices:[2]<5 dims:[2]=2,3", ""},
    {"UnsortedSegment*", "inputs:[3] data:[3,2] segment_ids:[3]<2 num_segments:[]=2", ""},
    {"TensorSummaryV2", "tag:\"t\" tensor:[2] serialized_summary_metadata:\"\"", "T=float"},
    {"RangeDataset", "start:[]=0 stop:[]=5 step:[]=1", "output_types=[int64] output_shapes=[[]]"},
    {"SaveV2", "prefix:\"saved\" tensor_names:[1]\"a\" shape_and_slices:[1]\"\" tensors:[2]", "dtypes=[float]"},
    {"RestoreV2", "prefix:\"saved\" tensor_names:[1]\"a\" shape_and_slices:[1]\"\"", "dtypes=[float]"},
    {"Save", "filename:\"saved1\" tensor_names:[1]\"a\" data:[2]", "T=[float]"},
    {"SaveSlices", "filename:\"saved2\" tensor_names:[1]\"a\" shapes_and_slices:[1]\"\" data:[2]", "T=[float]"},
    {"CreateSummaryFileWriter", "logdir:\"logs\" max_queue:[]=1 flush_millis:[]=9 filename_suffix:\"\"", ""},
    {"TensorArrayWrite*", "index:[]=0 value:[2] flow_in:[]", ""},
    {"TensorArrayRead*", "index:[]=0 flow_in:[]", ""},
    {"TensorArrayScatter* TensorArrayUnpack", "indices:[2]=0,1 value:[2,3] flow_in:[]", ""},
    {"TensorArrayGather*", "indices:[2]=0,1 flow_in:[]", ""},
    {"TensorArraySplit*", "value:[4] lengths:[2]=1,3 flow_in:[]", ""},
    {"TensorArrayV3 TensorArrayV2 TensorArray", "size:[]=2", "dynamic_size=true clear_after_read=false"},
    {"QueueEnqueueMany*", "components:[2]", "timeout_ms=-1"},
    {"QueueEnqueue*", "components:[]", "timeout_ms=-1"},
    {"QueueDequeueMany* QueueDequeueUpTo*", "n:[]=1", "timeout_ms=-1"},
    {"PaddingFIFOQueue*", "", "component_types=[float] shapes=[[]] capacity=5"},
    {"FIFOQueue*", "", "shapes=[] capacity=5"},
    {"StackPush*", "elem:[2]", "swap_memory=false"},
    {"BarrierInsertMany", "keys:[2]\"k\" values:[2]", "component_index=0"},
    {"BarrierTakeMany", "num_elements:[]=1", "component_types=[float]"},
    {"Barrier", "", "component_types=[float] shapes=[] capacity=-1"},
    {"*AccumulatorApplyGradient", "local_step:[]=0 gradient:[2]", "has_known_shape=false"},
    {"*AccumulatorTakeGradient", "num_required:[]=1", ""},
    {"*ConditionalAccumulator", "", "reduction_type=MEAN"},
    {"LookupTableInsert*", "keys:[2] values:[2]", ""},
    {"LookupTableFind*", "keys:[2] default_value:[]", ""},
    {"InitializeTable InitializeTableV2", "keys:[2]=1,2 values:[2]", ""},
    {"RaggedTensorFromVariant", "", "input_ragged_rank=-1 output_ragged_rank=1"},
    {"TensorListFromTensor TensorListSplit TensorListScatter*",
     "tensor:[3,2] element_shape:[1]=2 lengths:[1]=3 indices:[3]=0,1,2 num_elements:[]=-1", ""},
    {"TensorListReserve", "element_shape:[1]=2 num_elements:[]=3", ""},
    {"EmptyTensorList", "element_shape:[1]=2 max_num_elements:[]=-1", ""},
    {"TensorListPushBack", "tensor:[2]", ""},
    {"TensorListSetItem", "index:[]=1 item:[2]", ""},
    {"TensorListGetItem TensorListStack TensorListGather TensorListPopBack",
     "index:[]=1 element_shape:[1]=2 indices:[2]<3", "num_elements=-1"},
    {"TensorListConcat*", "element_shape:[1]=2 leading_dims:[0]", "element_shape=?"},
    {"WriteScalarSummary WriteHistogramSummary WriteSummary",
     "step:[]=1 tag:\"t\" value:[] values:[3] tensor:[2] summary_metadata:\"\"", ""},
    {"WriteRawProtoSummary WriteGraphSummary ImportEvent", "step:[]=1 tensor:\"\" event:\"\"", ""},
};

// '*' is any text, '?' any character.
bool Matches(absl::string_view pattern, absl::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return Matches(pattern.substr(1), text) || (!text.empty() && Matches(pattern, text.substr(1)));
  }
  if (text.empty() || (pattern[0] != '?' && pattern[0] != text[0])) return false;
  return Matches(pattern.substr(1), text.substr(1));
}

// The text behind "name" and `separator` in a list of such words.
std::optional<std::string> Find(const char* words, absl::string_view name, char separator) {
  for (absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&word, name) && !word.empty() && word[0] == separator) return std::string(word.substr(1));
  }
  return std::nullopt;
}

std::vector<std::string> ListOf(absl::string_view text) {
  absl::ConsumePrefix(&text, "[");
  absl::ConsumeSuffix(&text, "]");
  return absl::StrSplit(text, ',', absl::SkipEmpty());
}

std::string Contents(const std::string& name) {
  if (name == "@tensor") {
    tensorflow::TensorProto proto;
    TensorToProto(Tensor::Vector<float>({1, 2}), &proto);
    return proto.SerializeAsString();
  }
  if (name == "@bmp") {
    std::string bmp(54 + 16, '\0');  // two rows of two pixels, three bytes each and two of padding
    const std::string head = {'B', 'M', 70, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0, 40,
                              0,   0,   0,  2, 0, 0, 0, 2, 0, 0, 0,  1, 0, 24};
    std::copy(head.begin(), head.end(), bmp.begin());
    return bmp;
  }
  if (name == "@gif") {  // one pixel of four colours: 0 after a clear, in codes of three bits
    const char head[] = "GIF89a\1\0\1\0\x81\0\0";
    const char frame[] = ",\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;";
    return std::string(head, sizeof(head) - 1) + "abcdefghijkl" + std::string(frame, sizeof(frame) - 1);
  }
  if (name != "@png" && name != "@jpeg") return name;
  const auto image = RunOp(name == "@png" ? "EncodePng" : "EncodeJpeg", {Tensor::Zeros(kUint8, {2, 3, 3})});
  return image.ok() ? (*image)[0].scalar<std::string>() : "";
}

Tensor Numbers(DType dtype, const Shape& shape, absl::string_view rule, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor t = Tensor::Zeros(dtype, shape);
  double limit = 0;
  const bool below = absl::ConsumePrefix(&rule, "<"), sorted = absl::ConsumePrefix(&rule, "/");
  if (below || sorted) static_cast<void>(absl::SimpleAtod(rule, &limit));
  std::vector<double> values(shape.num_elements());
  if (absl::ConsumePrefix(&rule, "=")) {
    const std::vector<std::string> given = ListOf(rule);
    for (size_t i = 0; i < values.size() && !given.empty(); ++i) {
      static_cast<void>(absl::SimpleAtod(given[i % given.size()], &values[i]));
    }
  } else {
    const bool whole = !IsFloating(dtype) && !IsComplex(dtype);
    for (double& v : values) {
      const double unit = static_cast<double>(random() % 1000) / 1000;
      v = below || sorted ? std::floor(unit * limit) : whole ? std::floor(unit * 2) : 0.05 + 0.9 * unit;
    }
    if (sorted) std::sort(values.begin(), values.end());
  }
  if (dtype == kBool) {
    for (size_t i = 0; i < values.size(); ++i) t.mutable_data<bool>()[i] = values[i] != 0;
  } else if (StorageType(dtype) == dtype) {
    static_cast<void>(Dispatch(NumberTypes(), dtype, [&]<typename T>() {
      for (size_t i = 0; i < values.size(); ++i) t.mutable_data<T>()[i] = static_cast<T>(static_cast<float>(values[i]));
      return absl::OkStatus();
    }));
  }
  return t;
}

Tensor VariableHandle(const Tensor& value, Device& device, uint64_t seed) {
  ResourceHandle handle;
  handle.device = device.name();
  handle.container = device.resources().default_container();
  handle.name = absl::StrCat("hinted", seed);
  handle.type_name = "N10tensorflow3VarE";
  const auto variable = device.resources().FindOrCreate<ResourceVariable>(
      handle.container, handle.name, [&] { return std::make_shared<ResourceVariable>(handle.name, value.dtype()); });
  if (variable.ok()) (*variable)->Assign(value);
  return Tensor::Scalar(std::move(handle));
}

}  // namespace

const FuzzHint* FindFuzzHint(absl::string_view op) {
  for (const FuzzHint& hint : kHints) {
    for (const absl::string_view pattern : absl::StrSplit(hint.ops, ' ')) {
      if (Matches(pattern, op)) return &hint;
    }
  }
  return nullptr;
}

void SetHintedAttrs(const FuzzHint& hint, const tensorflow::OpDef& op, tensorflow::NodeDef* node) {
  for (const auto& attr : op.attr()) {
    const std::optional<std::string> text = Find(hint.attrs, attr.name(), '=');
    if (!text.has_value()) continue;
    tensorflow::AttrValue value;
    const std::string& type = attr.type();
    const auto type_of = [](const std::string& name) {
      const DType dtype = name == "float"    ? kFloat
                          : name == "double" ? kDouble
                          : name == "int32"  ? kInt32
                          : name == "int64"  ? kInt64
                          : name == "uint8"  ? kUint8
                                             : kString;
      return static_cast<tensorflow::DataType>(dtype);
    };
    int64_t number = 0;
    double real = 0;
    static_cast<void>(absl::SimpleAtoi(*text, &number));
    static_cast<void>(absl::SimpleAtod(*text, &real));
    if (type == "int") value.set_i(number);
    if (type == "float") value.set_f(static_cast<float>(real));
    if (type == "bool") value.set_b(*text == "true");
    if (type == "string") value.set_s(*text);
    if (type == "type") value.set_type(type_of(*text));
    if (type == "shape") value.mutable_shape()->set_unknown_rank(true);
    if (absl::StartsWith(type, "list")) {
      auto& list = *value.mutable_list();
      for (const std::string& item : ListOf(*text)) {
        static_cast<void>(absl::SimpleAtoi(item, &number));
        static_cast<void>(absl::SimpleAtod(item, &real));
        if (type == "list(int)") list.add_i(number);
        if (type == "list(float)") list.add_f(static_cast<float>(real));
        if (type == "list(string)") list.add_s(item);
        if (type == "list(type)") list.add_type(type_of(item));
        if (type == "list(shape)") list.add_shape();
      }
    }
    (*node->mutable_attr())[attr.name()] = value;
  }
}

std::optional<Tensor> HintedInput(const FuzzHint& hint, absl::string_view input, DType dtype, DType element,
                                  uint64_t seed, Device& device) {
  const std::optional<std::string> found = Find(hint.inputs, input, ':');
  if (!found.has_value() || dtype == kVariant) return std::nullopt;
  absl::string_view rule = *found;
  Shape shape;
  if (const size_t end = rule.find(']'); absl::StartsWith(rule, "[") && end != rule.npos) {
    for (const std::string& dim : ListOf(rule.substr(0, end + 1))) shape.AddDim(atoll(dim.c_str()));
    rule.remove_prefix(end + 1);
  }
  if (dtype == kString) {
    Tensor t(kString, shape);
    const std::string text =
        absl::StartsWith(rule, "\"") ? Contents(std::string(rule.substr(1, rule.size() - 2))) : "1";
    for (std::string& s : t.flat<std::string>()) s = text;
    return t;
  }
  if (dtype != kResource) return Numbers(dtype, shape, rule, seed);
  if (element == kResource || element == kVariant || !IsKnown(element)) return std::nullopt;
  return VariableHandle(Numbers(element, shape, rule, seed), device, seed);
}

}  // namespace thalweg
