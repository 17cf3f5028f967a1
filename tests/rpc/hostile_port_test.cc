// Ten thousand strangers at an agent's port: it cuts them, remembers nothing of them, and its calls
// go on.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rpc/agent.h"
#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/tensor/values.h"
#include "tests/rpc/agent_process.h"
#include "tests/support/matchers.h"
#include "tests/support/wait.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::WaitUntil;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

// A tenth of them under a sanitizer, whose own memory also hides the agent's.
constexpr int kStrangerCount = kSanitized ? 1000 : 10'000;
constexpr int kWarmUpCount = kSanitized ? 100 : 1000;
constexpr int kSilentCount = 60;
constexpr int kMaxAtOnce = 64;
constexpr int kMaxSilentAtOnce = 30;
constexpr int64_t kMaxGrowthBytes = 10 << 20;
// What the product promises, and what a busy machine may add.
constexpr absl::Duration kPromise = absl::Seconds(5);
constexpr absl::Duration kMargin = absl::Seconds(kSanitized ? 5 : 2);

// ---- what strangers say ----

std::string Bytes(const std::vector<int>& values) { return {values.begin(), values.end()}; }

// HTTP/2: RFC 9113, section 4.1.
std::string Http2Frame(int type, int flags, int stream, const std::string& payload) {
  const int size = static_cast<int>(payload.size());
  return Bytes({size >> 16, size >> 8, size, type, flags, 0, 0, 0, stream}) + payload;
}
constexpr int kData = 0, kHeaders = 1, kResetStream = 3, kSettings = 4, kGoAway = 7;

std::string Preface() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"; }
std::string Settings() { return Http2Frame(kSettings, 0, 0, ""); }

// HPACK, literals without indexing and without Huffman: RFC 7541, section 6.2.2.
std::string Literal(int name_index, const std::string& value) {
  const std::string name = name_index < 15 ? Bytes({name_index}) : Bytes({15, name_index - 15});
  return name + Bytes({static_cast<int>(value.size())}) + value;
}
std::string OpenStream() {
  const std::string te = Bytes({0, 2}) + "te" + Bytes({8}) + "trailers";
  return Http2Frame(kHeaders, 4, 1,
                    Bytes({0x83, 0x86}) /* POST, http */ +
                        Literal(4, "/gradwire.v1.Session/Control") + Literal(1, "x") +
                        Literal(31, "application/grpc") + te);
}
// A gRPC message's prefix: uncompressed, and what length it claims.
std::string MessageOf(uint32_t claimed_bytes, const std::string& bytes) {
  const auto size = static_cast<int>(claimed_bytes);
  return Http2Frame(kData, 0, 1, Bytes({0, size >> 24, size >> 16, size >> 8, size}) + bytes);
}
// A frame of ours with a hello that claims 2^33 bytes: field 8, length-delimited.
std::string HelloOf8Gib() { return Bytes({8 << 3 | 2, 0x80, 0x80, 0x80, 0x80, 0x20}) + "hello"; }

// The first bytes of TLS 1.2: a ClientHello with one cipher suite.
std::string TlsClientHello() {
  const std::string body = Bytes({3, 3}) + std::string(32, 'r') + Bytes({0, 0, 2, 0x13, 1, 1, 0});
  const int size = static_cast<int>(body.size());
  return Bytes({22, 3, 1, 0, size + 4, 1, 0, 0, size}) + body;
}

struct Kind {
  std::string name;
  std::string words;
  // When it hangs up of itself: never, when all is said, or when its stream was answered.
  enum class Leaves { kNever, kAtOnce, kWhenAnswered } leaves = Leaves::kNever;
};

