// Captures the process's log for a scope, in tests.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "rpc/base/log.h"
#include "rpc/base/mutex.h"

namespace gradwire {

class ScopedLogCapture {
 public:
  // With a `clock`, time stamps and rate limits follow it.
  explicit ScopedLogCapture(Clock* clock = nullptr)
      : sink_(std::make_shared<Sink>()),
        old_sink_(SetLogSink(sink_)),
        old_clock_(SetLogClock(clock)),
        old_level_(SetLogLevel(LogSeverity::kInfo)) {}
  ~ScopedLogCapture() {
    SetLogLevel(old_level_);
    SetLogClock(old_clock_);
    SetLogSink(old_sink_);
  }
  ScopedLogCapture(const ScopedLogCapture&) = delete;
  ScopedLogCapture& operator=(const ScopedLogCapture&) = delete;

  std::vector<LogRecord> records() const { return sink_->Copy(); }
  // True when a formatted line contains `text`.
  bool Contains(absl::string_view text) const {
    const auto all = records();
    return std::any_of(all.begin(), all.end(), [&](const LogRecord& record) {
      return absl::StrContains(record.Format(), text);
    });
  }

 private:
  class Sink final : public LogSink {
   public:
    void Write(const LogRecord& record) override {
      MutexLock lock(mu_);
      records_.push_back(record);
    }
    std::vector<LogRecord> Copy() {
      MutexLock lock(mu_);
      return records_;
    }

   private:
    Mutex mu_;
    std::vector<LogRecord> records_ GW_GUARDED_BY(mu_);
  };

  std::shared_ptr<Sink> sink_;
  std::shared_ptr<LogSink> old_sink_;
  Clock* old_clock_;
  LogSeverity old_level_;
};

}  // namespace gradwire
