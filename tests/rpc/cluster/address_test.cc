// Addresses as users write them.
#include "rpc/cluster/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "rpc/cluster/interface.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(AddressTest, ReadsAndWritesBack) {
  for (const char* text :
       {"127.0.0.1:0", "10.0.0.5:65535", "[::1]:7000", "[fe80::1%eth0]:80", "[fd00::a:b]:1",
        "localhost:80", "ps0.cluster-2.svc:7000", "my_host:1", "a:1", "0.0.0.0:5", "[::]:5"}) {
    const absl::StatusOr<HostPort> parsed = ParseHostPort(text);
    ASSERT_THAT(parsed, IsOk()) << text;
    EXPECT_EQ(parsed->ToString(), text);
  }
  EXPECT_EQ(ParseHostPort("[::1]:7000")->host, "::1");
  EXPECT_TRUE(ParseHostPort("[::]:0")->is_any());
  EXPECT_TRUE(ParseHostPort("[0:0::0]:0")->is_any());
  EXPECT_TRUE(ParseHostPort("0.0.0.0:0")->is_any());
  EXPECT_FALSE(ParseHostPort("[::1]:0")->is_any());
}

TEST(AddressTest, SaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no port"},
      {"host", "no port; write host:port"},
      {"host:", "no port"},
      {":80", "no host"},
      {"host:http", "the port is not a number"},
      {"host:65536", "above 65535"},
      {"host:99999999999999999999", "above 65535"},
      {"host:-1", "not a number"},
      {"host:+1", "not a number"},
      {"host: 1", "not a number"},
      {"::1:80", "stands in brackets"},
      {"fe80::1", "stands in brackets"},
      {"[::1]", "no port"},
      {"[::1]80", "write [address]:port"},
      {"[::1:80", "isn't closed"},
      {"[host]:80", "no IPv6 address"},
      {"[10.0.0.5]:80", "no IPv6 address"},
      {"[::1%]:80", "no IPv6 address"},
      {"[::1%e/h]:80", "no IPv6 address"},
      {"1.2.3:80", "no IPv4 address"},
      {"1.2.3.400:80", "no IPv4 address"},
      {"-a:80", "nor a host name"},
      {"a..b:80", "nor a host name"},
      {"a b:80", "nor a host name"},
      {"http://host:80", "stands in brackets"},
      {std::string("a\0b:80", 6), "nor a host name"},
      {std::string(64, 'a') + ":80", "nor a host name"},
      {std::string(300, 'a') + ":80", "too long"},
  };
  for (const auto& [text, why] : cases) {
    EXPECT_THAT(ParseHostPort(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)))
        << text;
  }
  EXPECT_THAT(ParseDialAddress("10.0.0.5:80"), IsOk());
  EXPECT_THAT(ParseDialAddress("10.0.0.5:0"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("port 0")));
  EXPECT_THAT(ParseDialAddress("[::]:80"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--advertise")));
}

const std::vector<InterfaceAddress> kInterfaces = {
    {"lo", "127.0.0.1", true},      {"eth0", "10.0.0.5", false},
    {"ib0", "192.168.1.5", false},  {"lo", "::1", true},
    {"eth0", "fd00::5", false},     {"v6", "fd00::6", false},
    {"eth0", "fe80::5%eth0", false}};

TEST(InterfaceTest, ChoosesWhatToListenOn) {
  const auto listen = [](absl::string_view text, absl::string_view interface) {
    return ListenAddress(text, interface, kInterfaces);
  };
  EXPECT_THAT(listen("", ""), IsOkAndHolds("127.0.0.1:0"));
  EXPECT_THAT(listen(":7000", ""), IsOkAndHolds("127.0.0.1:7000"));
  EXPECT_THAT(listen("10.0.0.9:7000", ""), IsOkAndHolds("10.0.0.9:7000"));
  EXPECT_THAT(listen("[::1]:7000", ""), IsOkAndHolds("[::1]:7000"));
  EXPECT_THAT(listen("eth0:0", ""), IsOkAndHolds("10.0.0.5:0"));
  EXPECT_THAT(listen("v6:7000", ""), IsOkAndHolds("[fd00::6]:7000"));
  EXPECT_THAT(listen("", "ib0"), IsOkAndHolds("192.168.1.5:0"));
  EXPECT_THAT(listen(":7000", "ib0"), IsOkAndHolds("192.168.1.5:7000"));
  EXPECT_THAT(listen("ib0:7000", "ib0"), IsOkAndHolds("192.168.1.5:7000"));
  EXPECT_THAT(listen("10.0.0.5:7000", "ib0"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--listen=10.0.0.5:7000"), HasSubstr("--interface=ib0"))));
  EXPECT_THAT(listen("", "eth7"), StatusIs(absl::StatusCode::kNotFound,
                                           AllOf(HasSubstr("eth7"), HasSubstr("eth0 (10.0.0.5)"))));
  EXPECT_THAT(listen("eth0:x", ""), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(listen("eth0", ""), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(InterfaceTest, ChoosesWhatToTellOthers) {
  const std::vector<InterfaceAddress> one = {{"lo", "127.0.0.1", true},
                                             {"eth0", "10.0.0.5", false},
                                             {"eth0", "fd00::5", false},
                                             {"eth0", "fe80::5%eth0", false}};
  EXPECT_THAT(AdvertisedAddress("10.0.0.5:7", "", kInterfaces), IsOkAndHolds("10.0.0.5:7"));
  EXPECT_THAT(AdvertisedAddress("0.0.0.0:7", "", one), IsOkAndHolds("10.0.0.5:7"));
  EXPECT_THAT(AdvertisedAddress("[::]:7", "", one), IsOkAndHolds("10.0.0.5:7"));
  EXPECT_THAT(AdvertisedAddress("0.0.0.0:7", "ps0.cluster", one), IsOkAndHolds("ps0.cluster:7"));
  EXPECT_THAT(AdvertisedAddress("0.0.0.0:7", "ps0:8", one), IsOkAndHolds("ps0:8"));
  EXPECT_THAT(AdvertisedAddress("0.0.0.0:7", "[fd00::9]", one), IsOkAndHolds("[fd00::9]:7"));
  EXPECT_THAT(AdvertisedAddress("0.0.0.0:7", "[fd00::9]:8", one), IsOkAndHolds("[fd00::9]:8"));
  EXPECT_THAT(
      AdvertisedAddress("0.0.0.0:7", "", kInterfaces),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("eth0 (10.0.0.5), ib0 (192.168.1.5)"), HasSubstr("--advertise"))));
  EXPECT_THAT(AdvertisedAddress("0.0.0.0:7", "", {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("none has an address")));
  EXPECT_THAT(AdvertisedAddress("0.0.0.0:7", "0.0.0.0:7", one),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(AdvertisedAddress("0.0.0.0:7", "[fd00", one),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(InterfaceTest, TheSystemHasLoopback) {
  bool loopback = false;
  for (const InterfaceAddress& address : SystemInterfaces()) {
    loopback = loopback || (address.loopback && address.host == "127.0.0.1");
    EXPECT_FALSE(address.interface.empty());
  }
  EXPECT_TRUE(loopback);
}

}  // namespace
}  // namespace gradwire::rpc
