// Functions, bound calls and registries, without a wire.
#include "rpc/function.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "rpc/registry.h"
#include "rpc/tensor/values.h"
#include "tests/rpc/call_in_memory.h"
#include "tests/rpc/static_functions.h"
#include "tests/support/matchers.h"

GW_USE_FUNCTIONS(static_functions_test);

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using testing::Arrive;
using testing::Call;
using testing::FakeCallInfo;
using ::testing::HasSubstr;

struct Sample {
  TensorView x;
  int64_t label = 0;
  GW_FIELDS(x, label);
};

constexpr Function<int64_t(int64_t, int64_t)> kAdd{"demo.add"};
constexpr Function<void(const std::string&)> kVoid{"demo.void"};
constexpr Function<std::string()> kText{"demo.text"};
constexpr Function<std::map<std::string, TensorView>(Sample, std::vector<std::optional<double>>)>
    kMany{"demo.many"};

TEST(FunctionTest, Declarations) {
  EXPECT_EQ(kAdd.declaration(), "int64(int64, int64)");
  EXPECT_EQ(kVoid.declaration(), "void(string)");
  EXPECT_EQ(kText.declaration(), "string()");
  EXPECT_EQ(kMany.declaration(),
            "map<string,Tensor>(Sample{x:Tensor,label:int64}, vector<optional<float64>>)");
  EXPECT_EQ(kAdd(1, 2).declaration(), kAdd.declaration());
  EXPECT_EQ(&kAdd.declaration(), &kAdd(1, 2).declaration()) << "made once";
}

TEST(FunctionTest, LongDeclarationsFitAndDiffer) {
  using function_internal::FitDeclaration;
  const std::string fits(4096, 'a');
  EXPECT_EQ(FitDeclaration(fits), fits);
  const std::string a = FitDeclaration(fits + "a"), b = FitDeclaration(fits + "b");
  EXPECT_EQ(a.size(), 4064u + 4 + 16);
  EXPECT_EQ(a.substr(0, 4068), std::string(4064, 'a') + "...#");
  EXPECT_NE(a, b);
}

TEST(FunctionTest, ArgumentsConvertLikeThoseOfAnyCall) {
  Registry functions;
  functions.Bind(kAdd, [](int64_t a, int64_t b) { return a - b; }).Bind(kVoid, [](std::string) {});
  const short small = 3;
  EXPECT_THAT(Call(functions, kAdd(7u, small)), IsOkAndHolds(4));
  EXPECT_THAT(Call(functions, kVoid("a literal")), IsOk());
  // A bound call is a value: it may be kept and used again.
  const auto call = kAdd(5, 1);
  EXPECT_THAT(Call(functions, call), IsOkAndHolds(4));
  EXPECT_THAT(Call(functions, call), IsOkAndHolds(4));
}

TEST(FunctionTest, WhatCannotBeEncodedNamesItsArgument) {
  TensorView wrong;
  wrong.layout = *TensorLayout::Make(DType::kInt8, std::vector<int64_t>{3});
  PayloadWriter out(Sharing::kBorrow);
  EXPECT_THAT(kMany({wrong, 1}, {}).Encode(out),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("argument 1 of demo.many: field x: tensor int8 [3] has 0 bytes")));
}

TEST(FunctionTest, AResultThatIsNoneIsTheCalleesMistake) {
  ReceivedPayload payload;
  payload.head = Buffer::FromString("abc");
  EXPECT_THAT(DecodeResult<int64_t>("demo.add", payload),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("the result of demo.add: a number ends early")));
  EXPECT_THAT(DecodeResult<void>("demo.void", payload),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("3 bytes are left over")));
  EXPECT_THAT(DecodeResult<void>("demo.void", ReceivedPayload()), IsOk());
}

int64_t AddPlain(int64_t a, int64_t b) { return a + b; }
absl::StatusOr<int64_t> AddChecked(CallInfo& call, const int64_t& a, int64_t b) {
  if (a < 0) return absl::OutOfRangeError(absl::StrCat(call.caller(), " sent ", a));
  return a + b;
}

