#include "worker/data/safetensors.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/tensor/tensor_layout.h"
#include "worker/data/json_reader.h"
#include "worker/data/safetensors_header.h"

namespace gradwire::data {
namespace {

// The tensors' bytes lie in memory as in the file.
static_assert(std::endian::native == std::endian::little);

// Views of `data`, the bytes behind the header, which end in the file at `data_at` + their number.
absl::StatusOr<Safetensors> MakeViews(SafetensorsHeader header, std::span<const std::byte> data,
                                      uint64_t data_at) {
  Safetensors result;
  result.metadata = std::move(header.metadata);
  result.tensors.reserve(header.tensors.size());
  for (HeaderTensor& tensor : header.tensors) {
    const auto bytes = data.subspan(tensor.begin, tensor.end - tensor.begin);
    if (tensor.dtype == rpc::DType::kBool && !rpc::AreBools(bytes)) {
      const auto bad = std::ranges::find_if(bytes, [](std::byte b) { return b > std::byte{1}; });
      return WithContext(
          JsonReader::ErrorAt(
              data_at + tensor.begin + static_cast<uint64_t>(bad - bytes.begin()),
              absl::StrCat("a bool is 0 or 1, this is ", std::to_integer<int>(*bad))),
          ShowTensor(tensor.name));
    }
    result.tensors.push_back(
        {std::move(tensor.name), tensor.dtype, std::move(tensor.shape), bytes});
  }
  return result;
}

uint64_t DataBytes(std::span<const NamedTensor* const> tensors) {
  uint64_t bytes = 0;
  for (const NamedTensor* tensor : tensors) bytes += tensor->bytes.size();
  return bytes;
}

absl::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads all of `out`, which the file was seen to have.
absl::Status ReadFully(File& file, uint64_t offset, std::span<std::byte> out) {
  GW_ASSIGN_OR_RETURN(const size_t read, file.ReadAt(offset, out));
  if (read == out.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the file became shorter while it was read, it ends at byte ", offset + read,
                   "; read it again once it is whole"));
}

absl::StatusOr<SafetensorsFile> ReadOpen(File& file, uint64_t max_bytes) {
  GW_ASSIGN_OR_RETURN(const uint64_t file_bytes, file.Size());
  if (file_bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the file has ", file_bytes, " bytes, at most ", max_bytes, " are read"));
  }
  std::string start(std::min(file_bytes, kSafetensorsLengthBytes), '\0');
  GW_RETURN_IF_ERROR(ReadFully(file, 0, std::as_writable_bytes(std::span(start))));
  GW_ASSIGN_OR_RETURN(const uint64_t header_bytes, ParseSafetensorsLength(start, file_bytes));
  std::string json(header_bytes, '\0');
  GW_RETURN_IF_ERROR(
      ReadFully(file, kSafetensorsLengthBytes, std::as_writable_bytes(std::span(json))));
  const uint64_t data_at = kSafetensorsLengthBytes + header_bytes;
  GW_ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(json, file_bytes - data_at));
  const size_t data_bytes = file_bytes - data_at;
  SafetensorsFile result;
  result.data = std::make_unique_for_overwrite<std::byte[]>(data_bytes);
  const std::span<std::byte> data(result.data.get(), data_bytes);
  GW_RETURN_IF_ERROR(ReadFully(file, data_at, data));
  GW_ASSIGN_OR_RETURN(result.contents, MakeViews(std::move(header), data, data_at));
  return result;
}

}  // namespace

const NamedTensor* Safetensors::Find(absl::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

absl::Status WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                              const SafetensorsMetadata& metadata, FileSystem& fs) {
  std::vector<const NamedTensor*> order;
  order.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors) order.push_back(&tensor);
  // Largest elements first: with a header of whole 8 bytes each tensor is aligned.
  std::ranges::sort(order, {}, [](const NamedTensor* tensor) {
    return std::tuple(-static_cast<int>(rpc::ItemBytes(tensor->dtype)),
                      absl::string_view(tensor->name));
  });
  const auto context = [&] {
    return absl::StrCat("writing safetensors \"", EscapedString(path), "\"");
  };
  GW_ASSIGN_OR_RETURN(const std::string header, FormatSafetensorsHeader(order, metadata),
                      _ << context());
  const absl::Status written = fs.WriteAtomically(path, [&](File& file) -> absl::Status {
    GW_RETURN_IF_ERROR(file.Append(header));
    for (const NamedTensor* tensor : order) {
      GW_RETURN_IF_ERROR(file.Append(tensor->bytes), _ << ShowTensor(tensor->name));
    }
    return absl::OkStatus();
  });
  if (!absl::IsResourceExhausted(written)) return WithContext(written, context());
  return WithContext(
      absl::ResourceExhaustedError(absl::StrCat(
          written.message(), "; free space on its disk, ", header.size() + DataBytes(order),
          " bytes are needed. What was there before still is")),
      context());
}

absl::StatusOr<Safetensors> ReadSafetensors(std::span<const std::byte> file) {
  const absl::string_view text = AsText(file);
  GW_ASSIGN_OR_RETURN(const uint64_t header_bytes,
                      ParseSafetensorsLength(text.substr(0, kSafetensorsLengthBytes), file.size()));
  const uint64_t data_at = kSafetensorsLengthBytes + header_bytes;
  GW_ASSIGN_OR_RETURN(SafetensorsHeader header,
                      ParseSafetensorsHeader(text.substr(kSafetensorsLengthBytes, header_bytes),
                                             file.size() - data_at));
  return MakeViews(std::move(header), file.subspan(data_at), data_at);
}

absl::StatusOr<SafetensorsFile> ReadSafetensors(const std::string& path, uint64_t max_bytes,
                                                FileSystem& fs) {
  const auto context = [&] {
    return absl::StrCat("reading safetensors \"", EscapedString(path), "\"");
  };
  GW_ASSIGN_OR_RETURN(const auto file, fs.Open(path, OpenMode::kRead), _ << context());
  GW_ASSIGN_OR_RETURN(SafetensorsFile result, ReadOpen(*file, max_bytes), _ << context());
  return result;
}

}  // namespace gradwire::data
