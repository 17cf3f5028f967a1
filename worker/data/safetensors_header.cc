#include "worker/data/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/base/utf8.h"
#include "rpc/tensor/tensor_layout.h"
#include "rpc/tensor/value_limits.h"
#include "worker/data/json_reader.h"
#include "worker/data/little_endian.h"

namespace gradwire::data {
namespace {

using rpc::DType;

constexpr absl::string_view kMetadataKey = "__metadata__";

struct DTypeSpelling {
  DType dtype;
  absl::string_view name;
};
constexpr std::array<DTypeSpelling, 11> kSpellings = {{{DType::kFloat32, "F32"},
                                                       {DType::kFloat64, "F64"},
                                                       {DType::kFloat16, "F16"},
                                                       {DType::kBFloat16, "BF16"},
                                                       {DType::kInt8, "I8"},
                                                       {DType::kInt16, "I16"},
                                                       {DType::kInt32, "I32"},
                                                       {DType::kInt64, "I64"},
                                                       {DType::kUInt8, "U8"},
                                                       {DType::kBool, "BOOL"},
                                                       {DType::kComplex64, "C64"}}};

std::string KnownSpellings() {
  return absl::StrJoin(kSpellings, ", ", [](std::string* out, const DTypeSpelling& spelling) {
    out->append(spelling.name.data(), spelling.name.size());
  });
}

absl::StatusOr<DType> ParseDType(absl::string_view name, uint64_t at) {
  for (const auto& spelling : kSpellings) {
    if (spelling.name == name) return spelling.dtype;
  }
  return JsonReader::ErrorAt(at, absl::StrCat("dtype \"", EscapedString(name),
                                              "\" is none that is supported here; convert it to "
                                              "one of ",
                                              KnownSpellings()));
}

// "[" Number, Number ... "]", at most `max_count`.
absl::StatusOr<std::vector<int64_t>> ParseNumbers(JsonReader& in, size_t max_count,
                                                  absl::string_view what) {
  const uint64_t begin = in.offset();
  GW_RETURN_IF_ERROR(in.Expect('['));
  std::vector<int64_t> numbers;
  if (in.Take(']')) return numbers;
  do {
    if (numbers.size() == max_count) {
      return JsonReader::ErrorAt(begin,
                                 absl::StrCat(what, " has more than ", max_count, " numbers"));
    }
    GW_ASSIGN_OR_RETURN(const uint64_t number, in.Number());
    numbers.push_back(static_cast<int64_t>(number));
  } while (in.Take(','));
  GW_RETURN_IF_ERROR(in.Expect(']'));
  return numbers;
}

absl::Status ParseOffsets(JsonReader& in, HeaderTensor& tensor) {
  const uint64_t at = in.offset();
  GW_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, ParseNumbers(in, 2, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return JsonReader::ErrorAt(at, "data_offsets must be two numbers, the second not smaller");
  }
  tensor.begin = static_cast<uint64_t>(offsets[0]);
  tensor.end = static_cast<uint64_t>(offsets[1]);
  return absl::OkStatus();
}

// The bytes that shape and type ask for; none where that overflows.
bool ShapeBytes(DType dtype, std::span<const int64_t> shape, uint64_t& bytes) {
  // A 0 anywhere makes it 0, whatever the other sizes would multiply to.
  const bool empty = std::ranges::find(shape, 0) != shape.end();
  bytes = empty ? 0 : rpc::ItemBytes(dtype);
  if (empty) return true;
  for (const int64_t size : shape) {
    if (size < 0) return false;
    if (bytes > std::numeric_limits<int64_t>::max() / static_cast<uint64_t>(size)) return false;
    bytes *= static_cast<uint64_t>(size);
  }
  return true;
}

std::string ShowLayout(DType dtype, std::span<const int64_t> shape) {
  return absl::StrCat(rpc::DTypeName(dtype), " [", absl::StrJoin(shape, ", "), "]");
}

absl::Status CheckSize(const HeaderTensor& tensor) {
  uint64_t bytes = 0;
  const std::string layout = ShowLayout(tensor.dtype, tensor.shape);
  if (!ShapeBytes(tensor.dtype, tensor.shape, bytes)) {
    return JsonReader::ErrorAt(tensor.described_at, absl::StrCat(layout, " is beyond 2^63 bytes"));
  }
  if (bytes == tensor.end - tensor.begin) return absl::OkStatus();
  return JsonReader::ErrorAt(
      tensor.described_at,
      absl::StrCat(layout, " has ", bytes, " bytes, but data_offsets [", tensor.begin, ", ",
                   tensor.end, "] hold ", tensor.end - tensor.begin));
}

// What follows a tensor's name: {"dtype": ..., "shape": ..., "data_offsets": ...} in any order.
absl::Status ParseTensor(JsonReader& in, HeaderTensor& tensor) {
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
  GW_RETURN_IF_ERROR(in.Expect('{'));
  do {
    const uint64_t at = in.offset();
    GW_ASSIGN_OR_RETURN(const std::string field, in.String());
    GW_RETURN_IF_ERROR(in.Expect(':'));
    if (field == "dtype" && !std::exchange(has_dtype, true)) {
      const uint64_t name_at = in.offset();
      GW_ASSIGN_OR_RETURN(const std::string name, in.String());
      GW_ASSIGN_OR_RETURN(tensor.dtype, ParseDType(name, name_at));
    } else if (field == "shape" && !std::exchange(has_shape, true)) {
      GW_ASSIGN_OR_RETURN(tensor.shape, ParseNumbers(in, rpc::kMaxTensorDims, "shape"));
    } else if (field == "data_offsets" && !std::exchange(has_offsets, true)) {
      GW_RETURN_IF_ERROR(ParseOffsets(in, tensor));
    } else {
      return JsonReader::ErrorAt(at, absl::StrCat("\"", EscapedString(field),
                                                  "\" comes twice or is no field of a tensor"));
    }
  } while (in.Take(','));
  GW_RETURN_IF_ERROR(in.Expect('}'));
  if (!has_dtype || !has_shape || !has_offsets) {
    return JsonReader::ErrorAt(tensor.described_at, "dtype, shape or data_offsets is missing");
  }
  return CheckSize(tensor);
}

absl::StatusOr<SafetensorsMetadata> ParseMetadata(JsonReader& in) {
  SafetensorsMetadata metadata;
  GW_RETURN_IF_ERROR(in.Expect('{'));
  if (in.Take('}')) return metadata;
  do {
    const uint64_t at = in.offset();
    GW_ASSIGN_OR_RETURN(std::string key, in.String());
    GW_RETURN_IF_ERROR(in.Expect(':'));
    GW_ASSIGN_OR_RETURN(std::string value, in.String());
    const auto [place, is_new] = metadata.try_emplace(std::move(key), std::move(value));
    if (!is_new) {
      return JsonReader::ErrorAt(
          at, absl::StrCat("key \"", EscapedString(place->first), "\" comes twice"));
    }
  } while (in.Take(','));
  GW_RETURN_IF_ERROR(in.Expect('}'));
  return metadata;
}

// Sorts by offset; the tensors must cover the data from its first byte to its last.
absl::Status CheckCoverage(std::vector<HeaderTensor>& tensors, uint64_t data_bytes) {
  std::ranges::sort(tensors, {}, [](const HeaderTensor& tensor) {
    return std::tuple(tensor.begin, tensor.end, tensor.described_at);
  });
  uint64_t covered = 0;
  for (const HeaderTensor& tensor : tensors) {
    if (tensor.begin != covered) {
      return WithContext(JsonReader::ErrorAt(
                             tensor.described_at,
                             absl::StrCat("its data begin at ", tensor.begin,
                                          ", but those of the tensors before it end at ", covered)),
                         ShowTensor(tensor.name));
    }
    covered = tensor.end;
  }
  if (covered == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the header describes ", covered, " bytes of tensors, the file has ", data_bytes,
                   covered > data_bytes ? "; it was cut off: copy or write it again" : ""));
}

absl::Status CheckUtf8(absl::string_view header) {
  if (IsValidUtf8(header)) return absl::OkStatus();
  const std::string valid = ValidUtf8(header);
  const auto [bad, _] = std::ranges::mismatch(header, valid);
  return JsonReader::ErrorAt(kSafetensorsLengthBytes + static_cast<uint64_t>(bad - header.begin()),
                             "the header is not UTF-8");
}

}  // namespace

