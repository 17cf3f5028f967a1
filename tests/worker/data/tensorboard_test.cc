// Event files byte by byte, and what happens when the disk doesn't play along. That TensorBoard
// reads them: formats_test.py.
#include "worker/data/tensorboard.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/base/crc32c.h"
#include "rpc/base/fs_sim.h"
#include "rpc/base/sim.h"
#include "worker/data/little_endian.h"
#include "worker/data/tfrecord.h"

namespace gradwire::data {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string Hex(absl::string_view hex) { return absl::HexStringToBytes(hex); }

class EventWriterTest : public ::testing::Test {
 protected:
  std::unique_ptr<EventWriter> Create(const std::string& folder = "run") {
    auto writer = EventWriter::Create(folder, "worker-0", clock_, fs_, rng_);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return writer.ok() ? *std::move(writer) : nullptr;
  }

  std::string Contents(const EventWriter& writer) {
    auto contents = fs_.ReadAll(writer.path(), 64 << 20);
    EXPECT_TRUE(contents.ok()) << contents.status();
    return contents.ok() ? *contents : "";
  }

  // The payloads of a whole file; fails where framing or a CRC is wrong.
  static std::vector<std::string> Records(absl::string_view file) {
    std::vector<std::string> records;
    while (!file.empty()) {
      if (file.size() < 16) return ADD_FAILURE() << "a piece of a record at the end", records;
      const auto size = FromLittleEndian<uint64_t>(file);
      if (file.size() - 16 < size) return ADD_FAILURE() << "a record is cut off", records;
      EXPECT_EQ(FromLittleEndian<uint32_t>(file.substr(8)), MaskedCrc(Crc32c(file.substr(0, 8))));
      const absl::string_view payload = file.substr(12, size);
      EXPECT_EQ(FromLittleEndian<uint32_t>(file.substr(12 + size)), MaskedCrc(Crc32c(payload)));
      records.emplace_back(payload);
      file.remove_prefix(16 + size);
    }
    return records;
  }

