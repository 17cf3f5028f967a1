// Safetensors byte by byte, and files that are cut off, wrong or made to harm. That Python reads
// what is written here, and the reverse: formats_test.py.
#include "worker/data/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/base/fs_sim.h"
#include "tests/support/matchers.h"
#include "worker/data/little_endian.h"

namespace gradwire::data {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

std::span<const std::byte> AsBytes(absl::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A file with this header, as it is, and these bytes behind it.
std::string FileOf(absl::string_view header, absl::string_view data = "") {
  std::string file;
  AppendLittleEndian(uint64_t{header.size()}, file);
  return absl::StrCat(file, header, data);
}

absl::Status Refusal(absl::string_view file) { return ReadSafetensors(AsBytes(file)).status(); }

auto Refuses(absl::string_view text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(text)));
}

constexpr absl::string_view kGolden =
    R"({"__metadata__":{"by":"me","step":"7"},)"
    R"("n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
    R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]},)"
    R"("empty":{"dtype":"F32","shape":[0,3],"data_offsets":[16,16]},)"
    R"("flag":{"dtype":"BOOL","shape":[],"data_offsets":[16,17]}})"
    "     ";

class SafetensorsFileTest : public ::testing::Test {
 protected:
  std::string Contents(const std::string& path) {
    const auto contents = fs_.ReadAll(path, 1 << 20);
    EXPECT_THAT(contents, IsOk());
    return contents.ok() ? *contents : "";
  }

  SimFileSystem fs_;
  const std::vector<NamedTensor> tensors_ = {
      {"flag", rpc::DType::kBool, {}, AsBytes(absl::string_view("\1", 1))},
      {"empty", rpc::DType::kFloat32, {0, 3}, {}},
      {"a", rpc::DType::kFloat32, {2, 1}, AsBytes("aaaabbbb")},
      {"n", rpc::DType::kInt64, {1}, AsBytes("nnnnnnnn")},
  };
  const SafetensorsMetadata metadata_ = {{"step", "7"}, {"by", "me"}};
};

TEST_F(SafetensorsFileTest, WritesTheseBytes) {
  ASSERT_THAT(WriteSafetensors("model", tensors_, metadata_, fs_), IsOk());
  EXPECT_EQ(kGolden.size() % 8, 0U);
  EXPECT_EQ(Contents("model"), FileOf(kGolden, "nnnnnnnnaaaabbbb\1"));
  EXPECT_THAT(*fs_.List("/"), ElementsAre("model"));
}

TEST_F(SafetensorsFileTest, ReadsBackWhatItWrote) {
  ASSERT_THAT(WriteSafetensors("model", tensors_, metadata_, fs_), IsOk());
  auto read = ReadSafetensors("model", 1 << 20, fs_);
  ASSERT_THAT(read, IsOk());
  const SafetensorsFile moved = *std::move(read);
  const Safetensors& contents = moved.contents;
  EXPECT_EQ(contents.metadata, metadata_);
  ASSERT_THAT(contents.tensors, SizeIs(tensors_.size()));
  for (const NamedTensor& wanted : tensors_) {
    const NamedTensor* found = contents.Find(wanted.name);
    ASSERT_NE(found, nullptr) << wanted.name;
    EXPECT_EQ(found->dtype, wanted.dtype);
    EXPECT_EQ(found->shape, wanted.shape);
    EXPECT_TRUE(std::ranges::equal(found->bytes, wanted.bytes)) << wanted.name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(found->bytes.data()) % rpc::ItemBytes(found->dtype), 0U);
  }
  EXPECT_EQ(contents.Find("b"), nullptr);
}

TEST_F(SafetensorsFileTest, AllElementTypes) {
  for (uint8_t number = 1; number < rpc::kDTypeCount; ++number) {
    const auto dtype = static_cast<rpc::DType>(number);
    const std::string bytes(2 * rpc::ItemBytes(dtype), '\1');
    const NamedTensor tensor{"t", dtype, {2}, AsBytes(bytes)};
    const absl::Status written = WriteSafetensors("t", {&tensor, 1}, {}, fs_);
    if (dtype == rpc::DType::kComplex128) {
      EXPECT_THAT(written, Refuses("no complex128; convert"));
      continue;
    }
    ASSERT_THAT(written, IsOk());
    const auto read = ReadSafetensors("t", 1 << 20, fs_);
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(read->contents.Find("t")->dtype, dtype) << rpc::DTypeName(dtype);
  }
}

