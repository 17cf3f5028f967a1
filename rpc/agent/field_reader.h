// Reads one protobuf message field by field, with the rules that frames add: no singular field
// twice, limits on lengths and counts, UTF-8 where the specification says string.
//
//   FieldReader in("goodbye", bytes);
//   while (in.Next()) {
//     switch (in.field()) {
//       case 1: in.Uint32(out.status_code); break;
//       default: in.Skip();
//     }
//   }
//   return in.status();
//
// Thread-safety: none. Errors: INVALID_ARGUMENT "goodbye: field 1 is repeated".
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rpc/agent/proto_wire.h"
#include "rpc/base/buffer.h"

namespace gradwire::rpc {

class FieldReader {
 public:
  FieldReader(absl::string_view message, Bytes bytes) : message_(message), reader_(bytes) {}

  // The next field; false at the end or on an error (see status()).
  bool Next();
  uint32_t field() const { return field_; }
  uint32_t type() const { return type_; }
  const absl::Status& status() const { return status_; }
  bool done() const { return reader_.done(); }
  // What has not been read yet.
  const std::byte* at() const { return reader_.at(); }
  size_t left() const { return reader_.left(); }

  // Each reads the current field's value; on an error the status says so and `out` is not changed.
  void Uint32(uint32_t& out);
  void Uint64(uint64_t& out);
  void Bool(bool& out);
  void Fixed64(uint64_t& out);
  void Fixed32(uint32_t& out);
  void Text(absl::string_view& out, size_t limit_bytes);
  void Text(std::string& out, size_t limit_bytes);
  void Raw(std::string& out, size_t limit_bytes);
  // A submessage or bytes that may come once.
  bool Message(Bytes& out);
  // … or repeatedly: `count` came before.
  bool Repeated(Bytes& out, size_t count, size_t limit_count);
  // Length of a bytes field whose value goes on beyond the bytes at hand.
  bool LengthOnly(uint32_t& size);
  void Skip();
  bool Fail(absl::string_view what);

 private:
  bool Check(bool ok) { return ok || Fail("is cut off or malformed"); }
  bool Typed(uint32_t type);
  bool Once(uint32_t type);

  const absl::string_view message_;
  wire::Reader reader_;
  uint32_t field_ = 0;
  uint32_t type_ = 0;
  uint32_t seen_ = 0;  // bit n: field n came; fields of ours are below 32
  absl::Status status_;
};

}  // namespace gradwire::rpc
