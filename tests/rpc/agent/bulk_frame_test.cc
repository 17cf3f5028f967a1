// Messages of the bulk lane, however they are cut.
#include "rpc/agent/bulk_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "rpc/agent/frame.h"
#include "rpc/agent/proto_wire.h"
#include "tests/rpc/agent/frame_oracle.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;

BufferList One(absl::string_view bytes) {
  BufferList list;
  list.Append(Buffer::Copy(AsBytes(bytes)));
  return list;
}
absl::Status Parse(absl::string_view bytes) {
  BulkFrameView view;
  return ParseBulkFrame(One(bytes), view);
}
auto Refused(absl::string_view why) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(why)));
}
std::string Flat(const BufferList& list) { return std::string(AsText(list.Flatten().bytes())); }

TEST(BulkFrameTest, AChunkIsNotGathered) {
  const Buffer data = Buffer::FromString(std::string(1 << 20, 'd'));
  BufferList out;
  WriteBulkChunk({.transfer = 6, .total_bytes = 8 << 20, .offset = 1 << 20, .crc32c = 77}, data,
                 out);
  ASSERT_EQ(out.pieces().size(), 2u);
  EXPECT_EQ(out.pieces()[1].data(), data.data());

  BufferList cut;
  cut.Append(out.pieces()[0].Slice(0, 5));
  cut.Append(Buffer());
  cut.Append(out.pieces()[0].Slice(5, out.pieces()[0].size() - 5));
  cut.Append(data.Slice(0, 16384));
  cut.Append(data.Slice(16384, data.size() - 16384));
  BulkFrameView view;
  ASSERT_THAT(ParseBulkFrame(cut, view), IsOk());
  ASSERT_TRUE(view.has_chunk);
  EXPECT_EQ(view.chunk.transfer, 6u);
  EXPECT_EQ(view.chunk.total_bytes, 8u << 20);
  EXPECT_EQ(view.chunk.offset, 1u << 20);
  EXPECT_EQ(view.chunk.crc32c, 77u);
  EXPECT_EQ(view.data_bytes, data.size());
  ASSERT_EQ(view.data.size(), 2u);
  EXPECT_EQ(view.data[0].data(), data.data());
  EXPECT_EQ(view.data[1].data(), data.data() + 16384);
}

TEST(BulkFrameTest, HelloAndReady) {
  BufferList out;
  WriteBulkHello({.session = 9, .nonce = "n", .proof = "p", .progress = {{2, 3}, {4, 5}}}, out);
  BulkFrameView view;
  ASSERT_THAT(ParseBulkFrame(out, view), IsOk());
  ASSERT_TRUE(view.hello.has_value());
  EXPECT_EQ(view.hello->session, 9u);
  ASSERT_EQ(view.hello->progress.size(), 2u);
  EXPECT_EQ(view.hello->progress[1].received_bytes, 5u);

  BufferList ready;
  WriteBulkReady({.status_code = 5, .status_message = "who \xff", .progress = {}}, ready);
  ASSERT_THAT(ParseBulkFrame(ready, view), IsOk());
  EXPECT_FALSE(view.hello.has_value());
  EXPECT_EQ(view.ready->status_message, "who \xef\xbf\xbd");
}

TEST(BulkFrameTest, RefusesByName) {
  BufferList out;
  WriteBulkChunk({.transfer = 6, .total_bytes = 3, .offset = 0, .crc32c = 0},
                 Buffer::FromString("abc"), out);
  const std::string chunk = Flat(out);
  EXPECT_THAT(Parse(chunk), IsOk());
  EXPECT_THAT(Parse(chunk + "x"), Refused("data is not last, or cut off (3 bytes announced, 4"));
  EXPECT_THAT(Parse(chunk.substr(0, chunk.size() - 1)), Refused("cut off (3 bytes announced, 2"));
  EXPECT_THAT(Parse(""), Refused("neither a hello nor a chunk"));
  EXPECT_THAT(Parse(chunk.substr(0, 9)), Refused("neither a hello nor a chunk"));
  EXPECT_THAT(Parse(chunk.substr(0, 9) + chunk), Refused("field 3 is repeated"));
  EXPECT_THAT(Parse(chunk.substr(9)), Refused("data without a transfer before it"));
  EXPECT_THAT(Parse(chunk.substr(0, chunk.size() - 4) + std::string(1, '\0')),
              Refused("a chunk without data"));

  BufferList hello_list;
  WriteBulkHello({.session = 9, .nonce = "", .proof = "", .progress = {}}, hello_list);
  const std::string hello = Flat(hello_list);
  std::string ready;
  wire::PutMessage(ready, 2, "");
  EXPECT_THAT(Parse(hello + hello), Refused("field 1 is repeated"));
  EXPECT_THAT(Parse(hello + ready), Refused("hello and ready at once"));
  EXPECT_THAT(Parse(hello + chunk), Refused("fields of a chunk beside a hello"));
  EXPECT_THAT(Parse(chunk.substr(0, 9) + hello), Refused("fields of a chunk beside a hello"));
}

TEST(BulkFrameTest, UnknownFieldsHaveRoomInTheHead) {
  BufferList out;
  WriteBulkChunk({.transfer = 6, .total_bytes = 300, .offset = 0, .crc32c = 0},
                 Buffer::FromString(std::string(300, 'a')), out);
  std::string unknown;
  wire::PutMessage(unknown, 90, std::string(150, 'u'));
  EXPECT_THAT(Parse(unknown + Flat(out)), IsOk());
  EXPECT_THAT(Parse(unknown + unknown + Flat(out)), Refused("within the first 256 bytes"));
  // The same beside a hello, which may be long.
  BulkHello hello{.session = 1, .nonce = "", .proof = "", .progress = {}};
  for (uint64_t i = 0; i < 1000; ++i) hello.progress.push_back({i, i});
  BufferList long_hello;
  WriteBulkHello(hello, long_hello);
  SeededRng rng(1);
  BulkFrameView view;
  const BufferList pieces = Cut(unknown + Flat(long_hello) + unknown, rng);
  ASSERT_THAT(ParseBulkFrame(pieces, view), IsOk());
  EXPECT_EQ(view.hello->progress.size(), 1000u);
}

TEST(BulkFrameTest, AgreesWithLibprotobuf) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    SeededRng rng(seed);
    std::string complaint;
    std::string message = RandomBulkFrame(rng, &complaint);
    ASSERT_EQ(complaint, "") << "seed " << seed;
    ASSERT_EQ(CheckBulkFrame(Damage(std::move(message), rng), rng), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace gradwire::rpc::testing
