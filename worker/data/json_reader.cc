#include "worker/data/json_reader.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"

namespace gradwire::data {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20; }

// How many bytes come before the first that a string in JSON doesn't hold as it is.
size_t PlainBytes(absl::string_view text) {
  size_t count = 0;
  while (count < text.size() && text[count] != '"' && text[count] != '\\' &&
         !IsControl(text[count])) {
    ++count;
  }
  return count;
}

bool IsHighSurrogate(uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool IsLowSurrogate(uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

void AppendUtf8(uint32_t point, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((point >> shift) & 0x3f)); };
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xc0 | (point >> 6));
    tail(0);
  } else if (point < 0x10000) {
    out += static_cast<char>(0xe0 | (point >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | (point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

void JsonReader::SkipSpace() {
  while (at_ < text_.size() && absl::string_view(" \t\n\r").find(text_[at_]) != text_.npos) ++at_;
}

std::string JsonReader::NextShown() {
  if (at_ >= text_.size()) return "the header ends";
  return absl::StrCat("'", EscapedString(text_.substr(at_, 1)), "' comes");
}

uint64_t JsonReader::offset() {
  SkipSpace();
  return start_ + at_;
}

absl::Status JsonReader::ErrorAt(uint64_t offset, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("byte ", offset, ": ", message));
}

bool JsonReader::Take(char wanted) {
  SkipSpace();
  if (at_ >= text_.size() || text_[at_] != wanted) return false;
  ++at_;
  return true;
}

absl::Status JsonReader::Expect(char wanted) {
  if (Take(wanted)) return absl::OkStatus();
  const std::string name(1, wanted);
  return Error(absl::StrCat("'", name, "' must come here, but ", NextShown()));
}

absl::StatusOr<uint64_t> JsonReader::Number() {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  const uint64_t begin = offset();
  if (at_ >= text_.size() || !IsDigit(text_[at_])) {
    return Error(absl::StrCat("a whole number must come here, but ", NextShown()));
  }
  uint64_t value = 0;
  if (text_[at_] == '0') {
    ++at_;
  } else {
    for (; at_ < text_.size() && IsDigit(text_[at_]); ++at_) {
      const auto digit = static_cast<uint64_t>(text_[at_] - '0');
      if (value > (kMax - digit) / 10) return ErrorAt(begin, "the number is above 2^63-1");
      value = value * 10 + digit;
    }
  }
  if (at_ < text_.size() &&
      (IsDigit(text_[at_]) || text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E')) {
    return ErrorAt(begin, "the number is not a whole one in plain digits");
  }
  return value;
}

absl::StatusOr<std::string> JsonReader::String() {
  const uint64_t begin = offset();
  if (!Take('"')) return Error(absl::StrCat("a string must come here, but ", NextShown()));
  std::string out;
  while (at_ < text_.size()) {
    const size_t plain = PlainBytes(text_.substr(at_));
    out.append(text_.data() + at_, plain);
    at_ += plain;
    if (at_ == text_.size()) break;
    const char c = text_[at_];
    if (c == '"') {
      ++at_;
      return out;
    }
    if (IsControl(c)) return ErrorAt(start_ + at_, "a control character inside a string");
    GW_RETURN_IF_ERROR(TakeEscape(out));
  }
  return ErrorAt(begin, "the string that begins here has no end");
}

absl::Status JsonReader::TakeEscape(std::string& out) {
  const uint64_t begin = start_ + at_;
  const char kind = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  constexpr absl::string_view kLetters = "\"\\/bfnrt";
  if (const size_t letter = kLetters.find(kind); letter != kLetters.npos) {
    out += "\"\\/\b\f\n\r\t"[letter];
    at_ += 2;
    return absl::OkStatus();
  }
  if (kind != 'u') return ErrorAt(begin, "an escape that JSON doesn't have");
  at_ += 2;
  GW_ASSIGN_OR_RETURN(uint32_t point, TakeHex4());
  if (IsHighSurrogate(point) && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    GW_ASSIGN_OR_RETURN(const uint32_t low, TakeHex4());
    if (!IsLowSurrogate(low)) return ErrorAt(begin, "half of a surrogate pair");
    point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
  } else if (IsHighSurrogate(point) || IsLowSurrogate(point)) {
    return ErrorAt(begin, "half of a surrogate pair");
  }
  AppendUtf8(point, out);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> JsonReader::TakeHex4() {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    if (at_ >= text_.size() || !absl::ascii_isxdigit(static_cast<unsigned char>(text_[at_]))) {
      return ErrorAt(start_ + at_, "four hexadecimal digits must follow \\u");
    }
    const char c = absl::ascii_tolower(static_cast<unsigned char>(text_[at_]));
    value = value * 16 + static_cast<uint32_t>(IsDigit(c) ? c - '0' : c - 'a' + 10);
  }
  return value;
}

absl::Status JsonReader::End() {
  SkipSpace();
  if (at_ == text_.size()) return absl::OkStatus();
  return Error(absl::StrCat("only spaces may follow the header's last '}', but ", NextShown()));
}

void AppendJsonString(absl::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const size_t plain = PlainBytes(text);
    out.append(text.data(), plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    if (IsControl(text[0])) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned>(text[0]));
    } else {
      out += '\\';
      out += text[0];
    }
    text.remove_prefix(1);
  }
  out += '"';
}

}  // namespace gradwire::data
