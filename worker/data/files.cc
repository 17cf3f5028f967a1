#include "worker/data/files.h"

#include <zlib.h>

#include <charconv>
#include <memory>

#include "absl/strings/str_cat.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"

namespace gradwire::data {
namespace {

bool IsGzip(absl::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

absl::StatusOr<std::string> Unpack(const std::string& path, absl::string_view packed) {
  z_stream stream = {};
  constexpr int kGzip = 16;
  if (inflateInit2(&stream, kGzip + MAX_WBITS) != Z_OK) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory to unpack ", path));
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string out;
  std::string part(size_t{256} << 10, '\0');
  int state = Z_OK;
  while (state == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    state = inflate(&stream, Z_NO_FLUSH);
    out.append(part.data(), part.size() - stream.avail_out);
    if (out.size() > kMaxDataFileBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, " has more than ", kMaxDataFileBytes, " bytes when unpacked"));
    }
  }
  if (state != Z_STREAM_END || stream.avail_in != 0) {
    return absl::DataLossError(absl::StrCat(
        path, ", byte ", stream.total_in, ": ", stream.msg != nullptr ? stream.msg : "cut short",
        "; the file is damaged: remove it and run scripts/setup again"));
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> ReadDataFile(const std::string& path, FileSystem& fs) {
  absl::StatusOr<std::string> bytes = fs.ReadAll(path, kMaxDataFileBytes);
  if (absl::IsNotFound(bytes.status())) {
    return absl::NotFoundError(absl::StrCat("there is no data file ", path,
                                            "; run scripts/setup, or say where it is: --data-dir"));
  }
  if (!bytes.ok() || !IsGzip(*bytes)) return bytes;
  return Unpack(path, *bytes);
}

absl::Status FieldError(const FieldPlace& place, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(*place.file, ", line ", place.line, ", column ", place.column, ": ", what));
}

absl::StatusOr<int64_t> ParseWhole(absl::string_view field, int64_t min, int64_t max,
                                   const FieldPlace& place) {
  int64_t value = 0;
  const char* end = field.data() + field.size();
  const auto [at, error] = std::from_chars(field.data(), end, value);
  if (error == std::errc() && at == end && value >= min && value <= max) return value;
  return FieldError(place, absl::StrCat("\"", EscapedString(field), "\" is no whole number from ",
                                        min, " to ", max));
}

absl::StatusOr<float> ParseDecimal(absl::string_view field, float min, float max,
                                   const FieldPlace& place) {
  float value = 0;
  const char* end = field.data() + field.size();
  const auto [at, error] = std::from_chars(field.data(), end, value);
  if (error == std::errc() && at == end && value >= min && value <= max) return value;
  return FieldError(
      place, absl::StrCat("\"", EscapedString(field), "\" is no number from ", min, " to ", max));
}

absl::Status ForEachLine(const std::string& file, absl::string_view text, char separator,
                         size_t column_count,
                         const std::function<absl::Status(int64_t line, const Fields&)>& row) {
  Fields fields;
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    absl::string_view rest = text.substr(0, end);
    text = end == absl::string_view::npos ? absl::string_view() : text.substr(end + 1);
    if (!rest.empty() && rest.back() == '\r') rest.remove_suffix(1);
    if (rest.empty()) continue;
    fields.clear();
    while (fields.size() <= column_count) {
      const size_t cut = rest.find(separator);
      fields.push_back(rest.substr(0, cut));
      if (cut == absl::string_view::npos) break;
      rest = rest.substr(cut + 1);
    }
    if (fields.size() != column_count) {
      return absl::InvalidArgumentError(absl::StrCat(
          file, ", line ", line, ": it has ",
          fields.size() > column_count ? "more than " : absl::StrCat(fields.size(), " of "),
          column_count, " columns"));
    }
    GW_RETURN_IF_ERROR(row(line, fields));
  }
  return absl::OkStatus();
}

}  // namespace gradwire::data
