// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/image/image_codec.h"

#include <csetjmp>
#include <cstdio>  // jpeglib.h wants it
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

// After <cstdio>.
#include <jpeglib.h>
#include <png.h>

#include "thalweg/base/status.h"

// A function that calls setjmp, or that runs between setjmp and longjmp, has no
// objects with destructors: they would be skipped.
namespace thalweg {
namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 29;

// PNG.

struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const unsigned char* bytes = nullptr;
  size_t left = 0;
  int channels = 0;
  int passes = 1;
  png_uint_32 width = 0;
  png_uint_32 height = 0;
  bool widen = false;  // 8 bits to 16

  ~PngReader() {
    if (png != nullptr) png_destroy_read_struct(&png, info == nullptr ? nullptr : &info, nullptr);
  }
};

void PngFail(png_structp png, png_const_charp) { longjmp(png_jmpbuf(png), 1); }
void PngWarn(png_structp, png_const_charp) {}

void PngRead(png_structp png, png_bytep to, png_size_t n) {
  PngReader* const reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (n > reader->left) png_error(png, "end of data");
  std::memcpy(to, reader->bytes, n);
  reader->bytes += n;
  reader->left -= n;
}

// Reads the header and sets the conversion of the pixels.
bool StartPng(PngReader* r, int channels, int bits) {
  r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, PngFail, PngWarn);
  if (r->png == nullptr) return false;
  if (setjmp(png_jmpbuf(r->png)) != 0) return false;
  r->info = png_create_info_struct(r->png);
  if (r->info == nullptr) return false;
  png_set_read_fn(r->png, r, PngRead);
  png_read_info(r->png, r->info);
  int depth = 0, color = 0;
  png_get_IHDR(r->png, r->info, &r->width, &r->height, &depth, &color, nullptr, nullptr, nullptr);
  const bool transparent = png_get_valid(r->png, r->info, PNG_INFO_tRNS) != 0;
  const bool alpha = (color & PNG_COLOR_MASK_ALPHA) != 0;
  const bool palette = color == PNG_COLOR_TYPE_PALETTE;
  const bool grey = (color & PNG_COLOR_MASK_COLOR) == 0;
  r->channels = channels != 0 ? channels : palette ? (transparent ? 4 : 3) : png_get_channels(r->png, r->info);
  if (r->channels % 2 == 0) {
    if (!alpha && transparent) png_set_tRNS_to_alpha(r->png);
    if (!alpha && !transparent) png_set_add_alpha(r->png, (1u << depth) - 1, PNG_FILLER_AFTER);
  } else if (alpha || transparent) {
    png_set_strip_alpha(r->png);
  }
  if (depth > 8 && bits <= 8) png_set_strip_16(r->png);
  r->widen = depth <= 8 && bits == 16;
  png_set_packing(r->png);
  r->passes = png_set_interlace_handling(r->png);
  if (bits > 8) png_set_swap(r->png);
  if (palette) png_set_palette_to_rgb(r->png);
  if (grey && depth < 8) png_set_expand_gray_1_2_4_to_8(r->png);
  if (r->channels < 3 && !grey) png_set_rgb_to_gray(r->png, 1, 0.299, 0.587);
  if (r->channels >= 3 && grey) png_set_gray_to_rgb(r->png);
  png_read_update_info(r->png, r->info);
  // A row that libpng writes must fit into a row of the output.
  return png_get_rowbytes(r->png, r->info) <= static_cast<size_t>(r->width) * r->channels * (bits / 8);
}

bool ReadPngRows(PngReader* r, unsigned char* pixels, size_t row_bytes) {
  if (setjmp(png_jmpbuf(r->png)) != 0) return false;
  for (int pass = 0; pass < r->passes; ++pass) {
    for (png_uint_32 y = 0; y < r->height; ++y) png_read_row(r->png, pixels + y * row_bytes, nullptr);
  }
  png_read_end(r->png, r->info);
  return true;
}

void PngWrite(png_structp png, png_bytep from, png_size_t n) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(from), n);
}
void PngFlush(png_structp) {}

