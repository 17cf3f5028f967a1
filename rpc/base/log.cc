#include "rpc/base/log.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>

#include "absl/hash/hash.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

class StderrSink final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    const std::string line = absl::StrCat(record.Format(), "\n");
    // One write a line, so that lines of several processes don't mix. Where stderr takes no more
    // (closed, full and non-blocking), the line is lost: a log must not stop the work.
    absl::string_view rest = line;
    while (!rest.empty()) {
      const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      rest.remove_prefix(static_cast<size_t>(written));
    }
  }
};

struct LogState {
  Mutex mu;
  std::shared_ptr<LogSink> sink GW_GUARDED_BY(mu);  // null: stderr
  StderrSink stderr_sink;
};

// Never destroyed: threads may log while the process ends.
LogState& State() {
  static auto* const state = new LogState;
  return *state;
}

// Read by every log statement, changed by options and tests; alone, hence relaxed.
std::atomic<LogSeverity> lowest_severity{LogSeverity::kInfo};
// Null: the real clock. The setter's thread orders it with the uses it cares for.
std::atomic<Clock*> log_clock{nullptr};

Clock& LogClock() {
  Clock* clock = log_clock.load(std::memory_order_acquire);
  return clock != nullptr ? *clock : Clock::Real();
}

int64_t NowNanos() { return absl::ToUnixNanos(LogClock().Now()); }

int64_t ThreadId() {
  static thread_local const int64_t id = ::gettid();
  return id;
}

std::string Cut(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  return absl::StrCat(text.substr(0, max_bytes), "...");
}

bool IsBareCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::string_view("._:/+-,@%<>()[]").find(c) != absl::string_view::npos;
}

void AppendValue(std::string& line, absl::string_view value) {
  if (!value.empty() && std::all_of(value.begin(), value.end(), IsBareCharacter)) {
    absl::StrAppend(&line, value);
  } else {
    absl::StrAppend(&line, "\"", absl::CHexEscape(value), "\"");
  }
}

// "rpc/base/log.cc" and "/any/where/rpc/base/log.cc" -> "base/log.cc".
absl::string_view ShortFile(absl::string_view file) {
  const size_t last = file.rfind('/');
  if (last == absl::string_view::npos || last == 0) return file;
  const size_t before = file.rfind('/', last - 1);
  return before == absl::string_view::npos ? file : file.substr(before + 1);
}

}  // namespace

absl::string_view LogSeverityName(LogSeverity severity) {
  switch (severity) {
    case LogSeverity::kInfo:
      return "info";
    case LogSeverity::kWarning:
      return "warning";
    case LogSeverity::kError:
      return "error";
  }
  return "unknown";
}

std::optional<LogSeverity> ParseLogSeverity(absl::string_view name) {
  for (const auto severity : {LogSeverity::kInfo, LogSeverity::kWarning, LogSeverity::kError}) {
    if (name == LogSeverityName(severity)) return severity;
  }
  return std::nullopt;
}

std::string EscapedString(absl::string_view text) {
  std::string escaped = absl::CHexEscape(text.substr(0, kMaxEscapedBytes));
  if (text.size() > kMaxEscapedBytes) escaped += "...";
  return escaped;
}

std::ostream& operator<<(std::ostream& out, Escaped escaped) {
  return out << EscapedString(escaped.text);
}

LogField Kv(absl::string_view key, Escaped value) {
  return {key, Cut(value.text, kMaxEscapedBytes)};
}

std::string LogRecord::Format() const {
  std::string line =
      absl::StrCat("time=",
                   absl::FormatTime("%Y-%m-%d%ET%H:%M:%E6SZ", absl::FromUnixNanos(wall_nanos),
                                    absl::UTCTimeZone()),
                   " level=", LogSeverityName(severity), " tid=", thread_id,
                   " at=", ShortFile(file), ":", this->line, " msg=");
  AppendValue(line, message);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=");
    AppendValue(line, field.value);
  }
  if (suppressed_count > 0) absl::StrAppend(&line, " suppressed=", suppressed_count);
  return line;
}

std::shared_ptr<LogSink> SetLogSink(std::shared_ptr<LogSink> sink) {
  LogState& state = State();
  MutexLock lock(state.mu);
  std::swap(state.sink, sink);
  return sink;
}

Clock* SetLogClock(Clock* clock) { return log_clock.exchange(clock, std::memory_order_acq_rel); }

LogSeverity SetLogLevel(LogSeverity lowest) {
  return lowest_severity.exchange(lowest, std::memory_order_relaxed);
}

bool LogEnabled(LogSeverity severity) {
  return severity >= lowest_severity.load(std::memory_order_relaxed);
}

namespace log_internal {

std::optional<uint64_t> RateLimiter::Admit(absl::Duration every) {
  return AdmitAt(NowNanos(), every);
}

std::optional<uint64_t> RateLimiter::AdmitAt(int64_t now_nanos, absl::Duration every) {
  const int64_t every_nanos = absl::ToInt64Nanoseconds(every);
  int64_t next = next_nanos_.load(std::memory_order_relaxed);
  // A `next` further away than one interval is from another clock (a test, a simulation).
  const bool held = now_nanos < next && next - now_nanos <= every_nanos;
  if (held || !next_nanos_.compare_exchange_strong(next, now_nanos + every_nanos,
                                                   std::memory_order_relaxed)) {
    suppressed_.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  return suppressed_.exchange(0, std::memory_order_relaxed);
}

std::optional<uint64_t> KeyedRateLimiter::Admit(absl::Duration every, absl::string_view key) {
  const int64_t every_nanos = absl::ToInt64Nanoseconds(every);
  const uint64_t hash = absl::HashOf(key);
  const int64_t now = NowNanos();
  const auto held = [&](const Entry& entry) {
    return now < entry.next_nanos && entry.next_nanos - now <= every_nanos;
  };
  {
    MutexLock lock(mu_);
    if (!entries_.contains(hash) && entries_.size() >= kMaxLogKeyCount) {
      absl::erase_if(entries_, [&](const auto& item) { return !held(item.second); });
    }
    if (entries_.contains(hash) || entries_.size() < kMaxLogKeyCount) {
      Entry& entry = entries_[hash];
      if (held(entry)) {
        ++entry.suppressed;
        return std::nullopt;
      }
      entry.next_nanos = now + every_nanos;
      return std::exchange(entry.suppressed, 0);
    }
  }
  return overflow_.AdmitAt(now, every);
}

LogMessage::LogMessage(LogSeverity severity, absl::string_view file, int line,
                       uint64_t suppressed) {
  record_.severity = severity;
  record_.file = file;
  record_.line = line;
  record_.suppressed_count = suppressed;
  text_ << std::boolalpha;
}

LogMessage& LogMessage::operator<<(Escaped value) {
  text_ << Cut(value.text, kMaxEscapedBytes);  // the line escapes it, once
  return *this;
}

LogMessage& LogMessage::operator<<(LogField field) {
  if (record_.fields.size() >= kMaxLogFieldCount) return *this;
  field.value = Cut(field.value, kMaxLogFieldBytes);
  record_.fields.push_back(std::move(field));
  return *this;
}

LogMessage::~LogMessage() {
  record_.message = Cut(std::move(text_).str(), kMaxLogMessageBytes);
  record_.wall_nanos = LogClock().WallNowNanos();
  record_.thread_id = ThreadId();
  LogState& state = State();
  std::shared_ptr<LogSink> sink;
  {
    MutexLock lock(state.mu);
    sink = state.sink;
  }
  (sink != nullptr ? *sink : state.stderr_sink).Write(record_);
}

}  // namespace log_internal
}  // namespace gradwire
