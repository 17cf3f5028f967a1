// What the simulated file system does that a real one only does on bad days.
#include "rpc/base/fs_sim.h"

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/base/rng.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::unique_ptr<File> MustOpen(SimFileSystem& fs, const std::string& path, OpenMode mode) {
  auto file = fs.Open(path, mode);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *std::move(file) : nullptr;
}

std::string Get(SimFileSystem& fs, const std::string& path) {
  const auto text = fs.ReadAll(path, 1 << 20);
  return text.ok() ? *text : std::string(absl::StatusCodeToString(text.status().code()));
}

TEST(SimFileSystemTest, ACrashFallsBackToWhatWasSynced) {
  SimFileSystem fs;
  auto file = MustOpen(fs, "log", OpenMode::kCreate);
  ASSERT_TRUE(file->Append("one.").ok());
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(fs.SyncDir("/").ok());
  ASSERT_TRUE(file->Append("two.").ok());
  ASSERT_TRUE(file->WriteAt(0, std::as_bytes(std::span("O", 1))).ok());
  EXPECT_EQ(Get(fs, "log"), "One.two.");
  fs.Crash();
  EXPECT_EQ(Get(fs, "log"), "one.");
  auto after = MustOpen(fs, "log", OpenMode::kReadWrite);
  ASSERT_TRUE(after->TruncateAppend(2).ok());
  fs.Crash();
  EXPECT_EQ(Get(fs, "log"), "one.") << "a truncation must be synced, too";
}

TEST(SimFileSystemTest, ANameNeedsItsFolderSynced) {
  SimFileSystem fs;
  auto file = MustOpen(fs, "f", OpenMode::kCreate);
  ASSERT_TRUE(file->Append("x").ok());
  ASSERT_TRUE(file->Sync().ok());
  fs.Crash();
  EXPECT_THAT(*fs.List("/"), IsEmpty());
  ASSERT_TRUE(fs.MakeDirs("d/e").ok());
  ASSERT_TRUE(fs.SyncDir("d").ok());
  fs.Crash();
  EXPECT_THAT(*fs.List("/"), IsEmpty()) << "the folder above was not synced";
  MustOpen(fs, "g", OpenMode::kCreate);
  ASSERT_TRUE(fs.SyncDir("/").ok());
  fs.Crash();
  EXPECT_EQ(Get(fs, "g"), "") << "a name without its bytes";
}

TEST(SimFileSystemTest, RenameAndRemoveComeBackUnlessSynced) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.WriteAtomically("f", "old").ok());
  auto next = MustOpen(fs, "f.tmp", OpenMode::kCreate);
  ASSERT_TRUE(next->Append("new").ok());
  ASSERT_TRUE(next->Sync().ok());
  ASSERT_TRUE(fs.Rename("f.tmp", "f").ok());
  EXPECT_EQ(Get(fs, "f"), "new");
  fs.Crash();
  EXPECT_EQ(Get(fs, "f"), "old");
  EXPECT_THAT(*fs.List("/"), ElementsAre("f"));
  ASSERT_TRUE(fs.Remove("f").ok());
  fs.Crash();
  EXPECT_EQ(Get(fs, "f"), "old");
  ASSERT_TRUE(fs.Remove("f").ok());
  ASSERT_TRUE(fs.SyncDir("/").ok());
  fs.Crash();
  EXPECT_THAT(*fs.List("/"), IsEmpty());
}

