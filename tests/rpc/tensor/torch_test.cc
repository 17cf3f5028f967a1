#include "rpc/tensor/torch.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "ATen/ops/from_blob.h"
#include "c10/core/InferenceMode.h"
#include "tests/rpc/tensor/round_trip.h"
#include "tests/rpc/tensor/torch_testutil.h"
#include "tests/support/matchers.h"

// An allocation that can't be made fails under the address sanitizer, too, instead of ending the
// test.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using testing::Arrive;
using testing::Counting;
using testing::DecodeOne;
using testing::EncodeHex;
using testing::EncodeOne;
using ::testing::HasSubstr;
using testing::Identical;
using testing::RoundTrip;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

void ExpectComesBack(const at::Tensor& tensor) {
  const absl::StatusOr<at::Tensor> back = RoundTrip(tensor);
  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(Identical(*back, tensor))
      << back->sizes() << back->strides() << " instead of " << tensor.sizes() << tensor.strides();
}

TEST(TorchCodecTest, EveryDTypeComesBack) {
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar, at::kShort, at::kInt,
        at::kLong, at::kByte, at::kBool, at::kComplexFloat, at::kComplexDouble}) {
    SCOPED_TRACE(c10::toString(type));
    ExpectComesBack(Counting({2, 3}, type));     // embedded
    ExpectComesBack(Counting({20, 300}, type));  // attached
    const absl::StatusOr<DType> dtype = DTypeOf(type);
    ASSERT_THAT(dtype, IsOk());
    EXPECT_EQ(ScalarTypeOf(*dtype), type);
  }
}

TEST(TorchCodecTest, TheBytesAreThoseOfViews) {
  const at::Tensor tensor = Counting({2, 3}, at::kByte).t();
  EXPECT_EQ(EncodeHex(tensor),
            "090302"
            "0300000000000000"
            "0200000000000000"
            "0100000000000000"
            "0300000000000000"
            "000102030405");
  EXPECT_EQ(EncodeHex(at::Tensor()), "000400");
  const absl::StatusOr<TensorView> view = ToView(tensor);
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->bytes.data(), tensor.const_data_ptr());
  EXPECT_EQ(EncodeHex(*view), EncodeHex(tensor));
  const absl::StatusOr<at::Tensor> back = FromView(*view);
  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(Identical(*back, tensor));
}

