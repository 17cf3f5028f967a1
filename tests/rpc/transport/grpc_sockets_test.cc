// What only the transport over sockets has: addresses, strangers, ports, memory of a connection.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/base/unique_fd.h"
#include "rpc/transport/grpc/grpc_transport.h"
#include "tests/rpc/transport/talker.h"
#include "tests/support/matchers.h"
#include "tests/support/wait.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::gradwire::testing::WaitUntil;
using ::testing::HasSubstr;

const AcceptFn kRefuse = [](std::shared_ptr<Connection>, Lane) { return nullptr; };

std::shared_ptr<Talker> Dial(Transport& transport, const std::string& address,
                             absl::Duration timeout = absl::Seconds(10)) {
  auto talker = std::make_shared<Talker>();
  talker->SetConnection(transport.Dial(address, Lane::kControl, talker, timeout));
  return talker;
}

int PortOf(const Listener& listener) {
  int port = 0;
  const std::string address = listener.address();
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  return port;
}

// A TCP connection of a stranger.
UniqueFd Connect(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

// True once the other end has closed; what it says before is read away.
bool IsCutWithin(int fd, absl::Duration time) {
  const absl::Time deadline = Clock::Real().Now() + time;
  char bytes[4096];
  while (true) {
    const absl::Duration left = deadline - Clock::Real().Now();
    pollfd waiting{fd, POLLIN, 0};
    if (left <= absl::ZeroDuration()) return false;
    if (poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) <= 0) continue;
    if (read(fd, bytes, sizeof(bytes)) <= 0) return true;
  }
}

// Ends of established TCP connections with this port on either side: two a connection here.
int CountEnds(int port) {
  const std::string suffix = absl::StrFormat(":%04X", port);
  int count = 0;
  for (const char* path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream table(path);
    std::string line;
    std::getline(table, line);  // the heading
    while (std::getline(table, line)) {
      std::istringstream fields(line);
      std::string number, local, remote, state;
      fields >> number >> local >> remote >> state;
      if (state != "01") continue;  // TCP_ESTABLISHED
      if (absl::EndsWith(local, suffix) || absl::EndsWith(remote, suffix)) ++count;
    }
  }
  return count;
}

