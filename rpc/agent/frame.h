// Frames of the control lane, read and written by hand.
//
// Specification: proto/gradwire/v1/session.proto. What is written here any protobuf library can
//                read; what is read here is checked as far as bytes alone can be: limits, lengths,
//                order, UTF-8. A frame carries items, or one of hello, hello_reply, hello_done,
//                goodbye.
// Errors:        INVALID_ARGUMENT naming the message, the field and what is wrong.
// Thread-safety: none; a FrameWriter and a FrameView belong to one thread at a time.
// Speed:         the same FrameView is filled again and again, so that a small frame costs no
//                allocation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rpc/base/buffer.h"

namespace gradwire::rpc {

enum class ItemKind : uint32_t { kRequest = 1, kReply = 2, kCancel = 3, kReceived = 4 };

// Whether a receiver that doesn't know the kind must refuse the item's call.
constexpr bool IsCritical(uint32_t kind) { return kind < 1024; }

// Bounds on what one frame may hold. Each keeps a peer from making us work or remember without end.
struct FrameLimits {
  static constexpr size_t kItems = 65536;
  static constexpr size_t kKeptItems = 4096;    // whose memory a FrameView keeps for the next frame
  static constexpr size_t kAttachments = 1024;  // an item
  static constexpr size_t kNameBytes = 128;
  static constexpr size_t kDeclarationBytes = 4096;
  static constexpr size_t kMessageBytes = 16384;
  static constexpr size_t kFeatures = 64;
  static constexpr size_t kFeatureBytes = 64;
  static constexpr size_t kProofBytes = 64;
  static constexpr size_t kProgress = 65536;  // transfers in a bulk hello
};

struct FrameHead {
  uint64_t first_item = 0;
  uint64_t seen = 0;
  uint64_t finished_below = 0;
  uint64_t call_limit = 0;
  uint64_t nested_call_limit = 0;
  bool resend = false;
};

struct AttachmentRef {
  uint64_t size_bytes = 0;
  uint64_t transfer = 0;  // 0: in the body
};

// The fields of an item, to be written.
struct ItemHead {
  uint32_t kind = 0;
  uint64_t call = 0;
  uint32_t function = 0;
  uint64_t timeout_us = 0;
  bool nested = false;
  absl::string_view function_name;
  absl::string_view declaration;
  uint32_t status_code = 0;
  absl::string_view status_message;
  uint64_t head_bytes = 0;
  uint64_t head_transfer = 0;
  std::span<const AttachmentRef> attachments;
  uint64_t transfer = 0;
  uint64_t offset = 0;
  bool resend = false;
};

// An item that was read. Views and Buffers show the message's bytes; only the Buffers keep them
// alive.
struct ItemView {
  uint32_t kind = 0;
  uint64_t call = 0;
  uint32_t function = 0;
  uint64_t timeout_us = 0;
  bool nested = false;
  absl::string_view function_name;
  absl::string_view declaration;
  uint32_t status_code = 0;
  absl::string_view status_message;
  uint64_t head_bytes = 0;
  uint64_t head_transfer = 0;
  Buffer head;  // empty when head_transfer is not 0
  absl::InlinedVector<AttachmentRef, 2> attachments;
  absl::InlinedVector<Buffer, 2> inline_attachments;  // of those with transfer 0, in order
  uint64_t transfer = 0;
  uint64_t offset = 0;
  bool resend = false;
};

struct Hello {
  uint32_t version_major = 0;
  uint32_t version_minor = 0;
  std::vector<std::string> features;
  std::string job;
  std::string name;
  uint64_t incarnation = 0;
  std::string nonce;
  std::string expected_name;
  uint64_t session = 0;
  bool resume = false;
  uint64_t buried_session = 0;
  uint64_t seen = 0;
};

struct HelloReply {
  uint32_t status_code = 0;
  std::string status_message;
  uint32_t version_major = 0;
  uint32_t version_minor = 0;
  std::vector<std::string> features;
  std::string job;
  std::string name;
  uint64_t incarnation = 0;
  std::string nonce;
  std::string proof;
  uint64_t seen = 0;
};

struct HelloDone {
  std::string proof;
};

struct Goodbye {
  uint32_t status_code = 0;
  std::string status_message;
};

struct FrameView {
  FrameHead head;
  std::vector<ItemView> items;
  std::optional<Hello> hello;
  std::optional<HelloReply> hello_reply;
  std::optional<HelloDone> hello_done;
  std::optional<Goodbye> goodbye;
};

// Reads a whole message into `out`, whose old contents go. On error `out` holds nothing usable.
// `max_items`: 0 while only a hello may come, so that strangers can't make us unpack items.
absl::Status ParseFrame(const Buffer& message, FrameView& out,
                        size_t max_items = FrameLimits::kItems);

class FrameWriter {
 public:
  void Begin(const FrameHead& head);
  // The item's bytes are `head` and the inline attachments (those of fields.attachments with
  // transfer 0, in order). Pieces of up to 1 KiB are copied, larger ones are shared. Text that is
  // not UTF-8 is repaired, too long text is cut.
  void AddItem(const ItemHead& fields, const Buffer& head, std::span<const Buffer> attachments);
  void SetHello(const Hello& hello);
  void SetHelloReply(const HelloReply& reply);
  void SetHelloDone(const HelloDone& done);
  void SetGoodbye(const Goodbye& goodbye);

  // Bytes of the frame so far.
  size_t size_bytes() const { return fields_.size() + body_bytes_; }
  // Appends the message to `out`. The writer may Begin again.
  void Finish(BufferList& out);

 private:
  void AddBody(const Buffer& piece);
  void PutFeatures(uint32_t field, const std::vector<std::string>& features);

  std::string fields_;   // everything but the body
  std::string scratch_;  // one submessage
  std::string nested_;   // a submessage of that
  std::string small_;    // copied pieces of the body, in order
  struct Shared {
    size_t small_before;  // bytes of small_ that precede it
    Buffer piece;
  };
  std::vector<Shared> shared_;
  size_t body_bytes_ = 0;
};

}  // namespace gradwire::rpc
