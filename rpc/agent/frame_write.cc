#include "rpc/agent/frame.h"
#include "rpc/agent/proto_wire.h"

namespace gradwire::rpc {
namespace {

// Larger pieces are cheaper to share than to copy.
constexpr size_t kCopyBytes = 1024;

using wire::PutText;

}  // namespace

void FrameWriter::Begin(const FrameHead& head) {
  fields_.clear();
  small_.clear();
  shared_.clear();
  body_bytes_ = 0;
  wire::PutFixed64(fields_, 1, head.first_item);
  wire::PutFixed64(fields_, 2, head.seen);
  wire::PutFixed64(fields_, 3, head.finished_below);
  wire::PutFixed64(fields_, 4, head.call_limit);
  wire::PutFixed64(fields_, 5, head.nested_call_limit);
  wire::PutUint(fields_, 7, head.resend ? 1 : 0);
}

void FrameWriter::AddItem(const ItemHead& item, const Buffer& head,
                          std::span<const Buffer> attachments) {
  std::string& out = scratch_;
  out.clear();
  wire::PutUint(out, 1, item.kind);
  wire::PutFixed64(out, 2, item.call);
  wire::PutUint(out, 3, item.function);
  wire::PutUint(out, 4, item.timeout_us);
  wire::PutUint(out, 5, item.nested ? 1 : 0);
  PutText(out, 6, item.function_name, FrameLimits::kNameBytes);
  PutText(out, 7, item.declaration, FrameLimits::kDeclarationBytes);
  wire::PutUint(out, 8, item.status_code);
  PutText(out, 9, item.status_message, FrameLimits::kMessageBytes);
  wire::PutUint(out, 10, item.head_bytes);
  for (const AttachmentRef& ref : item.attachments) {
    nested_.clear();
    wire::PutUint(nested_, 1, ref.size_bytes);
    wire::PutFixed64(nested_, 2, ref.transfer);
    wire::PutMessage(out, 11, nested_);
  }
  wire::PutFixed64(out, 12, item.transfer);
  wire::PutFixed64(out, 13, item.offset);
  wire::PutFixed64(out, 14, item.head_transfer);
  wire::PutUint(out, 15, item.resend ? 1 : 0);
  wire::PutMessage(fields_, 11, out);
  AddBody(head);
  for (const Buffer& attachment : attachments) AddBody(attachment);
}

void FrameWriter::AddBody(const Buffer& piece) {
  if (piece.empty()) return;
  body_bytes_ += piece.size();
  if (piece.size() <= kCopyBytes) {
    small_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  } else {
    shared_.push_back({small_.size(), piece});
  }
}

void FrameWriter::PutFeatures(uint32_t field, const std::vector<std::string>& features) {
  for (const std::string& feature : features) {
    const std::string text = ValidUtf8(feature);
    wire::PutMessage(scratch_, field, CutUtf8(text, FrameLimits::kFeatureBytes));
  }
}

void FrameWriter::SetHello(const Hello& hello) {
  std::string& out = scratch_;
  out.clear();
  wire::PutUint(out, 1, hello.version_major);
  wire::PutUint(out, 2, hello.version_minor);
  PutFeatures(3, hello.features);
  PutText(out, 4, hello.job, FrameLimits::kNameBytes);
  PutText(out, 5, hello.name, FrameLimits::kNameBytes);
  wire::PutFixed64(out, 6, hello.incarnation);
  wire::PutBytes(out, 7, hello.nonce);
  PutText(out, 8, hello.expected_name, FrameLimits::kNameBytes);
  wire::PutFixed64(out, 9, hello.session);
  wire::PutUint(out, 10, hello.resume ? 1 : 0);
  wire::PutFixed64(out, 11, hello.buried_session);
  wire::PutFixed64(out, 12, hello.seen);
  wire::PutMessage(fields_, 8, out);
}

void FrameWriter::SetHelloReply(const HelloReply& reply) {
  std::string& out = scratch_;
  out.clear();
  wire::PutUint(out, 1, reply.status_code);
  PutText(out, 2, reply.status_message, FrameLimits::kMessageBytes);
  wire::PutUint(out, 3, reply.version_major);
  wire::PutUint(out, 4, reply.version_minor);
  PutFeatures(5, reply.features);
  PutText(out, 6, reply.job, FrameLimits::kNameBytes);
  PutText(out, 7, reply.name, FrameLimits::kNameBytes);
  wire::PutFixed64(out, 8, reply.incarnation);
  wire::PutBytes(out, 9, reply.nonce);
  wire::PutBytes(out, 10, reply.proof);
  wire::PutFixed64(out, 11, reply.seen);
  wire::PutMessage(fields_, 9, out);
}

void FrameWriter::SetHelloDone(const HelloDone& done) {
  std::string& out = scratch_;
  out.clear();
  wire::PutBytes(out, 1, done.proof);
  wire::PutMessage(fields_, 10, out);
}

void FrameWriter::SetGoodbye(const Goodbye& goodbye) {
  std::string& out = scratch_;
  out.clear();
  wire::PutUint(out, 1, goodbye.status_code);
  PutText(out, 2, goodbye.status_message, FrameLimits::kMessageBytes);
  wire::PutMessage(fields_, 12, out);
}

void FrameWriter::Finish(BufferList& out) {
  if (body_bytes_ > 0) {
    wire::PutTag(fields_, 15, wire::kLength);
    wire::PutVarint(fields_, body_bytes_);
  }
  // One block for the fields and all copied pieces; shared pieces are put between its parts.
  std::string block;
  block.reserve(fields_.size() + small_.size());
  block.append(fields_);
  block.append(small_);
  const Buffer whole = Buffer::FromString(std::move(block));
  size_t from = 0;
  for (Shared& shared : shared_) {
    const size_t to = fields_.size() + shared.small_before;
    if (to > from) out.Append(whole.Slice(from, to - from));
    out.Append(std::move(shared.piece));
    from = to;
  }
  if (whole.size() > from || shared_.empty()) out.Append(whole.Slice(from, whole.size() - from));
  shared_.clear();
}

}  // namespace gradwire::rpc
