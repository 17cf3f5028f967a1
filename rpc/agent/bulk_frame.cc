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
// The head of a chunk is four fields and the tag and length of its data, 38 bytes; what is above
// that is room for fields that are not known yet.
constexpr size_t kMaxHeadBytes = 256;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("bulk_frame: ", what));
}

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

// The first kMaxHeadBytes of `message`, or all of it; in `copied` if they lie in several pieces.
Bytes Begin(const BufferList& message, std::array<std::byte, kMaxHeadBytes>& copied) {
  const size_t wanted = std::min(message.size_bytes(), kMaxHeadBytes);
  const auto& pieces = message.pieces();
  if (!pieces.empty() && pieces[0].size() >= wanted) return pieces[0].bytes().first(wanted);
  size_t size = 0;
  for (const Buffer& piece : pieces) {
    const size_t n = std::min(piece.size(), wanted - size);
    if (n > 0) std::memcpy(copied.data() + size, piece.data(), n);
    size += n;
  }
  return Bytes(copied.data(), size);
}

// A message whose data has not been reached when a hello or ready shows: it must be all there is.
absl::Status ParseHandshake(const BufferList& message, BulkFrameView& out) {
  out.chunk = ChunkHead();
  const Buffer whole = message.Flatten();
  FieldReader in("bulk_frame", whole.bytes());
  while (in.Next()) {
    Bytes part;
    switch (in.field()) {
      case 1:
        if (in.Message(part)) GW_RETURN_IF_ERROR(ParseHello(part, out.hello.emplace()));
        break;
      case 2:
        if (in.Message(part)) GW_RETURN_IF_ERROR(ParseReady(part, out.ready.emplace()));
        break;
      case 3:
      case 4:
      case 5:
      case 6:
      case 15:
        return Bad("fields of a chunk beside a hello");
      default:
        in.Skip();
    }
  }
  GW_RETURN_IF_ERROR(in.status());
  if (out.hello.has_value() && out.ready.has_value()) return Bad("hello and ready at once");
  return absl::OkStatus();
}

// `in` stands behind the tag of the data, inside the first `head_bytes` of the message.
absl::Status TakeData(FieldReader& in, size_t head_bytes, const BufferList& message,
                      BulkFrameView& out) {
  uint32_t size = 0;
  if (!in.LengthOnly(size)) return in.status();
  const size_t from = head_bytes - in.left();
  const size_t there = message.size_bytes() - from;
  if (size != there) {
    return Bad(absl::StrCat("data is not last, or cut off (", size, " bytes announced, ", there,
                            " there)"));
  }
  if (size == 0) return Bad("a chunk without data");
  if (out.chunk.transfer == 0) return Bad("data without a transfer before it");
  out.has_chunk = true;
  out.data_bytes = size;
  Tail(message, from, out.data);
  return absl::OkStatus();
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

  // The first bytes in one piece: a part of the first piece, or a copy.
  std::array<std::byte, kMaxHeadBytes> copied;
  const Bytes head = Begin(message, copied);
  FieldReader in("bulk_frame", head);
  while (in.Next()) {
    switch (in.field()) {
      case 1:
      case 2:
        return ParseHandshake(message, out);  // rare and small: gathered
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
      case 15:
        return TakeData(in, head.size(), message, out);
      default:
        in.Skip();
    }
  }
  if (head.size() == message.size_bytes()) {
    GW_RETURN_IF_ERROR(in.status());
    return Bad("neither a hello nor a chunk");
  }
  GW_RETURN_IF_ERROR(in.status(), _ << "within the first " << kMaxHeadBytes << " bytes");
  return Bad(
      absl::StrCat("neither a hello nor data begins within the first ", kMaxHeadBytes, " bytes"));
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
  wire::PutText(part, 2, ready.status_message, FrameLimits::kMessageBytes);
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
