// Random frames that are right: written by our writers, read back by ours and by libprotobuf.
#include <memory>

#include "absl/strings/str_cat.h"
#include "gradwire/v1/session.pb.h"
#include "rpc/base/utf8.h"
#include "tests/rpc/agent/frame_oracle.h"

namespace gradwire::rpc::testing {
namespace {

uint64_t Number(Rng& rng) {
  switch (rng.Below(4)) {
    case 0:
      return 0;
    case 1:
      return rng.Below(256);
    default:
      return rng.Next() >> rng.Below(64);
  }
}
uint32_t Number32(Rng& rng) { return static_cast<uint32_t>(Number(rng)); }

std::string Raw(Rng& rng, size_t most) {
  std::string bytes(rng.Below(most + 1), '\0');
  rng.Fill({reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
  return bytes;
}
// Mostly ASCII, now and then all of Unicode or bytes that are no text.
std::string Text(Rng& rng, size_t most) {
  if (rng.Chance(0.5)) return "";
  if (rng.Chance(0.1)) return Raw(rng, most + 8);
  std::string text;
  const size_t size = rng.Below(most + 1);
  while (text.size() < size) {
    text.push_back(static_cast<char>('a' + rng.Below(26)));
    if (rng.Chance(0.05)) text += "\xe2\x82\xac";
    if (rng.Chance(0.05)) text += "\xf0\x9f\x98\x80";
  }
  return text;
}
// What a writer makes of `text`.
std::string Written(const std::string& text, size_t limit) {
  if (text.size() <= limit && IsValidUtf8(text)) return text;
  return std::string(CutUtf8(ValidUtf8(text.substr(0, limit)), limit));
}

Buffer Piece(Rng& rng) {
  switch (rng.Below(6)) {
    case 0:
      return Buffer();
    case 1:
      return Buffer::FromString(Raw(rng, 3000));
    default:
      return Buffer::FromString(Raw(rng, 60));
  }
}

template <class Message>
std::string Compare(absl::string_view bytes, const Message& wanted) {
  Message read;
  if (!read.ParseFromString(std::string(bytes))) return "libprotobuf can't read what ours wrote";
  if (read.SerializeAsString() != wanted.SerializeAsString()) {
    return absl::StrCat("libprotobuf reads ", read.ShortDebugString(), " instead of ",
                        wanted.ShortDebugString());
  }
  return "";
}

// Ours must accept it; that it reads the same is CheckFrame's business.
std::string MustParse(absl::string_view bytes) {
  FrameView view;
  const absl::Status parsed = ParseFrame(Buffer::Copy(AsBytes(bytes)), view);
  return parsed.ok() ? CheckFrame(bytes)
                     : absl::StrCat("ours refuses its own: ", parsed.ToString());
}

FrameHead RandomHead(Rng& rng, v1::Frame& wanted) {
  FrameHead head{.first_item = Number(rng),
                 .seen = Number(rng),
                 .finished_below = Number(rng),
                 .call_limit = Number(rng),
                 .nested_call_limit = Number(rng),
                 .resend = rng.Chance(0.2)};
  wanted.set_first_item(head.first_item);
  wanted.set_seen(head.seen);
  wanted.set_finished_below(head.finished_below);
  wanted.set_call_limit(head.call_limit);
  wanted.set_nested_call_limit(head.nested_call_limit);
  wanted.set_resend(head.resend);
  return head;
}

void AddRandomItem(Rng& rng, FrameWriter& writer, v1::Frame& wanted) {
  v1::Item& to = *wanted.add_items();
  const std::string name = Text(rng, FrameLimits::kNameBytes);
  const std::string declaration = Text(rng, 300);
  const std::string message = Text(rng, rng.Chance(0.05) ? FrameLimits::kMessageBytes + 9 : 50);
  const Buffer head = rng.Chance(0.2) ? Buffer() : Piece(rng);
  std::vector<AttachmentRef> refs;
  std::vector<Buffer> pieces;
  for (uint64_t n = rng.Chance(0.6) ? 0 : rng.Below(5); n > 0; --n) {
    if (rng.Chance(0.4)) {
      refs.push_back({.size_bytes = Number(rng), .transfer = rng.Next() | 1});
    } else {
      pieces.push_back(Piece(rng));
      refs.push_back({.size_bytes = pieces.back().size(), .transfer = 0});
    }
    v1::Attachment& attachment = *to.add_attachments();
    attachment.set_size_bytes(refs.back().size_bytes);
    attachment.set_transfer(refs.back().transfer);
  }
  ItemHead item{.kind = Number32(rng),
                .call = Number(rng),
                .function = Number32(rng),
                .timeout_us = Number(rng),
                .nested = rng.Chance(0.2),
                .function_name = name,
                .declaration = declaration,
                .status_code = Number32(rng),
                .status_message = message,
                .head_bytes = head.size(),
                .head_transfer = 0,
                .attachments = refs,
                .transfer = Number(rng),
                .offset = Number(rng),
                .resend = rng.Chance(0.2)};
  if (head.empty() && rng.Chance(0.5)) {
    item.head_transfer = rng.Next() | 1;
    item.head_bytes = Number(rng);
  }
  writer.AddItem(item, head, pieces);
  to.set_kind(item.kind);
  to.set_call(item.call);
  to.set_function(item.function);
  to.set_timeout_us(item.timeout_us);
  to.set_nested(item.nested);
  to.set_function_name(Written(name, FrameLimits::kNameBytes));
  to.set_declaration(Written(declaration, FrameLimits::kDeclarationBytes));
  to.set_status_code(item.status_code);
  to.set_status_message(Written(message, FrameLimits::kMessageBytes));
  to.set_head_bytes(item.head_bytes);
  to.set_head_transfer(item.head_transfer);
  to.set_transfer(item.transfer);
  to.set_offset(item.offset);
  to.set_resend(item.resend);
  wanted.mutable_body()->append(std::string(AsText(head.bytes())));
  for (const Buffer& piece : pieces)
    wanted.mutable_body()->append(std::string(AsText(piece.bytes())));
}

std::string Finish(FrameWriter& writer, const v1::Frame& wanted, std::string* complaint) {
  BufferList out;
  writer.Finish(out);
  const Buffer flat = out.Flatten();
  *complaint = Compare(AsText(flat.bytes()), wanted);
  if (complaint->empty()) *complaint = MustParse(AsText(flat.bytes()));
  return std::string(AsText(flat.bytes()));
}

}  // namespace

std::string RandomItemsFrame(Rng& rng, std::string* complaint) {
  static thread_local FrameWriter writer;  // used again and again, as the session does
  v1::Frame wanted;
  writer.Begin(RandomHead(rng, wanted));
  const uint64_t count = rng.Chance(0.1) ? rng.Below(40) : rng.Below(4);
  for (uint64_t i = 0; i < count; ++i) AddRandomItem(rng, writer, wanted);
  return Finish(writer, wanted, complaint);
}

std::string RandomHelloFrame(Rng& rng, std::string* complaint) {
  FrameWriter writer;
  v1::Frame wanted;
  writer.Begin(RandomHead(rng, wanted));
  const std::string message = Text(rng, 60);
  const std::string job = Text(rng, 160);
  const std::string name = Text(rng, 160);
  const std::string written_job = Written(job, FrameLimits::kNameBytes);
  const std::string written_name = Written(name, FrameLimits::kNameBytes);
  switch (rng.Below(4)) {
    case 0: {
      Hello hello;
      hello.version_major = Number32(rng);
      hello.version_minor = Number32(rng);
      for (uint64_t n = rng.Below(4); n > 0; --n) hello.features.push_back("f");
      hello.job = job;
      hello.name = name;
      hello.incarnation = Number(rng);
      hello.nonce = Raw(rng, 40);
      hello.expected_name = name;
      hello.session = Number(rng);
      hello.resume = rng.Chance(0.5);
      hello.buried_session = Number(rng);
      hello.seen = Number(rng);
      writer.SetHello(hello);
      v1::Hello& to = *wanted.mutable_hello();
      to.set_version_major(hello.version_major);
      to.set_version_minor(hello.version_minor);
      for (const std::string& feature : hello.features) to.add_features(feature);
      to.set_job(written_job);
      to.set_name(written_name);
      to.set_incarnation(hello.incarnation);
      to.set_nonce(hello.nonce);
      to.set_expected_name(written_name);
      to.set_session(hello.session);
      to.set_resume(hello.resume);
      to.set_buried_session(hello.buried_session);
      to.set_seen(hello.seen);
      break;
    }
    case 1: {
      HelloReply reply;
      reply.status_code = Number32(rng);
      reply.status_message = message;
      reply.version_major = Number32(rng);
      reply.version_minor = Number32(rng);
      for (uint64_t n = rng.Below(4); n > 0; --n) reply.features.push_back("");
      reply.job = job;
      reply.name = name;
      reply.incarnation = Number(rng);
      reply.nonce = Raw(rng, 40);
      reply.proof = Raw(rng, 40);
      reply.seen = Number(rng);
      writer.SetHelloReply(reply);
      v1::HelloReply& to = *wanted.mutable_hello_reply();
      to.set_status_code(reply.status_code);
      to.set_status_message(Written(message, FrameLimits::kMessageBytes));
      to.set_version_major(reply.version_major);
      to.set_version_minor(reply.version_minor);
      for (const std::string& feature : reply.features) to.add_features(feature);
      to.set_job(written_job);
      to.set_name(written_name);
      to.set_incarnation(reply.incarnation);
      to.set_nonce(reply.nonce);
      to.set_proof(reply.proof);
      to.set_seen(reply.seen);
      break;
    }
    case 2: {
      const HelloDone done{.proof = Raw(rng, 64)};
      writer.SetHelloDone(done);
      wanted.mutable_hello_done()->set_proof(done.proof);
      break;
    }
    default: {
      const Goodbye goodbye{.status_code = Number32(rng), .status_message = message};
      writer.SetGoodbye(goodbye);
      wanted.mutable_goodbye()->set_status_code(goodbye.status_code);
      wanted.mutable_goodbye()->set_status_message(Written(message, FrameLimits::kMessageBytes));
    }
  }
  return Finish(writer, wanted, complaint);
}

std::string RandomBulkFrame(Rng& rng, std::string* complaint) {
  BufferList out;
  v1::BulkFrame wanted;
  std::vector<TransferProgress> progress;
  for (uint64_t n = rng.Below(5); n > 0; --n) progress.push_back({Number(rng), Number(rng)});
  const auto put = [&](auto& to) {
    for (const TransferProgress& p : progress) {
      v1::TransferProgress& one = *to.add_progress();
      one.set_transfer(p.transfer);
      one.set_received_bytes(p.received_bytes);
    }
  };
  switch (rng.Below(4)) {
    case 0: {
      const BulkHello hello{.session = Number(rng),
                            .nonce = Raw(rng, 40),
                            .proof = Raw(rng, 40),
                            .progress = progress};
      WriteBulkHello(hello, out);
      wanted.mutable_hello()->set_session(hello.session);
      wanted.mutable_hello()->set_nonce(hello.nonce);
      wanted.mutable_hello()->set_proof(hello.proof);
      put(*wanted.mutable_hello());
      break;
    }
    case 1: {
      const BulkReady ready{
          .status_code = Number32(rng), .status_message = Text(rng, 80), .progress = progress};
      WriteBulkReady(ready, out);
      wanted.mutable_ready()->set_status_code(ready.status_code);
      wanted.mutable_ready()->set_status_message(
          Written(ready.status_message, FrameLimits::kMessageBytes));
      put(*wanted.mutable_ready());
      break;
    }
    default: {
      const ChunkHead head{.transfer = rng.Next() | 1,
                           .total_bytes = Number(rng),
                           .offset = Number(rng),
                           .crc32c = Number32(rng)};
      const std::string data = "x" + Raw(rng, 500);
      WriteBulkChunk(head, Buffer::FromString(data), out);
      wanted.set_transfer(head.transfer);
      wanted.set_total_bytes(head.total_bytes);
      wanted.set_offset(head.offset);
      wanted.set_crc32c(head.crc32c);
      wanted.set_data(data);
    }
  }
  const Buffer flat = out.Flatten();
  const std::string bytes(AsText(flat.bytes()));
  *complaint = Compare(bytes, wanted);
  if (!complaint->empty()) return bytes;
  BulkFrameView view;
  const BufferList pieces = Cut(bytes, rng);
  const absl::Status parsed = ParseBulkFrame(pieces, view);
  *complaint = parsed.ok() ? CheckBulkFrame(bytes, rng)
                           : absl::StrCat("ours refuses its own: ", parsed.ToString());
  return bytes;
}

}  // namespace gradwire::rpc::testing
