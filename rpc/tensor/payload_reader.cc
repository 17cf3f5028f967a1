#include "rpc/tensor/payload_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire::rpc {

absl::StatusOr<Buffer> PayloadReader::TakeFromHead(size_t count) {
  const size_t offset = head_.offset();
  Bytes bytes;
  if (!head_.ReadBytes(count, bytes)) return head_.EndsEarly("a value");
  return payload_.head.Slice(offset, count);
}

absl::StatusOr<ReceivedAttachment> PayloadReader::TakeAttachment(uint64_t size_bytes) {
  if (next_attachment_ >= payload_.attachments.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor of ", size_bytes,
                                                   " bytes without its attachment: there are ",
                                                   payload_.attachments.size()));
  }
  ReceivedAttachment& attachment = payload_.attachments[next_attachment_];
  if (attachment.bytes.size() != size_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("attachment ", next_attachment_ + 1, " has ",
                                                   attachment.bytes.size(), " bytes, its tensor ",
                                                   size_bytes));
  }
  ++next_attachment_;
  return std::move(attachment);
}

absl::Status PayloadReader::Finish() const {
  if (head_.remaining() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(head_.remaining(), " bytes are left over after the last value"));
  }
  if (next_attachment_ != payload_.attachments.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(payload_.attachments.size() - next_attachment_,
                     " attachments are left over after the last value"));
  }
  return absl::OkStatus();
}

}  // namespace gradwire::rpc
