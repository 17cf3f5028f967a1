#include "worker/launch/line_splitter.h"

#include <algorithm>
#include <utility>

namespace gradwire::launch {

void LineSplitter::Add(absl::string_view bytes, std::vector<std::string>& lines) {
  while (!bytes.empty()) {
    if (after_return_) {
      after_return_ = false;
      if (bytes[0] == '\n') {
        lines.push_back(std::exchange(line_, ""));
        bytes.remove_prefix(1);
        continue;
      }
      Finish(lines);
    }
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    const size_t room = kMaxLineBytes - line_.size();
    if (end > room) {
      line_.append(bytes.data(), room);
      lines.push_back(std::exchange(line_, ""));
      bytes.remove_prefix(room);
      continue;
    }
    line_.append(bytes.data(), end);
    bytes.remove_prefix(end);
    if (bytes.empty()) return;
    if (bytes[0] == '\n') {
      lines.push_back(std::exchange(line_, ""));
    } else {
      after_return_ = true;
    }
    bytes.remove_prefix(1);
  }
}

void LineSplitter::Finish(std::vector<std::string>& lines) {
  after_return_ = false;
  if (!line_.empty()) lines.push_back(std::exchange(line_, ""));
}

}  // namespace gradwire::launch