bool WritePng(const ImageView& image, int compression, std::string* out) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, PngFail, PngWarn);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  if (info == nullptr || setjmp(png_jmpbuf(png)) != 0) {
    png_destroy_write_struct(&png, info == nullptr ? nullptr : &info);
    return false;
  }
  constexpr int kColors[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                             PNG_COLOR_TYPE_RGB_ALPHA};
  png_set_write_fn(png, out, PngWrite, PngFlush);
  png_set_compression_level(png, compression);
  png_set_compression_mem_level(png, 9);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), image.bits,
               kColors[image.channels - 1], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  if (image.bits > 8) png_set_swap(png);
  const int64_t row = image.width * image.channels * (image.bits / 8);
  for (int64_t y = 0; y < image.height; ++y) {
    png_write_row(png, static_cast<png_const_bytep>(image.pixels) + y * row);
  }
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return true;
}

// JPEG.

struct JpegErrors : jpeg_error_mgr {
  jmp_buf jump;
};

void JpegFail(j_common_ptr common) { longjmp(static_cast<JpegErrors*>(common->err)->jump, 1); }
void JpegIgnore(j_common_ptr) {}
void JpegCount(j_common_ptr common, int level) {
  if (level < 0) ++common->err->num_warnings;
}

jpeg_error_mgr* SetUp(JpegErrors* errors) {
  jpeg_std_error(errors);
  errors->error_exit = JpegFail;
  errors->output_message = JpegIgnore;
  errors->emit_message = JpegCount;
  return errors;
}

struct JpegReader {
  jpeg_decompress_struct jpeg{};
  JpegErrors errors;
  jpeg_source_mgr source{};
  bool recover = false;
  bool created = false;
  int channels = 0;
  unsigned char* line = nullptr;  // a line in the file's format, if that differs from ours

  ~JpegReader() {
    if (created) jpeg_destroy_decompress(&jpeg);
    std::free(line);
  }
};

void JpegNothing(j_decompress_ptr) {}
// Called at the end of the data: fails, or continues as if the image was complete.
boolean JpegRefill(j_decompress_ptr jpeg) {
  static constexpr JOCTET kEnd[] = {0xff, JPEG_EOI};
  if (!static_cast<JpegReader*>(jpeg->client_data)->recover) return FALSE;
  jpeg->src->next_input_byte = kEnd;
  jpeg->src->bytes_in_buffer = sizeof(kEnd);
  return TRUE;
}
void JpegSkip(j_decompress_ptr jpeg, long n) {
  if (n <= 0) return;
  const size_t skipped = std::min(static_cast<size_t>(n), jpeg->src->bytes_in_buffer);
  jpeg->src->next_input_byte += skipped;
  jpeg->src->bytes_in_buffer -= skipped;
}

bool ReadJpegHead(JpegReader* r, absl::string_view bytes) {
  r->jpeg.err = SetUp(&r->errors);
  if (setjmp(r->errors.jump) != 0) return false;
  jpeg_create_decompress(&r->jpeg);
  r->created = true;
  r->jpeg.client_data = r;
  r->source = {reinterpret_cast<const JOCTET*>(bytes.data()),
               bytes.size(),
               JpegNothing,
               JpegRefill,
               JpegSkip,
               jpeg_resync_to_restart,
               JpegNothing};
  r->jpeg.src = &r->source;
  return jpeg_read_header(&r->jpeg, TRUE) == JPEG_HEADER_OK;
}