std::vector<Kind> LoudKinds(Rng& rng) {
  using enum Kind::Leaves;
  std::string noise(4096, '\0');
  rng.Fill({reinterpret_cast<std::byte*>(noise.data()), noise.size()});
  const std::string hello = Preface() + Settings(), stream = hello + OpenStream();
  return {
      {"random bytes", noise},
      {"HTTP/1.1", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"},
      {"TLS", TlsClientHello()},
      {"a megabyte of zeros", std::string(1 << 20, '\0')},
      {"an HTTP/2 frame of 16 MiB", hello + Bytes({255, 255, 255, 0, 0, 0, 0, 0, 1})},
      {"a message of 2^31", stream + MessageOf(uint32_t{1} << 31, "x"), kAtOnce},
      {"a message of 2^32 - 1", stream + MessageOf(~uint32_t{0}, "x"), kAtOnce},
      {"a hello of 2^33", stream + MessageOf(11, HelloOf8Gib()), kWhenAnswered},
      {"half a hello, then gone", stream + MessageOf(200, "hello"), kAtOnce},
      {"no word, then gone", "", kAtOnce},
  };
}

std::vector<Kind> SilentKinds() {
  const std::string hello = Preface() + Settings(), stream = hello + OpenStream();
  return {
      {"silence", ""},
      {"half a preface", Preface().substr(0, 10)},
      {"half the settings", Preface() + Settings().substr(0, 5)},
      {"settings, no stream", hello},
      {"a stream, no word", stream},
      {"half a hello", stream + MessageOf(200, "hello")},
      {"a bad hello, stays", stream + MessageOf(11, HelloOf8Gib())},
      {"a message of 2^31, stays", stream + MessageOf(uint32_t{1} << 31, "x")},
  };
}

// ---- the crowd ----

class Stranger {
 public:
  Stranger(const Kind* kind, bool silent, int port) : kind_(kind), silent_(silent) {
    fd_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    came_ = Clock::Real().Now();
    (void)connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }
  const Kind& kind() const { return *kind_; }
  bool silent() const { return silent_; }
  absl::Duration stayed() const { return Clock::Real().Now() - came_; }
  pollfd Waiting() const {
    return {fd_.get(), static_cast<short>(POLLIN | (connected_ && all_said() ? 0 : POLLOUT)), 0};
  }

  // Goes on; true when the conversation is over.
  bool GoOn(short events) {
    if ((events & POLLOUT) != 0) {
      connected_ = true;
      while (!all_said()) {
        const ssize_t count =
            send(fd_.get(), kind_->words.data() + said_, kind_->words.size() - said_, MSG_NOSIGNAL);
        if (count <= 0) break;
        said_ += static_cast<size_t>(count);
      }
      if (all_said() && kind_->leaves == Kind::Leaves::kAtOnce) return true;
    }
    while ((events & (POLLIN | POLLERR | POLLHUP)) != 0) {
      char bytes[4096];
      const ssize_t count = recv(fd_.get(), bytes, sizeof(bytes), 0);
      if (count < 0 && errno == EAGAIN) break;
      if (count <= 0) return true;
      if (kind_->leaves != Kind::Leaves::kWhenAnswered) continue;
      heard_.append(bytes, static_cast<size_t>(count));
      if (Answered()) return true;
    }
    return false;
  }

 private:
  bool all_said() const { return said_ == kind_->words.size(); }
  // Whether the stream has heard anything: headers, an end, or the end of everything.
  bool Answered() const {
    for (size_t at = 0; at + 9 <= heard_.size();) {
      const auto byte = [&](size_t i) { return static_cast<uint8_t>(heard_[at + i]); };
      const int type = byte(3);
      if (type == kHeaders || type == kResetStream || type == kGoAway) return true;
      at += 9u + (size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2));
    }
    return false;
  }

  const Kind* kind_;
  bool silent_;
  UniqueFd fd_;
  absl::Time came_;
  bool connected_ = false;
  size_t said_ = 0;
  std::string heard_;
};

struct Report {
  int ended = 0;
  int most_at_once = 0;
  std::map<std::string, absl::Duration> longest;  // by kind
};

// Sends `loud_count` and `silent_count` strangers to the port; returns when all are gone.
Report SendCrowd(int port, int loud_count, int silent_count) {
  SeededRng rng(1);
  const std::vector<Kind> loud_kinds = LoudKinds(rng), silent_kinds = SilentKinds();
  Report report;
  std::vector<Stranger> here;
  int loud = 0, silent = 0, silent_here = 0;
  while (loud < loud_count || silent < silent_count || !here.empty()) {
    while (silent < silent_count && silent_here < kMaxSilentAtOnce) {
      here.emplace_back(&silent_kinds[silent++ % silent_kinds.size()], true, port);
      ++silent_here;
    }
    while (loud < loud_count && here.size() < kMaxAtOnce) {
      here.emplace_back(&loud_kinds[loud++ % loud_kinds.size()], false, port);
    }
    report.most_at_once = std::max(report.most_at_once, static_cast<int>(here.size()));
    std::vector<pollfd> waiting;
    for (const Stranger& stranger : here) waiting.push_back(stranger.Waiting());
    (void)poll(waiting.data(), waiting.size(), 100);
    for (size_t i = here.size(); i-- > 0;) {
      Stranger& stranger = here[i];
      const bool over = stranger.GoOn(waiting[i].revents);
      if (!over && stranger.stayed() < kPromise + 10 * kMargin) continue;
      absl::Duration& longest = report.longest[stranger.kind().name];
      longest = std::max(longest, stranger.stayed());
      report.ended += over ? 1 : 0;
      silent_here -= stranger.silent() ? 1 : 0;
      here[i] = std::move(here.back());
      here.pop_back();
    }
  }
  return report;
}

