// Data files: reading whole ones, and lines of separated fields, strictly.
//
// Limits:        kMaxDataFileBytes, packed and unpacked; the columns that are asked for.
// Errors:        NOT_FOUND: no such file, and what to do; INVALID_ARGUMENT: "FILE, line 3, column
// 2:
//                …"; DATA_LOSS: a gzip file that is damaged or cut.
// Thread-safety: stateless.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/base/fs.h"

namespace gradwire::data {

// 2 GiB: all of MNIST is 55 MB, MovieLens 25M 678 MB.
inline constexpr size_t kMaxDataFileBytes = size_t{2} << 30;

// The contents of `path`, unpacked if it is a gzip file (RFC 1952), whatever its name.
absl::StatusOr<std::string> ReadDataFile(const std::string& path, FileSystem& fs);

// Where a field is, for messages.
struct FieldPlace {
  const std::string* file;
  int64_t line = 0;   // from 1
  size_t column = 0;  // from 1
};
absl::Status FieldError(const FieldPlace& place, absl::string_view what);

// A whole number in [min, max], digits and at most a sign.
absl::StatusOr<int64_t> ParseWhole(absl::string_view field, int64_t min, int64_t max,
                                   const FieldPlace& place);
// A decimal number in [min, max].
absl::StatusOr<float> ParseDecimal(absl::string_view field, float min, float max,
                                   const FieldPlace& place);

// Calls `row(line number, fields)` for each line that isn't empty; each must have `column_count`
// fields.
using Fields = absl::InlinedVector<absl::string_view, 8>;
absl::Status ForEachLine(const std::string& file, absl::string_view text, char separator,
                         size_t column_count,
                         const std::function<absl::Status(int64_t line, const Fields&)>& row);

}  // namespace gradwire::data