std::string ShowTensor(absl::string_view name) {
  return absl::StrCat("tensor \"", EscapedString(name), "\"");
}

absl::StatusOr<uint64_t> ParseSafetensorsLength(absl::string_view start, uint64_t file_bytes) {
  if (start.size() < kSafetensorsLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file has ", file_bytes,
                     " bytes, too few for safetensors: it was cut off "
                     "or is something else"));
  }
  const auto length = FromLittleEndian<uint64_t>(start);
  if (length > kMaxSafetensorsHeaderBytes) {
    return JsonReader::ErrorAt(
        0, absl::StrCat("the header would have ", length, " bytes, at most ",
                        kMaxSafetensorsHeaderBytes, " are allowed: this is no safetensors file"));
  }
  if (length > file_bytes - kSafetensorsLengthBytes) {
    return JsonReader::ErrorAt(
        0, absl::StrCat("the header has ", length, " bytes, but only ",
                        file_bytes - kSafetensorsLengthBytes,
                        " follow: the file was cut off, copy or write it again"));
  }
  return length;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view header,
                                                         uint64_t data_bytes) {
  GW_RETURN_IF_ERROR(CheckUtf8(header));
  JsonReader in(header, kSafetensorsLengthBytes);
  SafetensorsHeader parsed;
  absl::flat_hash_set<std::string> names;
  GW_RETURN_IF_ERROR(in.Expect('{'));
  if (!in.Take('}')) {
    do {
      HeaderTensor tensor;
      tensor.described_at = in.offset();
      GW_ASSIGN_OR_RETURN(tensor.name, in.String());
      if (!names.insert(tensor.name).second) {
        return JsonReader::ErrorAt(tensor.described_at,
                                   absl::StrCat(ShowTensor(tensor.name), " comes twice"));
      }
      if (names.size() > kMaxSafetensorsCount) {
        return JsonReader::ErrorAt(
            tensor.described_at,
            absl::StrCat("more than ", kMaxSafetensorsCount, " tensors are not read"));
      }
      GW_RETURN_IF_ERROR(in.Expect(':'));
      if (tensor.name == kMetadataKey) {
        GW_ASSIGN_OR_RETURN(parsed.metadata, ParseMetadata(in), _ << kMetadataKey);
        continue;
      }
      GW_RETURN_IF_ERROR(ParseTensor(in, tensor), _ << ShowTensor(tensor.name));
      parsed.tensors.push_back(std::move(tensor));
    } while (in.Take(','));
    GW_RETURN_IF_ERROR(in.Expect('}'));
  }
  GW_RETURN_IF_ERROR(in.End());
  GW_RETURN_IF_ERROR(CheckCoverage(parsed.tensors, data_bytes));
  return parsed;
}

