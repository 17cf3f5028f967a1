#include "worker/data/digit_files.h"

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"
#include "worker/data/files.h"

namespace gradwire::data {
namespace {

constexpr size_t kPixels = 784;
constexpr uint32_t kImagesMagic = 0x803;
constexpr uint32_t kLabelsMagic = 0x801;

// Big-endian; the four bytes must be there.
uint32_t Word(absl::string_view bytes, size_t at) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) word = word << 8 | static_cast<uint8_t>(bytes[at + i]);
  return word;
}

absl::Status NotIdx(const std::string& file, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", what, "; it is no IDX file of MNIST"));
}

// `path` or `path`.gz, whichever is there.
absl::StatusOr<std::string> FindPacked(const std::string& path, FileSystem& fs) {
  const absl::StatusOr<FileInfo> plain = fs.Stat(path);
  if (plain.ok() || !absl::IsNotFound(plain.status())) return path;
  return path + ".gz";
}

}  // namespace

absl::StatusOr<RawDigits> ParseCsvDigits(const std::string& file, absl::string_view text) {
  RawDigits digits;
  GW_RETURN_IF_ERROR(
      ForEachLine(file, text, ',', kPixels + 1, [&](int64_t line, const Fields& fields) {
        FieldPlace place{.file = &file, .line = line};
        for (size_t i = 0; i < kPixels; ++i) {
          place.column = i + 1;
          GW_ASSIGN_OR_RETURN(const int64_t grey, ParseWhole(fields[i], 0, 255, place));
          digits.pixels.push_back(static_cast<uint8_t>(grey));
        }
        place.column = kPixels + 1;
        GW_ASSIGN_OR_RETURN(const int64_t label, ParseWhole(fields[kPixels], 0, 9, place));
        digits.labels.push_back(label);
        return absl::OkStatus();
      }));
  if (digits.labels.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " has no lines"));
  }
  return digits;
}

absl::StatusOr<RawDigits> ReadCsvDigits(const std::string& path, FileSystem& fs) {
  GW_ASSIGN_OR_RETURN(const std::string text, ReadDataFile(path, fs));
  return ParseCsvDigits(path, text);
}

absl::StatusOr<RawDigits> ParseIdxDigits(const std::string& images_file, absl::string_view images,
                                         const std::string& labels_file, absl::string_view labels) {
  if (images.size() < 16 || Word(images, 0) != kImagesMagic) {
    return NotIdx(images_file, "it doesn't begin with 0x00000803 and three sizes");
  }
  if (labels.size() < 8 || Word(labels, 0) != kLabelsMagic) {
    return NotIdx(labels_file, "it doesn't begin with 0x00000801 and a size");
  }
  const size_t count = Word(images, 4);
  if (Word(images, 8) != 28 || Word(images, 12) != 28) {
    return NotIdx(images_file, absl::StrCat("its images are ", Word(images, 8), " by ",
                                            Word(images, 12), ", not 28 by 28"));
  }
  if (images.size() - 16 != count * kPixels) {
    return NotIdx(images_file, absl::StrCat("it says ", count, " images and has ",
                                            images.size() - 16, " bytes of them"));
  }
  if (Word(labels, 4) != count || labels.size() - 8 != count) {
    return NotIdx(labels_file, absl::StrCat("it says ", Word(labels, 4), " labels and has ",
                                            labels.size() - 8, "; there are ", count, " images"));
  }
  RawDigits digits;
  images.remove_prefix(16);
  labels.remove_prefix(8);
  digits.pixels.assign(images.begin(), images.end());
  for (size_t i = 0; i < count; ++i) {
    const auto label = static_cast<uint8_t>(labels[i]);
    if (label > 9) {
      return NotIdx(labels_file, absl::StrCat("label ", i, " is ", static_cast<int>(label)));
    }
    digits.labels.push_back(label);
  }
  return digits;
}

absl::StatusOr<bool> HasIdxFiles(const std::string& folder, FileSystem& fs) {
  const std::string path = JoinPath(folder, "train-images-idx3-ubyte");
  for (const std::string& name : {path, path + ".gz"}) {
    const absl::StatusOr<FileInfo> info = fs.Stat(name);
    if (info.ok()) return true;
    if (!absl::IsNotFound(info.status())) return info.status();
  }
  return false;
}

absl::StatusOr<RawDigits> ReadIdxDigits(const std::string& folder, const std::string& part,
                                        FileSystem& fs) {
  const std::string stem = JoinPath(folder, part);
  GW_ASSIGN_OR_RETURN(const std::string images_file,
                      FindPacked(absl::StrCat(stem, "-images-idx3-ubyte"), fs));
  GW_ASSIGN_OR_RETURN(const std::string labels_file,
                      FindPacked(absl::StrCat(stem, "-labels-idx1-ubyte"), fs));
  GW_ASSIGN_OR_RETURN(const std::string images, ReadDataFile(images_file, fs));
  GW_ASSIGN_OR_RETURN(const std::string labels, ReadDataFile(labels_file, fs));
  return ParseIdxDigits(images_file, images, labels_file, labels);
}

}  // namespace gradwire::data
