// Functions of tensors, without a wire.
#include <gtest/gtest.h>

#include "rpc/registry.h"
#include "rpc/tensor/torch.h"
#include "rpc/tensor/values.h"
#include "tests/rpc/call_in_memory.h"
#include "tests/rpc/tensor/torch_testutil.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using testing::Call;
using testing::Counting;
using ::testing::HasSubstr;
using testing::Identical;
using ::testing::Not;

struct Batch {
  at::Tensor x;
  std::map<std::string, at::Tensor> extra;
  std::optional<int64_t> label;
  GW_FIELDS(x, extra, label);
};

constexpr Function<at::Tensor(at::Tensor, at::Tensor)> kAdd{"demo.add"};
constexpr Function<at::Tensor(const at::Tensor&)> kEcho{"demo.echo"};
constexpr Function<Batch(Batch)> kBatch{"demo.batch"};

Registry Functions() {
  Registry functions;
  functions.Bind(kAdd, [](at::Tensor a, at::Tensor b) { return a.add(b); })
      .Bind(kEcho, [](const at::Tensor& x) { return x; })
      .Bind(kBatch, [](CallInfo&, Batch batch) -> absl::StatusOr<Batch> {
        batch.x.mul_(2);
        return batch;
      });
  return functions;
}

TEST(TorchFunctionTest, TensorsAndWhatHoldsThem) {
  EXPECT_EQ(kAdd.declaration(), "Tensor(Tensor, Tensor)");
  EXPECT_EQ(kBatch.declaration(),
            "Batch{x:Tensor,extra:map<string,Tensor>,label:optional<int64>}"
            "(Batch{x:Tensor,extra:map<string,Tensor>,label:optional<int64>})");
  const absl::StatusOr<at::Tensor> sum =
      Call(Functions(), kAdd(Counting({2, 3}), Counting({2, 3})));
  ASSERT_THAT(sum, IsOk());
  EXPECT_TRUE(Identical(*sum, Counting({2, 3}).mul(2)));

  const Batch batch{Counting({40, 50}), {{"a", Counting({2})}, {"b", at::Tensor()}}, 7};
  const absl::StatusOr<Batch> back = Call(Functions(), kBatch(batch));
  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(Identical(back->x, batch.x.mul(2)));
  EXPECT_TRUE(Identical(back->extra.at("a"), batch.extra.at("a")));
  EXPECT_FALSE(back->extra.at("b").defined());
  EXPECT_EQ(back->label, 7);
}

TEST(TorchFunctionTest, ErrorsOfOperatorsAreStatuses) {
  EXPECT_THAT(Call(Functions(), kAdd(Counting({2, 3}), Counting({4, 5}))),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("function demo.add threw: The size of tensor a (3)"),
                             Not(HasSubstr("frame #")))));
  Registry functions;
  functions.Bind(kEcho, [](at::Tensor x) { return x.select(9, 0); });
  EXPECT_THAT(Call(functions, kEcho(Counting({2}))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Dimension out of range")));
  EXPECT_THAT(Call(Functions(), kEcho(Counting({2}).to_sparse())),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("argument 1 of demo.echo: sparse tensors are not carried")));
  Registry sparse;
  sparse.Bind(kEcho, [](at::Tensor x) { return x.to_sparse(); });
  EXPECT_THAT(Call(sparse, kEcho(Counting({2}))),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("the result of demo.echo can't be "
                                                              "sent: sparse")));
}

TEST(TorchFunctionTest, HandlersRunWithGradOffAndGetLeaves) {
  Registry functions;
  bool seen = false;
  functions.Bind(kEcho, [&](at::Tensor x) {
    seen = true;
    EXPECT_TRUE(x.is_leaf() && !x.requires_grad());
    return at::Tensor(x.requires_grad_()).mul(x);
  });
  const absl::StatusOr<at::Tensor> result = Call(functions, kEcho(Counting({3})));
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(seen);
  EXPECT_FALSE(result->requires_grad());
  EXPECT_TRUE(Counting({1}).requires_grad_().mul(2).requires_grad()) << "grad is on again";
}

TEST(TorchFunctionTest, AnEchoOfAnAdoptedTensorCopiesNothing) {
  auto block = std::shared_ptr<std::byte>(
      static_cast<std::byte*>(::operator new(80000, std::align_val_t{64})),
      [](std::byte* p) { ::operator delete(p, std::align_val_t{64}); });
  std::memset(block.get(), 0, 80000);
  PayloadWriter out(Sharing::kBorrow);
  ASSERT_THAT(kEcho(*Zeros({20000}, at::kFloat)).Encode(out), IsOk());
  ReceivedPayload arguments = testing::Arrive(out.TakePayload(), true);
  const std::byte* const place = block.get();
  arguments.attachments[0].bytes = Buffer({place, 80000}, std::move(block));
  const auto reply = testing::Run(Functions(), "demo.echo", std::move(arguments));
  ASSERT_THAT(*reply->outcome, IsOk());
  EXPECT_EQ(reply->outcome->value().attachments[0].data(), place);
}

TEST(TorchFunctionTest, ResultsThatAliasLiveWeightsAreSnapshots) {
  at::Tensor weights = Counting({20000}).clone();
  Registry functions;
  functions.Bind(kEcho, [&](at::Tensor) { return weights; });
  PayloadWriter out(Sharing::kBorrow);
  ASSERT_THAT(kEcho(Counting({1})).Encode(out), IsOk());
  const auto reply = testing::Run(functions, "demo.echo", testing::Arrive(out.TakePayload()));
  ASSERT_THAT(*reply->outcome, IsOk());
  weights.zero_();  // while the reply is on its way
  const absl::StatusOr<at::Tensor> result =
      DecodeResult<at::Tensor>("demo.echo", testing::Arrive(reply->outcome->value()));
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->equal(Counting({20000})));
}

TEST(TorchFunctionTest, BorrowedArgumentsAreNamed) {
  at::Tensor large = Counting({20000}).clone();
  PayloadWriter out(Sharing::kBorrow, {}, kAdd.name());
  ASSERT_THAT(kAdd(Counting({1}), large).Encode(out), IsOk());
  const BorrowGuard borrows = out.TakeBorrows();
  EXPECT_THAT(borrows.Check(), IsOk());
  large.add_(1);
  EXPECT_THAT(borrows.Check(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("argument 2 of demo.add")));
}

}  // namespace
}  // namespace gradwire::rpc