TEST(RegistryTest, EveryFormOfHandler) {
  {
    Registry functions;
    functions.Bind(kAdd, AddPlain);
    EXPECT_THAT(Call(functions, kAdd(1, 2)), IsOkAndHolds(3));
  }
  {
    Registry functions;
    functions.Bind(kAdd, &AddChecked, {.run = kInline, .repeatable = true});
    EXPECT_THAT(Call(functions, kAdd(1, 2)), IsOkAndHolds(3));
    EXPECT_THAT(Call(functions, kAdd(-1, 2)),
                StatusIs(absl::StatusCode::kOutOfRange, "tester sent -1"));
    EXPECT_EQ(functions.functions()[0].run, Run::kInline);
    EXPECT_TRUE(functions.functions()[0].repeatable);
  }
  {
    Registry functions;
    functions.Bind(kAdd, [](int a, double b) { return static_cast<int>(a + b); });
    EXPECT_THAT(Call(functions, kAdd(1, 2)), IsOkAndHolds(3)) << "what converts is good";
  }
  {
    Registry functions;
    auto only_movable = std::make_unique<int64_t>(10);
    functions.Bind(kAdd, [only_movable = std::move(only_movable)](int64_t a, int64_t b) {
      return *only_movable + a + b;
    });
    EXPECT_THAT(Call(functions, kAdd(1, 2)), IsOkAndHolds(13));
  }
  {
    Registry functions;
    functions.Bind(kVoid, [](const std::string& text) {
      return text.empty() ? absl::InvalidArgumentError("empty") : absl::OkStatus();
    });
    EXPECT_THAT(Call(functions, kVoid("x")), IsOk());
    EXPECT_THAT(Call(functions, kVoid("")), StatusIs(absl::StatusCode::kInvalidArgument, "empty"));
  }
  {
    Registry functions;
    functions.Bind(kText, [](CallInfo& call) { return call.function(); });
    EXPECT_THAT(Call(functions, kText()), IsOkAndHolds("demo.text"));
  }
}

TEST(RegistryTest, FuturesAnswerLater) {
  Promise<int64_t> promise;
  Registry functions;
  functions.Bind(kAdd, [&](int64_t, int64_t) { return promise.future(); });
  PayloadWriter out(Sharing::kBorrow);
  ASSERT_THAT(kAdd(1, 2).Encode(out), IsOk());
  const auto reply = testing::Run(functions, "demo.add", Arrive(out.TakePayload()));
  EXPECT_EQ(reply->count, 0);
  promise.Set(42);
  ASSERT_EQ(reply->count, 1);
  EXPECT_THAT(DecodeResult<int64_t>("demo.add", Arrive(reply->outcome->value())), IsOkAndHolds(42));
}

TEST(RegistryTest, CancellingTheCallCancelsTheFuture) {
  Promise<int64_t> promise;
  bool told = false;
  promise.OnCancel([&] { told = true; });
  Registry functions;
  functions.Bind(kAdd, [&](int64_t, int64_t) { return promise.future(); });
  PayloadWriter out(Sharing::kBorrow);
  ASSERT_THAT(kAdd(1, 2).Encode(out), IsOk());
  auto info = std::make_shared<FakeCallInfo>("demo.add");
  const std::weak_ptr<FakeCallInfo> weak = info;
  const auto reply = testing::Run(functions, "demo.add", Arrive(out.TakePayload()), info);
  info->Cancel();
  EXPECT_TRUE(told);
  ASSERT_EQ(reply->count, 1);
  EXPECT_THAT(*reply->outcome, StatusIs(absl::StatusCode::kCancelled));
  info.reset();
  EXPECT_TRUE(weak.expired()) << "the call is kept alive by its own future";
}

TEST(RegistryTest, FuturesThatFailOrAreNone) {
  Registry functions;
  functions
      .Bind(kAdd,
            [](int64_t a, int64_t) {
              if (a == 0) return Future<int64_t>();
              return Future<int64_t>(absl::AbortedError("no"));
            })
      .Bind(kVoid, [](const std::string&) {
        Promise<void> dropped;
        return dropped.future();
      });
  EXPECT_THAT(Call(functions, kAdd(0, 0)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("future without a state")));
  EXPECT_THAT(Call(functions, kAdd(1, 0)), StatusIs(absl::StatusCode::kAborted, "no"));
  EXPECT_THAT(Call(functions, kVoid("")), StatusIs(absl::StatusCode::kCancelled));
}