TEST(TorchCodecTest, OddShapesComeBack) {
  ExpectComesBack(at::Tensor());
  ExpectComesBack(Counting({}));
  ExpectComesBack(Counting({0}));
  ExpectComesBack(Counting({3, 0, 5}));
  ExpectComesBack(Counting({1, 1, 1, 2, 1, 1, 1, 1}));
  ExpectComesBack(Counting({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast));
  ExpectComesBack(Counting({2, 1, 28, 28}).contiguous(at::MemoryFormat::ChannelsLast));
  ExpectComesBack(Counting({40, 30}).t());
  ExpectComesBack(Counting({2, 3, 4}).permute({2, 0, 1}));
  ExpectComesBack(Counting({4, 2, 3, 5}).contiguous(at::MemoryFormat::ChannelsLast).slice(0, 1, 2));
}

TEST(TorchCodecTest, LayoutsWithHolesArriveRowMajor) {
  const at::Tensor big = Counting({100, 100});
  for (const at::Tensor& view :
       {big.slice(1, 0, 3), big.slice(0, 0, 100, 7), big.select(1, 5), big.diagonal(),
        Counting({1, 5}).expand({1000, 5}), big.slice(0, 99, 100).t()}) {
    const absl::StatusOr<Payload> payload = EncodeOne(view);
    ASSERT_THAT(payload, IsOk());
    EXPECT_LE(payload->size_bytes(), view.numel() * 4 + 64u) << "carries more than it shows";
    const absl::StatusOr<at::Tensor> back = DecodeOne<at::Tensor>(Arrive(*payload));
    ASSERT_THAT(back, IsOk());
    EXPECT_TRUE(back->equal(view));
    EXPECT_TRUE(back->is_contiguous());
  }
  // A dense part of a big storage is shared, not copied, and carries itself alone.
  const at::Tensor row = Counting({100, 100000}).select(0, 3);
  const absl::StatusOr<Payload> payload = EncodeOne(row);
  ASSERT_THAT(payload, IsOk());
  ASSERT_EQ(payload->attachments.size(), 1u);
  EXPECT_EQ(payload->attachments[0].data(), row.const_data_ptr());
  EXPECT_EQ(payload->attachments[0].size(), 400000u);
}

TEST(TorchCodecTest, ViewsAreResolved) {
  const at::Tensor z = Counting({3, 2}, at::kComplexFloat).mul(c10::complex<float>(1, 2));
  for (const at::Tensor& view : {z.conj(), z.t().conj(), Counting({3, 2})._neg_view()}) {
    ASSERT_TRUE(view.is_conj() || view.is_neg());
    const absl::StatusOr<at::Tensor> back = RoundTrip(view);
    ASSERT_THAT(back, IsOk());
    EXPECT_FALSE(back->is_conj() || back->is_neg());
    EXPECT_TRUE(back->equal(view));
  }
}

TEST(TorchCodecTest, GradientsStayBehind) {
  at::Tensor leaf = Counting({2, 2}).requires_grad_();
  const at::Tensor product = leaf.mul(leaf);
  for (const at::Tensor& sent : {leaf, product, product.slice(1, 0, 1), product.t()}) {
    const absl::StatusOr<at::Tensor> back = RoundTrip(sent);
    ASSERT_THAT(back, IsOk());
    EXPECT_FALSE(back->requires_grad());
    EXPECT_TRUE(back->is_leaf());
    EXPECT_TRUE(back->equal(sent));
  }
}

TEST(TorchCodecTest, WhatCannotTravelIsNamed) {
  const at::Tensor x = Counting({2, 2});
  const auto expect_refused = [](const at::Tensor& tensor, absl::string_view text) {
    EXPECT_THAT(EncodeOne(tensor), StatusIs(kInvalid, HasSubstr(std::string(text))));
    EXPECT_THAT(ToView(tensor), StatusIs(kInvalid, HasSubstr(std::string(text))));
  };
  expect_refused(x.to(at::kFloat8_e5m2), "dtype Float8_e5m2 is not carried; these are: float32");
  expect_refused(x.to(at::kComplexHalf), "dtype ComplexHalf is not carried");
  expect_refused(x.to_sparse(), "sparse tensors are not carried");
  expect_refused(x.to_sparse_csr(), "compressed sparse tensors are not carried");
  expect_refused(x.to(at::kMeta), "meta tensors are not carried");
  expect_refused(Counting({1, 1, 1, 1, 1, 1, 1, 1, 1}), "at most 8 travel");
  EXPECT_THAT(EncodeOne(x, Sharing::kBorrow, {.max_tensor_bytes = 15}),
              StatusIs(kInvalid, HasSubstr("max_tensor_bytes is 15")));
  EXPECT_THAT(EncodeOne(x.expand({4, 2, 2}), Sharing::kBorrow, {.max_tensor_bytes = 15}),
              StatusIs(kInvalid, HasSubstr("64 bytes, but max_tensor_bytes is 15")));
}

TEST(TorchCodecTest, BoolsFromPeersAreChecked) {
  EXPECT_THAT(testing::DecodeHex<at::Tensor>("0a0101"
                                             "0200000000000000"
                                             "0102"),
              StatusIs(kInvalid, HasSubstr("other than 0 and 1")));
  EXPECT_THAT(testing::DecodeHex<at::Tensor>("0a0101"
                                             "0200000000000000"
                                             "01"),
              StatusIs(kInvalid, HasSubstr("ends early")));
}

// ---- whose memory ----

struct Sent {
  Payload payload;
  BorrowGuard borrows;
};
Sent Send(const at::Tensor& tensor, Sharing sharing) {
  PayloadWriter out(sharing, {}, "demo.f");
  out.BeginArgument(1);
  EXPECT_THAT(Codec<at::Tensor>::Encode(out, tensor), IsOk());
  return {out.TakePayload(), out.TakeBorrows()};
}
bool Shares(const Sent& sent, const at::Tensor& tensor) {
  return sent.payload.attachments.at(0).data() == tensor.const_data_ptr();
}

TEST(TorchSharingTest, LargeArgumentsAreBorrowedAndWatched) {
  at::Tensor large = Counting({16385});
  const Sent sent = Send(large, Sharing::kBorrow);
  EXPECT_TRUE(Shares(sent, large));
  EXPECT_THAT(sent.borrows.Check(), IsOk());
  large.slice(0, 0, 1).add_(1);  // through a view
  EXPECT_THAT(sent.borrows.Check(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("argument 1 of demo.f"), HasSubstr("version 0, now 1"))));
}

