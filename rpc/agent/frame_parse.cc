#include "absl/strings/str_cat.h"
#include "rpc/agent/field_reader.h"
#include "rpc/agent/frame.h"
#include "rpc/base/status.h"
#include "rpc/base/utf8.h"

namespace gradwire::rpc {
namespace {

absl::Status Bad(absl::string_view message, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(message, ": ", what));
}

void Features(FieldReader& in, std::vector<std::string>& out) {
  Bytes bytes;
  if (!in.Repeated(bytes, out.size(), FrameLimits::kFeatures)) return;
  if (bytes.size() > FrameLimits::kFeatureBytes || !IsValidUtf8(AsText(bytes))) {
    in.Fail("is too long or not UTF-8");
    return;
  }
  out.emplace_back(AsText(bytes));
}

absl::Status ParseHello(Bytes bytes, Hello& out) {
  FieldReader in("hello", bytes);
  while (in.Next()) {
    switch (in.field()) {
      case 1:
        in.Uint32(out.version_major);
        break;
      case 2:
        in.Uint32(out.version_minor);
        break;
      case 3:
        Features(in, out.features);
        break;
      case 4:
        in.Text(out.job, FrameLimits::kNameBytes);
        break;
      case 5:
        in.Text(out.name, FrameLimits::kNameBytes);
        break;
      case 6:
        in.Fixed64(out.incarnation);
        break;
      case 7:
        in.Raw(out.nonce, FrameLimits::kProofBytes);
        break;
      case 8:
        in.Text(out.expected_name, FrameLimits::kNameBytes);
        break;
      case 9:
        in.Fixed64(out.session);
        break;
      case 10:
        in.Bool(out.resume);
        break;
      case 11:
        in.Fixed64(out.buried_session);
        break;
      case 12:
        in.Fixed64(out.seen);
        break;
      default:
        in.Skip();
    }
  }
  return in.status();
}

absl::Status ParseHelloReply(Bytes bytes, HelloReply& out) {
  FieldReader in("hello_reply", bytes);
  while (in.Next()) {
    switch (in.field()) {
      case 1:
        in.Uint32(out.status_code);
        break;
      case 2:
        in.Text(out.status_message, FrameLimits::kMessageBytes);
        break;
      case 3:
        in.Uint32(out.version_major);
        break;
      case 4:
        in.Uint32(out.version_minor);
        break;
      case 5:
        Features(in, out.features);
        break;
      case 6:
        in.Text(out.job, FrameLimits::kNameBytes);
        break;
      case 7:
        in.Text(out.name, FrameLimits::kNameBytes);
        break;
      case 8:
        in.Fixed64(out.incarnation);
        break;
      case 9:
        in.Raw(out.nonce, FrameLimits::kProofBytes);
        break;
      case 10:
        in.Raw(out.proof, FrameLimits::kProofBytes);
        break;
      case 11:
        in.Fixed64(out.seen);
        break;
      default:
        in.Skip();
    }
  }
  return in.status();
}

absl::Status ParseHelloDone(Bytes bytes, HelloDone& out) {
  FieldReader in("hello_done", bytes);
  while (in.Next()) {
    if (in.field() == 1) {
      in.Raw(out.proof, FrameLimits::kProofBytes);
    } else {
      in.Skip();
    }
  }
  return in.status();
}

absl::Status ParseGoodbye(Bytes bytes, Goodbye& out) {
  FieldReader in("goodbye", bytes);
  while (in.Next()) {
    switch (in.field()) {
      case 1:
        in.Uint32(out.status_code);
        break;
      case 2:
        in.Text(out.status_message, FrameLimits::kMessageBytes);
        break;
      default:
        in.Skip();
    }
  }
  return in.status();
}

absl::Status ParseAttachment(Bytes bytes, AttachmentRef& out) {
  FieldReader in("attachment", bytes);
  while (in.Next()) {
    switch (in.field()) {
      case 1:
        in.Uint64(out.size_bytes);
        break;
      case 2:
        in.Fixed64(out.transfer);
        break;
      default:
        in.Skip();
    }
  }
  return in.status();
}

absl::Status ParseItem(Bytes bytes, ItemView& out) {
  FieldReader in("item", bytes);
  while (in.Next()) {
    switch (in.field()) {
      case 1:
        in.Uint32(out.kind);
        break;
      case 2:
        in.Fixed64(out.call);
        break;
      case 3:
        in.Uint32(out.function);
        break;
      case 4:
        in.Uint64(out.timeout_us);
        break;
      case 5:
        in.Bool(out.nested);
        break;
      case 6:
        in.Text(out.function_name, FrameLimits::kNameBytes);
        break;
      case 7:
        in.Text(out.declaration, FrameLimits::kDeclarationBytes);
        break;
      case 8:
        in.Uint32(out.status_code);
        break;
      case 9:
        in.Text(out.status_message, FrameLimits::kMessageBytes);
        break;
      case 10:
        in.Uint64(out.head_bytes);
        break;
      case 11: {
        Bytes attachment;
        if (in.Repeated(attachment, out.attachments.size(), FrameLimits::kAttachments)) {
          GW_RETURN_IF_ERROR(ParseAttachment(attachment, out.attachments.emplace_back()));
        }
        break;
      }
      case 12:
        in.Fixed64(out.transfer);
        break;
      case 13:
        in.Fixed64(out.offset);
        break;
      case 14:
        in.Fixed64(out.head_transfer);
        break;
      case 15:
        in.Bool(out.resend);
        break;
      default:
        in.Skip();
    }
  }
  return in.status();
}

// Deals the body out to the items.
absl::Status Distribute(const Buffer& message, Bytes body, FrameView& frame) {
  const size_t begin = body.empty() ? 0 : static_cast<size_t>(body.data() - message.data());
  size_t at = 0;
  const auto take = [&](uint64_t size, Buffer& out) {
    if (size > body.size() - at) return false;
    if (size > 0) out = message.Slice(begin + at, static_cast<size_t>(size));
    at += static_cast<size_t>(size);
    return true;
  };
  for (size_t i = 0; i < frame.items.size(); ++i) {
    ItemView& item = frame.items[i];
    if (item.head_transfer == 0 && !take(item.head_bytes, item.head)) {
      return Bad("frame", absl::StrCat("head_bytes of item ", i, " exceed the body"));
    }
    for (const AttachmentRef& ref : item.attachments) {
      if (ref.transfer != 0) continue;
      if (!take(ref.size_bytes, item.inline_attachments.emplace_back())) {
        return Bad("frame", absl::StrCat("an attachment of item ", i, " exceeds the body"));
      }
    }
  }
  if (at != body.size()) {
    return Bad("frame", absl::StrCat("the body has ", body.size(), " bytes, the items claim ", at));
  }
  return absl::OkStatus();
}

// Items, or one message of the hello, or a goodbye.
absl::Status CheckAlone(const FrameView& frame) {
  const int singles = frame.hello.has_value() + frame.hello_reply.has_value() +
                      frame.hello_done.has_value() + frame.goodbye.has_value();
  if (singles > 1) return Bad("frame", "more than one of hello, hello_reply, hello_done, goodbye");
  if (singles > 0 && !frame.items.empty()) return Bad("frame", "items beside a hello or a goodbye");
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseFrame(const Buffer& message, FrameView& out, size_t max_items) {
  out.head = FrameHead();
  out.hello.reset();
  out.hello_reply.reset();
  out.hello_done.reset();
  out.goodbye.reset();
  if (out.items.size() > FrameLimits::kKeptItems) std::vector<ItemView>().swap(out.items);
  size_t item_count = 0;
  Bytes body;
  FieldReader in("frame", message.bytes());
  while (in.Next()) {
    Bytes part;
    switch (in.field()) {
      case 1:
        in.Fixed64(out.head.first_item);
        break;
      case 2:
        in.Fixed64(out.head.seen);
        break;
      case 3:
        in.Fixed64(out.head.finished_below);
        break;
      case 4:
        in.Fixed64(out.head.call_limit);
        break;
      case 5:
        in.Fixed64(out.head.nested_call_limit);
        break;
      case 7:
        in.Bool(out.head.resend);
        break;
      case 8:
        if (in.Message(part)) GW_RETURN_IF_ERROR(ParseHello(part, out.hello.emplace()));
        break;
      case 9:
        if (in.Message(part)) GW_RETURN_IF_ERROR(ParseHelloReply(part, out.hello_reply.emplace()));
        break;
      case 10:
        if (in.Message(part)) GW_RETURN_IF_ERROR(ParseHelloDone(part, out.hello_done.emplace()));
        break;
      case 11: {
        if (!in.Repeated(part, item_count, max_items)) break;
        if (out.items.size() == item_count) out.items.emplace_back();
        ItemView& item = out.items[item_count++];
        item = ItemView();
        GW_RETURN_IF_ERROR(ParseItem(part, item), _ << "item " << item_count - 1);
        break;
      }
      case 12:
        if (in.Message(part)) GW_RETURN_IF_ERROR(ParseGoodbye(part, out.goodbye.emplace()));
        break;
      case 15:
        if (in.Message(body) && !in.done()) return Bad("frame", "body is not last");
        break;
      default:
        in.Skip();
    }
  }
  GW_RETURN_IF_ERROR(in.status());
  out.items.resize(item_count);
  GW_RETURN_IF_ERROR(CheckAlone(out));
  return Distribute(message, body, out);
}

}  // namespace gradwire::rpc