TEST_F(SafetensorsFileTest, NamesAndMetadataOfAllKinds) {
  const std::string odd("q\"\\/\b\n\0\x1f é 😀", 16);
  const NamedTensor tensor{odd, rpc::DType::kUInt8, {1}, AsBytes("x")};
  ASSERT_THAT(WriteSafetensors("m", {&tensor, 1}, {{odd, odd}, {"", ""}}, fs_), IsOk());
  const auto read = ReadSafetensors("m", 1 << 20, fs_);
  ASSERT_THAT(read, IsOk());
  EXPECT_NE(read->contents.Find(odd), nullptr);
  EXPECT_THAT(read->contents.metadata, ElementsAre(Pair("", ""), Pair(odd, odd)));
}

TEST_F(SafetensorsFileTest, NothingAtAll) {
  ASSERT_THAT(WriteSafetensors("m", {}, {}, fs_), IsOk());
  EXPECT_EQ(Contents("m"), FileOf("{}      "));
  const auto read = ReadSafetensors("m", 1 << 20, fs_);
  ASSERT_THAT(read, IsOk());
  EXPECT_THAT(read->contents.tensors, IsEmpty());
}

TEST_F(SafetensorsFileTest, TensorsThatCannotBeWritten) {
  const auto write = [&](NamedTensor tensor, SafetensorsMetadata metadata = {}) {
    return WriteSafetensors("m", {&tensor, 1}, metadata, fs_);
  };
  constexpr rpc::DType kU8 = rpc::DType::kUInt8;
  EXPECT_THAT(write({"w", rpc::DType::kFloat32, {2, 3}, AsBytes("abc")}),
              Refuses("\"m\": tensor \"w\": float32 [2, 3] doesn't have the 3 bytes"));
  EXPECT_THAT(write({"w", kU8, {-1}, {}}), Refuses("tensor \"w\""));
  EXPECT_THAT(write({"w", kU8, {INT64_MAX, INT64_MAX}, {}}), Refuses("tensor \"w\""));
  EXPECT_THAT(write({"w", kU8, std::vector<int64_t>(9, 1), AsBytes("x")}), Refuses("9 dimensions"));
  EXPECT_THAT(write({"w", rpc::DType::kUndefined, {}, {}}), Refuses("no undefined"));
  EXPECT_THAT(write({"__metadata__", kU8, {1}, AsBytes("x")}), Refuses("take another"));
  EXPECT_THAT(write({"\xff", kU8, {1}, AsBytes("x")}), Refuses("tensor \"\\xff\""));
  EXPECT_THAT(write({"b", rpc::DType::kBool, {1}, AsBytes("x")}), Refuses("a bool is 0 or 1"));
  EXPECT_THAT(write({"w", kU8, {1}, AsBytes("x")}, {{"k", "\xff"}}), Refuses("metadata \"k\""));
  const std::vector<NamedTensor> twice(2, {"w", kU8, {1}, AsBytes("x")});
  EXPECT_THAT(WriteSafetensors("m", twice, {}, fs_), Refuses("\"w\" comes twice"));
  EXPECT_THAT(*fs_.List("/"), IsEmpty());
}

TEST_F(SafetensorsFileTest, HeaderBeyondTheFormatsLimit) {
  const std::string huge(kMaxSafetensorsHeaderBytes, 'x');
  EXPECT_THAT(WriteSafetensors("m", {}, {{"k", huge}}, fs_),
              Refuses("the format allows 100000000"));
}

