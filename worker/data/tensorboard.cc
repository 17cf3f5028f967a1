#include "worker/data/tensorboard.h"

#include <bit>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/base/utf8.h"
#include "worker/data/little_endian.h"
#include "worker/data/tfrecord.h"

namespace gradwire::data {
namespace {

// Keys of fields: number << 3 | wire type (0 varint, 1 eight bytes, 2 length and bytes, 5 four
// bytes).
constexpr char kEventWallTime = 1 << 3 | 1;     // double
constexpr char kEventStep = 2 << 3 | 0;         // int64
constexpr char kEventFileVersion = 3 << 3 | 2;  // string
constexpr char kEventSummary = 5 << 3 | 2;      // Summary
constexpr char kEventSessionLog = 7 << 3 | 2;   // SessionLog
constexpr char kSummaryValue = 1 << 3 | 2;      // Summary.Value
constexpr char kValueTag = 1 << 3 | 2;          // string
constexpr char kValueSimpleValue = 2 << 3 | 5;  // float

// SessionLog { status: START }.
constexpr absl::string_view kSessionStarts = "\x08\x01";
constexpr absl::string_view kFileVersion = "brain.Event:2";

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void AppendBytesField(char key, absl::string_view bytes, std::string& out) {
  out += key;
  AppendVarint(bytes.size(), out);
  out.append(bytes.data(), bytes.size());
}

// The fields that all events have.
std::string EventStart(Clock& clock, int64_t step) {
  std::string event;
  event += kEventWallTime;
  const double seconds = static_cast<double>(clock.WallNowNanos()) / 1e9;
  AppendLittleEndian(std::bit_cast<uint64_t>(seconds), event);
  if (step != 0) {
    event += kEventStep;
    AppendVarint(static_cast<uint64_t>(step), event);
  }
  return event;
}

std::string ScalarSummary(absl::string_view tag, float value) {
  std::string field;
  AppendBytesField(kValueTag, tag, field);
  field += kValueSimpleValue;
  AppendLittleEndian(std::bit_cast<uint32_t>(value), field);
  std::string summary;
  AppendBytesField(kSummaryValue, field, summary);
  return summary;
}

std::string FileName(absl::string_view host_name, Clock& clock, Rng& rng) {
  std::string host(host_name.substr(0, EventWriter::kMaxHostBytes));
  for (char& c : host) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  }
  return absl::StrFormat("events.out.tfevents.%010d.%s.%d", clock.WallNowNanos() / 1'000'000'000,
                         host, rng.Next() >> 1);
}

absl::Status CheckTag(absl::string_view tag) {
  if (tag.empty()) {
    return absl::InvalidArgumentError("the tag of a scalar is empty; give it a name like loss");
  }
  if (tag.size() > EventWriter::kMaxTagBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tag of a scalar, \"", EscapedString(tag), "\", has ", tag.size(),
                     " bytes; shorten it to at most ", EventWriter::kMaxTagBytes));
  }
  if (!IsValidUtf8(tag)) {
    return absl::InvalidArgumentError(absl::StrCat("the tag of a scalar, \"", EscapedString(tag),
                                                   "\", is not UTF-8; name it in UTF-8"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventWriter>> EventWriter::Create(const std::string& folder,
                                                                 absl::string_view host_name,
                                                                 Clock& clock, FileSystem& fs,
                                                                 Rng& rng) {
  if (host_name.empty()) {
    return absl::InvalidArgumentError("a TensorBoard file needs the host's name");
  }
  GW_RETURN_IF_ERROR(fs.MakeDirs(folder), _ << "making the folder of TensorBoard's files");
  std::string path = JoinPath(folder, FileName(host_name, clock, rng));
  GW_ASSIGN_OR_RETURN(auto file, fs.Open(path, OpenMode::kCreateNew),
                      _ << "starting a TensorBoard file");
  std::unique_ptr<EventWriter> writer(new EventWriter(std::move(path), std::move(file), clock));
  std::string event = EventStart(clock, 0);
  AppendBytesField(kEventFileVersion, kFileVersion, event);
  AppendTfRecord(event, writer->waiting_);
  if (absl::Status flushed = writer->Flush(); !flushed.ok()) {
    writer->waiting_.clear();
    fs.Remove(writer->path_).IgnoreError();  // empty or a piece of the version: no reader wants it
    return flushed;
  }
  return writer;
}

EventWriter::~EventWriter() {
  if (absl::Status flushed = Flush(); !flushed.ok()) {
    GW_LOG(WARNING) << "values for TensorBoard are lost" << Kv("error", flushed.message());
  }
}

absl::Status EventWriter::Scalar(absl::string_view tag, int64_t step, float value) {
  GW_RETURN_IF_ERROR(CheckTag(tag));
  std::string event = EventStart(clock_, step);
  AppendBytesField(kEventSummary, ScalarSummary(tag, value), event);
  return Append(event, absl::StrCat("step ", step, " of ", EscapedString(tag)));
}

absl::Status EventWriter::Restarted(int64_t step) {
  std::string event = EventStart(clock_, step);
  AppendBytesField(kEventSessionLog, kSessionStarts, event);
  return Append(event, absl::StrCat("the restart at step ", step));
}

absl::Status EventWriter::Append(absl::string_view event, absl::string_view what) {
  if (waiting_.size() >= kMaxWaitingBytes) {
    if (absl::Status flushed = Flush(); !flushed.ok()) {
      ++left_out_count_;
      return WithContext(flushed, absl::StrCat("leaving out ", what));
    }
  }
  AppendTfRecord(event, waiting_);
  if (waiting_.size() < next_flush_bytes_) return absl::OkStatus();
  return Flush();
}

absl::Status EventWriter::Flush() {
  if (waiting_.empty()) return absl::OkStatus();
  // After an error File appends at the same place, and what waits begins with the same bytes: a
  // record that was cut off becomes whole, also for a reader that has seen its beginning.
  if (absl::Status written = file_->Append(waiting_); !written.ok()) {
    next_flush_bytes_ = waiting_.size() + kFlushBytes;
    const absl::Status explained(
        written.code(),
        absl::StrCat(written.message(), "; free space on the disk of ", EscapedString(path_),
                     " or mend it: ", waiting_.size(),
                     " bytes wait to be written, the training goes on without them"));
    return WithContext(explained, "writing values for TensorBoard");
  }
  waiting_.clear();
  next_flush_bytes_ = kFlushBytes;
  return absl::OkStatus();
}

}  // namespace gradwire::data