bool StartJpeg(JpegReader* r, const JpegDecodeOptions& options) {
  if (setjmp(r->errors.jump) != 0) return false;
  r->channels = options.channels != 0 ? options.channels : std::min(r->jpeg.num_components, 3);
  if (r->channels != 1 && r->channels != 3) return false;
  const bool four = r->jpeg.jpeg_color_space == JCS_CMYK || r->jpeg.jpeg_color_space == JCS_YCCK;
  r->jpeg.out_color_space = r->channels == 1 ? JCS_GRAYSCALE : four ? JCS_CMYK : JCS_RGB;
  r->jpeg.do_fancy_upsampling = options.fancy_upscaling ? TRUE : FALSE;
  r->jpeg.scale_num = 1;
  r->jpeg.scale_denom = static_cast<unsigned>(options.ratio);
  r->jpeg.dct_method = options.fast_dct ? JDCT_IFAST : JDCT_ISLOW;
  jpeg_calc_output_dimensions(&r->jpeg);
  const int64_t samples = static_cast<int64_t>(r->jpeg.output_height) * r->jpeg.output_width * r->jpeg.num_components;
  if (samples <= 0 || samples >= kMaxPixels) return false;
  if (jpeg_start_decompress(&r->jpeg) == FALSE) return false;
  if (r->jpeg.output_components != (r->channels == 1 ? 1 : four ? 4 : 3)) return false;
  r->line = static_cast<unsigned char*>(std::malloc(static_cast<size_t>(r->jpeg.output_width) * 4));
  return r->line != nullptr;
}

// A line of cyan, magenta, yellow and black as RGB; Adobe stores them inverted.
void CmykToRgb(const unsigned char* from, int64_t pixels, bool inverted, unsigned char* to) {
  for (int64_t i = 0; i < pixels; ++i) {
    const int k = inverted ? from[4 * i + 3] : 255 - from[4 * i + 3];
    for (int c = 0; c < 3; ++c) {
      to[3 * i + c] = static_cast<unsigned char>(k * (inverted ? from[4 * i + c] : 255 - from[4 * i + c]) / 255);
    }
  }
}

// Lines [y, y + height) of the image, from column x on. Gives the number of
// lines that were there in `read`.
bool ReadJpegLines(JpegReader* r, const CropWindow& window, unsigned char* pixels, int64_t* read) {
  *read = 0;
  if (setjmp(r->errors.jump) != 0) return false;
  const bool four = r->jpeg.out_color_space == JCS_CMYK;
  const size_t row = static_cast<size_t>(window.width) * r->channels;
  const bool direct = !four && window.width == static_cast<int64_t>(r->jpeg.output_width);
  while (r->jpeg.output_scanline < static_cast<JDIMENSION>(window.y + window.height)) {
    const int64_t y = static_cast<int64_t>(r->jpeg.output_scanline) - window.y;
    unsigned char* line = direct && y >= 0 ? pixels + y * row : r->line;
    if (jpeg_read_scanlines(&r->jpeg, &line, 1) == 0) return true;
    if (y < 0) continue;
    if (direct) {
      // The line is where it belongs.
    } else if (four) {
      CmykToRgb(line + 4 * window.x, window.width, r->jpeg.saw_Adobe_marker != FALSE, pixels + y * row);
    } else {
      std::memcpy(pixels + y * row, line + window.x * r->channels, row);
    }
    *read = y + 1;
  }
  return true;
}

struct JpegWriter {
  jpeg_compress_struct jpeg{};
  JpegErrors errors;
  bool created = false;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  ~JpegWriter() {
    if (created) jpeg_destroy_compress(&jpeg);
    std::free(bytes);
  }
};

