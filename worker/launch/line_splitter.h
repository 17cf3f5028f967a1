// Bytes of a stream, cut into lines: what a process prints, in whatever pieces it comes.
//
// Lines:         end with \n, \r\n or \r (programs that redraw a line end it so; those are left out
//                where they are empty). Any other byte belongs to its line, UTF-8 or not.
// Limits:        kMaxLineBytes: a longer line becomes several.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gradwire::launch {

class LineSplitter {
 public:
  static constexpr size_t kMaxLineBytes = 64u << 10;

  // Appends the lines that `bytes` completes.
  void Add(absl::string_view bytes, std::vector<std::string>& lines);
  // The stream has ended: what is left is a line too.
  void Finish(std::vector<std::string>& lines);

 private:
  std::string line_;
  bool after_return_ = false;  // the last byte was \r; it is not known yet whether \n follows
};

}  // namespace gradwire::launch