TEST_F(SafetensorsFileTest, DiskFullKeepsTheOldFileAndFreesTheSpace) {
  ASSERT_THAT(WriteSafetensors("model", tensors_, metadata_, fs_), IsOk());
  const std::string before = Contents("model");
  fs_.SetCapacityBytes(2 * before.size() - 1);
  const absl::Status full = WriteSafetensors("model", tensors_, metadata_, fs_);
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted,
                             AllOf(HasSubstr("writing safetensors \"model\": tensor \"flag\""),
                                   HasSubstr("free space"))));
  EXPECT_EQ(Contents("model"), before);
  EXPECT_THAT(*fs_.List("/"), ElementsAre("model"));
}

TEST_F(SafetensorsFileTest, ACrashLeavesTheOldOrTheNew) {
  ASSERT_THAT(WriteSafetensors("model", {}, {}, fs_), IsOk());
  const std::string before = Contents("model");
  int crashed = 0;
  for (int fail_at = 0;; ++fail_at) {
    int operations = 0;
    fs_.SetHook([&](FsOperation operation, const std::string&) {
      // What fails is the last thing that this process does.
      if (operation != FsOperation::kRemove && operations++ >= fail_at) {
        return absl::DataLossError("planned");
      }
      return absl::OkStatus();
    });
    const absl::Status written = WriteSafetensors("model", tensors_, metadata_, fs_);
    fs_.SetHook(nullptr);
    if (written.ok()) break;
    ++crashed;
    fs_.Crash();
    EXPECT_EQ(Contents("model"), before) << "failed at operation " << fail_at;
  }
  EXPECT_GT(crashed, 5);
  fs_.Crash();
  EXPECT_EQ(Contents("model"), FileOf(kGolden, "nnnnnnnnaaaabbbb\1"));
}

TEST_F(SafetensorsFileTest, FilesThatCannotBeRead) {
  EXPECT_THAT(ReadSafetensors("m", 100, fs_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("reading safetensors \"m\"")));
  ASSERT_THAT(fs_.WriteAtomically("m", std::string(101, 'x')), IsOk());
  EXPECT_THAT(ReadSafetensors("m", 100, fs_),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("101 bytes, at most 100")));
  EXPECT_THAT(ReadSafetensors("m", 101, fs_), Refuses("\"m\": byte 0: the header would have"));
  ASSERT_THAT(fs_.WriteAtomically("m", "short"), IsOk());
  EXPECT_THAT(ReadSafetensors("m", 100, fs_), Refuses("5 bytes, too few"));
}

TEST_F(SafetensorsFileTest, AFileThatShrinksMeanwhile) {
  ASSERT_THAT(WriteSafetensors("model", tensors_, metadata_, fs_), IsOk());
  int reads = 0;
  fs_.SetHook([&](FsOperation operation, const std::string&) {
    if (operation != FsOperation::kRead || ++reads != 3) return absl::OkStatus();
    fs_.SetHook(nullptr);
    return (*fs_.Open("model", OpenMode::kReadWrite))->Truncate(kGolden.size() + 10);
  });
  EXPECT_THAT(ReadSafetensors("model", 1 << 20, fs_), Refuses("became shorter"));
}

TEST(SafetensorsTest, EveryPrefixIsRefused) {
  const std::string whole = FileOf(kGolden, "nnnnnnnnaaaabbbb\1");
  ASSERT_THAT(ReadSafetensors(AsBytes(whole)), IsOk());
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto status = Refusal(absl::string_view(whole).substr(0, size));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument)) << size;
    EXPECT_THAT(std::string(status.message()), HasSubstr("cut off")) << size;
  }
  EXPECT_THAT(Refusal(whole + "x"), Refuses("describes 17 bytes of tensors, the file has 18"));
}

TEST(SafetensorsTest, OtherWritersOrderSpacesAndEscapes) {
  const std::string file = FileOf(
      "{ \"a\\u00e9\\ud83d\\ude00\\n\" : {\"data_offsets\":[ 2 , 4 ],\"shape\":[\n1],\t\"dtype\":"
      "\"I16\"} , \"b\" : {\"shape\":[2],\"dtype\":\"U8\",\"data_offsets\":[0,2]}}\r\n ",
      "0123");
  const auto read = ReadSafetensors(AsBytes(file));
  ASSERT_THAT(read, IsOk());
  ASSERT_THAT(read->tensors, SizeIs(2));
  EXPECT_EQ(read->tensors[0].name, "b") << "in the order of the bytes";
  EXPECT_EQ(read->tensors[1].name, "aé😀\n");
}

