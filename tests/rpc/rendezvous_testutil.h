// For tests of how agents find each other: agents that tell their name, worlds that start at once,
// and the places where they meet.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/agent.h"
#include "rpc/base/fs.h"
#include "rpc/tensor/values.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc::testing {

using Started = absl::StatusOr<std::unique_ptr<Agent>>;

inline constexpr Function<std::string()> kWho{"test.who"};
// How long a test waits for something that fails.
inline constexpr absl::Duration kShort = absl::Milliseconds(300);

// Options of an agent that tells callers its name.
inline AgentOptions Named(const std::string& name) {
  AgentOptions options;
  options.name = name;
  options.functions.Bind(kWho, [name] { return name; }, {.run = kInline});
  return options;
}

// Starts all at once, each on a thread of its own, as processes would.
inline std::vector<Started> StartAll(std::vector<AgentOptions> all) {
  std::vector<Started> agents;
  for (size_t i = 0; i < all.size(); ++i) agents.emplace_back(absl::UnknownError("not started"));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] { agents[i] = Agent::Start(std::move(all[i])); });
  }
  for (std::thread& thread : threads) thread.join();
  return agents;
}

// Everybody calls everybody, itself included, by rank.
inline void ExpectAllCallAll(const std::vector<Started>& agents) {
  for (const Started& agent : agents) {
    ASSERT_THAT(agent, ::gradwire::testing::IsOk());
    EXPECT_EQ((*agent)->world_size(), static_cast<int>(agents.size()));
    const std::vector<Member> members = (*agent)->Members();
    ASSERT_EQ(members.size(), agents.size());
    for (const Member& member : members) {
      absl::StatusOr<Peer> peer = (*agent)->Connect(member.rank);
      ASSERT_THAT(peer, ::gradwire::testing::IsOk());
      EXPECT_EQ(peer->name(), member.name);
      EXPECT_THAT(peer->Call(kWho()), ::gradwire::testing::IsOkAndHolds(member.name));
    }
    EXPECT_EQ(members[static_cast<size_t>((*agent)->rank())].name, (*agent)->name());
  }
}

// Addresses where nobody listens now: agents took them and left. On a loopback address of this
// process's own, so that nobody else gets them meanwhile.
inline std::vector<std::string> FreeAddresses(size_t count) {
  const auto pid = static_cast<unsigned>(getpid());
  const std::string host =
      absl::StrCat("127.", 1 + pid / 62500 % 250, ".", 1 + pid / 250 % 250, ".", 1 + pid % 250);
  std::vector<Started> holders;
  std::vector<std::string> addresses;
  for (size_t i = 0; i < count; ++i) {
    holders.push_back(
        Agent::Start({.name = absl::StrCat("holder", i), .listen = absl::StrCat(host, ":0")}));
    EXPECT_THAT(holders.back(), ::gradwire::testing::IsOk());
    addresses.push_back(holders.back().ok() ? (*holders.back())->address() : "");
  }
  return addresses;
}

// One on `host`.
inline std::string FreeAddress(const std::string& host) {
  const Started holder = Agent::Start({.name = "holder", .listen = host + ":0"});
  EXPECT_THAT(holder, ::gradwire::testing::IsOk());
  return holder.ok() ? (*holder)->address() : "";
}

// Three worlds of the same behaviour: where they meet is all that differs.
class Meeting {
 public:
  virtual ~Meeting() = default;
  // What all say, but for who serves.
  virtual void Meet(AgentOptions& options) = 0;
  // What one of them adds so that the others find it.
  virtual void Serve(AgentOptions&) {}
};

class Folder final : public Meeting {
 public:
  Folder() : path_(absl::StrCat(::testing::TempDir(), "/gw-meeting-", getpid(), "-", ++count_)) {}
  ~Folder() override {
    FileSystem& fs = FileSystem::Real();
    const absl::StatusOr<std::vector<std::string>> names = fs.List(path_);
    if (!names.ok()) return;
    for (const std::string& name : *names) (void)fs.Remove(JoinPath(path_, name));
    ::rmdir(path_.c_str());
  }
  void Meet(AgentOptions& options) override { options.rendezvous = absl::StrCat("file://", path_); }

 private:
  static inline int count_ = 0;
  const std::string path_;
};

class Server final : public Meeting {
 public:
  explicit Server(std::string address = FreeAddresses(1)[0]) : address_(std::move(address)) {}
  void Meet(AgentOptions& options) override {
    options.rendezvous = absl::StrCat("tcp://", address_);
  }
  void Serve(AgentOptions& options) override { options.listen = address_; }

 private:
  const std::string address_;
};

}  // namespace gradwire::rpc::testing
