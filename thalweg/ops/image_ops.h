// SPDX-License-Identifier: Apache-2.0
// Ops on images: [batch, height, width, channels]. Decoders give one image [height,
// width, channels], and the ops on colors take any number of dimensions in front.
#pragma once

#include <cstdint>
#include <string>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"

namespace thalweg {

// ---- files in memory to pixels and back ----

// How the decoder computes the cosine transform.
enum class JpegDct {
  kDefault,          // as the library decides
  kIntegerFast,      // faster, less exact
  kIntegerAccurate,  // exact
};
// How DecodeJpeg decodes: channels, size, and files that were cut off.
struct DecodeJpegOptions {
  int channels = 0;                        // 1 or 3; 0: as the file has
  int ratio = 1;                           // 1, 2, 4 or 8: how many times smaller the image gets
  bool fancy_upscaling = true;             // smooth the colors
  bool try_recover_truncated = false;      // accept a file that was cut off
  float acceptable_fraction = 1;           // the part of such a file that must be there
  JpegDct dct_method = JpegDct::kDefault;  // see JpegDct
};
// The pixels of a JPEG file, uint8 [height, width, channels].
Output DecodeJpeg(const Scope& s, Output contents, const DecodeJpegOptions& options = {});
// The pixels of a PNG file, uint8 or uint16. `channels` 0 takes as many as the file has.
Output DecodePng(const Scope& s, Output contents, int channels = 0, DType dtype = kUint8);
// The pixels of a JPEG, PNG or BMP file.
Output DecodeImage(const Scope& s, Output contents, int channels = 0, DType dtype = kUint8);
// The frames of a GIF file, uint8 [frames, height, width, 3].
Output DecodeGif(const Scope& s, Output contents);
// The pixels of a BMP file.
Output DecodeBmp(const Scope& s, Output contents, int channels = 0);
// A JPEG file of a uint8 image; quality from 0 to 100.
Output EncodeJpeg(const Scope& s, Output image, int quality = 95);
// A PNG file of a uint8 or uint16 image; compression from 0 to 9, -1: the default.
Output EncodePng(const Scope& s, Output image, int compression = -1);
// [height, width, channels] of a JPEG file, without decoding it.
Output ExtractJpegShape(const Scope& s, Output contents, DType output_type = kInt32);

// ---- sizes ----

// Where a resize places the centers of pixels.
struct ResizeOptions {
  bool align_corners = false;       // the centers of the corner pixels stay in place
  bool half_pixel_centers = false;  // pixels count from their centers
};
// Images of size {height, width}, by bilinear interpolation; gives float.
Output ResizeBilinear(const Scope& s, Output images, const IntsArg& size, const ResizeOptions& options = {});
// Images of size {height, width}, of the nearest pixels.
Output ResizeNearestNeighbor(const Scope& s, Output images, const IntsArg& size, const ResizeOptions& options = {});
// Images of size {height, width}, by bicubic interpolation; gives float.
Output ResizeBicubic(const Scope& s, Output images, const IntsArg& size, const ResizeOptions& options = {});
// Where ResizeArea places the corners of the image.
struct ResizeAreaOptions {
  bool align_corners = false;  // the centers of the corner pixels of the input and of the output coincide
};
// Resizes images [batch, height, width, channels] to size {height, width}: each pixel is the mean of the area of the
// input that it covers. Gives float.
Output ResizeArea(const Scope& s, Output images, const IntsArg& size, const ResizeAreaOptions& options = {});

// How pixels of a crop are made.
enum class CropMethod {
  kBilinear,  // by interpolation
  kNearest,   // the value of the nearest pixel
};
// How CropAndResize computes pixels inside and outside of the image.
struct CropAndResizeOptions {
  CropMethod method = CropMethod::kBilinear;  // see CropMethod
  float extrapolation_value = 0;              // for pixels outside of the image
};
// Cuts n boxes out of images [batch, height, width, channels] and resizes each to crop_size: float
// [n, crop_height, crop_width, channels]. A row of `boxes` [n, 4] is y1, x1, y2, x2 as fractions of the image's
// height and width. `box_ind` [n] is the index of each box's image in the batch.
Output CropAndResize(const Scope& s, Output image, Output boxes, Output box_ind, const IntsArg& crop_size,
                     const CropAndResizeOptions& options = {});

// ---- colors ----

// (x - mean) * contrast_factor + mean per image and channel.
Output AdjustContrast(const Scope& s, Output images, Output contrast_factor);
// Turns the hue by delta, from -1 to 1.
Output AdjustHue(const Scope& s, Output images, Output delta);
// Multiplies the saturation.
Output AdjustSaturation(const Scope& s, Output images, Output scale);
// Red, green, blue from 0 to 1 as hue, saturation, value.
Output RgbToHsv(const Scope& s, Output images);
// The opposite of RgbToHsv.
Output HsvToRgb(const Scope& s, Output images);

// ---- boxes ----

// The images with boxes [batch, n, 4] drawn into them in turn with `colors`.
Output DrawBoundingBoxes(const Scope& s, Output images, Output boxes, Output colors);
// The numbers of the boxes [n, 4] with the best scores [n] that overlap less than
// iou_threshold, a float, with a better one. At most max_output_size.
Output NonMaxSuppression(const Scope& s, Output boxes, Output scores, const IntArg& max_output_size,
                         const ScalarArg& iou_threshold, const ScalarArg& score_threshold);

}  // namespace thalweg
