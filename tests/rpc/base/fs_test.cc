// One suite over the real and the simulated file system, and random operations on both at once.
#include "rpc/base/fs.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/base/fs_sim.h"
#include "rpc/base/rng.h"
#include "rpc/base/unique_fd.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Text(const absl::StatusOr<std::string>& text) {
  return text.ok() ? *text : absl::StrCat("<", text.status().ToString(), ">");
}

// A folder of its own on the real disk, removed afterwards.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = testing::TempDir() + "/gw_fs_XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() { RemoveTree(path_); }
  const std::string& path() const { return path_; }

 private:
  static void RemoveTree(const std::string& path) {
    FileSystem& fs = FileSystem::Real();
    if (const auto names = fs.List(path); names.ok()) {
      for (const std::string& name : *names) RemoveTree(JoinPath(path, name));
    }
    (void)fs.Remove(path);
  }
  std::string path_;
};

class FileSystemTest : public testing::TestWithParam<bool> {
 protected:
  FileSystem& fs() { return GetParam() ? FileSystem::Real() : sim_; }
  std::string At(absl::string_view name) {
    return GetParam() ? JoinPath(folder_.path(), name) : std::string(name);
  }
  absl::StatusCode OpenCode(absl::string_view name, OpenMode mode) {
    return fs().Open(At(name), mode).status().code();
  }
  void Put(absl::string_view name, absl::string_view text) {
    const auto file = fs().Open(At(name), OpenMode::kTruncate);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(text).ok());
  }
  std::string Get(absl::string_view name) { return Text(fs().ReadAll(At(name), 1 << 20)); }

 private:
  TempFolder folder_;
  SimFileSystem sim_;
};

