#include "rpc/base/status.h"

#include <gtest/gtest.h>

#include <memory>

#include "rpc/base/id.h"
#include "tests/support/matchers.h"

namespace gradwire {
namespace {

using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;

absl::Status Fail(bool fail) {
  return fail ? absl::DataLossError("crc mismatch") : absl::OkStatus();
}
absl::StatusOr<std::unique_ptr<int>> Make(bool fail) {
  if (fail) return absl::NotFoundError("no such file");
  return std::make_unique<int>(7);
}

absl::Status Plain(bool fail) {
  GW_RETURN_IF_ERROR(Fail(fail));
  return absl::OkStatus();
}
absl::Status Annotated(int shard) {
  GW_RETURN_IF_ERROR(Fail(true), _ << "restoring shard " << shard);
  return absl::OkStatus();
}
absl::StatusOr<int> Assigned(bool fail) {
  GW_ASSIGN_OR_RETURN(std::unique_ptr<int> value, Make(fail), _ << "opening " << 3);
  GW_ASSIGN_OR_RETURN(const std::unique_ptr<int> other, Make(false));
  return *value + *other;
}

TEST(StatusMacros, ReturnsAtTheFirstError) {
  EXPECT_THAT(Plain(false), testing::IsOk());
  EXPECT_THAT(Plain(true), StatusIs(absl::StatusCode::kDataLoss, "crc mismatch"));
}

TEST(StatusMacros, AddsContextOutward) {
  EXPECT_THAT(Annotated(7),
              StatusIs(absl::StatusCode::kDataLoss, "restoring shard 7: crc mismatch"));
}

TEST(StatusMacros, AssignsMoveOnlyValues) {
  EXPECT_THAT(Assigned(false), testing::IsOkAndHolds(14));
  EXPECT_THAT(Assigned(true), StatusIs(absl::StatusCode::kNotFound, "opening 3: no such file"));
}

TEST(WithContext, KeepsCodeAndPayloads) {
  absl::Status status = absl::AbortedError("lost");
  status.SetPayload("a/b", absl::Cord("x"));
  const absl::Status annotated = WithContext(status, "step 3");
  EXPECT_THAT(annotated, StatusIs(absl::StatusCode::kAborted, "step 3: lost"));
  EXPECT_EQ(annotated.GetPayload("a/b"), absl::Cord("x"));
  EXPECT_THAT(WithContext(absl::OkStatus(), "step 3"), testing::IsOk());
}

TEST(Check, AbortsNamingTheCondition) {
  EXPECT_DEATH(GW_CHECK(1 + 1 == 3), "invariant does not hold: 1 \\+ 1 == 3");
}

TEST(Id, ComparesAndHashes) {
  using A = Id<struct ATag>;
  EXPECT_LT(A{1}, A{2});
  EXPECT_EQ(std::hash<A>()(A{5}), std::hash<A>()(A{5}));
  static_assert(!std::is_convertible_v<A, Id<struct BTag>>);
}

}  // namespace
}  // namespace gradwire
