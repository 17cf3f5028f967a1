// Any bytes are safetensors or refused with a status; what was read lies inside the input and,
// written, reads back the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "rpc/base/fs_sim.h"
#include "rpc/base/status.h"
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

}  // namespace
}  // namespace gradwire::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // As it is, and as a header with its right length and no tensors' bytes, which libFuzzer hardly
  // finds.
  const auto bytes = std::as_bytes(std::span(data, size));
  gradwire::data::Check(bytes);
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(uint64_t{size} >> (8 * i));
  file.append(reinterpret_cast<const char*>(data), size);
  for (int more = 0; more < 3; ++more, file += '\1') {
    gradwire::data::Check(std::as_bytes(std::span(file)));
  }
  return 0;
}