TEST(TorchSharingTest, UpTo64KiBArgumentsAreCopied) {
  at::Tensor small = Counting({16384});
  const Sent sent = Send(small, Sharing::kBorrow);
  EXPECT_FALSE(Shares(sent, small));
  EXPECT_TRUE(sent.borrows.empty());
  const at::Tensor before = small.clone();
  small.zero_();
  EXPECT_TRUE(DecodeOne<at::Tensor>(Arrive(sent.payload))->equal(before));
}

TEST(TorchSharingTest, ASnapshotDoesNotChange) {
  at::Tensor large = Counting({20000});
  const at::Tensor before = large.clone();
  const Sent sent = Send(large, Sharing::kCopy);
  EXPECT_TRUE(sent.borrows.empty());
  large.zero_();
  EXPECT_TRUE(DecodeOne<at::Tensor>(Arrive(sent.payload))->equal(before));
}

TEST(TorchSharingTest, WhatWasMadeForTheWireIsNotBorrowed) {
  const at::Tensor holes = Counting({200, 200}).slice(1, 0, 199);
  const Sent sent = Send(holes, Sharing::kBorrow);
  EXPECT_TRUE(sent.borrows.empty());
  EXPECT_TRUE(DecodeOne<at::Tensor>(Arrive(sent.payload))->equal(holes));
}

TEST(TorchSharingTest, InferenceTensorsAreCopied) {
  at::Tensor large;
  {
    const c10::InferenceMode mode;
    large = Counting({20000});
  }
  const Sent sent = Send(large, Sharing::kBorrow);
  EXPECT_FALSE(Shares(sent, large));
  EXPECT_TRUE(sent.borrows.empty());
}

TEST(TorchSharingTest, ResultsAreTakenOnlyFromTheirOnlyHolder) {
  {
    const at::Tensor own = Counting({20000}).clone();
    EXPECT_TRUE(Shares(Send(own, Sharing::kTakeOrCopy), own));
  }
  {
    const at::Tensor weights = Counting({20000}).clone();
    const at::Tensor handle = weights;
    EXPECT_FALSE(Shares(Send(weights, Sharing::kTakeOrCopy), weights)) << "a second handle";
  }
  {
    const at::Tensor weights = Counting({20000}).clone();
    const at::Tensor view = weights.slice(0, 0, 18000);
    EXPECT_FALSE(Shares(Send(view, Sharing::kTakeOrCopy), view)) << "a view of live weights";
  }
  {
    at::Tensor leaf = Counting({20000}).requires_grad_();
    const at::Tensor detached = leaf.detach();
    EXPECT_FALSE(Shares(Send(detached, Sharing::kTakeOrCopy), detached)) << "shared storage";
  }
  {
    std::vector<float> static_memory(20000);
    const at::Tensor shown = at::from_blob(static_memory.data(), {20000}, at::kFloat);
    EXPECT_FALSE(Shares(Send(shown, Sharing::kTakeOrCopy), shown)) << "memory without owner";
  }
}

ReceivedPayload ArriveAligned(const Payload& payload) {
  ReceivedPayload received = Arrive(payload, /*exclusive=*/true);
  for (ReceivedAttachment& attachment : received.attachments) {
    const size_t size = attachment.bytes.size();
    std::shared_ptr<std::byte> block(
        static_cast<std::byte*>(::operator new(size, std::align_val_t{64})),
        [](std::byte* p) { ::operator delete(p, std::align_val_t{64}); });
    std::memcpy(block.get(), attachment.bytes.data(), size);
    attachment.bytes = Buffer({block.get(), size}, block);
  }
  return received;
}