struct Hostile {
  absl::string_view name;
  std::string header;
  absl::string_view data;
  absl::string_view message;
};
void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

std::string Entry(absl::string_view name, absl::string_view dtype, absl::string_view shape,
                  absl::string_view offsets) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                      ",\"data_offsets\":", offsets, "}");
}

class HostileTest : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileTest, IsRefusedWithThePlace) {
  EXPECT_THAT(Refusal(FileOf(GetParam().header, GetParam().data)), Refuses(GetParam().message));
}

std::string One(absl::string_view dtype, absl::string_view shape, absl::string_view offsets) {
  return absl::StrCat("{", Entry("w", dtype, shape, offsets), "}");
}

INSTANTIATE_TEST_SUITE_P(
    Json, HostileTest,
    ::testing::Values(
        Hostile{"empty", "", "", "byte 8: '{' must come here, but the header ends"},
        Hostile{"array", "[]", "", "byte 8: '{' must come here, but '[' comes"},
        Hostile{"no_end", "{", "", "byte 9: a string must come here"},
        Hostile{"comma", "{,}", "", "byte 9: a string"},
        Hostile{"last_comma", "{\"__metadata__\":{},}", "", "byte 27: a string"},
        Hostile{"more", "{}{}", "", "byte 10: only spaces may follow"},
        Hostile{"nul", std::string("{}\0", 3), "", "byte 10: only spaces"},
        Hostile{"utf8", "{\"a\xff\"", "", "byte 11: the header is not UTF-8"},
        Hostile{"control", "{\"a\nb\":1}", "", "byte 11: a control character"},
        Hostile{"open_string", "{\"abc", "", "byte 9: the string that begins here has no end"},
        Hostile{"escape", "{\"\\x41\"", "", "byte 10: an escape that JSON doesn't have"},
        Hostile{"escape_end", "{\"\\", "", "byte 10: an escape"},
        Hostile{"hex", "{\"\\u12g4\"", "", "byte 14: four hexadecimal digits"},
        Hostile{"low", "{\"\\udc00\"", "", "byte 10: half of a surrogate pair"},
        Hostile{"high", "{\"\\ud800x\"", "", "byte 10: half of a surrogate pair"},
        Hostile{"two_high", "{\"\\ud800\\ud800\"", "", "byte 10: half of a surrogate pair"},
        Hostile{"deep", absl::StrCat("{\"a\":", std::string(100000, '{')), "",
                "tensor \"a\": byte 14: a string must come here, but '{' comes"},
        Hostile{"metadata_number", "{\"__metadata__\":{\"a\":1}}", "", "__metadata__: byte 29"},
        Hostile{"metadata_twice", "{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", "",
                "__metadata__: byte 32: key \"a\" comes twice"},
        Hostile{"two_metadata", "{\"__metadata__\":{},\"__metadata__\":{}}", "", "comes twice"}),
    [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Tensors, HostileTest,
    ::testing::Values(
        Hostile{"null", "{\"w\":null}", "", "tensor \"w\": byte 13: '{' must come here"},
        Hostile{"no_fields", "{\"w\":{}}", "", "tensor \"w\": byte 14"},
        Hostile{"missing", "{\"w\":{\"dtype\":\"U8\",\"shape\":[]}}", "",
                "tensor \"w\": byte 9: dtype, shape or data_offsets is missing"},
        Hostile{"unknown", "{\"w\":{\"size\":1}}", "", "byte 14: \"size\" comes twice or is no"},
        Hostile{"field_twice", "{\"w\":{\"shape\":[],\"shape\":[]}}", "", "byte 25: \"shape\""},
        Hostile{"dtype", One("F8_E4M3", "[1]", "[0,1]"), "x",
                "tensor \"w\": byte 22: dtype \"F8_E4M3\" is none that is supported here; convert"},
        Hostile{"lower_dtype", One("f32", "[1]", "[0,4]"), "xxxx", "dtype \"f32\""},
        Hostile{"size", One("F32", "[2,2]", "[0,15]"), "123456789012345",
                "tensor \"w\": byte 9: float32 [2, 2] has 16 bytes, but data_offsets [0, 15] hold"},
        Hostile{"overflow", One("F64", "[4294967296,4294967296]", "[0,0]"), "", "beyond 2^63"},
        Hostile{"wraps_to_0", One("U8", "[9223372036854775807,9223372036854775807,4]", "[0,4]"),
                "xxxx", "beyond 2^63"},
        Hostile{"above_int64", One("U8", "[9223372036854775808]", "[0,0]"), "", "above 2^63-1"},
        Hostile{"above_uint64", One("U8", "[18446744073709551617]", "[0,1]"), "x", "above 2^63-1"},
        Hostile{"negative", One("U8", "[-1]", "[0,1]"), "x", "a whole number must come here"},
        Hostile{"fraction", One("U8", "[1.0]", "[0,1]"), "x", "not a whole one"},
        Hostile{"exponent", One("U8", "[1e0]", "[0,1]"), "x", "not a whole one"},
        Hostile{"leading_0", One("U8", "[01]", "[0,1]"), "x", "not a whole one"},
        Hostile{"rank", One("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), "x", "shape has more than 8"},
        Hostile{"backwards", One("U8", "[0]", "[1,0]"), "x", "the second not smaller"},
        Hostile{"one_offset", One("U8", "[0]", "[1]"), "x", "data_offsets must be two numbers"},
        Hostile{"three_offsets", One("U8", "[0]", "[0,1,2]"), "x", "more than 2 numbers"},
        Hostile{
            "not_from_0", One("U8", "[1]", "[1,2]"), "xx",
            "tensor \"w\": byte 9: its data begin at 1, but those of the tensors before it end"},
        Hostile{"beyond", One("U8", "[9223372036854775807]", "[0,9223372036854775807]"), "x",
                "the file has 1; it was cut off"},
        Hostile{"twice",
                absl::StrCat("{", Entry("w", "U8", "[1]", "[0,1]"), ",",
                             Entry("w", "U8", "[1]", "[1,2]"), "}"),
                "xx", "byte 61: tensor \"w\" comes twice"},
        Hostile{"overlap",
                absl::StrCat("{", Entry("v", "U8", "[2]", "[0,2]"), ",",
                             Entry("w", "U8", "[2]", "[1,3]"), "}"),
                "xxx", "tensor \"w\": byte 61: its data begin at 1, but those"},
        Hostile{"gap",
                absl::StrCat("{", Entry("v", "U8", "[1]", "[0,1]"), ",",
                             Entry("w", "U8", "[1]", "[2,3]"), "}"),
                "xxx", "tensor \"w\": byte 61: its data begin at 2"},
        Hostile{"bool", One("BOOL", "[2]", "[0,2]"), "\1\2",
                "tensor \"w\": byte 64: a bool is 0 or 1, this is 2"}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(SafetensorsTest, NoMoreTensorsThanTheLimit) {
  std::string header = "{";
  for (size_t i = 0; i <= kMaxSafetensorsCount; ++i) {
    absl::StrAppend(&header, i == 0 ? "" : ",", Entry(absl::StrCat(i), "U8", "[0]", "[0,0]"));
  }
  EXPECT_THAT(Refusal(FileOf(header + "}")), Refuses("more than 200000 tensors"));
}

TEST(SafetensorsTest, AnEmptyTensorMayHaveHugeOtherSizes) {
  const auto read = ReadSafetensors(
      AsBytes(FileOf(One("F64", "[9223372036854775807,9223372036854775807,0]", "[0,0]"))));
  EXPECT_THAT(read, IsOk());
}

}  // namespace
}  // namespace gradwire::data
