// Token files of every kind, and where one may listen without a token.
#include "rpc/security/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <sstream>
#include <string>

#include "rpc/base/fs_sim.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TokenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "gw_token_XXXXXX";
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
  std::string Write(absl::string_view text, mode_t mode) {
    const std::string path = JoinPath(folder_, "token");
    EXPECT_THAT(FileSystem::Real().WriteAtomically(path, text), IsOk());
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  absl::StatusOr<Secret> Load(absl::string_view text, mode_t mode = 0600) {
    return LoadToken(FileSystem::Real(), Write(text, mode));
  }
  std::string folder_;
};

TEST_F(TokenTest, IsTheFilesBytesWithoutLineEnds) {
  const absl::StatusOr<Secret> token = Load("a token with blanks \r\n\n");
  ASSERT_THAT(token, IsOk());
  EXPECT_EQ(token->Reveal(), "a token with blanks ");
  std::ostringstream shown;
  shown << *token;
  EXPECT_EQ(shown.str(), "<secret>");
  EXPECT_THAT(Load(std::string(kMinTokenBytes, 't'), 0400), IsOk());
  EXPECT_THAT(Load(std::string(kMaxTokenBytes, 't') + "\r\n"), IsOk());
}

TEST_F(TokenTest, MustBeClosedToOthers) {
  for (const mode_t mode : {0644, 0640, 0604, 0620, 0610, 0601}) {
    EXPECT_THAT(Load("sixteen bytes or more", mode),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         AllOf(HasSubstr("chmod 600 " + folder_), Not(HasSubstr("sixteen")))))
        << mode;
  }
}

TEST_F(TokenTest, MustHaveASize) {
  EXPECT_THAT(Load(""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("holds 0 bytes")));
  EXPECT_THAT(Load("fifteen bytes..\n"), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  HasSubstr("holds 15 bytes; a token has 16")));
  EXPECT_THAT(Load(std::string(kMaxTokenBytes + 1, 't')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("holds 4097 bytes")));
  EXPECT_THAT(Load(std::string(1 << 20, 't')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 4096 bytes")));
}

TEST_F(TokenTest, MustBeAFile) {
  EXPECT_THAT(LoadToken(FileSystem::Real(), folder_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is a folder")));
  EXPECT_THAT(LoadToken(FileSystem::Real(), folder_ + "/none"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(folder_ + "/none"), HasSubstr("/dev/urandom"))));
}

TEST_F(TokenTest, MustBeOurs) {
  // A file system that says whose it is; being another user takes root.
  class Foreign final : public FileSystem {
   public:
    absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
      return fs_.Open(path, mode);
    }
    absl::StatusOr<FileInfo> Stat(const std::string&) override {
      return FileInfo{.is_directory = false, .size_bytes = 20, .permissions = 0600, .ours = false};
    }
    absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
      return fs_.List(path);
    }
    absl::Status MakeDirs(const std::string& path) override { return fs_.MakeDirs(path); }
    absl::Status Rename(const std::string& from, const std::string& to) override {
      return fs_.Rename(from, to);
    }
    absl::Status Remove(const std::string& path) override { return fs_.Remove(path); }
    absl::Status SyncDir(const std::string& path) override { return fs_.SyncDir(path); }
    absl::StatusOr<std::unique_ptr<FileLock>> TryLock(const std::string& path) override {
      return fs_.TryLock(path);
    }

   private:
    SimFileSystem fs_;
  } foreign;
  EXPECT_THAT(LoadToken(foreign, "t"), StatusIs(absl::StatusCode::kPermissionDenied,
                                                HasSubstr("t belongs to another user")));
}

TEST(BindTest, LoopbackIsWhatItSays) {
  for (const char* address : {"127.0.0.1:0", "127.1.2.3:80", "localhost:80", "[::1]:80"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
    EXPECT_THAT(CheckBind(address, false, false), IsOk());
  }
  for (const char* address :
       {"0.0.0.0:80", "[::]:80", "10.0.0.5:80", "127.example.com:80", "127.0.0.1.example.com:80",
        "localhost.example.com:80", "[::ffff:127.0.0.1]:80", "127.1:80", "[127.0.0.1]:80", ":80",
        "", "::1:80", "[fe80::1]:80", "eth0:80"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
    EXPECT_THAT(CheckBind(address, false, false),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("--token-file"), HasSubstr("--insecure-transport"))));
  }
}

TEST(BindTest, NamesWhatIsMissing) {
  EXPECT_THAT(CheckBind("10.0.0.5:80", true, true), IsOk());
  EXPECT_THAT(CheckBind("10.0.0.5:80", true, false),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("10.0.0.5:80"), HasSubstr("--insecure-transport"),
                             Not(HasSubstr("--token-file")))));
  EXPECT_THAT(CheckBind("10.0.0.5:80", false, true),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("--token-file"), Not(HasSubstr("--insecure")))));
}

}  // namespace
}  // namespace gradwire::rpc
