// Tensors as views, attachments, and what is borrowed.
#include <gtest/gtest.h>

#include "tests/rpc/tensor/round_trip.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using testing::Arrive;
using testing::DecodeOne;
using testing::EncodeHex;
using testing::EncodeOne;
using ::testing::Eq;
using ::testing::HasSubstr;
using testing::RoundTrip;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TensorView Bytes1d(size_t count) {
  return {.layout = *TensorLayout::Make(DType::kUInt8, std::vector<int64_t>{int64_t(count)}),
          .bytes = Buffer::FromString(std::string(count, 'x'))};
}

TEST(PayloadTest, TensorBytesAreTheDocumentedOnes) {
  const TensorView view{.layout = *TensorLayout::Make(DType::kInt8, std::vector<int64_t>{2, 1},
                                                      std::vector<int64_t>{1, 2}),
                        .bytes = Buffer::FromString("ab")};
  EXPECT_EQ(EncodeHex(view),
            "050302"
            "0200000000000000"
            "0100000000000000"
            "0100000000000000"
            "0200000000000000"
            "6162");
  EXPECT_EQ(EncodeHex(TensorView()), "000400");
}

TEST(PayloadTest, SmallTensorsAreEmbeddedLargeOnesAttached) {
  for (size_t count : {0u, 1u, 1024u}) {
    const absl::StatusOr<Payload> payload = EncodeOne(Bytes1d(count));
    ASSERT_THAT(payload, IsOk());
    EXPECT_EQ(payload->attachments.size(), 0u);
    EXPECT_THAT(DecodeOne<TensorView>(Arrive(*payload)), IsOkAndHolds(Eq(Bytes1d(count))));
  }
  const TensorView large = Bytes1d(1025);
  const absl::StatusOr<Payload> payload = EncodeOne(large);
  ASSERT_THAT(payload, IsOk());
  ASSERT_EQ(payload->attachments.size(), 1u);
  EXPECT_EQ(payload->attachments[0].data(), large.bytes.data()) << "copied";
  EXPECT_EQ(payload->head.size(), 11u);
  EXPECT_THAT(DecodeOne<TensorView>(Arrive(*payload)), IsOkAndHolds(Eq(large)));
}

TEST(PayloadTest, AttachmentsMustMatch) {
  const absl::StatusOr<Payload> payload = EncodeOne(Bytes1d(2000));
  ASSERT_THAT(payload, IsOk());
  ReceivedPayload none = Arrive(*payload);
  none.attachments.clear();
  EXPECT_THAT(DecodeOne<TensorView>(none), StatusIs(kInvalid, HasSubstr("without its attachment")));
  ReceivedPayload shorter = Arrive(*payload);
  shorter.attachments[0].bytes = shorter.attachments[0].bytes.Slice(0, 1999);
  EXPECT_THAT(DecodeOne<TensorView>(shorter),
              StatusIs(kInvalid, HasSubstr("has 1999 bytes, its tensor 2000")));
  ReceivedPayload more = Arrive(*payload);
  more.attachments.push_back({});
  EXPECT_THAT(DecodeOne<TensorView>(more),
              StatusIs(kInvalid, HasSubstr("1 attachments are left over")));
}

TEST(PayloadTest, ManyTensorsKeepTheirOrder) {
  std::vector<std::pair<std::string, TensorView>> values;
  for (size_t i = 0; i < 10; ++i) values.emplace_back(absl::StrCat("t", i), Bytes1d(i * 500));
  EXPECT_THAT(RoundTrip(values), IsOkAndHolds(Eq(values)));
}

TEST(PayloadTest, InvalidViewsAreNotSent) {
  TensorView view = Bytes1d(10);
  view.layout.size[0] = 11;
  EXPECT_THAT(EncodeOne(view), StatusIs(kInvalid, HasSubstr("10 bytes instead of 11")));
  EXPECT_THAT(EncodeOne(Bytes1d(10), Sharing::kBorrow, {.max_tensor_bytes = 9}),
              StatusIs(kInvalid, HasSubstr("max_tensor_bytes is 9")));
}

TEST(BorrowGuardTest, NamesTheChangedArgument) {
  auto thing = std::make_shared<uint64_t>(7);
  PayloadWriter out(Sharing::kBorrow, {}, "demo.add");
  out.BeginArgument(2);
  out.Lend({.thing = thing,
            .version_of = [](const void* p) { return *static_cast<const uint64_t*>(p); },
            .version = 7});
  const BorrowGuard guard = out.TakeBorrows();
  EXPECT_FALSE(guard.empty());
  EXPECT_THAT(guard.Check(), IsOk());
  *thing = 9;
  EXPECT_THAT(guard.Check(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("argument 2 of demo.add, a tensor, was changed")));
  EXPECT_THAT(BorrowGuard().Check(), IsOk());
}

}  // namespace
}  // namespace gradwire::rpc
