// Ops on images: [batch, height, width, channels], or one image without the
// batch where the .cc says so. Every function adds one node to the graph of its
// scope; see the .cc of the op for what it computes.
#pragma once

#include <cstdint>
#include <string>

#include "thalweg/graph/scope.h"

namespace thalweg {

// Files in memory to pixels and back. `channels` 0 takes what the file has.
struct DecodeJpegOptions {
  int channels = 0;
  int ratio = 1;
  bool fancy_upscaling = true;
  bool try_recover_truncated = false;
  float acceptable_fraction = 1;
  std::string dct_method;  // "", "INTEGER_FAST" or "INTEGER_ACCURATE"
};
Output DecodeJpeg(const Scope& s, Output contents, const DecodeJpegOptions& options = {});
Output DecodePng(const Scope& s, Output contents, int channels = 0, DType dtype = kUint8);
// JPEG, PNG or BMP.
Output DecodeImage(const Scope& s, Output contents, int channels = 0, DType dtype = kUint8);
Output DecodeGif(const Scope& s, Output contents);
Output DecodeBmp(const Scope& s, Output contents, int channels = 0);
Output EncodeJpeg(const Scope& s, Output image, int quality = 95);
Output EncodePng(const Scope& s, Output image, int compression = -1);
Output ExtractJpegShape(const Scope& s, Output contents, DType output_type = kInt32);

struct ResizeOptions {
  bool align_corners = false;
  bool half_pixel_centers = false;
};
Output ResizeBilinear(const Scope& s, Output images, Output size, const ResizeOptions& options = {});
Output ResizeNearestNeighbor(const Scope& s, Output images, Output size, const ResizeOptions& options = {});
Output ResizeBicubic(const Scope& s, Output images, Output size, const ResizeOptions& options = {});
Output ResizeArea(const Scope& s, Output images, Output size, bool align_corners = false);
struct CropAndResizeOptions {
  std::string method = "bilinear";  // or "nearest"
  float extrapolation_value = 0;
};
Output CropAndResize(const Scope& s, Output image, Output boxes, Output box_ind, Output crop_size,
                     const CropAndResizeOptions& options = {});

Output AdjustContrast(const Scope& s, Output images, Output contrast_factor);
Output AdjustHue(const Scope& s, Output images, Output delta);
Output AdjustSaturation(const Scope& s, Output images, Output scale);
Output RgbToHsv(const Scope& s, Output images);
Output HsvToRgb(const Scope& s, Output images);

Output DrawBoundingBoxes(const Scope& s, Output images, Output boxes, Output colors);
Output NonMaxSuppression(const Scope& s, Output boxes, Output scores, Output max_output_size, Output iou_threshold,
                         Output score_threshold);

}  // namespace thalweg