bool WriteJpeg(JpegWriter* w, const ImageView& image, const JpegEncodeOptions& options) {
  w->jpeg.err = SetUp(&w->errors);
  if (setjmp(w->errors.jump) != 0) return false;
  jpeg_create_compress(&w->jpeg);
  w->created = true;
  jpeg_mem_dest(&w->jpeg, &w->bytes, &w->size);
  w->jpeg.image_width = static_cast<JDIMENSION>(image.width);
  w->jpeg.image_height = static_cast<JDIMENSION>(image.height);
  w->jpeg.input_components = image.channels;
  w->jpeg.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&w->jpeg);
  if (options.optimize_size) w->jpeg.optimize_coding = TRUE;
  w->jpeg.density_unit = options.density_in_cm ? 2 : 1;
  w->jpeg.X_density = static_cast<UINT16>(options.x_density);
  w->jpeg.Y_density = static_cast<UINT16>(options.y_density);
  jpeg_set_quality(&w->jpeg, options.quality, TRUE);
  if (options.progressive) jpeg_simple_progression(&w->jpeg);
  if (!options.chroma_downsampling) {
    for (int i = 0; i < w->jpeg.num_components; ++i) {
      w->jpeg.comp_info[i].h_samp_factor = 1;
      w->jpeg.comp_info[i].v_samp_factor = 1;
    }
  }
  jpeg_start_compress(&w->jpeg, TRUE);
  if (!options.xmp_metadata.empty()) {
    constexpr char kName[] = "http://ns.adobe.com/xap/1.0/";  // its 0 belongs to it
    jpeg_write_m_header(&w->jpeg, JPEG_APP0 + 1, static_cast<unsigned>(sizeof(kName) + options.xmp_metadata.size()));
    for (size_t i = 0; i < sizeof(kName); ++i) jpeg_write_m_byte(&w->jpeg, kName[i]);
    for (size_t i = 0; i < options.xmp_metadata.size(); ++i) jpeg_write_m_byte(&w->jpeg, options.xmp_metadata[i]);
  }
  while (w->jpeg.next_scanline < w->jpeg.image_height) {
    JSAMPROW row = static_cast<JSAMPROW>(const_cast<void*>(image.pixels)) +
                   static_cast<size_t>(w->jpeg.next_scanline) * image.width * image.channels;
    jpeg_write_scanlines(&w->jpeg, &row, 1);
  }
  jpeg_finish_compress(&w->jpeg);
  return true;
}

int32_t LoadInt32(const char* bytes) {
  int32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

}  // namespace

absl::StatusOr<std::string> EncodePng(const ImageView& image, int compression) {
  std::string bytes;
  if (image.channels < 1 || image.channels > 4 || !WritePng(image, compression, &bytes)) {
    return Internal("PNG encoding failed");
  }
  return bytes;
}

