// Text that must not reach a log, an error message or a core dump longer than needed: tokens, keys.
//
// Streams as "<secret>"; only Reveal() gives the text away. Its memory is overwritten when it goes.
// Thread-safety: a value.
#pragma once

#include <string.h>

#include <ostream>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace gradwire {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(const Secret&) = default;
  // A copy, since a move may leave the bytes behind in the other's short buffer.
  // NOLINTNEXTLINE(performance-move-constructor-init)
  Secret(Secret&& other) noexcept : text_(other.text_) { other.Clear(); }
  Secret& operator=(Secret other) noexcept {
    text_.swap(other.text_);
    return *this;
  }
  ~Secret() { Clear(); }

  absl::string_view Reveal() const { return text_; }
  bool empty() const { return text_.empty(); }

  friend std::ostream& operator<<(std::ostream& out, const Secret&) { return out << "<secret>"; }

 private:
  void Clear() {
    explicit_bzero(text_.data(), text_.size());
    text_.clear();
  }
  std::string text_;
};

}  // namespace gradwire
