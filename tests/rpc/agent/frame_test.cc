// Frames of the control lane: what is written is read, and what is wrong is refused by name.
#include "rpc/agent/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rpc/agent/proto_wire.h"
#include "tests/rpc/agent/frame_oracle.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;

Buffer Text(absl::string_view text) { return Buffer::Copy(AsBytes(text)); }

absl::Status Parse(absl::string_view bytes, size_t max_items = FrameLimits::kItems) {
  FrameView view;
  return ParseFrame(Text(bytes), view, max_items);
}

auto Refused(absl::string_view why) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(why)));
}

// A frame with one item of `item`'s fields and `body`.
std::string OneItem(absl::string_view item, absl::string_view body) {
  std::string frame;
  wire::PutFixed64(frame, 1, 1);
  wire::PutMessage(frame, 11, item);
  wire::PutBytes(frame, 15, body);
  return frame;
}
std::string Field(uint32_t field, uint64_t value) {
  std::string out;
  wire::PutUint(out, field, value);
  return out;
}
std::string TextField(uint32_t field, absl::string_view value) {
  std::string out;
  wire::PutBytes(out, field, value);
  return out;
}

TEST(FrameTest, ReadsWhatItWrote) {
  FrameWriter writer;
  writer.Begin({.first_item = 7,
                .seen = 6,
                .finished_below = 5,
                .call_limit = 4,
                .nested_call_limit = 3,
                .resend = true});
  const std::vector<AttachmentRef> refs = {{10, 0}, {1 << 20, 9}, {0, 0}, {2000, 0}};
  const std::vector<Buffer> inline_pieces = {Text("0123456789"), Buffer(),
                                             Text(std::string(2000, 'b'))};
  ItemHead request;
  request.kind = static_cast<uint32_t>(ItemKind::kRequest);
  request.call = 41;
  request.function = 2;
  request.timeout_us = 1'000'000;
  request.nested = true;
  request.function_name = "demo.add";
  request.declaration = "Tensor(Tensor, Tensor)";
  request.head_bytes = 4;
  request.attachments = refs;
  writer.AddItem(request, Text("head"), inline_pieces);
  ItemHead reply;
  reply.kind = static_cast<uint32_t>(ItemKind::kReply);
  reply.call = 12;
  reply.status_code = 5;
  reply.status_message = "no such thing";
  writer.AddItem(reply, Buffer(), {});
  BufferList out;
  writer.Finish(out);

  FrameView view;
  const Buffer message = out.Flatten();
  ASSERT_THAT(ParseFrame(message, view), IsOk());
  EXPECT_EQ(view.head.first_item, 7u);
  EXPECT_EQ(view.head.seen, 6u);
  EXPECT_EQ(view.head.finished_below, 5u);
  EXPECT_EQ(view.head.call_limit, 4u);
  EXPECT_EQ(view.head.nested_call_limit, 3u);
  EXPECT_TRUE(view.head.resend);
  ASSERT_EQ(view.items.size(), 2u);
  const ItemView& first = view.items[0];
  EXPECT_EQ(first.call, 41u);
  EXPECT_EQ(first.function_name, "demo.add");
  EXPECT_EQ(AsText(first.head.bytes()), "head");
  ASSERT_EQ(first.attachments.size(), 4u);
  EXPECT_EQ(first.attachments[1].transfer, 9u);
  ASSERT_EQ(first.inline_attachments.size(), 3u);
  EXPECT_EQ(AsText(first.inline_attachments[0].bytes()), "0123456789");
  EXPECT_TRUE(first.inline_attachments[1].empty());
  EXPECT_EQ(first.inline_attachments[2].size(), 2000u);
  // Parts show the message, they are no copies.
  EXPECT_GE(first.head.data(), message.data());
  EXPECT_LT(first.head.data(), message.data() + message.size());
  EXPECT_EQ(view.items[1].status_message, "no such thing");

  // A second, smaller frame leaves nothing of the first behind.
  writer.Begin({});
  BufferList empty;
  writer.Finish(empty);
  EXPECT_EQ(empty.size_bytes(), 0u);
  ASSERT_THAT(ParseFrame(empty.Flatten(), view), IsOk());
  EXPECT_EQ(view.head.seen, 0u);
  EXPECT_TRUE(view.items.empty());
}