TEST(TorchSharingTest, ExclusiveBytesAreAdopted) {
  const at::Tensor sent = Counting({2, 3, 40, 50}).contiguous(at::MemoryFormat::ChannelsLast);
  const absl::StatusOr<Payload> payload = EncodeOne(sent);
  ASSERT_THAT(payload, IsOk());
  ReceivedPayload received = ArriveAligned(*payload);
  const std::byte* const place = received.attachments[0].bytes.data();
  const std::weak_ptr<const void> owner = received.attachments[0].bytes.owner();
  absl::StatusOr<at::Tensor> back = DecodeOne<at::Tensor>(std::move(received));
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->const_data_ptr(), place);
  EXPECT_TRUE(Identical(*back, sent));
  back->add_(1);  // it may be changed
  EXPECT_FALSE(owner.expired());
  back = at::Tensor();
  EXPECT_TRUE(owner.expired()) << "the bytes must go with the last handle";
}

TEST(TorchSharingTest, AnAdoptedArgumentIsGivenBackAsAResult) {
  const absl::StatusOr<Payload> payload = EncodeOne(Counting({20000}));
  ASSERT_THAT(payload, IsOk());
  const absl::StatusOr<at::Tensor> argument = DecodeOne<at::Tensor>(ArriveAligned(*payload));
  ASSERT_THAT(argument, IsOk());
  EXPECT_TRUE(Shares(Send(*argument, Sharing::kTakeOrCopy), *argument));
}

TEST(TorchSharingTest, SharedBytesAreCopied) {
  const absl::StatusOr<Payload> payload = EncodeOne(Counting({20000}));
  ASSERT_THAT(payload, IsOk());
  const absl::StatusOr<at::Tensor> back = DecodeOne<at::Tensor>(Arrive(*payload, false));
  ASSERT_THAT(back, IsOk());
  EXPECT_NE(back->const_data_ptr(), payload->attachments[0].data());
}

// ---- gateway ----

TEST(TorchGatewayTest, Factories) {
  EXPECT_EQ(Empty({2, 3}, at::kHalf)->sizes(), at::IntArrayRef({2, 3}));
  EXPECT_TRUE(Zeros({4}, at::kLong)->equal(Counting({4}, at::kLong).mul(0)));
  const float values[] = {0, 1, 2, 3};
  EXPECT_TRUE(
      FromBytes(std::as_bytes(std::span(values)), {2, 2}, at::kFloat)->equal(Counting({2, 2})));
  EXPECT_THAT(FromBytes(std::as_bytes(std::span(values)), {5}, at::kFloat),
              StatusIs(kInvalid, HasSubstr("16 bytes instead of 20")));
  EXPECT_THAT(FromBytes({}, {-1}, at::kFloat), StatusIs(kInvalid, HasSubstr("negative")));
  const absl::StatusOr<at::Tensor> joined = Cat({Counting({2}), Counting({3})}, 0);
  ASSERT_THAT(joined, IsOk());
  const float expected[] = {0, 1, 0, 1, 2};
  EXPECT_TRUE(joined->equal(*FromBytes(std::as_bytes(std::span(expected)), {5}, at::kFloat)));
  EXPECT_THAT(Cat({Counting({2, 2}), Counting({3, 3})}, 0),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("Cat: Sizes of tensors must match")));
}

TEST(TorchFenceTest, CodesAndTextWithoutBacktrace) {
  const at::Tensor x = Counting({2, 3});
  const absl::Status shapes = TorchToStatus("f", [&] { return x.mm(x); }).status();
  EXPECT_THAT(shapes, StatusIs(absl::StatusCode::kInternal,
                               HasSubstr("f: mat1 and mat2 shapes cannot be multiplied")));
  EXPECT_THAT(std::string(shapes.message()), ::testing::Not(HasSubstr("frame #")));
  EXPECT_THAT(TorchToStatus("f", [&] { return x.select(7, 0); }),
              StatusIs(kInvalid, HasSubstr("Dimension out of range")));
  EXPECT_THAT(Empty({int64_t{1} << 50}, at::kFloat),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("allocate")));
}

TEST(TorchFenceTest, HandlersRunWithGradientsOff) {
  at::Tensor leaf = Counting({2}).requires_grad_();
  {
    const HandlerScope scope;
    EXPECT_FALSE(leaf.mul(leaf).requires_grad());
  }
  EXPECT_TRUE(leaf.mul(leaf).requires_grad());
}

}  // namespace
}  // namespace gradwire::rpc