absl::Status DecodePng(absl::string_view bytes, int channels, int bits, PixelMemory memory) {
  PngReader reader;
  reader.bytes = reinterpret_cast<const unsigned char*>(bytes.data());
  reader.left = bytes.size();
  if (!StartPng(&reader, channels, bits)) return InvalidArgument("Invalid PNG. Failed to initialize decoder.");
  const ImageSize size{reader.height, reader.width, reader.channels};
  constexpr int64_t kMaxSide = int64_t{1} << 27;
  if (size.width >= kMaxSide || size.height >= kMaxSide || size.width * size.height >= kMaxPixels) {
    return InvalidArgument("PNG size too large for int: ", size.width, " by ", size.height);
  }
  ASSIGN_OR_RETURN(void* const pixels, memory(size));
  const size_t row = static_cast<size_t>(size.width * size.channels * (bits / 8));
  if (reader.passes > 1) std::memset(pixels, 0, row * static_cast<size_t>(size.height));  // some may be left out
  if (!ReadPngRows(&reader, static_cast<unsigned char*>(pixels), row)) {
    return InvalidArgument("Invalid PNG data, size ", bytes.size());
  }
  if (reader.widen) {
    // In place, from the end of each line: a byte becomes two that are equal.
    for (int64_t y = 0; y < size.height; ++y) {
      unsigned char* const line = static_cast<unsigned char*>(pixels) + y * row;
      for (int64_t x = size.width * size.channels - 1; x >= 0; --x) line[2 * x] = line[2 * x + 1] = line[x];
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> EncodeJpeg(const ImageView& image, const JpegEncodeOptions& options) {
  JpegWriter writer;
  if (!WriteJpeg(&writer, image, options)) return Internal("JPEG encoding failed");
  return std::string(reinterpret_cast<const char*>(writer.bytes), writer.size);
}

absl::StatusOr<ImageSize> JpegSize(absl::string_view bytes) {
  const auto reader = std::make_unique<JpegReader>();
  if (!ReadJpegHead(reader.get(), bytes)) {
    return InvalidArgument("Invalid JPEG data, size ", bytes.size());
  }
  return ImageSize{reader->jpeg.image_height, reader->jpeg.image_width, reader->jpeg.num_components};
}

absl::Status DecodeJpeg(absl::string_view bytes, const JpegDecodeOptions& options, PixelMemory memory) {
  const absl::Status invalid = InvalidArgument("jpeg::Uncompress failed. Invalid JPEG data or crop window.");
  const auto reader = std::make_unique<JpegReader>();
  reader->recover = options.try_recover_truncated;
  if (!ReadJpegHead(reader.get(), bytes) || !StartJpeg(reader.get(), options)) return invalid;
  const int64_t full_height = reader->jpeg.output_height, full_width = reader->jpeg.output_width;
  const CropWindow window = options.crop.value_or(CropWindow{0, 0, full_height, full_width});
  if (window.y < 0 || window.x < 0 || window.height <= 0 || window.width <= 0 ||
      window.height > full_height - window.y || window.width > full_width - window.x) {
    return invalid;
  }
  const ImageSize size{window.height, window.width, reader->channels};
  ASSIGN_OR_RETURN(void* const pixels, memory(size));
  unsigned char* const lines = static_cast<unsigned char*>(pixels);
  const size_t row = static_cast<size_t>(size.width * size.channels);
  int64_t read = 0;
  const bool good = ReadJpegLines(reader.get(), window, lines, &read);
  if (read == size.height) return absl::OkStatus();
  const bool enough = static_cast<float>(read) / static_cast<float>(size.height) >= options.acceptable_fraction;
  if (!good || (!options.try_recover_truncated && !enough)) return invalid;
  for (int64_t y = read; y < size.height; ++y) {
    if (y == 0 || !options.try_recover_truncated) {
      std::memset(lines + y * row, 0, row);
    } else {
      std::memcpy(lines + y * row, lines + (y - 1) * row, row);
    }
  }
  return absl::OkStatus();
}

absl::Status DecodeBmp(absl::string_view bytes, int channels, PixelMemory memory) {
  if (bytes.size() < 32) {
    return InvalidArgument(
        "Incomplete bmp content, requires at least 32 bytes to find the header size, width, height, "
        "and bpp, got ",
        bytes.size(), " bytes");
  }
  const int64_t start = LoadInt32(bytes.data() + 10), width = LoadInt32(bytes.data() + 18);
  const int64_t signed_height = LoadInt32(bytes.data() + 22), height = std::abs(signed_height);
  int16_t bits;
  std::memcpy(&bits, bytes.data() + 28, sizeof(bits));
  const int own = bits / 8;
  if (own != 1 && own != 3 && own != 4) {
    return InvalidArgument("Number of channels inherent in the image must be 1, 3 or 4, was ", own);
  }
  if (width <= 0) return InvalidArgument("Width must be positive");
  if (height == 0) return InvalidArgument("Height must be nonzero");
  if (start < 0) return InvalidArgument("header size must be nonnegative");
  if (width * height >= std::numeric_limits<int32_t>::max() / 8) {
    return InvalidArgument("Total possible pixel bytes must be less than 2^30");
  }
  const int64_t row = (own * width + 3) / 4 * 4;
  const int64_t difference = static_cast<int64_t>(bytes.size()) - start - row * height;
  if (difference != 0) {
    return InvalidArgument("Input size should match (header_size + row_size * abs_height) but they differ by ",
                           difference);
  }
  const ImageSize size{height, width, channels != 0 ? channels : own};
  ASSIGN_OR_RETURN(void* const pixels, memory(size));
  uint8_t* out = static_cast<uint8_t*>(pixels);
  for (int64_t y = 0; y < height; ++y) {
    // The last row comes first, unless the height is negative.
    const auto* from =
        reinterpret_cast<const uint8_t*>(bytes.data()) + start + (signed_height < 0 ? y : height - 1 - y) * row;
    for (int64_t x = 0; x < width; ++x, from += own, out += size.channels) {
      for (int c = 0; c < size.channels; ++c) {
        // Blue, green, red in the file.
        out[c] = c == 3 ? (own == 4 ? from[3] : 255) : own == 1 ? from[0] : from[2 - c];
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace thalweg
