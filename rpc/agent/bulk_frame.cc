#include "rpc/agent/bulk_frame.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/agent/field_reader.h"
#include "rpc/agent/frame.h"
#include "rpc/base/status.h"

namespace gradwire::rpc {
namespace {
// The head of a chunk: four fields and the tag and length of its data, 45 bytes; room for unknown
// fields.
constexpr size_t kMaxHeadBytes = 256;

absl::Status ParseProgress(Bytes bytes, TransferProgress& out) {
  FieldReader in("progress", bytes);
  while (in.Next()) {
    switch (in.field()) {
      case 1:
        in.Fixed64(out.transfer);
        break;
      case 2:
        in.Fixed64(out.received_bytes);
        break;
      default:
        in.Skip();
    }
  }
  return in.status();
}

absl::Status ParseHello(Bytes bytes, BulkHello& out) {
  FieldReader in("bulk_hello", bytes);
  while (in.Next()) {
    Bytes part;
    switch (in.field()) {
      case 1:
        in.Fixed64(out.session);
        break;
      case 2:
        in.Raw(out.nonce, FrameLimits::kProofBytes);
        break;
      case 3:
        in.Raw(out.proof, FrameLimits::kProofBytes);
        break;
      case 4:
        if (in.Repeated(part, out.progress.size(), FrameLimits::kProgress)) {
          GW_RETURN_IF_ERROR(ParseProgress(part, out.progress.emplace_back()));
        }
        break;
      default:
        in.Skip();
    }
  }
  return in.status();
}

absl::Status ParseReady(Bytes bytes, BulkReady& out) {
  FieldReader in("bulk_ready", bytes);
  while (in.Next()) {
    Bytes part;
    switch (in.field()) {
      case 1:
        in.Uint32(out.status_code);
        break;
      case 2:
        in.Text(out.status_message, FrameLimits::kMessageBytes);
        break;
      case 3:
        if (in.Repeated(part, out.progress.size(), FrameLimits::kProgress)) {
          GW_RETURN_IF_ERROR(ParseProgress(part, out.progress.emplace_back()));
        }
        break;
      default:
        in.Skip();
    }
  }
  return in.status();
}

// Everything of `message` from byte `from` on.
void Tail(const BufferList& message, size_t from, absl::InlinedVector<Bytes, 8>& out) {
  for (const Buffer& piece : message.pieces()) {
    if (from >= piece.size()) {
      from -= piece.size();
      continue;
    }
    out.push_back(piece.bytes().subspan(from));
    from = 0;
  }
}

void PutProgress(std::string& out, uint32_t field, const std::vector<TransferProgress>& progress) {
  std::string one;
  for (const TransferProgress& p : progress) {
    one.clear();
    wire::PutFixed64(one, 1, p.transfer);
    wire::PutFixed64(one, 2, p.received_bytes);
    wire::PutMessage(out, field, one);
  }
}

}  // namespace

absl::Status ParseBulkFrame(const BufferList& message, BulkFrameView& out) {
  out.hello.reset();
  out.ready.reset();
  out.has_chunk = false;
  out.chunk = ChunkHead();
  out.data.clear();
  out.data_bytes = 0;

  // The head in one piece: the first piece itself, or a copy of the first bytes of several.
  std::array<std::byte, kMaxHeadBytes> copied;
  Bytes head;
  const auto& pieces = message.pieces();
  if (pieces.empty()) return absl::InvalidArgumentError("bulk_frame: empty");
  if (pieces.size() == 1 || pieces[0].size() >= kMaxHeadBytes) {
    head = pieces[0].bytes();
  } else {
    size_t size = 0;
    for (const Buffer& piece : pieces) {
      const size_t n = std::min(piece.size(), copied.size() - size);
      std::memcpy(copied.data() + size, piece.data(), n);
      size += n;
    }
    head = Bytes(copied.data(), size);
  }
  FieldReader in("bulk_frame", head);
  while (in.Next()) {
    switch (in.field()) {
      case 1:
      case 2: {
        // Rare and small: gathered. Nothing may stand beside it.
        const Buffer whole = message.Flatten();
        FieldReader all("bulk_frame", whole.bytes());
        Bytes part;
        if (!all.Next() || !all.Message(part)) return all.status();
        if (!all.done()) return absl::InvalidArgumentError("bulk_frame: a hello stands alone");
        return all.field() == 1 ? ParseHello(part, out.hello.emplace())
                                : ParseReady(part, out.ready.emplace());
      }
      case 3:
        in.Fixed64(out.chunk.transfer);
        break;
      case 4:
        in.Fixed64(out.chunk.total_bytes);
        break;
      case 5:
        in.Fixed64(out.chunk.offset);
        break;
      case 6:
        in.Fixed32(out.chunk.crc32c);
        break;
      case 15: {
        uint64_t size = 0;
        if (!in.LengthOnly(size)) break;
        const size_t from = head.size() - in.left();
        if (size != message.size_bytes() - from) {
          return absl::InvalidArgumentError(
              absl::StrCat("bulk_frame: data is not last, or cut off (", size, " bytes announced, ",
                           message.size_bytes() - from, " there)"));
        }
        if (out.chunk.transfer == 0) {
          return absl::InvalidArgumentError("bulk_frame: data without a transfer before it");
        }
        out.has_chunk = true;
        out.data_bytes = size;
        Tail(message, from, out.data);
        return absl::OkStatus();
      }
      default:
        in.Skip();
    }
  }
  GW_RETURN_IF_ERROR(in.status());
  return absl::InvalidArgumentError("bulk_frame: neither a hello nor a chunk");
}

void WriteBulkHello(const BulkHello& hello, BufferList& out) {
  std::string part, all;
  wire::PutFixed64(part, 1, hello.session);
  wire::PutBytes(part, 2, hello.nonce);
  wire::PutBytes(part, 3, hello.proof);
  PutProgress(part, 4, hello.progress);
  wire::PutMessage(all, 1, part);
  out.Append(Buffer::FromString(std::move(all)));
}

void WriteBulkReady(const BulkReady& ready, BufferList& out) {
  std::string part, all;
  wire::PutUint(part, 1, ready.status_code);
  wire::PutBytes(part, 2,
                 absl::string_view(ready.status_message).substr(0, FrameLimits::kMessageBytes));
  PutProgress(part, 3, ready.progress);
  wire::PutMessage(all, 2, part);
  out.Append(Buffer::FromString(std::move(all)));
}

void WriteBulkChunk(const ChunkHead& head, Buffer data, BufferList& out) {
  std::string fields;
  fields.reserve(48);
  wire::PutFixed64(fields, 3, head.transfer);
  wire::PutFixed64(fields, 4, head.total_bytes);
  wire::PutFixed64(fields, 5, head.offset);
  wire::PutFixed32(fields, 6, head.crc32c);
  wire::PutTag(fields, 15, wire::kLength);
  wire::PutVarint(fields, data.size());
  out.Append(Buffer::FromString(std::move(fields)));
  out.Append(std::move(data));
}

}  // namespace gradwire::rpc