INSTANTIATE_TEST_SUITE_P(All, FileSystemTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Real" : "Sim"; });

TEST_P(FileSystemTest, WritesReadsAppendsTruncates) {
  {
    auto file = fs().Open(At("f"), OpenMode::kCreate);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE((*file)->Append("hello ").ok());
    EXPECT_TRUE((*file)->Append("world").ok());
    EXPECT_TRUE((*file)->WriteAt(0, std::as_bytes(std::span("J", 1))).ok());
    EXPECT_EQ((*file)->append_offset(), 11u);
    EXPECT_TRUE((*file)->Sync().ok());
    EXPECT_EQ(*(*file)->Size(), 11u);
    char part[8] = {};
    EXPECT_EQ(*(*file)->ReadAt(6, std::as_writable_bytes(std::span(part))), 5u);
    EXPECT_STREQ(part, "world");
    EXPECT_EQ(*(*file)->ReadAt(99, std::as_writable_bytes(std::span(part))), 0u);
  }
  EXPECT_EQ(Get("f"), "Jello world");
  auto again = fs().Open(At("f"), OpenMode::kReadWrite);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE((*again)->Append("!").ok());
  EXPECT_EQ(Get("f"), "Jello world!");
  EXPECT_TRUE((*again)->TruncateAppend(5).ok());
  EXPECT_TRUE((*again)->Append("y").ok());
  EXPECT_EQ(Get("f"), "Jelloy");
  EXPECT_TRUE((*again)->WriteAt(8, std::as_bytes(std::span("z", 1))).ok());
  EXPECT_EQ(Get("f"), std::string("Jelloy\0\0z", 9));
  EXPECT_EQ(fs().Stat(At("f"))->size_bytes, 9u);
  EXPECT_EQ(fs().Stat(At("f"))->permissions & 0600u, 0600u);
}

TEST_P(FileSystemTest, OpenModes) {
  EXPECT_EQ(OpenCode("f", OpenMode::kRead), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenCode("f", OpenMode::kReadWrite), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenCode("no/f", OpenMode::kCreate), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenCode("f", OpenMode::kCreateNew), absl::StatusCode::kOk);
  EXPECT_EQ(OpenCode("f", OpenMode::kCreateNew), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(OpenCode("f/g", OpenMode::kCreate), absl::StatusCode::kFailedPrecondition);
  Put("f", "text");
  EXPECT_EQ(OpenCode("f", OpenMode::kCreate), absl::StatusCode::kOk);
  EXPECT_EQ(Get("f"), "text");
  EXPECT_EQ(OpenCode("f", OpenMode::kTruncate), absl::StatusCode::kOk);
  EXPECT_EQ(Get("f"), "");
  ASSERT_TRUE(fs().MakeDirs(At("d")).ok());
  for (const OpenMode mode :
       {OpenMode::kRead, OpenMode::kReadWrite, OpenMode::kCreate, OpenMode::kTruncate}) {
    EXPECT_EQ(OpenCode("d", mode), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(fs().Open("", OpenMode::kRead).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenCode(absl::string_view("a\0b", 3), OpenMode::kCreate),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenCode(std::string(300, 'n'), OpenMode::kCreate), absl::StatusCode::kInvalidArgument);
}

TEST_P(FileSystemTest, ErrorsNameOperationAndPath) {
  const absl::Status status = fs().Open(At("missing"), OpenMode::kRead).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "open ")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "missing")) << status;
}

TEST_P(FileSystemTest, ReadOnlyHandlesDoNotWrite) {
  Put("f", "x");
  const auto file = fs().Open(At("f"), OpenMode::kRead);
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE((*file)->Append("y").ok());
  EXPECT_FALSE((*file)->Truncate(0).ok());
  EXPECT_EQ(Get("f"), "x");
}

TEST_P(FileSystemTest, Folders) {
  EXPECT_TRUE(fs().MakeDirs(At("a/b/c")).ok());
  EXPECT_TRUE(fs().MakeDirs(At("a/b/c")).ok());
  Put("a/z", "");
  Put("a/.hidden", "");
  EXPECT_THAT(*fs().List(At("a")), ElementsAre(".hidden", "b", "z"));
  EXPECT_THAT(*fs().List(At("a/b/c")), IsEmpty());
  EXPECT_EQ(fs().List(At("no")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fs().List(At("a/z")).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fs().MakeDirs(At("a/z")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fs().MakeDirs(At("a/z/d")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs().Stat(At("a/b"))->is_directory);
  EXPECT_EQ(fs().Stat(At("a/b"))->size_bytes, 0u);
  EXPECT_EQ(fs().Remove(At("a")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs().Remove(At("a/b/c")).ok());
  EXPECT_EQ(fs().Remove(At("a/b/c")).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(fs().Remove(At("a/z")).ok());
  EXPECT_TRUE(fs().SyncDir(At("a")).ok());
  EXPECT_EQ(fs().SyncDir(At("no")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fs().SyncDir(At("a/.hidden")).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(FileSystemTest, RenameReplacesInOneStep) {
  Put("new", "new");
  Put("old", "old");
  const auto reader = fs().Open(At("old"), OpenMode::kRead);
  ASSERT_TRUE(fs().Rename(At("new"), At("old")).ok());
  EXPECT_EQ(Get("old"), "new");
  EXPECT_EQ(OpenCode("new", OpenMode::kRead), absl::StatusCode::kNotFound);
  char text[4] = {};
  EXPECT_EQ(*(*reader)->ReadAt(0, std::as_writable_bytes(std::span(text, 3))), 3u);
  EXPECT_STREQ(text, "old") << "who has it open keeps seeing the old one";
  ASSERT_TRUE(fs().MakeDirs(At("d/e")).ok());
  EXPECT_EQ(fs().Rename(At("none"), At("x")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fs().Rename(At("old"), At("d")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fs().Rename(At("d"), At("old")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fs().Rename(At("d"), At("d/e/f")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(fs().Rename(At("old"), At("old")).ok());
  EXPECT_TRUE(fs().Rename(At("old"), At("d/e/f")).ok());
  EXPECT_EQ(Get("d/e/f"), "new");
  EXPECT_TRUE(fs().Rename(At("d"), At("g")).ok());
  EXPECT_EQ(Get("g/e/f"), "new");
}

TEST_P(FileSystemTest, ReadAllHasALimit) {
  Put("f", std::string(700'000, 'x'));
  EXPECT_EQ(fs().ReadAll(At("f"), 700'000)->size(), 700'000u);
  const absl::Status status = fs().ReadAll(At("f"), 699'999).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fs().ReadAll(At("f"), ~size_t{0})->size(), 700'000u);
  Put("empty", "");
  EXPECT_EQ(*fs().ReadAll(At("empty"), 0), "");
}

TEST_P(FileSystemTest, WriteAtomicallyInPieces) {
  ASSERT_TRUE(fs().WriteAtomically(At("f"), "old").ok());
  ASSERT_TRUE(fs().WriteAtomically(At("f.tmp"), "of a writer that was killed").ok());
  const auto pieces = [](File& file) -> absl::Status {
    const absl::Status one = file.Append("one,");
    return one.ok() ? file.Append("two") : one;
  };
  EXPECT_TRUE(fs().WriteAtomically(At("f"), pieces).ok());
  EXPECT_EQ(Text(fs().ReadAll(At("f"), 100)), "one,two");
  const auto fails = [](File& file) -> absl::Status {
    EXPECT_TRUE(file.Append("half").ok());
    return absl::CancelledError("planned");
  };
  EXPECT_TRUE(absl::IsCancelled(fs().WriteAtomically(At("f"), fails)));
  EXPECT_EQ(Text(fs().ReadAll(At("f"), 100)), "one,two");
  EXPECT_THAT(*fs().List(At(".")), ElementsAre("f"));
}

TEST_P(FileSystemTest, WriteAtomicallyReplacesAndCleansUp) {
  EXPECT_TRUE(fs().WriteAtomically(At("f"), "one").ok());
  EXPECT_TRUE(fs().WriteAtomically(At("f"), "two").ok());
  EXPECT_EQ(Get("f"), "two");
  EXPECT_THAT(*fs().List(At(".")), ElementsAre("f"));
  EXPECT_FALSE(fs().WriteAtomically(At("no/f"), "x").ok());
}

TEST_P(FileSystemTest, LocksExcludeEachOther) {
  auto first = fs().TryLock(At("lock"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(fs().TryLock(At("lock")).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(fs().TryLock(At("other")).ok());
  first->reset();
  EXPECT_TRUE(fs().TryLock(At("lock")).ok());
}

TEST(RealFileSystemTest, PipesAndDevicesAreRefusedWithoutWaiting) {
  const TempFolder folder;
  const std::string pipe = JoinPath(folder.path(), "pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  FileSystem& fs = FileSystem::Real();
  EXPECT_EQ(fs.Open(pipe, OpenMode::kRead).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fs.TryLock(pipe).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fs.ReadAll("/dev/zero", 10).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RealFileSystemTest, OffsetsBeyondTheLargestAreRefused) {
  const TempFolder folder;
  auto file = FileSystem::Real().Open(JoinPath(folder.path(), "f"), OpenMode::kCreate);
  ASSERT_TRUE(file.ok());
  std::byte one[1] = {};
  EXPECT_EQ((*file)->WriteAt(~uint64_t{0}, one).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*file)->ReadAt(~uint64_t{0}, one).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*file)->Truncate(~uint64_t{0}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(PathTest, ParentAndJoin) {
  EXPECT_EQ(ParentPath("a/b"), "a");
  EXPECT_EQ(ParentPath("a/b/"), "a");
  EXPECT_EQ(ParentPath("a"), ".");
  EXPECT_EQ(ParentPath("/a"), "/");
  EXPECT_EQ(ParentPath("/"), "/");
  EXPECT_EQ(ParentPath(""), ".");
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
}

TEST(UniqueFdTest, OwnsAndMoves) {
  UniqueFd a(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int raw = a.get();
  UniqueFd b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): promised
  EXPECT_EQ(b.get(), raw);
  b = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(::fcntl(raw, F_GETFD), -1);
  EXPECT_TRUE(b);
  const int released = b.Release();
  EXPECT_FALSE(b);
  UniqueFd closes(released);
}

// What one random operation gave, as text.
std::string RandomOperation(FileSystem& fs, const std::string& root, uint64_t seed) {
  SeededRng rng(seed);
  const auto path = [&] {
    std::string p = root;
    for (uint64_t depth = 1 + rng.Below(3); depth > 0; --depth) {
      p = JoinPath(p, std::string(1, static_cast<char>('a' + rng.Below(3))));
    }
    return p;
  };
  const auto code = [](const absl::Status& status) {
    return std::string(absl::StatusCodeToString(status.code()));
  };
  switch (rng.Below(8)) {
    case 0:
    case 1: {
      const auto mode = static_cast<OpenMode>(rng.Below(5));
      auto file = fs.Open(path(), mode);
      if (!file.ok()) return "open " + code(file.status());
      const std::string text(rng.Below(3000), static_cast<char>('a' + rng.Below(26)));
      std::string result = absl::StrCat("size ", *(*file)->Size());
      if (mode != OpenMode::kRead) {
        absl::StrAppend(&result, " append ", code((*file)->Append(text)));
        if (rng.Below(4) == 0) absl::StrAppend(&result, code((*file)->Truncate(rng.Below(3000))));
      }
      return result;
    }
    case 2:
      return "mkdir " + code(fs.MakeDirs(path()));
    case 3: {
      const std::string from = path();
      return "rename " + code(fs.Rename(from, path()));
    }
    case 4:
      return "remove " + code(fs.Remove(path()));
    case 5: {
      const auto names = fs.List(path());
      return names.ok() ? testing::PrintToString(*names) : "list " + code(names.status());
    }
    case 6: {
      const auto info = fs.Stat(path());
      if (!info.ok()) return "stat " + code(info.status());
      return absl::StrCat(info->is_directory ? "folder " : "file ", info->size_bytes);
    }
    default: {
      const auto text = fs.ReadAll(path(), 2500);
      return text.ok() ? *text : "read " + code(text.status());
    }
  }
}

TEST(FileSystemModelTest, BothBehaveAlikeUnderRandomOperations) {
  for (uint64_t run = 0; run < 20; ++run) {
    const TempFolder folder;
    SimFileSystem sim;
    for (uint64_t step = 0; step < 200; ++step) {
      const uint64_t seed = run * 1000 + step;
      ASSERT_EQ(RandomOperation(FileSystem::Real(), folder.path(), seed),
                RandomOperation(sim, "/", seed))
          << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace gradwire