TEST(GrpcAddresses, WhatIsNoAddressIsRefusedByName) {
  auto transport = MakeGrpcTransport();
  for (const std::string bad : {"",
                                ":",
                                "host",
                                "host:",
                                ":80",
                                "host:-1",
                                "host:65536",
                                "host:99999999999",
                                "host:1x",
                                "host: 1",
                                "::1:80",
                                "[::1]",
                                "[::1]80",
                                "[]:80",
                                "[host]:80",
                                "a b:80",
                                "unix:5",
                                "unix:/tmp/x:5",
                                "vsock:1",
                                "dns:host:80",
                                "ipv4:127.0.0.1:80",
                                "-x:80",
                                "a/b:80",
                                "a%41:80",
                                "[::1%lo]:80",
                                "\x01:80"}) {
    EXPECT_THAT(transport->Listen(bad, kRefuse).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not host:port")))
        << bad;
  }
  auto talker = Dial(*transport, "unix:5");
  ASSERT_TRUE(WaitUntil([&] { return talker->closed(); }));
  EXPECT_THAT(talker->why(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unix:5")));
  EXPECT_THAT(transport->Listen(std::string(100'000, 'x'), kRefuse).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
}

TEST(GrpcAddresses, NamesAndBothFamiliesListen) {
  auto transport = MakeGrpcTransport();
  for (const std::string host : {"127.0.0.1", "localhost", "[::1]", "0.0.0.0"}) {
    auto listener = transport->Listen(host + ":0", kRefuse);
    ASSERT_THAT(listener, IsOk()) << host;
    EXPECT_THAT((*listener)->address(), ::testing::StartsWith(host + ":"));
    EXPECT_GT(PortOf(**listener), 0);
  }
}

TEST(GrpcAddresses, APortThatIsTakenIsNamed) {
  auto transport = MakeGrpcTransport(), other = MakeGrpcTransport();
  auto listener = transport->Listen("127.0.0.1:0", kRefuse);
  ASSERT_THAT(listener, IsOk());
  EXPECT_THAT(other->Listen((*listener)->address(), kRefuse).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr((*listener)->address())));
  EXPECT_THAT(other->Listen("192.0.2.1:7000", kRefuse).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("192.0.2.1:7000")));
}

TEST(GrpcDial, AnUnknownNameEndsWithIt) {
  auto transport = MakeGrpcTransport();
  auto talker = Dial(*transport, "no-such-host.invalid:7000");
  ASSERT_TRUE(WaitUntil([&] { return talker->closed(); }, absl::Seconds(20)));
  EXPECT_THAT(talker->why(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no-such-host.invalid:7000")));
}

TEST(GrpcDial, GivesUpOnASilentHostInTime) {
  // It takes the connection and never says a word.
  UniqueFd silent(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(silent.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(silent.get(), 8), 0);
  ASSERT_EQ(getsockname(silent.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  auto transport = MakeGrpcTransport();
  const absl::Time start = Clock::Real().Now();
  auto talker =
      Dial(*transport, absl::StrCat("127.0.0.1:", ntohs(address.sin_port)), absl::Seconds(1));
  ASSERT_TRUE(WaitUntil([&] { return talker->closed(); }));
  EXPECT_THAT(talker->why(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1")));
  EXPECT_LT(Clock::Real().Now() - start, absl::Seconds(5));
}

TEST(GrpcStrangers, SilentOnesAndTalkativeOnesAreCut) {
  auto transport = MakeGrpcTransport({.handshake_timeout = absl::Milliseconds(300),
                                      .max_connection_idle = absl::Milliseconds(300)});
  auto listener = transport->Listen("127.0.0.1:0", kRefuse);
  ASSERT_THAT(listener, IsOk());
  const UniqueFd silent = Connect(PortOf(**listener)), http1 = Connect(PortOf(**listener)),
                 idle = Connect(PortOf(**listener));
  const absl::string_view get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(write(http1.get(), get.data(), get.size()), static_cast<ssize_t>(get.size()));
  // Speaks HTTP/2 (preface and empty settings) and opens no stream.
  const std::string preface =
      std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string("\0\0\0\4\0\0\0\0\0", 9);
  ASSERT_EQ(write(idle.get(), preface.data(), preface.size()),
            static_cast<ssize_t>(preface.size()));
  EXPECT_TRUE(IsCutWithin(http1.get(), absl::Seconds(20)));
  EXPECT_TRUE(IsCutWithin(silent.get(), absl::Seconds(20)));
  EXPECT_TRUE(IsCutWithin(idle.get(), absl::Seconds(20)));
}

TEST(GrpcConnections, AnEndedOneKeepsNoSocket) {
  auto transport = MakeGrpcTransport();
  auto acceptor = std::make_shared<Talker>();
  auto listener =
      transport->Listen("127.0.0.1:0", [&](std::shared_ptr<Connection> connection, Lane) {
        acceptor->SetConnection(std::move(connection));
        return acceptor;
      });
  ASSERT_THAT(listener, IsOk());
  const int port = PortOf(**listener);
  auto dialler = Dial(*transport, (*listener)->address());
  dialler->Say("x");
  ASSERT_TRUE(WaitUntil([&] { return acceptor->received_count() == 1; }));
  EXPECT_EQ(CountEnds(port), 2);
  const std::shared_ptr<Connection> kept = dialler->connection();
  kept->Close(absl::CancelledError("over"));
  ASSERT_TRUE(WaitUntil([&] { return dialler->closed() && acceptor->closed(); }));
  EXPECT_TRUE(WaitUntil([&] { return CountEnds(port) == 0; }));
}

TEST(GrpcConnections, EveryDialHasATcpConnectionOfItsOwn) {
  auto transport = MakeGrpcTransport();
  std::vector<std::shared_ptr<Talker>> acceptors;
  Mutex mu;
  auto listener =
      transport->Listen("127.0.0.1:0", [&](std::shared_ptr<Connection> connection, Lane) {
        auto talker = std::make_shared<Talker>();
        talker->SetConnection(std::move(connection));
        MutexLock lock(mu);
        acceptors.push_back(talker);
        return talker;
      });
  ASSERT_THAT(listener, IsOk());
  const int port = PortOf(**listener);
  std::vector<std::shared_ptr<Talker>> diallers;
  for (int i = 0; i < 4; ++i) {
    diallers.push_back(Dial(*transport, (*listener)->address()));
    diallers.back()->Say("x");
  }
  ASSERT_TRUE(WaitUntil([&] {
    MutexLock lock(mu);
    return acceptors.size() == 4;
  }));
  EXPECT_EQ(CountEnds(port), 8);
}

TEST(GrpcThreads, AnIdleProcessUsesNoCore) {
  auto transport = MakeGrpcTransport();
  auto acceptor = std::make_shared<Talker>();
  auto listener =
      transport->Listen("127.0.0.1:0", [&](std::shared_ptr<Connection> connection, Lane) {
        acceptor->SetConnection(std::move(connection));
        return acceptor;
      });
  ASSERT_THAT(listener, IsOk());
  auto dialler = Dial(*transport, (*listener)->address());
  for (int i = 0; i < 100; ++i) dialler->Say("x");
  ASSERT_TRUE(WaitUntil([&] { return acceptor->received_count() == 100; }));
  const auto used = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
  };
  // Blocked in poll, so that the test itself uses none.
  const absl::Duration before = used();
  poll(nullptr, 0, 500);
  EXPECT_LT(used() - before, absl::Milliseconds(25));  // 5 % here; a spinning thread has 100 %
}

}  // namespace
}  // namespace gradwire::rpc::testing
