// The header of a safetensors file, apart from the tensors' bytes.
//
// Parse, don't check: what ParseSafetensorsHeader() returns fits the format, itself and the file.
// Thread-safety: stateless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/tensor/dtype.h"
#include "worker/data/safetensors.h"

namespace gradwire::data {

// Bytes of the length field in front of the header.
inline constexpr uint64_t kSafetensorsLengthBytes = 8;

struct HeaderTensor {
  std::string name;
  rpc::DType dtype = rpc::DType::kUndefined;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes behind the header
  uint64_t end = 0;
  uint64_t described_at = 0;  // byte of the file where the name stands
};

struct SafetensorsHeader {
  std::vector<HeaderTensor> tensors;  // one behind the other from byte 0 on, without a gap
  SafetensorsMetadata metadata;
};

// "tensor \"w\"", for messages.
std::string ShowTensor(absl::string_view name);

// How many bytes the header has, from the first kSafetensorsLengthBytes bytes (or fewer, where the
// file has no more) of a file of `file_bytes`.
absl::StatusOr<uint64_t> ParseSafetensorsLength(absl::string_view start, uint64_t file_bytes);

// `data_bytes`: how many bytes of the file follow the header.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view header,
                                                         uint64_t data_bytes);

// Length field and header for tensors whose bytes follow in this order.
absl::StatusOr<std::string> FormatSafetensorsHeader(std::span<const NamedTensor* const> tensors,
                                                    const SafetensorsMetadata& metadata);

}  // namespace gradwire::data
