#include "worker/launch/log_lines.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/mutex.h"
#include "rpc/base/unique_fd.h"

namespace gradwire::launch {

class LogLines::Sink final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    std::string line = record.Format();
    MutexLock lock(mu_);
    if (lines_.size() >= kMaxLineCount) {
      ++dropped_;
      return;
    }
    lines_.push_back(std::move(line));
    const uint64_t one = 1;
    (void)!write(event_.get(), &one, sizeof(one));
  }

  std::vector<std::string> Take() {
    uint64_t count = 0;
    (void)!read(event_.get(), &count, sizeof(count));
    MutexLock lock(mu_);
    std::vector<std::string> lines = std::exchange(lines_, {});
    if (const size_t dropped = std::exchange(dropped_, 0); dropped > 0) {
      lines.push_back(absl::StrCat("level=warning msg=\"log lines were dropped\" count=", dropped));
    }
    return lines;
  }

  int fd() const { return event_.get(); }

 private:
  const UniqueFd event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Mutex mu_;
  std::vector<std::string> lines_ GW_GUARDED_BY(mu_);
  size_t dropped_ GW_GUARDED_BY(mu_) = 0;
};

LogLines::LogLines() : sink_(std::make_shared<Sink>()), before_(SetLogSink(sink_)) {}
LogLines::~LogLines() { SetLogSink(before_); }

int LogLines::fd() const { return sink_->fd(); }
std::vector<std::string> LogLines::Take() { return sink_->Take(); }

}  // namespace gradwire::launch
