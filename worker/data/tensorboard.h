// Writes scalars over steps to an event file, which TensorBoard shows.
//
// Format:        a TFRecord file (tfrecord.h) of Event messages (TensorFlow's event.proto and
//                summary.proto), encoded by hand; the first one holds the version "brain.Event:2".
// Ownership:     one writer a file, one file a writer: Create() never opens one that exists.
// Thread-safety: none; one thread at a time.
// Blocking:      Flush(), and Scalar() once kFlushBytes are waiting, wait for the disk.
// Durability:    what was flushed survives the process, not the machine: nothing is synced.
// Limits:        kMaxTagBytes a tag -> INVALID_ARGUMENT; about kMaxWaitingBytes wait for a disk
// that
//                fails, what comes then is left out and counted.
// Errors:        those of FileSystem, with the file and what to do in the message. None is final:
//                what waits is written by the next Flush() that works, each record once. A job logs
//                the error and trains on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/base/clock.h"
#include "rpc/base/fs.h"
#include "rpc/base/rng.h"

namespace gradwire::data {

class EventWriter {
 public:
  static constexpr size_t kMaxTagBytes = 1024;
  static constexpr size_t kMaxHostBytes = 64;
  static constexpr size_t kFlushBytes = size_t{64} << 10;
  static constexpr size_t kMaxWaitingBytes = size_t{1} << 20;

  // Makes `folder`, and in it events.out.tfevents.<seconds>.<host>.<random> with the version
  // record. Of `host_name` kMaxHostBytes bytes are taken; what isn't a letter, digit, '.', '-' or
  // '_' becomes '_'. `clock` and `fs` must outlive the writer.
  static absl::StatusOr<std::unique_ptr<EventWriter>> Create(const std::string& folder,
                                                             absl::string_view host_name,
                                                             Clock& clock, FileSystem& fs,
                                                             Rng& rng = Rng::Secure());
  // Flushes; an error is logged.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Takes one value; NaN and infinities are values, too. Steps may come in any order. An error of
  // the disk shows once each kFlushBytes, and the value waits nevertheless; with kMaxWaitingBytes
  // waiting it shows each time, and the value is left out. `tag`: UTF-8, "loss/train"; not empty.
  absl::Status Scalar(absl::string_view tag, int64_t step, float value);
  // Says that the training goes on at `step` once more, from a checkpoint: TensorBoard drops what
  // earlier files of this folder hold from there on. Errors as those of Scalar().
  absl::Status Restarted(int64_t step);
  // Hands everything that waits to the file.
  absl::Status Flush();

  const std::string& path() const { return path_; }
  // Values and restarts that were left out because too much was waiting.
  uint64_t left_out_count() const { return left_out_count_; }

 private:
  // Frames `event` into what waits, and flushes when it is much. `what`: for messages.
  absl::Status Append(absl::string_view event, absl::string_view what);

  EventWriter(std::string path, std::unique_ptr<File> file, Clock& clock)
      : path_(std::move(path)), file_(std::move(file)), clock_(clock) {}

  const std::string path_;
  const std::unique_ptr<File> file_;
  Clock& clock_;
  std::string waiting_;  // whole records
  size_t next_flush_bytes_ = kFlushBytes;
  uint64_t left_out_count_ = 0;
};

}  // namespace gradwire::data
