#include "tests/rpc/agent/frame_oracle.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gradwire/v1/session.pb.h"
#include "tests/rpc/agent/wire_rules.h"

namespace gradwire::rpc::testing {
namespace {

using L = FrameLimits;

std::string Str(absl::string_view text) { return std::string(text); }
std::string Str(const Buffer& buffer) { return Str(AsText(buffer.bytes())); }

template <class Features>
bool FeaturesFit(const Features& features) {
  return static_cast<size_t>(features.size()) <= L::kFeatures &&
         std::all_of(features.begin(), features.end(),
                     [](const std::string& f) { return f.size() <= L::kFeatureBytes; });
}

// The limits, on what libprotobuf read.
bool Fits(const v1::Frame& f) {
  const int singles = f.has_hello() + f.has_hello_reply() + f.has_hello_done() + f.has_goodbye();
  if (singles > 1 || (singles == 1 && f.items_size() > 0)) return false;
  if (f.items_size() > static_cast<int>(L::kItems)) return false;
  if (!FeaturesFit(f.hello().features()) || !FeaturesFit(f.hello_reply().features())) return false;
  for (const std::string* name : {&f.hello().job(), &f.hello().name(), &f.hello().expected_name(),
                                  &f.hello_reply().job(), &f.hello_reply().name()}) {
    if (name->size() > L::kNameBytes) return false;
  }
  for (const std::string* proof : {&f.hello().nonce(), &f.hello_reply().nonce(),
                                   &f.hello_reply().proof(), &f.hello_done().proof()}) {
    if (proof->size() > L::kProofBytes) return false;
  }
  if (f.hello_reply().status_message().size() > L::kMessageBytes) return false;
  if (f.goodbye().status_message().size() > L::kMessageBytes) return false;
  unsigned __int128 body = 0;
  for (const v1::Item& item : f.items()) {
    if (item.function_name().size() > L::kNameBytes) return false;
    if (item.declaration().size() > L::kDeclarationBytes) return false;
    if (item.status_message().size() > L::kMessageBytes) return false;
    if (item.attachments_size() > static_cast<int>(L::kAttachments)) return false;
    if (item.head_transfer() == 0) body += item.head_bytes();
    for (const v1::Attachment& a : item.attachments()) {
      if (a.transfer() == 0) body += a.size_bytes();
    }
  }
  return body == f.body().size();
}

// What ours read, as libprotobuf would hold it.
v1::Frame ToProto(const FrameView& view) {
  v1::Frame f;
  f.set_first_item(view.head.first_item);
  f.set_seen(view.head.seen);
  f.set_finished_below(view.head.finished_below);
  f.set_call_limit(view.head.call_limit);
  f.set_nested_call_limit(view.head.nested_call_limit);
  f.set_resend(view.head.resend);
  if (view.hello) {
    v1::Hello& to = *f.mutable_hello();
    const Hello& from = *view.hello;
    to.set_version_major(from.version_major);
    to.set_version_minor(from.version_minor);
    for (const std::string& feature : from.features) to.add_features(feature);
    to.set_job(from.job);
    to.set_name(from.name);
    to.set_incarnation(from.incarnation);
    to.set_nonce(from.nonce);
    to.set_expected_name(from.expected_name);
    to.set_session(from.session);
    to.set_resume(from.resume);
    to.set_buried_session(from.buried_session);
    to.set_seen(from.seen);
  }
  if (view.hello_reply) {
    v1::HelloReply& to = *f.mutable_hello_reply();
    const HelloReply& from = *view.hello_reply;
    to.set_status_code(from.status_code);
    to.set_status_message(from.status_message);
    to.set_version_major(from.version_major);
    to.set_version_minor(from.version_minor);
    for (const std::string& feature : from.features) to.add_features(feature);
    to.set_job(from.job);
    to.set_name(from.name);
    to.set_incarnation(from.incarnation);
    to.set_nonce(from.nonce);
    to.set_proof(from.proof);
    to.set_seen(from.seen);
  }
  if (view.hello_done) f.mutable_hello_done()->set_proof(view.hello_done->proof);
  if (view.goodbye) {
    f.mutable_goodbye()->set_status_code(view.goodbye->status_code);
    f.mutable_goodbye()->set_status_message(view.goodbye->status_message);
  }
  for (const ItemView& from : view.items) {
    v1::Item& to = *f.add_items();
    to.set_kind(from.kind);
    to.set_call(from.call);
    to.set_function(from.function);
    to.set_timeout_us(from.timeout_us);
    to.set_nested(from.nested);
    to.set_function_name(Str(from.function_name));
    to.set_declaration(Str(from.declaration));
    to.set_status_code(from.status_code);
    to.set_status_message(Str(from.status_message));
    to.set_head_bytes(from.head_bytes);
    to.set_head_transfer(from.head_transfer);
    to.set_transfer(from.transfer);
    to.set_offset(from.offset);
    to.set_resend(from.resend);
    f.mutable_body()->append(Str(from.head));
    for (const AttachmentRef& ref : from.attachments) {
      v1::Attachment& attachment = *to.add_attachments();
      attachment.set_size_bytes(ref.size_bytes);
      attachment.set_transfer(ref.transfer);
    }
    for (const Buffer& buffer : from.inline_attachments) f.mutable_body()->append(Str(buffer));
  }
  return f;
}

// Whether the parts of the body that ours gave out have the sizes that the items claim.
std::string CheckSizes(const FrameView& view) {
  for (const ItemView& item : view.items) {
    if (item.head.size() != (item.head_transfer == 0 ? item.head_bytes : 0)) return "head's size";
    size_t at = 0;
    for (const AttachmentRef& ref : item.attachments) {
      if (ref.transfer != 0) continue;
      if (at >= item.inline_attachments.size() ||
          item.inline_attachments[at].size() != ref.size_bytes) {
        return "an inline attachment's size";
      }
      ++at;
    }
    if (at != item.inline_attachments.size()) return "number of inline attachments";
  }
  return "";
}

template <class Message>
void DropUnknown(Message& message) {
  message.DiscardUnknownFields();
}

template <class Message>
std::string Difference(const Message& ours, const Message& theirs) {
  if (ours.SerializeAsString() == theirs.SerializeAsString()) return "";
  return absl::StrCat("read otherwise: ", ours.ShortDebugString(), " instead of ",
                      theirs.ShortDebugString());
}

bool FitsBulk(const v1::BulkFrame& f) {
  const bool fields = f.transfer() != 0 || f.total_bytes() != 0 || f.offset() != 0 ||
                      f.crc32c() != 0 || !f.data().empty();
  const bool chunk = !f.data().empty() && f.transfer() != 0;
  if (f.has_hello() + f.has_ready() + fields != 1) return false;
  if (fields && !chunk) return false;
  return f.hello().nonce().size() <= L::kProofBytes && f.hello().proof().size() <= L::kProofBytes &&
         f.hello().progress_size() <= static_cast<int>(L::kProgress) &&
         f.ready().progress_size() <= static_cast<int>(L::kProgress) &&
         f.ready().status_message().size() <= L::kMessageBytes;
}

v1::BulkFrame ToProto(const BulkFrameView& view) {
  v1::BulkFrame f;
  const auto put = [](const TransferProgress& from, v1::TransferProgress& to) {
    to.set_transfer(from.transfer);
    to.set_received_bytes(from.received_bytes);
  };
  if (view.hello) {
    f.mutable_hello()->set_session(view.hello->session);
    f.mutable_hello()->set_nonce(view.hello->nonce);
    f.mutable_hello()->set_proof(view.hello->proof);
    for (const auto& progress : view.hello->progress)
      put(progress, *f.mutable_hello()->add_progress());
  }
  if (view.ready) {
    f.mutable_ready()->set_status_code(view.ready->status_code);
    f.mutable_ready()->set_status_message(view.ready->status_message);
    for (const auto& progress : view.ready->progress)
      put(progress, *f.mutable_ready()->add_progress());
  }
  f.set_transfer(view.chunk.transfer);
  f.set_total_bytes(view.chunk.total_bytes);
  f.set_offset(view.chunk.offset);
  f.set_crc32c(view.chunk.crc32c);
  for (const Bytes piece : view.data) f.mutable_data()->append(Str(AsText(piece)));
  return f;
}

}  // namespace

std::string CheckFrame(absl::string_view message) {
  const google::protobuf::LogSilencer silencer;
  const std::string bytes = Str(message);
  FrameView view;
  const Buffer shown = Buffer::Copy(AsBytes(message));  // the view shows it
  const absl::Status ours = ParseFrame(shown, view);
  v1::Frame theirs;
  const bool accepted = theirs.ParseFromString(bytes);
  if (ours.ok()) {
    if (!accepted) return "ours accepts what libprotobuf refuses";
    DropUnknown(theirs);
    if (std::string sizes = CheckSizes(view); !sizes.empty()) return sizes;
    return Difference(ToProto(view), theirs);
  }
  if (!accepted) return "";
  if (Fits(theirs) && KeepsWireRules(*v1::Frame::descriptor(), bytes)) {
    return absl::StrCat("ours refuses what keeps the rules: ", ours.ToString());
  }
  DropUnknown(theirs);
  const std::string again = theirs.SerializeAsString();
  const Buffer shown_again = Buffer::Copy(AsBytes(again));
  const absl::Status second = ParseFrame(shown_again, view);
  if (second.ok() != Fits(theirs)) {
    return absl::StrCat("written by libprotobuf again: ", second.ToString());
  }
  return second.ok() ? Difference(ToProto(view), theirs) : "";
}

std::string CheckBulkFrame(absl::string_view message, Rng& cut) {
  const google::protobuf::LogSilencer silencer;
  const std::string bytes = Str(message);
  BulkFrameView view;
  const BufferList pieces = Cut(message, cut);
  const absl::Status ours = ParseBulkFrame(pieces, view);
  {
    BulkFrameView other;
    const BufferList otherwise = Cut(message, cut);
    const absl::Status second = ParseBulkFrame(otherwise, other);
    if (second != ours) {
      return absl::StrCat("the cut matters: ", ours.ToString(), " and ", second.ToString());
    }
  }
  v1::BulkFrame theirs;
  const bool accepted = theirs.ParseFromString(bytes);
  if (ours.ok()) {
    if (!accepted) return "ours accepts what libprotobuf refuses";
    DropUnknown(theirs);
    return Difference(ToProto(view), theirs);
  }
  if (!accepted) return "";
  DropUnknown(theirs);
  const std::string again = theirs.SerializeAsString();
  // Unknown fields may fill the place that a head has.
  if (again.size() == bytes.size() && FitsBulk(theirs) &&
      KeepsWireRules(*v1::BulkFrame::descriptor(), bytes)) {
    return absl::StrCat("ours refuses what keeps the rules: ", ours.ToString());
  }
  const BufferList canonical = Cut(again, cut);
  const absl::Status second = ParseBulkFrame(canonical, view);
  if (second.ok() != FitsBulk(theirs)) {
    return absl::StrCat("written by libprotobuf again: ", second.ToString());
  }
  return second.ok() ? Difference(ToProto(view), theirs) : "";
}

BufferList Cut(absl::string_view message, Rng& rng) {
  BufferList out;
  size_t at = 0;
  while (at < message.size()) {
    const size_t most = rng.Chance(0.5) ? 8 : message.size();
    const size_t size = std::min<size_t>(rng.Below(most + 1), message.size() - at);
    out.Append(Buffer::Copy(AsBytes(message.substr(at, size))));
    at += size;
  }
  return out;
}

std::string Damage(std::string message, Rng& rng) {
  for (uint64_t edits = 1 + rng.Below(4); edits > 0; --edits) {
    const size_t at = rng.Below(message.size() + 1);
    const size_t count = 1 + rng.Below(4);
    switch (rng.Below(5)) {
      case 0:
        if (at < message.size()) message[at] = static_cast<char>(rng.Next());
        break;
      case 1:
        if (at < message.size()) message[at] = static_cast<char>(message[at] ^ (1 << rng.Below(8)));
        break;
      case 2:
        message.insert(at, 1, static_cast<char>(rng.Chance(0.5) ? rng.Next() : rng.Below(128)));
        break;
      case 3:
        message.erase(at, count);
        break;
      default: {  // repeats a run: fields that come twice
        const std::string run = message.substr(at, 1 + rng.Below(40));
        message.insert(rng.Below(message.size() + 1), run);
      }
    }
  }
  return message;
}

}  // namespace gradwire::rpc::testing
