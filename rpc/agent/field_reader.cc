#include "rpc/agent/field_reader.h"

#include "absl/strings/str_cat.h"
#include "rpc/base/utf8.h"

namespace gradwire::rpc {

bool FieldReader::Next() {
  if (!status_.ok() || reader_.done()) return false;
  if (!reader_.Tag(&field_, &type_)) return Fail("is not followed by a well-formed tag");
  return true;
}

bool FieldReader::Fail(absl::string_view what) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrCat(message_, ": field ", field_, " ", what));
  }
  return false;
}

bool FieldReader::Typed(uint32_t type) {
  return type_ == type || Fail(absl::StrCat("has wire type ", type_, ", not ", type));
}

bool FieldReader::Once(uint32_t type) {
  const uint32_t bit = 1u << field_;
  if ((seen_ & bit) != 0) return Fail("is repeated");
  seen_ |= bit;
  return Typed(type);
}

void FieldReader::Uint32(uint32_t& out) {
  uint64_t value = 0;
  if (!Once(wire::kVarint) || !Check(reader_.Varint(&value))) return;
  if (value > UINT32_MAX) {
    Fail("does not fit 32 bits");
    return;
  }
  out = static_cast<uint32_t>(value);
}

void FieldReader::Uint64(uint64_t& out) {
  if (Once(wire::kVarint)) Check(reader_.Varint(&out));
}

void FieldReader::Bool(bool& out) {
  uint64_t value = 0;
  if (Once(wire::kVarint) && Check(reader_.Varint(&value))) out = value != 0;
}

void FieldReader::Fixed64(uint64_t& out) {
  if (Once(wire::kFixed64)) Check(reader_.Fixed64(&out));
}

void FieldReader::Fixed32(uint32_t& out) {
  if (Once(wire::kFixed32)) Check(reader_.Fixed32(&out));
}

void FieldReader::Text(absl::string_view& out, size_t limit_bytes) {
  Bytes bytes;
  if (!Message(bytes)) return;
  if (bytes.size() > limit_bytes) {
    Fail(absl::StrCat("has ", bytes.size(), " bytes, at most ", limit_bytes, " are allowed"));
  } else if (!IsValidUtf8(AsText(bytes))) {
    Fail("is not UTF-8");
  } else {
    out = AsText(bytes);
  }
}

void FieldReader::Text(std::string& out, size_t limit_bytes) {
  absl::string_view view;
  Text(view, limit_bytes);
  if (status_.ok()) out.assign(view.data(), view.size());
}

void FieldReader::Raw(std::string& out, size_t limit_bytes) {
  Bytes bytes;
  if (!Message(bytes)) return;
  if (bytes.size() > limit_bytes) {
    Fail(absl::StrCat("has ", bytes.size(), " bytes, at most ", limit_bytes, " are allowed"));
  } else {
    out.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
}

bool FieldReader::Message(Bytes& out) { return Once(wire::kLength) && Check(reader_.Length(&out)); }

bool FieldReader::Repeated(Bytes& out, size_t count, size_t limit_count) {
  if (count >= limit_count) return Fail(absl::StrCat("comes more than ", limit_count, " times"));
  return Typed(wire::kLength) && Check(reader_.Length(&out));
}

bool FieldReader::LengthOnly(uint32_t& size) {
  return Once(wire::kLength) && Check(reader_.Varint32(&size));
}

void FieldReader::Skip() {
  if (!reader_.Skip(type_)) Fail("is malformed");
}

}  // namespace gradwire::rpc
