// What a rendezvous may say, and what may not get further than the wire.
#include "rpc/rendezvous_wire.h"

#include <gtest/gtest.h>

#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

Membership Two() {
  Membership two;
  two.members = {{"a", "10.0.0.1:7000", Incarnation{5}, 0}, {"b", "", Incarnation{6}, 1}};
  two.self = two.members[1];
  two.world_size = 2;
  return two;
}

TEST(RendezvousWire, RequestsComeBackAsTheyWere) {
  JoinRequest request;
  request.name = "a";
  request.address = "[::1]:7000";
  request.instance = 7;
  request.world_size = 2;
  request.rank = 1;
  request.expected = {"b", "a"};
  request.replace = true;
  request.incarnation = Incarnation{9};
  request.timeout = absl::InfiniteDuration();
  const JoinRequest back = FromWire(ToWire(request));
  EXPECT_EQ(back.name, request.name);
  EXPECT_EQ(back.address, request.address);
  EXPECT_EQ(back.instance, request.instance);
  EXPECT_EQ(back.world_size, request.world_size);
  EXPECT_EQ(back.rank, request.rank);
  EXPECT_EQ(back.expected, request.expected);
  EXPECT_EQ(back.replace, request.replace);
  EXPECT_EQ(back.incarnation, request.incarnation);
  EXPECT_EQ(back.timeout, request.timeout);
}

TEST(RendezvousWire, AnswersComeBackAsTheyWere) {
  const absl::StatusOr<Membership> back = FromWire(ToWire(absl::StatusOr<Membership>(Two())));
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->self, Two().self);
  EXPECT_EQ(back->world_size, 2);
  EXPECT_EQ(back->members, Two().members);
  EXPECT_THAT(FromWire(ToWire(absl::StatusOr<Membership>(absl::AlreadyExistsError("held")))),
              StatusIs(absl::StatusCode::kAlreadyExists, "held"));
  EXPECT_THAT(FromWire(ToWire(absl::StatusOr<Member>(absl::NotFoundError("who")))),
              StatusIs(absl::StatusCode::kNotFound, "who"));
}

TEST(RendezvousWire, AnUnknownCodeIsAnErrorStill) {
  EXPECT_THAT(FromWire(WireVerdict{4711, "odd"}), StatusIs(absl::StatusCode::kUnknown, "odd"));
}

// Answers that no store gives.
template <class Change>
void ExpectRefused(Change change, const std::string& why) {
  WireJoined wire = ToWire(absl::StatusOr<Membership>(Two()));
  change(wire);
  EXPECT_THAT(FromWire(wire),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("the rendezvous answers what can't be"), HasSubstr(why))));
}

TEST(RendezvousWire, AnswersThatCantBe) {
  ExpectRefused([](WireJoined& wire) { wire.self.name = "a b"; }, "no agent name");
  ExpectRefused([](WireJoined& wire) { wire.self.incarnation = 0; }, "no incarnation");
  ExpectRefused([](WireJoined& wire) { wire.world_size = -1; }, "world of -1");
  ExpectRefused([](WireJoined& wire) { wire.world_size = kMaxMembers + 1; }, "world of 4097");
  ExpectRefused([](WireJoined& wire) { wire.members.resize(kMaxMembers + 1); }, "4097 members");
  ExpectRefused([](WireJoined& wire) { wire.members[0].address = "0.0.0.0:1"; }, "0.0.0.0:1");
  ExpectRefused([](WireJoined& wire) { wire.members[0].rank = kMaxMembers; }, "rank 4096");
  ExpectRefused([](WireJoined& wire) { wire.members[0].rank = kNoRank; }, "not at all");
  ExpectRefused([](WireJoined& wire) { wire.members[0].rank = 1; }, "rank 1 twice");
  ExpectRefused([](WireJoined& wire) { wire.members[0].name = "b"; }, "twice");
  WireFound found;
  EXPECT_THAT(FromWire(found), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace gradwire::rpc