TEST(RegistryTest, ExceptionsStayInside) {
  Registry functions;
  functions
      .Bind(kAdd,
            [](int64_t a, int64_t) -> int64_t {
              if (a == 1) throw std::bad_alloc();
              if (a == 2) throw "text";
              throw std::out_of_range("boom");
            })
      .Bind(kVoid, [](const std::string&) -> Future<void> { throw std::runtime_error("early"); });
  EXPECT_THAT(Call(functions, kAdd(0, 0)),
              StatusIs(absl::StatusCode::kInternal, "function demo.add threw: boom"));
  EXPECT_THAT(Call(functions, kAdd(1, 0)), StatusIs(absl::StatusCode::kResourceExhausted,
                                                    "function demo.add threw: out of memory"));
  EXPECT_THAT(Call(functions, kAdd(2, 0)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("unknown type")));
  EXPECT_THAT(Call(functions, kVoid("")),
              StatusIs(absl::StatusCode::kInternal, "function demo.void threw: early"));
}

TEST(RegistryTest, WrongArgumentsAreNamedAndRunNothing) {
  int runs = 0;
  Registry functions;
  functions.Bind(kAdd, [&](int64_t, int64_t) -> int64_t { return ++runs; });
  const auto outcome = [&](std::string head) {
    ReceivedPayload payload;
    payload.head = Buffer::FromString(std::move(head));
    return *testing::Run(functions, "demo.add", std::move(payload))->outcome;
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(outcome("1234567"), StatusIs(kInvalid, HasSubstr("argument 1 of demo.add: ")));
  EXPECT_THAT(outcome("12345678"), StatusIs(kInvalid, HasSubstr("argument 2 of demo.add: ")));
  EXPECT_THAT(outcome("12345678123456789"),
              StatusIs(kInvalid,
                       "arguments of demo.add: 1 bytes are left over after the last "
                       "value"));
  EXPECT_EQ(runs, 0);
}

TEST(RegistryTest, AResultThatCannotBeSentIsInternal) {
  Registry functions;
  functions.Bind(kText, [] { return std::string((16u << 20) + 1, 'x'); });
  EXPECT_THAT(Call(functions, kText()),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("the result of demo.text can't be sent: a string of 16777217")));
}

TEST(RegistryTest, ValidateNamesBothPlaces) {
  Registry functions;
  functions.Bind(kAdd, AddPlain);
  EXPECT_THAT(functions.Validate(), IsOk());
  const int line = __LINE__ + 1;
  functions.Bind(kAdd, AddPlain);
  EXPECT_THAT(functions.Validate(),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("demo.add is bound twice: at rpc/function_test.cc:"),
                             HasSubstr(absl::StrCat("rpc/function_test.cc:", line)))));
  Registry bad;
  BoundFunction bytes;
  bytes.name = "no spaces";
  bad.Add(std::move(bytes));
  EXPECT_THAT(bad.Validate(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("no spaces"), HasSubstr("function_test.cc"))));
}

TEST(RegistryTest, StaticLinesOfALibraryAreThere) {
  const Registry functions = Registry::FromStatic();
  EXPECT_THAT(Call(functions, testing::kTwice(21)), IsOkAndHolds(42));
  EXPECT_THAT(Call(functions, testing::kHalf(42)), IsOkAndHolds(21));
  ASSERT_EQ(functions.functions().size(), 2u);
  EXPECT_EQ(functions.functions()[0].name, "static.twice") << "in the order of the file";
  EXPECT_EQ(functions.functions()[1].run, Run::kInline);
  EXPECT_THAT(functions.functions()[0].place, HasSubstr("rpc/static_functions.cc:"));
}

}  // namespace
}  // namespace gradwire::rpc
