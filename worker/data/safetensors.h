// Reads and writes safetensors files: named tensors that the Python world loads without running
// code.
//
//   u64le length of the header, the header (JSON, padded with spaces), the tensors' bytes
//   {"__metadata__":{"step":"7"},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}
//
// Format:        huggingface.co/docs/safetensors, "Format". Little-endian, row-major.
// Ownership:     views don't own: what ReadSafetensors() was given must outlive them.
// Alignment:     what WriteSafetensors() wrote is aligned to its element in the file and in memory
//                of a SafetensorsFile; other writers promise nothing: copy, or look.
// Thread-safety: stateless functions, plain values.
// Limits:        kMaxSafetensorsHeaderBytes, kMaxSafetensorsCount, rpc::kMaxTensorDims.
// Errors:        INVALID_ARGUMENT a file or a tensor that breaks the format, or element types that
//                one side doesn't have; RESOURCE_EXHAUSTED a file larger than asked for; those of
//                FileSystem. Messages name file, byte and tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/base/fs.h"
#include "rpc/tensor/dtype.h"

namespace gradwire::data {

// 100 MB: the format's own limit.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
// 200'000 tensors: twice those of the largest models, and bounds what a header that is all names
// makes us allocate.
inline constexpr size_t kMaxSafetensorsCount = 200'000;

struct NamedTensor {
  std::string name;
  // float32, float64, float16, bfloat16, int8 to int64, uint8, bool, complex64.
  rpc::DType dtype = rpc::DType::kUndefined;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // row-major
};

using SafetensorsMetadata = std::map<std::string, std::string>;

struct Safetensors {
  std::vector<NamedTensor> tensors;  // in the order of their bytes
  SafetensorsMetadata metadata;

  // nullptr: there is none.
  const NamedTensor* Find(absl::string_view name) const;
};

// A whole file in memory, with views of it. Movable; the views stay valid.
struct SafetensorsFile {
  std::unique_ptr<std::byte[]> data;
  Safetensors contents;
};

// Puts a file with `tensors` at `path`, durably and in one step, by way of `path`.tmp in the same
// folder; the tensors go from where they are to the file. Largest elements first, then by name.
absl::Status WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                              const SafetensorsMetadata& metadata, FileSystem& fs);

// Views of the tensors in `file`, the bytes of a whole file. Bools other than 0 and 1 are refused.
absl::StatusOr<Safetensors> ReadSafetensors(std::span<const std::byte> file);

// The same from the disk. The header is checked before the tensors are read.
absl::StatusOr<SafetensorsFile> ReadSafetensors(const std::string& path, uint64_t max_bytes,
                                                FileSystem& fs);

}  // namespace gradwire::data
