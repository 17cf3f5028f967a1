// What every transport does: one suite, instantiated over all of them.
//
// A new implementation writes a World and instantiates TransportSuite with it in its own test file;
// the behaviours are in transport_suite_*.cc.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/mutex.h"
#include "rpc/transport/transport.h"
#include "tests/rpc/transport/talker.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc::testing {

// Two processes, or what stands for them: one dials, the other listens.
class World {
 public:
  virtual ~World() = default;

  virtual Transport& dialler() = 0;
  virtual Transport& acceptor() = 0;
  // Any free one.
  virtual std::string listen_address() = 0;
  // Well-formed, but nobody listens there.
  virtual std::string nowhere() = 0;
  virtual std::string malformed() = 0;
  // Lets time pass until `done`; false after a generous limit.
  virtual bool RunUntil(const std::function<bool()>& done) = 0;

  // Whether callbacks run on threads beside the test's.
  virtual bool has_threads() const { return true; }
  // Whether an OnMessage that blocks on one lane leaves the other lane alone.
  virtual bool lanes_are_apart() const { return true; }
  // Destroys the transport; false if it lives as long as the world.
  virtual bool DestroyDialler() = 0;
  virtual bool DestroyAcceptor() = 0;
};

struct WorldCase {
  std::string name;
  std::function<std::unique_ptr<World>()> make;
};
inline void PrintTo(const WorldCase& world, std::ostream* out) { *out << world.name; }
inline std::string WorldCaseName(const ::testing::TestParamInfo<WorldCase>& info) {
  return info.param.name;
}

// A value that a polling thread sets and the test reads.
template <class T>
class Shared {
 public:
  void Set(T value) {
    MutexLock lock(mu_);
    value_ = std::move(value);
  }
  T Get() {
    MutexLock lock(mu_);
    return value_;
  }

 private:
  Mutex mu_;
  T value_ GW_GUARDED_BY(mu_);
};

class TransportSuite : public ::testing::TestWithParam<WorldCase> {
 protected:
  void SetUp() override { world_ = GetParam().make(); }
  void TearDown() override {
    listener_ = nullptr;
    for (const auto& talker : Talkers()) {
      if (auto connection = talker->connection()) {
        connection->Close(absl::CancelledError("test over"));
      }
    }
    for (const auto& talker : Talkers()) {
      EXPECT_TRUE(Eventually([&] { return talker->closed(); })) << "OnClosed is missing";
      EXPECT_EQ(talker->closed_count(), 1);
      EXPECT_THAT(talker->broken(), ::testing::IsEmpty());
    }
    world_ = nullptr;
  }

  bool Eventually(const std::function<bool()>& done) { return world_->RunUntil(done); }

  // Listens; accepted connections get a Talker each, which `prepare` may change first.
  void Listen(std::function<void(Talker&)> prepare = nullptr) {
    ListenWith([this, prepare](std::shared_ptr<Connection> connection, Lane) {
      auto talker = NewTalker();
      if (prepare) prepare(*talker);
      talker->SetConnection(std::move(connection));
      Remember(talker);
      return talker;
    });
  }
  // For Accepted.
  void Remember(std::shared_ptr<Talker> talker) {
    MutexLock lock(mu_);
    accepted_.push_back(std::move(talker));
  }
  void ListenWith(AcceptFn accept) {
    auto listener = world_->acceptor().Listen(world_->listen_address(), std::move(accept));
    ASSERT_THAT(listener, ::gradwire::testing::IsOk());
    listener_ = *std::move(listener);
  }

  // A talker whose end is checked in the end; only for one that gets a connection.
  std::shared_ptr<Talker> NewTalker() {
    auto talker = std::make_shared<Talker>();
    MutexLock lock(mu_);
    talkers_.push_back(talker);
    return talker;
  }
  std::shared_ptr<Talker> Dial(Lane lane = Lane::kControl,
                               std::function<void(Talker&)> prepare = nullptr) {
    return DialTo(listener_->address(), lane, std::move(prepare));
  }
  std::shared_ptr<Talker> DialTo(const std::string& address, Lane lane = Lane::kControl,
                                 std::function<void(Talker&)> prepare = nullptr) {
    auto talker = NewTalker();
    if (prepare) prepare(*talker);
    talker->SetConnection(world_->dialler().Dial(address, lane, talker, absl::Seconds(10)));
    return talker;
  }
  // The `index`-th accepted talker, waited for.
  std::shared_ptr<Talker> Accepted(size_t index = 0) {
    EXPECT_TRUE(Eventually([&] { return accepted_count() > index; })) << "nothing was accepted";
    MutexLock lock(mu_);
    if (accepted_.size() <= index) {
      ADD_FAILURE() << "no accepted talker " << index;
      return std::make_shared<Talker>();
    }
    return accepted_[index];
  }
  size_t accepted_count() {
    MutexLock lock(mu_);
    return accepted_.size();
  }

  std::unique_ptr<World> world_;
  std::unique_ptr<Listener> listener_;

 private:
  std::vector<std::shared_ptr<Talker>> Talkers() {
    MutexLock lock(mu_);
    return talkers_;
  }
  Mutex mu_;
  std::vector<std::shared_ptr<Talker>> talkers_ GW_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<Talker>> accepted_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::rpc::testing
