// Messages of the bulk lane, read and written by hand; the bytes of a chunk are never gathered.
//
// Specification: proto/gradwire/v1/session.proto, BulkFrame: a hello, a ready, or a chunk of at
// least
//                one byte whose transfer comes before its data. Where the message's fields begin
//                with something unknown, that must end within its first 256 bytes.
// Errors, threads: as in frame.h. How a message is cut into pieces never matters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "rpc/base/buffer.h"

namespace gradwire::rpc {

struct TransferProgress {
  uint64_t transfer = 0;
  uint64_t received_bytes = 0;
};

struct BulkHello {
  uint64_t session = 0;
  std::string nonce;
  std::string proof;
  std::vector<TransferProgress> progress;
};

struct BulkReady {
  uint32_t status_code = 0;
  std::string status_message;
  std::vector<TransferProgress> progress;
};

struct ChunkHead {
  uint64_t transfer = 0;
  uint64_t total_bytes = 0;
  uint64_t offset = 0;
  uint32_t crc32c = 0;  // of the data
};

struct BulkFrameView {
  std::optional<BulkHello> hello;
  std::optional<BulkReady> ready;
  bool has_chunk = false;
  ChunkHead chunk;
  // The chunk's data, in order. Shows the message that was parsed: keep that alive.
  absl::InlinedVector<Bytes, 8> data;
  uint64_t data_bytes = 0;
};

absl::Status ParseBulkFrame(const BufferList& message, BulkFrameView& out);

void WriteBulkHello(const BulkHello& hello, BufferList& out);
void WriteBulkReady(const BulkReady& ready, BufferList& out);
// The data is shared, not copied.
void WriteBulkChunk(const ChunkHead& head, Buffer data, BufferList& out);

}  // namespace gradwire::rpc
