// What a test needs of a store, for EmbeddedStore and FileStore alike.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/fs_sim.h"
#include "rpc/base/sim.h"
#include "rpc/cluster/embedded_store.h"
#include "rpc/cluster/file_store.h"

namespace gradwire::rpc::testing {

// The world around a store, in virtual time. Each process joins through the store that Store(name)
// gives; Kill(name) ends the process as SIGKILL does.
class StoreWorld {
 public:
  virtual ~StoreWorld() = default;
  virtual RendezvousStore& Store(const std::string& process) = 0;
  virtual void Kill(const std::string& process) = 0;
  // The store itself stops and starts again.
  virtual void RestartStore() = 0;

  SimLoop& loop() { return loop_; }
  // Runs until `future` is ready; how long that took.
  template <class T>
  absl::Duration Settle(const Future<T>& future, absl::Duration at_most = absl::Minutes(5)) {
    const absl::Time started = loop_.Now();
    EXPECT_TRUE(loop_.RunUntil([&] { return future.ready(); }, started + at_most));
    return loop_.Now() - started;
  }
  Future<Membership> Join(const std::string& name, int world_size,
                          void (*more)(JoinRequest&) = nullptr) {
    JoinRequest request;
    request.name = name;
    request.instance = ++last_instance_;
    request.address = name + ".host:7000";
    request.world_size = world_size;
    if (more != nullptr) more(request);
    return Send(request);
  }
  Future<Membership> Send(const JoinRequest& request) {
    instances_[request.name] = request.instance;
    return Store(request.name).Join(request);
  }
  uint64_t instance(const std::string& name) const { return instances_.at(name); }

 protected:
  SimLoop loop_;
  uint64_t last_instance_ = 0;
  std::map<std::string, uint64_t> instances_;
};

class EmbeddedWorld final : public StoreWorld {
 public:
  RendezvousStore& Store(const std::string&) override { return *store_; }
  void Kill(const std::string& process) override {
    store_->ReportDead(process, instances_.at(process));
  }
  void RestartStore() override {
    loop_.RunFor(absl::Milliseconds(1));
    store_ = std::make_unique<EmbeddedStore>(&loop_);
  }
  EmbeddedStore& store() { return *store_; }

 private:
  std::unique_ptr<EmbeddedStore> store_ = std::make_unique<EmbeddedStore>(&loop_);
};

class FileWorld final : public StoreWorld {
 public:
  RendezvousStore& Store(const std::string& process) override {
    Process& p = processes_[process];
    if (p.store == nullptr) {
      p.executor = std::make_unique<SimExecutor>(&loop_);
      p.store = std::make_unique<FileStore>(&fs_, &loop_, p.executor.get(),
                                            FileStoreOptions{.folder = "/shared/job"});
    }
    return *p.store;
  }
  void Kill(const std::string& process) override {
    const auto found = processes_.find(process);
    if (found == processes_.end()) return;
    found->second.executor->Kill();
    found->second.store.reset();  // the system lets go of its locks
    dead_.push_back(std::move(found->second.executor));
    processes_.erase(found);
  }
  void RestartStore() override {}  // there is none
  SimFileSystem& fs() { return fs_; }

 private:
  struct Process {
    std::unique_ptr<SimExecutor> executor;
    std::unique_ptr<FileStore> store;
  };
  SimFileSystem fs_;
  std::map<std::string, Process> processes_;
  std::vector<std::unique_ptr<SimExecutor>> dead_;
};

}  // namespace gradwire::rpc::testing
