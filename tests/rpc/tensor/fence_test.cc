#include "rpc/tensor/fence.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(FenceTest, ResultsPassThrough) {
  EXPECT_THAT(Fence("f", [] { return 7; }), IsOkAndHolds(7));
  EXPECT_THAT(Fence("f", [] {}), IsOk());
  EXPECT_THAT(Fence("f", [] { return absl::AbortedError("x"); }),
              StatusIs(absl::StatusCode::kAborted, "x"));
  EXPECT_THAT(Fence("f", []() -> absl::StatusOr<int> { return absl::AbortedError("x"); }),
              StatusIs(absl::StatusCode::kAborted, "x"));
}

TEST(FenceTest, ExceptionsBecomeStatuses) {
  EXPECT_THAT(Fence("f", [] { throw std::runtime_error("boom"); }),
              StatusIs(absl::StatusCode::kInternal, "f: boom"));
  EXPECT_THAT(Fence("f", []() -> int { throw std::bad_alloc(); }),
              StatusIs(absl::StatusCode::kResourceExhausted, "f: out of memory"));
  EXPECT_THAT(Fence("f", []() -> int { throw 7; }),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("unknown type")));
}

TEST(FenceTest, LongTextIsCut) {
  const absl::Status status = Fence("f", [] { throw std::runtime_error(std::string(9999, 'x')); });
  EXPECT_THAT(std::string(status.message()), SizeIs(kMaxExceptionTextBytes + 6));
}

int g_inside = 0;

TEST(FenceTest, TheRuntimeHasItsSay) {
  struct Special : std::exception {};
  static constexpr TensorRuntime kRuntime = {
      .to_status = [](const std::exception& e) -> std::optional<absl::Status> {
        if (dynamic_cast<const Special*>(&e) == nullptr) return std::nullopt;
        return absl::DataLossError("special");
      },
      .enter_handler = [] { return ++g_inside, true; },
      .leave_handler = [](bool entered) { g_inside -= entered ? 1 : 100; }};
  SetTensorRuntime(&kRuntime);
  EXPECT_THAT(Fence("f", [] { throw Special(); }),
              StatusIs(absl::StatusCode::kDataLoss, "f: special"));
  EXPECT_THAT(Fence("f", [] { throw std::logic_error("other"); }),
              StatusIs(absl::StatusCode::kInternal, "f: other"));
  {
    const HandlerScope scope;
    EXPECT_EQ(g_inside, 1);
  }
  EXPECT_EQ(g_inside, 0);
  SetTensorRuntime(nullptr);
}

}  // namespace
}  // namespace gradwire::rpc
