#include "rpc/tensor/tensor_layout.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "rpc/tensor/tensor_view.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

absl::StatusOr<uint64_t> BytesOf(DType dtype, std::vector<int64_t> sizes,
                                 std::vector<int64_t> strides = {}) {
  absl::StatusOr<TensorLayout> layout = TensorLayout::Make(dtype, sizes, strides);
  if (!layout.ok()) return layout.status();
  return layout->CheckedBytes(ValueLimits{});
}

TEST(TensorLayoutTest, BytesAreTheProduct) {
  EXPECT_THAT(BytesOf(DType::kFloat32, {}), IsOkAndHolds(4u));
  EXPECT_THAT(BytesOf(DType::kFloat32, {2, 3}), IsOkAndHolds(24u));
  EXPECT_THAT(BytesOf(DType::kComplex128, {5}), IsOkAndHolds(80u));
  EXPECT_THAT(BytesOf(DType::kBool, {7}), IsOkAndHolds(7u));
  EXPECT_THAT(BytesOf(DType::kInt64, {3, 0, 5}), IsOkAndHolds(0u));
  EXPECT_THAT(BytesOf(DType::kUInt8, {int64_t{2} << 30}), IsOkAndHolds(uint64_t{2} << 30));
}

TEST(TensorLayoutTest, ImpossibleSizesAreRefused) {
  EXPECT_THAT(BytesOf(DType::kFloat32, {-1}), StatusIs(kInvalid, HasSubstr("negative")));
  EXPECT_THAT(BytesOf(DType::kFloat32, {kHuge}), StatusIs(kInvalid, HasSubstr("2^63")));
  EXPECT_THAT(BytesOf(DType::kUInt8, {1 << 30, 1 << 30, 1 << 30}),
              StatusIs(kInvalid, HasSubstr("2^63")));
  // A size of 0 doesn't hide that the others overflow libtorch's arithmetic.
  EXPECT_THAT(BytesOf(DType::kUInt8, {kHuge, 2, 0}), StatusIs(kInvalid, HasSubstr("2^63")));
  EXPECT_THAT(BytesOf(DType::kUInt8, {(int64_t{2} << 30) + 1}),
              StatusIs(kInvalid, HasSubstr("max_tensor_bytes is 2147483648")));
  EXPECT_THAT(BytesOf(DType::kFloat32, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
              StatusIs(kInvalid, HasSubstr("at most 8")));
  EXPECT_THAT(BytesOf(static_cast<DType>(13), {1}),
              StatusIs(kInvalid, HasSubstr("dtype number 13 is not carried; these are: float32")));
  TensorLayout forged{.dtype = DType::kInt8, .dim_count = 200};
  EXPECT_THAT(forged.CheckedBytes({}), StatusIs(kInvalid, HasSubstr("at most 8")));
  TensorLayout undefined{.dtype = DType::kUndefined, .dim_count = 1};
  EXPECT_THAT(undefined.CheckedBytes({}), StatusIs(kInvalid, HasSubstr("undefined")));
}

TEST(TensorLayoutTest, StridesMustPackTheElements) {
  EXPECT_THAT(BytesOf(DType::kInt8, {2, 3}, {3, 1}), IsOk());
  EXPECT_THAT(BytesOf(DType::kInt8, {2, 3}, {1, 2}), IsOk());
  EXPECT_THAT(BytesOf(DType::kInt8, {2, 3, 4, 5}, {60, 1, 15, 3}), IsOk());  // channels last
  EXPECT_THAT(BytesOf(DType::kInt8, {1, 3}, {3, 1}), IsOk());
  EXPECT_THAT(BytesOf(DType::kInt8, {1, 3}, {2, 1}), IsOk());
  EXPECT_THAT(BytesOf(DType::kInt8, {1, 3}, {4, 1}), StatusIs(kInvalid, HasSubstr("holes")));
  EXPECT_THAT(BytesOf(DType::kInt8, {1, 3}, {0, 1}), StatusIs(kInvalid, HasSubstr("holes")));
  EXPECT_THAT(BytesOf(DType::kInt8, {2, 3}, {4, 1}), StatusIs(kInvalid, HasSubstr("holes")));
  EXPECT_THAT(BytesOf(DType::kInt8, {2, 3}, {0, 1}), StatusIs(kInvalid, HasSubstr("holes")));
  EXPECT_THAT(BytesOf(DType::kInt8, {2, 2}, {1, 1}), StatusIs(kInvalid, HasSubstr("overlap")));
  EXPECT_THAT(BytesOf(DType::kInt8, {2, 3}, {-3, 1}), StatusIs(kInvalid, HasSubstr("holes")));
  EXPECT_THAT(BytesOf(DType::kInt8, {2, 3}, {kHuge, 1}), StatusIs(kInvalid, HasSubstr("holes")));
  EXPECT_THAT(BytesOf(DType::kInt8, {0, 3}, {3, 1}),
              StatusIs(kInvalid, HasSubstr("without elements")));
  EXPECT_THAT(BytesOf(DType::kInt8, {2, 3}, {1}), StatusIs(kInvalid, HasSubstr("1 strides")));
  TensorLayout scalar{.dtype = DType::kInt8, .has_strides = true};
  EXPECT_THAT(scalar.CheckedBytes({}), StatusIs(kInvalid, HasSubstr("without elements")));
}

TEST(TensorLayoutTest, EqualityKnowsRowMajor) {
  const auto make = [](std::vector<int64_t> strides) {
    return *TensorLayout::Make(DType::kInt8, std::vector<int64_t>{2, 3}, strides);
  };
  EXPECT_EQ(make({}), make({3, 1}));
  EXPECT_FALSE(make({}) == make({1, 2}));
  EXPECT_EQ(make({1, 2}), make({1, 2}));
}

TEST(TensorLayoutTest, DescriptorsComeBack) {
  const TensorLayout layouts[] = {
      {},
      *TensorLayout::Make(DType::kFloat64, {}),
      *TensorLayout::Make(DType::kInt16, std::vector<int64_t>{2, 3}),
      *TensorLayout::Make(DType::kInt16, std::vector<int64_t>{2, 3}, std::vector<int64_t>{1, 2}),
      *TensorLayout::Make(DType::kBFloat16, std::vector<int64_t>(8, 2)),
  };
  for (const TensorLayout& layout : layouts) {
    ByteWriter out;
    WriteTensorDescriptor(layout, true, out);
    const std::string bytes = out.Take();
    ByteReader in(AsBytes(bytes));
    const absl::StatusOr<TensorDescriptor> back = ReadTensorDescriptor(in, {});
    ASSERT_THAT(back, IsOk());
    EXPECT_EQ(back->layout, layout) << layout.ToString();
    EXPECT_EQ(back->layout.has_strides, layout.has_strides);
    EXPECT_EQ(in.remaining(), 0u);
    for (size_t length = 0; length < bytes.size(); ++length) {
      ByteReader cut(AsBytes(bytes).first(length));
      EXPECT_THAT(ReadTensorDescriptor(cut, {}), StatusIs(kInvalid, HasSubstr("ends early")));
    }
  }
}

TEST(TensorLayoutTest, ForgedDescriptorsAreRefused) {
  const auto read = [](std::vector<uint8_t> bytes) {
    ByteReader in(std::as_bytes(std::span(bytes)));
    return ReadTensorDescriptor(in, {}).status();
  };
  EXPECT_THAT(read({1, 8, 0}), StatusIs(kInvalid, HasSubstr("unknown flags 8")));
  EXPECT_THAT(read({0, 0, 0}), StatusIs(kInvalid, HasSubstr("dtype number 0")));
  EXPECT_THAT(read({13, 1, 0}), StatusIs(kInvalid, HasSubstr("dtype number 13")));
  EXPECT_THAT(read({1, 1, 9}), StatusIs(kInvalid, HasSubstr("9 dimensions")));
  EXPECT_THAT(read({1, 4, 0}), StatusIs(kInvalid, HasSubstr("undefined")));
  EXPECT_THAT(read({0, 5, 0}), StatusIs(kInvalid, HasSubstr("undefined")));
  EXPECT_THAT(read({0, 4, 1}), StatusIs(kInvalid, HasSubstr("undefined")));
  EXPECT_THAT(read({9, 1, 1, 1, 4, 0, 0, 0, 0, 0, 0}),
              StatusIs(kInvalid, HasSubstr("only up to 1024 bytes")));
  EXPECT_THAT(read({9, 1, 1, 0, 4, 0, 0, 0, 0, 0, 0}), IsOk());
}

TEST(TensorViewTest, ValidateChecksBytesAndBools) {
  TensorView view{.layout = *TensorLayout::Make(DType::kBool, std::vector<int64_t>{3}),
                  .bytes = Buffer::FromString(std::string("\0\1\1", 3))};
  EXPECT_THAT(view.Validate({}), IsOk());
  view.bytes = Buffer::FromString(std::string("\0\1\2", 3));
  EXPECT_THAT(view.Validate({}), StatusIs(kInvalid, HasSubstr("other than 0 and 1")));
  view.bytes = Buffer::FromString("ab");
  EXPECT_THAT(view.Validate({}), StatusIs(kInvalid, HasSubstr("2 bytes instead of 3")));
  EXPECT_THAT(TensorView().Validate({}), IsOk());
}

}  // namespace
}  // namespace gradwire::rpc