TEST(SimFileSystemTest, HandlesAndLocksDieWithACrash) {
  SimFileSystem fs;
  auto file = MustOpen(fs, "f", OpenMode::kCreate);
  auto lock = fs.TryLock("lock");
  ASSERT_TRUE(lock.ok());
  ASSERT_TRUE(fs.SyncDir("/").ok());
  fs.Crash();
  EXPECT_EQ(file->Append("x").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(file->Sync().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(file->Size().status().code(), absl::StatusCode::kFailedPrecondition);
  auto next = fs.TryLock("lock");
  ASSERT_TRUE(next.ok());
  lock->reset();  // the dead one must not free the living one's
  EXPECT_FALSE(fs.TryLock("lock").ok());
}

TEST(SimFileSystemTest, ATornCrashKeepsPartsBySectors) {
  const std::string before(2048, 'o');
  const std::string after(3072, 'n');
  std::set<size_t> sizes;
  bool mixed = false;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SimFileSystem fs;
    ASSERT_TRUE(fs.WriteAtomically("f", before).ok());
    auto file = MustOpen(fs, "f", OpenMode::kReadWrite);
    ASSERT_TRUE(file->WriteAt(512, std::as_bytes(std::span(after)).subspan(512)).ok());
    SeededRng rng(seed);
    fs.CrashTorn(rng);
    const std::string text = Get(fs, "f");
    sizes.insert(text.size());
    ASSERT_GE(text.size(), before.size());
    ASSERT_LE(text.size(), after.size());
    EXPECT_EQ(text.substr(0, 512), before.substr(0, 512)) << "nobody wrote there";
    for (size_t at = 0; at < text.size(); at += 512) {
      const std::string sector = text.substr(at, 512);
      ASSERT_EQ(sector, std::string(sector.size(), sector[0])) << "a sector is whole";
      ASSERT_TRUE(sector[0] == 'o' || sector[0] == 'n' || sector[0] == '\0');
    }
    mixed |= text.find('o', 512) != std::string::npos && text.find('n') != std::string::npos;
    fs.Crash();
    ASSERT_EQ(Get(fs, "f"), text) << "what survived once is on the disk";
  }
  EXPECT_GT(sizes.size(), 2u);
  EXPECT_TRUE(mixed);
}

TEST(SimFileSystemTest, WriteAtomicallyIsAtomicAtEveryOperationAndTornCrash) {
  int operations = 0;
  bool finished = false;
  for (int stop_at = 1; !finished; ++stop_at) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      SimFileSystem fs;
      ASSERT_TRUE(fs.WriteAtomically("f", "old").ok());
      operations = 0;
      fs.SetHook([&](FsOperation, const std::string&) {
        return ++operations >= stop_at ? absl::UnavailableError("the machine stops")
                                       : absl::OkStatus();
      });
      const absl::Status status = fs.WriteAtomically("f", "new");
      fs.SetHook(nullptr);
      SeededRng rng(seed);
      fs.CrashTorn(rng);
      const std::string text = Get(fs, "f");
      if (status.ok()) {
        ASSERT_EQ(text, "new");
        finished = true;
      } else {
        ASSERT_TRUE(text == "old" || text == "new") << text;
      }
    }
  }
  EXPECT_EQ(operations, 5) << "open, write, sync, rename, sync of the folder";
}

TEST(SimFileSystemTest, AFullDiskTakesWhatFits) {
  SimFileSystem fs;
  fs.SetCapacityBytes(10);
  auto a = MustOpen(fs, "a", OpenMode::kCreate);
  ASSERT_TRUE(a->Append("123456").ok());
  auto b = MustOpen(fs, "b", OpenMode::kCreate);
  EXPECT_EQ(b->Append("abcdef").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Get(fs, "b"), "abcd") << "a torn record";
  EXPECT_EQ(b->append_offset(), 0u) << "the next append writes over it";
  ASSERT_TRUE(fs.Remove("a").ok());
  ASSERT_TRUE(a->Append("still open").ok()) << "what has no name takes no room";
  EXPECT_TRUE(b->Append("abcdefghij").ok());
  EXPECT_EQ(Get(fs, "b"), "abcdefghij");
  EXPECT_FALSE(b->Append("k").ok());
  ASSERT_TRUE(b->TruncateAppend(0).ok());
  EXPECT_TRUE(b->Append("k").ok());
}

TEST(SimFileSystemTest, HugeOffsetsTakeNoMemory) {
  SimFileSystem fs;
  auto file = MustOpen(fs, "f", OpenMode::kCreate);
  std::byte one[1] = {};
  EXPECT_FALSE(file->WriteAt(~uint64_t{0}, one).ok());
  EXPECT_FALSE(file->WriteAt(uint64_t{1} << 40, one).ok());
  EXPECT_FALSE(file->Truncate(uint64_t{1} << 40).ok());
  EXPECT_EQ(*file->Size(), 0u);
}

TEST(SimFileSystemTest, MovedFoldersNeverFormACircle) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.MakeDirs("a/b").ok());
  for (const char* folder : {"a/b", "a", "/"}) ASSERT_TRUE(fs.SyncDir(folder).ok());
  ASSERT_TRUE(fs.Rename("a/b", "b").ok());
  ASSERT_TRUE(fs.SyncDir("/").ok());  // "a" still has "b" on the disk
  ASSERT_TRUE(fs.Rename("a", "b/a").ok());
  ASSERT_TRUE(fs.SyncDir("b").ok());
  fs.Crash();
  EXPECT_THAT(*fs.List("/"), ElementsAre("a", "b"));
  fs.Crash();
}

TEST(SimFileSystemTest, ThreadsWorkWhileTheMachineCrashes) {
  SimFileSystem fs;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const std::string path = absl::StrCat("f", t);
        auto file = fs.Open(path, OpenMode::kCreate);
        ASSERT_TRUE(file.ok());
        if ((*file)->TruncateAppend(0).ok() && (*file)->Append("abc").ok()) {
          (void)(*file)->Sync();
        }
        (void)fs.SyncDir("/");
        (void)fs.TryLock("lock");
        (void)fs.List("/");
      }
    });
  }
  for (int i = 0; i < 50; ++i) fs.Crash();
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(fs.TryLock("lock").ok());
}

TEST(SimFileSystemTest, FilesOutliveTheFileSystem) {
  auto fs = std::make_unique<SimFileSystem>();
  auto file = MustOpen(*fs, "f", OpenMode::kCreate);
  auto lock = fs->TryLock("lock");
  fs.reset();
  EXPECT_TRUE(file->Append("x").ok());
}

}  // namespace
}  // namespace gradwire
