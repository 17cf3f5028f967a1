// FileStore on a real folder with real threads and processes: a killed process frees its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/cluster/file_store.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;

// The descriptor on which the child says that it has joined.
constexpr int kChildSays = 100;

class FileStoreRealTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "gw_rendezvous_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    FileSystem& fs = FileSystem::Real();
    const absl::StatusOr<std::vector<std::string>> names = fs.List(folder_);
    ASSERT_THAT(names, IsOk());
    for (const std::string& name : *names) EXPECT_THAT(fs.Remove(JoinPath(folder_, name)), IsOk());
    EXPECT_THAT(fs.Remove(folder_), IsOk());
  }
  FileStoreOptions Options() const {
    return {.folder = folder_, .poll = absl::Milliseconds(5), .lock_poll = absl::Milliseconds(1)};
  }
  std::string folder_;
};

TEST_F(FileStoreRealTest, ManyJoinAtOnce) {
  constexpr int kSize = 8;
  ThreadPool pool({.name = "rendezvous", .slot_count = 4});
  std::vector<std::unique_ptr<FileStore>> stores;
  std::vector<Future<Membership>> joins;
  for (int i = 0; i < kSize; ++i) {
    stores.push_back(
        std::make_unique<FileStore>(&FileSystem::Real(), &Clock::Real(), &pool, Options()));
    joins.push_back(stores.back()->Join({.name = absl::StrCat("n", i),
                                         .address = absl::StrCat("127.0.0.1:", 7000 + i),
                                         .instance = static_cast<uint64_t>(i + 1),
                                         .world_size = kSize}));
  }
  for (auto& join : joins) {
    const absl::StatusOr<Membership> view = join.Wait(absl::Seconds(30));
    ASSERT_THAT(view, IsOk());
    EXPECT_EQ(view->members.size(), static_cast<size_t>(kSize));
    EXPECT_EQ(view->members, joins[0].outcome()->members);
  }
  for (int i = 0; i < kSize; ++i) {
    const Member self = joins[static_cast<size_t>(i)].outcome()->self;
    EXPECT_THAT(
        stores[static_cast<size_t>(i)]->Leave(self.name, self.incarnation).Wait(absl::Seconds(30)),
        IsOk());
  }
}

// Another process, which AKilledProcessFreesItsName starts: joins, says so, and waits to be killed.
TEST(FileStoreChild, DISABLED_JoinsAndWaits) {
  const char* const folder = ::getenv("GW_TEST_FOLDER");
  if (folder == nullptr) return;
  ThreadPool pool({.name = "child"});
  FileStore store(&FileSystem::Real(), &Clock::Real(), &pool, {.folder = folder});
  const absl::StatusOr<Membership> view =
      store.Join({.name = "a", .address = "127.0.0.1:1", .instance = 1, .world_size = 1})
          .Wait(absl::Seconds(30));
  const char said = view.ok() ? 'y' : 'n';
  if (::write(kChildSays, &said, 1) != 1) return;
  for (;;) ::pause();
}

TEST_F(FileStoreRealTest, AKilledProcessFreesItsName) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::setenv("GW_TEST_FOLDER", folder_.c_str(), 1), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::dup2(ready[1], kChildSays) < 0) ::_exit(1);
    ::execl("/proc/self/exe", "file_store_real_test", "--gtest_filter=FileStoreChild.*",
            "--gtest_also_run_disabled_tests", nullptr);
    ::_exit(1);
  }
  ::close(ready[1]);  // so that a child that dies ends the read below
  char said = 0;
  ASSERT_EQ(::read(ready[0], &said, 1), 1);
  ASSERT_EQ(said, 'y');
  ThreadPool pool({.name = "parent"});
  FileStore store(&FileSystem::Real(), &Clock::Real(), &pool, Options());
  const JoinRequest request = {
      .name = "a", .address = "127.0.0.1:2", .instance = 2, .world_size = 1};
  EXPECT_THAT(store.Join(request).Wait(absl::Seconds(30)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("127.0.0.1:1")));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const absl::StatusOr<Membership> view = store.Join(request).Wait(absl::Seconds(30));
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->self.rank, 0);
  ::close(ready[0]);
}

}  // namespace
}  // namespace gradwire::rpc
