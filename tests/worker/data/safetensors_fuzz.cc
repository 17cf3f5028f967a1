// Any bytes are safetensors or refused with a status; what was read lies inside the input and,
// written, reads back the same. Input: a whole file; and a byte about the data, then a header, its
// words abbreviated or not.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/base/fs_sim.h"
#include "rpc/base/status.h"
#include "worker/data/little_endian.h"
#include "worker/data/safetensors.h"

namespace gradwire::data {
namespace {

bool Same(const NamedTensor& a, const NamedTensor& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape &&
         std::ranges::equal(a.bytes, b.bytes);
}

void Check(std::span<const std::byte> file) {
  const absl::StatusOr<Safetensors> read = ReadSafetensors(file);
  if (!read.ok()) {
    GW_CHECK(absl::IsInvalidArgument(read.status()) && !read.status().message().empty());
    return;
  }
  for (const NamedTensor& tensor : read->tensors) {
    uint64_t count = 1;
    for (const int64_t size : tensor.shape) {
      GW_CHECK(size >= 0);
      count *= static_cast<uint64_t>(size);
    }
    GW_CHECK(tensor.bytes.size() == count * rpc::ItemBytes(tensor.dtype));
    GW_CHECK(tensor.bytes.empty() ||
             (tensor.bytes.data() >= file.data() &&
              tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size()));
  }
  SimFileSystem fs;
  GW_CHECK(WriteSafetensors("f", read->tensors, read->metadata, fs).ok());
  const absl::StatusOr<SafetensorsFile> again = ReadSafetensors("f", 1 << 30, fs);
  GW_CHECK(again.ok() && again->contents.metadata == read->metadata);
  GW_CHECK(again->contents.tensors.size() == read->tensors.size());
  for (const NamedTensor& tensor : read->tensors) {
    const NamedTensor* found = again->contents.Find(tensor.name);
    GW_CHECK(found != nullptr && Same(*found, tensor));
  }
}

// Control bytes stand for these, so that libFuzzer gets beyond the first braces.
constexpr std::array<absl::string_view, 32> kWords = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"dtype\":",
    "\"shape\":",
    "\"data_offsets\":",
    "\"__metadata__\":",
    "\"F32\"",
    "\"F64\"",
    "\"BF16\"",
    "\"I8\"",
    "\"U8\"",
    "\"BOOL\"",
    "\"C64\"",
    "\"a\"",
    "\"b\"",
    "\"\"",
    "\"\\ud83d\\ude00\"",
    "\\u0041",
    "9223372036854775807",
    "4294967296",
    "[0,4]",
    "[4,8]",
    "[2,2]",
    "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}",
    "\"b\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[4,8]}",
    "\"c\":{\"dtype\":\"BOOL\",\"shape\":[1,1],\"data_offsets\":[8,9]}",
    "\"d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}",
    "\"__metadata__\":{\"k\":\"v\"}",
};

std::string Spelled(absl::string_view in) {
  std::string out;
  for (const char c : in) {
    const auto number = static_cast<unsigned char>(c);
    if (number < kWords.size()) {
      absl::StrAppend(&out, kWords[number]);
    } else {
      out += c;
    }
  }
  return out;
}

// `header` behind its length, then `data`.
void CheckHeader(absl::string_view header, absl::string_view data) {
  std::string file;
  AppendLittleEndian(uint64_t{header.size()}, file);
  absl::StrAppend(&file, header, data);
  Check(std::as_bytes(std::span(file)));
}

// The first byte says how many bytes of tensors follow the header, and whether they are bools.
void CheckAll(absl::string_view in) {
  Check(std::as_bytes(std::span(in.data(), in.size())));
  if (in.empty()) return;
  const auto first = static_cast<unsigned char>(in[0]);
  const std::string data(first % 128, first < 128 ? '\1' : '\2');
  in.remove_prefix(1);
  CheckHeader(in, data);
  CheckHeader(Spelled(in), data);
}

}  // namespace
}  // namespace gradwire::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gradwire::data::CheckAll({reinterpret_cast<const char*>(data), size});
  return 0;
}