namespace {

absl::string_view SpellingOf(DType dtype) {
  for (const auto& spelling : kSpellings) {
    if (spelling.dtype == dtype) return spelling.name;
  }
  return "";
}

absl::Status CheckTensor(const NamedTensor& tensor) {
  if (tensor.name == kMetadataKey) {
    return absl::InvalidArgumentError("the format keeps this name for itself; take another");
  }
  if (!IsValidUtf8(tensor.name)) {
    return absl::InvalidArgumentError("the name is not UTF-8");
  }
  if (SpellingOf(tensor.dtype).empty()) {
    return absl::InvalidArgumentError(absl::StrCat("safetensors has no ",
                                                   rpc::DTypeName(tensor.dtype),
                                                   "; convert it to one of ", KnownSpellings()));
  }
  if (tensor.shape.size() > rpc::kMaxTensorDims) {
    return absl::InvalidArgumentError(absl::StrCat("the shape has ", tensor.shape.size(),
                                                   " dimensions, at most ", rpc::kMaxTensorDims,
                                                   " are allowed; reshape it"));
  }
  uint64_t bytes = 0;
  if (!ShapeBytes(tensor.dtype, tensor.shape, bytes) || bytes != tensor.bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(ShowLayout(tensor.dtype, tensor.shape),
                                                   " doesn't have the ", tensor.bytes.size(),
                                                   " bytes that were given"));
  }
  if (tensor.dtype == DType::kBool && !rpc::AreBools(tensor.bytes)) {
    return absl::InvalidArgumentError("a bool is 0 or 1, this tensor has other bytes");
  }
  return absl::OkStatus();
}