TEST(FrameTest, SmallFramesAreOnePieceAndLargePiecesAreShared) {
  FrameWriter writer;
  writer.Begin({.first_item = 1});
  ItemHead item;
  item.kind = 1;
  item.head_bytes = 100;
  const Buffer small = Text(std::string(100, 's'));
  writer.AddItem(item, small, {});
  writer.AddItem(item, small, {});
  BufferList out;
  writer.Finish(out);
  EXPECT_EQ(out.pieces().size(), 1u);

  const Buffer large = Text(std::string(5000, 'l'));
  writer.Begin({.first_item = 1});
  writer.AddItem(item, small, {});
  item.head_bytes = large.size();
  writer.AddItem(item, large, {});
  item.head_bytes = small.size();
  writer.AddItem(item, small, {});
  EXPECT_GE(writer.size_bytes(), 5200u);
  BufferList mixed;
  writer.Finish(mixed);
  ASSERT_EQ(mixed.pieces().size(), 3u);
  EXPECT_EQ(mixed.pieces()[1].data(), large.data());
  FrameView view;
  ASSERT_THAT(ParseFrame(mixed.Flatten(), view), IsOk());
  EXPECT_EQ(AsText(view.items[2].head.bytes()), std::string(100, 's'));
}

TEST(FrameTest, RefusesByName) {
  std::string frame = OneItem(Field(10, 3), "abc");
  EXPECT_THAT(Parse(frame), IsOk());
  EXPECT_THAT(Parse(frame + Field(7, 1)), Refused("frame: body is not last"));
  EXPECT_THAT(Parse(frame + TextField(15, "abc")), Refused("frame: body is not last"));
  std::string twice;
  wire::PutFixed64(twice, 3, 1);
  EXPECT_THAT(Parse(twice + twice), Refused("frame: field 3 is repeated"));
  EXPECT_THAT(Parse(OneItem(Field(10, 3) + Field(10, 3), "abc")),
              Refused("item 0: item: field 10 is repeated"));
  EXPECT_THAT(Parse(OneItem(Field(10, 4), "abc")), Refused("head_bytes of item 0 exceed the body"));
  EXPECT_THAT(Parse(OneItem(Field(10, 2), "abc")), Refused("the body has 3 bytes"));
  EXPECT_THAT(Parse(OneItem(TextField(11, Field(1, 4)), "abc")),
              Refused("an attachment of item 0 exceeds the body"));
  EXPECT_THAT(Parse(OneItem(TextField(11, Field(1, UINT64_MAX)) + Field(10, 2), "abc")),
              Refused("exceeds the body"));
  EXPECT_THAT(Parse(OneItem(Field(1, uint64_t{1} << 32), "")), Refused("does not fit 32 bits"));
  EXPECT_THAT(Parse(OneItem(Field(6, 1), "")), Refused("field 6 has wire type 0, not 2"));
  EXPECT_THAT(Parse(OneItem(TextField(6, "\xff"), "")), Refused("field 6 is not UTF-8"));
  EXPECT_THAT(Parse(frame.substr(0, frame.size() - 1)), Refused("is cut off"));
  EXPECT_THAT(Parse(std::string("\x63\x64", 2)), Refused("field 12"));           // a group
  EXPECT_THAT(Parse(std::string("\xe3\x06\xe4\x06", 4)), Refused("malformed"));  // one not known
  EXPECT_THAT(Parse(std::string("\0", 1)), Refused("tag"));
  EXPECT_THAT(Parse("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), Refused("frame"));
}

TEST(FrameTest, SkipsWhatItDoesNotKnow) {
  std::string frame = Field(100, 7) + TextField(101, "later");
  wire::PutFixed64(frame, 102, 1);
  wire::PutFixed32(frame, 103, 1);
  frame += OneItem(Field(10, 3) + TextField(99, "later"), "abc");
  FrameView view;
  ASSERT_THAT(ParseFrame(Text(frame), view), IsOk());
  EXPECT_EQ(AsText(view.items[0].head.bytes()), "abc");
}

TEST(FrameTest, KeepsTheLimits) {
  const auto item_text = [](uint32_t field, size_t size) {
    return OneItem(TextField(field, std::string(size, 'x')), "");
  };
  EXPECT_THAT(Parse(item_text(6, FrameLimits::kNameBytes)), IsOk());
  EXPECT_THAT(Parse(item_text(6, FrameLimits::kNameBytes + 1)), Refused("at most 128"));
  EXPECT_THAT(Parse(item_text(7, FrameLimits::kDeclarationBytes)), IsOk());
  EXPECT_THAT(Parse(item_text(7, FrameLimits::kDeclarationBytes + 1)), Refused("at most 4096"));
  EXPECT_THAT(Parse(item_text(9, FrameLimits::kMessageBytes)), IsOk());
  EXPECT_THAT(Parse(item_text(9, FrameLimits::kMessageBytes + 1)), Refused("at most 16384"));

  const auto attachments = [](size_t count) {
    std::string item;
    for (size_t i = 0; i < count; ++i) wire::PutMessage(item, 11, "");
    return OneItem(item, "");
  };
  EXPECT_THAT(Parse(attachments(FrameLimits::kAttachments)), IsOk());
  EXPECT_THAT(Parse(attachments(FrameLimits::kAttachments + 1)), Refused("more than 1024 times"));

  const auto items = [](size_t count) {
    std::string frame;
    for (size_t i = 0; i < count; ++i) wire::PutMessage(frame, 11, "");
    return frame;
  };
  EXPECT_THAT(Parse(items(FrameLimits::kItems)), IsOk());
  EXPECT_THAT(Parse(items(FrameLimits::kItems + 1)), Refused("more than 65536 times"));
  EXPECT_THAT(Parse(items(1), 0), Refused("field 11 comes more than 0 times"));
  EXPECT_THAT(Parse("", 0), IsOk());

  const auto features = [](size_t count, size_t size) {
    std::string hello;
    for (size_t i = 0; i < count; ++i) wire::PutMessage(hello, 3, std::string(size, 'f'));
    return TextField(8, hello);
  };
  EXPECT_THAT(Parse(features(FrameLimits::kFeatures, FrameLimits::kFeatureBytes)), IsOk());
  EXPECT_THAT(Parse(features(FrameLimits::kFeatures + 1, 1)), Refused("more than 64 times"));
  EXPECT_THAT(Parse(features(1, FrameLimits::kFeatureBytes + 1)), Refused("hello: field 3"));
  EXPECT_THAT(Parse(TextField(10, TextField(1, std::string(65, 'p')))), Refused("at most 64"));
}

TEST(FrameTest, AHelloStandsAlone) {
  std::string hello;
  wire::PutMessage(hello, 8, "");
  std::string goodbye;
  wire::PutMessage(goodbye, 12, "");
  std::string item;
  wire::PutMessage(item, 11, "");
  EXPECT_THAT(Parse(hello), IsOk());
  EXPECT_THAT(Parse(goodbye), IsOk());
  EXPECT_THAT(Parse(hello + goodbye), Refused("more than one of hello"));
  EXPECT_THAT(Parse(hello + item), Refused("items beside a hello"));
  EXPECT_THAT(Parse(item + goodbye), Refused("items beside a hello or a goodbye"));
}

TEST(FrameTest, AWriterRepairsText) {
  FrameWriter writer;
  writer.Begin({});
  Goodbye goodbye{.status_code = 1,
                  .status_message = "bad \xff " + std::string(FrameLimits::kMessageBytes, 'x')};
  writer.SetGoodbye(goodbye);
  BufferList out;
  writer.Finish(out);
  FrameView view;
  ASSERT_THAT(ParseFrame(out.Flatten(), view), IsOk());
  EXPECT_THAT(view.goodbye->status_message, ::testing::StartsWith("bad \xef\xbf\xbd xxx"));
  EXPECT_LE(view.goodbye->status_message.size(), FrameLimits::kMessageBytes);
}

TEST(FrameTest, AgreesWithLibprotobuf) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    SeededRng rng(seed);
    std::string complaint;
    std::string message =
        seed % 4 == 0 ? RandomHelloFrame(rng, &complaint) : RandomItemsFrame(rng, &complaint);
    ASSERT_EQ(complaint, "") << "seed " << seed;
    ASSERT_EQ(CheckFrame(Damage(std::move(message), rng)), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace gradwire::rpc::testing
