// What the launcher itself logs, kept until the loop prints it with all other output: written from
// other threads, it would tear the status line and wait for the reader.
//
// While an object of this lives, it is the process's log.
// Limits:        kMaxLineCount lines wait; later ones are dropped, and counted in the next.
// Thread-safety: Take and fd are for one thread; log lines come from any.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "rpc/base/log.h"

namespace gradwire::launch {

class LogLines {
 public:
  static constexpr size_t kMaxLineCount = 1000;

  LogLines();
  // The log goes where it went before.
  ~LogLines();
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  // Can be read (poll) when there are lines.
  int fd() const;
  std::vector<std::string> Take();

 private:
  class Sink;
  std::shared_ptr<Sink> sink_;
  std::shared_ptr<LogSink> before_;
};

}  // namespace gradwire::launch
