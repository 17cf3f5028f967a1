// Structured log lines: key=value pairs (logfmt), one line a record, on stderr by default.
//
//   GW_LOG(WARNING) << "session cut" << Kv("peer", Escaped(name)) << Kv("after", elapsed);
//   -> time=2026-12-01T06:38:02.123456Z level=warning tid=71 at=agent/session.cc:12
//      msg="session cut" peer=worker-1 after=5s                                       (one line)
//   GW_LOG_EVERY(ERROR, absl::Seconds(10)) << ...           at most one in 10 s from this site
//   GW_LOG_EVERY_KEY(INFO, absl::Seconds(10), peer) << ...  the same for each key
// A record let through after others were held back says how many: suppressed=17.
//
// Safety:        a line is printable ASCII whatever was put in: nothing can forge a second line or
//                reach a terminal. Text of peers goes through Escaped(), which also cuts it;
//                secrets are of type Secret, which prints "<secret>".
// Thread-safety: all functions thread-safe. The sink runs on the logging thread, under no lock.
// Limits:        kMaxLogMessageBytes a message, kMaxLogFieldBytes a field, kMaxLogFieldCount
//                fields, kMaxLogKeyCount keys a site: beyond it is cut, or shares one limit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace gradwire {

inline constexpr size_t kMaxEscapedBytes = 128;
inline constexpr size_t kMaxLogMessageBytes = 2048;
inline constexpr size_t kMaxLogFieldBytes = 512;
inline constexpr size_t kMaxLogFieldCount = 16;
inline constexpr size_t kMaxLogKeyCount = 256;

enum class LogSeverity { kInfo, kWarning, kError };

// "info", "warning", "error".
absl::string_view LogSeverityName(LogSeverity severity);
std::optional<LogSeverity> ParseLogSeverity(absl::string_view name);

// Text from a peer, a file or the environment: streams C-escaped, its first kMaxEscapedBytes bytes
// and then "...". Shows `text`, which must outlive it.
struct Escaped {
  explicit Escaped(absl::string_view shown) : text(shown) {}
  absl::string_view text;
  friend std::ostream& operator<<(std::ostream& out, Escaped escaped);
};
std::string EscapedString(absl::string_view text);

struct LogField {
  absl::string_view key;  // a literal: [a-z_]+
  std::string value;      // as it is; Format() escapes
};

// One field of a log line. Any type that streams.
template <class T>
LogField Kv(absl::string_view key, const T& value) {
  std::ostringstream out;
  out << std::boolalpha << value;
  return {key, std::move(out).str()};
}
// Cut here, escaped once by the line itself.
LogField Kv(absl::string_view key, Escaped value);

struct LogRecord {
  LogSeverity severity = LogSeverity::kInfo;
  absl::string_view file;
  int line = 0;
  int64_t wall_nanos = 0;
  int64_t thread_id = 0;
  std::string message;
  std::vector<LogField> fields;
  uint64_t suppressed_count = 0;

  // The line, without its end.
  std::string Format() const;
};

class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Write(const LogRecord& record) = 0;
};

// The process's log. Setters return what was set before; null stands for the default (stderr, the
// real clock). A clock must outlive its being set.
std::shared_ptr<LogSink> SetLogSink(std::shared_ptr<LogSink> sink);
Clock* SetLogClock(Clock* clock);
LogSeverity SetLogLevel(LogSeverity lowest);
bool LogEnabled(LogSeverity severity);

namespace log_internal {

inline constexpr LogSeverity kINFO = LogSeverity::kInfo;
inline constexpr LogSeverity kWARNING = LogSeverity::kWarning;
inline constexpr LogSeverity kERROR = LogSeverity::kError;

// Decides for one site. Admit: how many records were held back since the last one let through, or
// nothing when this one is to be held back.
class RateLimiter {
 public:
  constexpr RateLimiter() = default;
  std::optional<uint64_t> Admit(absl::Duration every);

 private:
  friend class KeyedRateLimiter;
  std::optional<uint64_t> AdmitAt(int64_t now_nanos, absl::Duration every);
  // When the next record may pass, on the log's clock; whoever moves it on (compare-exchange) has
  // the permission. Publishes nothing else.
  std::atomic<int64_t> next_nanos_{0};
  std::atomic<uint64_t> suppressed_{0};
};

class KeyedRateLimiter {
 public:
  std::optional<uint64_t> Admit(absl::Duration every, absl::string_view key);

 private:
  struct Entry {
    int64_t next_nanos = 0;
    uint64_t suppressed = 0;
  };
  Mutex mu_;
  // By hash: two keys that collide share a limit.
  absl::flat_hash_map<uint64_t, Entry> entries_ GW_GUARDED_BY(mu_);
  RateLimiter overflow_;  // for keys that found no room
};

class LogMessage {
 public:
  LogMessage(LogSeverity severity, absl::string_view file, int line, uint64_t suppressed = 0);
  ~LogMessage();  // writes
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;

  template <class T>
  LogMessage& operator<<(const T& value) {
    text_ << value;
    return *this;
  }
  LogMessage& operator<<(Escaped value);
  LogMessage& operator<<(LogField field);

 private:
  LogRecord record_;
  std::ostringstream text_;
};

}  // namespace log_internal
}  // namespace gradwire

// `switch` makes an `else` after the macro belong to an `if` before it.
#define GW_LOG_IF_(severity, admit, suppressed)                                             \
  switch (0)                                                                                \
  case 0:                                                                                   \
  default:                                                                                  \
    if (!::gradwire::LogEnabled(::gradwire::log_internal::k##severity)) {                   \
    } else if (const ::std::optional<uint64_t> gw_suppressed_ = (admit); !gw_suppressed_) { \
    } else /* NOLINT */                                                                     \
      ::gradwire::log_internal::LogMessage(::gradwire::log_internal::k##severity, __FILE__, \
                                           __LINE__, suppressed)

#define GW_LOG_SITE_(type)                         \
  ([]() -> ::gradwire::log_internal::type& {       \
    static ::gradwire::log_internal::type limiter; \
    return limiter;                                \
  }())

#define GW_LOG(severity) GW_LOG_IF_(severity, ::std::optional<uint64_t>(0), 0)
#define GW_LOG_EVERY(severity, duration) \
  GW_LOG_IF_(severity, GW_LOG_SITE_(RateLimiter).Admit(duration), *gw_suppressed_)
#define GW_LOG_EVERY_KEY(severity, duration, key) \
  GW_LOG_IF_(severity, GW_LOG_SITE_(KeyedRateLimiter).Admit(duration, key), *gw_suppressed_)
