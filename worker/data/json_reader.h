// The part of JSON that safetensors headers are made of: objects, arrays, strings, whole numbers.
//
// A cursor that the caller drives: nothing here recurses, whatever the text holds.
// Thread-safety: none.
// Errors:        INVALID_ARGUMENT, "byte N: ...", N counted from the start of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire::data {

class JsonReader {
 public:
  // `text` begins at byte `start` of the file, must outlive the reader and be UTF-8.
  JsonReader(absl::string_view text, uint64_t start) : text_(text), start_(start) {}

  // Goes past white space and `wanted`; false, having moved past white space alone, when something
  // else comes.
  bool Take(char wanted);
  // The same, an error when something else comes.
  absl::Status Expect(char wanted);
  absl::StatusOr<std::string> String();
  // 0 to 2^63-1: no sign, fraction, exponent or leading zero.
  absl::StatusOr<uint64_t> Number();
  // Nothing but white space is left.
  absl::Status End();

  // Where the next thing begins, in the file.
  uint64_t offset();
  absl::Status Error(absl::string_view message) { return ErrorAt(offset(), message); }
  static absl::Status ErrorAt(uint64_t offset, absl::string_view message);

 private:
  void SkipSpace();
  std::string NextShown();
  absl::Status TakeEscape(std::string& out);
  absl::StatusOr<uint32_t> TakeHex4();

  const absl::string_view text_;
  const uint64_t start_;
  size_t at_ = 0;
};

// `text` (UTF-8) between quotes.
void AppendJsonString(absl::string_view text, std::string& out);

}  // namespace gradwire::data
