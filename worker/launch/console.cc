#include "worker/launch/console.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "rpc/base/utf8.h"

namespace gradwire::launch {
namespace {

// Readable on dark and on light ground.
constexpr std::array<absl::string_view, 6> kColors = {"36", "33", "32", "35", "34", "31"};

}  // namespace

std::string ForTerminal(absl::string_view text) {
  std::string shown;
  for (const char c : ValidUtf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
      shown += '^';
      shown += static_cast<char>(byte ^ 0x40);
    } else {
      shown += c;
    }
  }
  // U+0080 to U+009F are control characters too, two bytes each.
  for (size_t i = 0; i + 1 < shown.size(); ++i) {
    if (shown[i] == '\xc2' && static_cast<unsigned char>(shown[i + 1]) < 0xa0) {
      shown.replace(i, 2, "^?");
    }
  }
  return shown;
}

Console::Console(OutputStream* out, OutputStream* err, const Environment& environment)
    : out_(out), err_(err) {
  const bool dumb = environment("TERM").value_or("dumb") == "dumb";
  colored_ = !dumb && environment("NO_COLOR").value_or("").empty();
  shows_status_ = !dumb && out_->is_terminal();
}

void Console::Clear() {
  if (drawn_) out_->Write("\r\x1b[K");
  drawn_ = false;
}

void Console::Line(To to, absl::string_view name, int color, absl::string_view line) {
  OutputStream& target = stream(to);
  if (!target.is_terminal()) {
    target.Write(absl::StrCat("[", name, "] ", line, "\n"));
    return;
  }
  Clear();
  const std::string text = ForTerminal(line);
  if (!colored_) {
    target.Write(absl::StrCat("[", name, "] ", text, "\n"));
    return;
  }
  const absl::string_view code = kColors[static_cast<size_t>(color) % kColors.size()];
  target.Write(absl::StrCat("\x1b[", code, "m[", name, "]\x1b[0m ", text, "\n"));
}

void Console::Text(To to, absl::string_view text) {
  if (stream(to).is_terminal()) Clear();
  stream(to).Write(text);
}

void Console::SetStatus(absl::string_view line) {
  if (!shows_status_) return;
  if (line.empty()) {
    Clear();
    return;
  }
  // The last column stays free: some terminals go on to the next line there.
  const size_t columns = out_->width();
  out_->Write(absl::StrCat("\r", line.substr(0, columns > 1 ? columns - 1 : 0), "\x1b[K"));
  drawn_ = true;
}

}  // namespace gradwire::launch