  SimFileSystem fs_;
  SimLoop clock_;
  SeededRng rng_{7};
};

TEST(TfRecordTest, MasksAreThoseOfTheFormat) {
  EXPECT_EQ(MaskedCrc(0xe3069283), 0xc78ab0e5U);
  EXPECT_EQ(MaskedCrc(0), 0xa282ead8U);
  EXPECT_EQ(MaskedCrc(0xffffffff), 0xa282ead7U);
  // The length field of a record with 24 bytes, the first one of most event files.
  EXPECT_EQ(MaskedCrc(Crc32c(Hex("1800000000000000"))), 0x224b7fa3U);
}

// The goldens were written by TensorBoard's own record_writer.py and messages.
TEST_F(EventWriterTest, FirstRecordIsTheVersion) {
  const auto writer = Create();
  EXPECT_EQ(absl::BytesToHexString(Contents(*writer)),
            "1800000000000000a37f4b22"
            "09000000000018f5401a0d627261696e2e4576656e743a32"
            "d7e4281a");
}

TEST_F(EventWriterTest, AScalarIsTheseBytes) {
  const auto writer = Create();
  const size_t before = Contents(*writer).size();
  clock_.RunFor(absl::Milliseconds(500));
  ASSERT_TRUE(writer->Scalar("loss", 300, 0.75F).ok());
  EXPECT_THAT(Contents(*writer), SizeIs(before)) << "buffered";
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_EQ(absl::BytesToHexString(Contents(*writer).substr(before)),
            "1b000000000000001a0d9e13"
            "09000000000818f54010ac022a0d0a0b0a046c6f7373150000403f"
            "b7182446");
}

TEST_F(EventWriterTest, NegativeStepsAndInfinities) {
  const auto writer = Create();
  ASSERT_TRUE(writer->Scalar("a", -1, -std::numeric_limits<float>::infinity()).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const auto records = Records(Contents(*writer));
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(absl::BytesToHexString(records[1]),
            "09000000000018f54010ffffffffffffffffff012a0a0a080a016115000080ff");
}

TEST_F(EventWriterTest, ARestartAndStep0) {
  const auto writer = Create();
  ASSERT_TRUE(writer->Restarted(300).ok());
  ASSERT_TRUE(writer->Scalar("a", 0, 1).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const auto records = Records(Contents(*writer));
  ASSERT_THAT(records, SizeIs(3));
  EXPECT_EQ(absl::BytesToHexString(records[1]), "09000000000018f54010ac023a020801");
  EXPECT_EQ(absl::BytesToHexString(records[2]), "09000000000018f5402a0a0a080a0161150000803f");
}

TEST_F(EventWriterTest, NamesSayWhenWhereAndNothingTwice) {
  const auto first = Create();
  const auto second = Create();
  EXPECT_THAT(first->path(), ::testing::StartsWith("run/events.out.tfevents.0000086400.worker-0."));
  EXPECT_NE(first->path(), second->path());
  const auto odd = EventWriter::Create("run", std::string("a/../b\n\xff") + std::string(200, 'h'),
                                       clock_, fs_, rng_);
  ASSERT_TRUE(odd.ok()) << odd.status();
  EXPECT_THAT((*odd)->path(), HasSubstr(".0000086400.a_.._b__hhh"));
  EXPECT_LT((*odd)->path().size(), 150U);
  EXPECT_TRUE(absl::IsInvalidArgument(EventWriter::Create("run", "", clock_, fs_).status()));
}

TEST_F(EventWriterTest, AFileThatExistsIsLeftAlone) {
  const auto first = Create();
  rng_ = SeededRng(7);
  const auto again = EventWriter::Create("run", "worker-0", clock_, fs_, rng_);
  EXPECT_TRUE(absl::IsAlreadyExists(again.status())) << again.status();
  EXPECT_THAT(Records(Contents(*first)), SizeIs(1));
}

TEST_F(EventWriterTest, BadTags) {
  const auto writer = Create();
  EXPECT_TRUE(absl::IsInvalidArgument(writer->Scalar("", 0, 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(writer->Scalar("\xff", 0, 1)));
  EXPECT_TRUE(writer->Scalar(std::string(EventWriter::kMaxTagBytes, 't'), 0, 1).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      writer->Scalar(std::string(EventWriter::kMaxTagBytes + 1, 't'), 0, 1)));
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_THAT(Records(Contents(*writer)), SizeIs(2));
}

TEST_F(EventWriterTest, FlushesByItselfAndAtTheEnd) {
  auto writer = Create();
  const std::string path = writer->path();
  for (int step = 0; step < 3000; ++step) ASSERT_TRUE(writer->Scalar("loss", step, 1).ok());
  const size_t flushed = Contents(*writer).size();
  EXPECT_GE(flushed, EventWriter::kFlushBytes);
  writer.reset();
  const auto contents = fs_.ReadAll(path, 1 << 20);
  ASSERT_TRUE(contents.ok());
  EXPECT_GT(contents->size(), flushed);
  EXPECT_THAT(Records(*contents), SizeIs(3001));
}

TEST_F(EventWriterTest, DiskFullNamesTheFileAndNothingIsLostOrTwice) {
  const auto writer = Create();
  ASSERT_TRUE(writer->Scalar("loss", 0, 1).ok());
  ASSERT_TRUE(writer->Flush().ok());
  fs_.SetCapacityBytes(Contents(*writer).size() + 20);  // half of the next record
  ASSERT_TRUE(writer->Scalar("loss", 1, 1).ok());
  const absl::Status full = writer->Flush();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr(writer->path()));
  EXPECT_THAT(std::string(full.message()), HasSubstr("free space"));
  EXPECT_THAT(std::string(full.message()), HasSubstr("the training goes on"));
  ASSERT_TRUE(writer->Scalar("loss", 2, 1).ok());
  EXPECT_FALSE(writer->Flush().ok());
  fs_.SetCapacityBytes(1 << 20);
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_THAT(Records(Contents(*writer)), SizeIs(4));
}

TEST_F(EventWriterTest, ADiskThatStaysFullCostsBoundedMemory) {
  auto writer = Create();
  int attempts = 0;
  fs_.SetHook([&](FsOperation operation, const std::string&) {
    if (operation != FsOperation::kWrite) return absl::OkStatus();
    ++attempts;
    return absl::ResourceExhaustedError("no space");
  });
  int errors = 0;
  int step = 0;
  for (; writer->left_out_count() == 0; ++step) {
    ASSERT_LT(step, 100'000);
    errors += !writer->Scalar("loss", step, 1).ok();
  }
  const int kept = step - 1;
  EXPECT_LT(errors, 20) << "once each 64 KiB, not once a value";
  EXPECT_EQ(attempts, errors);
  const absl::Status left_out = writer->Scalar("loss", step, 1);
  EXPECT_THAT(std::string(left_out.message()), HasSubstr(absl::StrCat("leaving out step ", step)));
  EXPECT_EQ(writer->left_out_count(), 2U);
  fs_.SetHook(nullptr);
  ASSERT_TRUE(writer->Scalar("loss", step, 1).ok());
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_THAT(Records(Contents(*writer)), SizeIs(static_cast<size_t>(kept) + 2));
}

TEST_F(EventWriterTest, AFailedStartLeavesNoFile) {
  fs_.SetCapacityBytes(5);
  const auto writer = EventWriter::Create("run", "host", clock_, fs_, rng_);
  EXPECT_TRUE(absl::IsResourceExhausted(writer.status())) << writer.status();
  EXPECT_THAT(*fs_.List("run"), ::testing::IsEmpty());
  ASSERT_TRUE(fs_.Open("file", OpenMode::kCreate).ok());
  const auto no_folder = EventWriter::Create("file", "host", clock_, fs_, rng_);
  EXPECT_FALSE(no_folder.ok());
  EXPECT_THAT(std::string(no_folder.status().message()), HasSubstr("file"));
}

}  // namespace
}  // namespace gradwire::data