// ---- the test ----

// Somebody who belongs here, calling all the while.
class HonestCaller {
 public:
  explicit HonestCaller(Peer peer)
      : thread_([this, peer = std::move(peer)] {
          while (!stop_) {
            const std::string text = absl::StrCat("call ", good_.load());
            const absl::Time start = Clock::Real().Now();
            const absl::StatusOr<std::string> back = peer.Call(kEcho(text));
            longest_us_ = std::max<int64_t>(longest_us_,
                                            absl::ToInt64Microseconds(Clock::Real().Now() - start));
            if (back.ok() && *back == text) {
              ++good_;
            } else {
              ++bad_;
              std::fprintf(stderr, "%s\n", back.status().ToString().c_str());
            }
          }
        }) {}
  ~HonestCaller() {
    stop_ = true;
    thread_.join();
  }
  int64_t good() const { return good_; }
  int64_t bad() const { return bad_; }
  int64_t longest_us() const { return longest_us_; }

 private:
  // Independent counts and a flag that publishes nothing.
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> good_{0}, bad_{0}, longest_us_{0};
  std::thread thread_;
};

TEST(HostilePort, TenThousandStrangersChangeNothing) {
  const std::unique_ptr<AgentProcess> door = AgentProcess::Start({"--name=door"});
  ASSERT_THAT(door->status(), IsOk());
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(door->address().substr(door->address().rfind(':') + 1), &port));
  auto honest = Agent::Start({.name = "honest", .peers = "door=" + door->address()});
  ASSERT_THAT(honest, IsOk());
  absl::StatusOr<Peer> peer = (*honest)->Connect("door");
  ASSERT_THAT(peer, IsOk());
  ASSERT_THAT(peer->Call(kEcho(std::string(1 << 20, 'x'))), IsOk());  // both lanes
  const int sockets = door->SocketCount();
  const auto all_gone = [&] { return door->SocketCount() <= sockets; };

  HonestCaller caller(*peer);
  (void)SendCrowd(port, kWarmUpCount, kMaxSilentAtOnce);
  ASSERT_TRUE(WaitUntil(all_gone, kPromise + kMargin));
  const int64_t before = door->ResidentBytes();
  const int64_t calls_before = caller.good();

  const Report report = SendCrowd(port, kStrangerCount - kSilentCount, kSilentCount);
  EXPECT_TRUE(WaitUntil(all_gone, kPromise + kMargin));
  const int64_t growth = door->ResidentBytes() - before;

  for (const auto& [kind, stayed] : report.longest) {
    std::printf("%-28s %s\n", kind.c_str(), absl::FormatDuration(stayed).c_str());
    EXPECT_LT(stayed, kPromise + kMargin) << kind;
  }
  std::printf("%s\n", absl::StrCat("resident bytes: ", before, " + ", growth,
                                   "; calls meanwhile: ", caller.good() - calls_before,
                                   ", the longest ", caller.longest_us(), " us")
                          .c_str());
  EXPECT_EQ(report.ended, kStrangerCount);
  EXPECT_LE(report.most_at_once, kMaxAtOnce);
  if (!kSanitized) {
    EXPECT_LT(growth, kMaxGrowthBytes);
  }
  EXPECT_EQ(caller.bad(), 0);
  EXPECT_GT(caller.good() - calls_before, 100);
  // It takes new friends, too.
  auto late = Agent::Start({.name = "late", .peers = "door=" + door->address()});
  ASSERT_THAT(late, IsOk());
  EXPECT_THAT((*late)->At("door").Call(kWho()), IsOkAndHolds("late"));
  door->Signal(SIGTERM);
  EXPECT_THAT(door->WaitForEnd(absl::Seconds(30)), IsOkAndHolds(0));
}

}  // namespace
}  // namespace gradwire::rpc::testing