absl::Status CheckHeaderSize(uint64_t bytes) {
  if (bytes <= kMaxSafetensorsHeaderBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("names and metadata take ", bytes, " bytes or more, the format allows ",
                   kMaxSafetensorsHeaderBytes, "; put large values into uint8 tensors"));
}

absl::Status AppendMetadata(const SafetensorsMetadata& metadata, std::string& json) {
  absl::string_view separator;
  for (const auto& [key, value] : metadata) {
    GW_RETURN_IF_ERROR(CheckHeaderSize(json.size() + key.size() + value.size()));
    if (!IsValidUtf8(key) || !IsValidUtf8(value)) {
      return absl::InvalidArgumentError(absl::StrCat("metadata \"", EscapedString(key),
                                                     "\" is not UTF-8; encode it, as base64 say"));
    }
    absl::StrAppend(&json, separator);
    AppendJsonString(key, json);
    json += ':';
    AppendJsonString(value, json);
    separator = ",";
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FormatSafetensorsHeader(std::span<const NamedTensor* const> tensors,
                                                    const SafetensorsMetadata& metadata) {
  if (tensors.size() > kMaxSafetensorsCount) {
    return absl::InvalidArgumentError(absl::StrCat("a file takes at most ", kMaxSafetensorsCount,
                                                   " tensors, these are ", tensors.size()));
  }
  std::string json = "{";
  absl::string_view separator;
  if (!metadata.empty()) {
    absl::StrAppend(&json, "\"", kMetadataKey, "\":{");
    GW_RETURN_IF_ERROR(AppendMetadata(metadata, json));
    json += '}';
    separator = ",";
  }
  uint64_t begin = 0;
  absl::flat_hash_set<absl::string_view> names;
  for (const NamedTensor* tensor : tensors) {
    GW_RETURN_IF_ERROR(CheckTensor(*tensor), _ << ShowTensor(tensor->name));
    if (!names.insert(tensor->name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(ShowTensor(tensor->name), " comes twice; give each its own name"));
    }
    absl::StrAppend(&json, separator);
    AppendJsonString(tensor->name, json);
    const uint64_t end = begin + tensor->bytes.size();
    absl::StrAppend(&json, ":{\"dtype\":\"", SpellingOf(tensor->dtype), "\",\"shape\":[",
                    absl::StrJoin(tensor->shape, ","), "],\"data_offsets\":[", begin, ",", end,
                    "]}");
    begin = end;
    separator = ",";
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  GW_RETURN_IF_ERROR(CheckHeaderSize(json.size()));
  std::string out;
  AppendLittleEndian(uint64_t{json.size()}, out);
  return out + json;
}

}  // namespace gradwire::data
