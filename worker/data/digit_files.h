// The files that digits come in, parsed and checked; no tensors yet.
//
// Errors:        as files.h; a label above 9, images of another size, counts that differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/base/fs.h"

namespace gradwire::data {

struct RawDigits {
  std::vector<uint8_t> pixels;  // 784 an image, row by row
  std::vector<int64_t> labels;  // 0 … 9
};

// Lines of 784 grey values and a label.
absl::StatusOr<RawDigits> ParseCsvDigits(const std::string& file, absl::string_view text);
absl::StatusOr<RawDigits> ReadCsvDigits(const std::string& path, FileSystem& fs);

// Images and labels in IDX form: big-endian 0x803, count, 28, 28, bytes; 0x801, count, bytes.
absl::StatusOr<RawDigits> ParseIdxDigits(const std::string& images_file, absl::string_view images,
                                         const std::string& labels_file, absl::string_view labels);
// Whether the folder has train-images-idx3-ubyte, packed or not.
absl::StatusOr<bool> HasIdxFiles(const std::string& folder, FileSystem& fs);
// part: "train" or "t10k".
absl::StatusOr<RawDigits> ReadIdxDigits(const std::string& folder, const std::string& part,
                                        FileSystem& fs);

}  // namespace gradwire::data
