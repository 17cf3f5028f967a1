#include "rpc/cluster/world_text.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "rpc/base/buffer.h"
#include "rpc/base/crc32c.h"
#include "rpc/base/status.h"

namespace gradwire::rpc {
namespace {

constexpr absl::string_view kFirstLine = "gradwire rendezvous 1";

absl::Status Bad(size_t line, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("line ", line, ": ", why));
}

std::string Checksum(absl::string_view text) {
  return absl::StrFormat("%08x", Crc32c(AsBytes(text)));
}

bool ParseMember(const std::vector<absl::string_view>& words, World::Entry& out) {
  if (words.size() != 8) return false;
  out.member.name = std::string(words[1]);
  if (words[2] != "-") out.member.address = std::string(words[2]);
  if (!absl::SimpleAtoi(words[3], &out.member.incarnation.value)) return false;
  if (!absl::SimpleAtoi(words[4], &out.member.rank)) return false;
  if (!absl::SimpleAtoi(words[5], &out.instance)) return false;
  out.live = words[6] == "live";
  out.chose_rank = words[7] == "chosen";
  return (out.live || words[6] == "dead") && (out.chose_rank || words[7] == "dealt");
}

}  // namespace

std::string WriteWorld(const World& world) {
  std::string out = absl::StrCat(kFirstLine, "\nlast ", world.last_incarnation(), "\nworld ",
                                 world.world_size(), "\n");
  for (const auto& [name, entry] : world.entries()) {
    absl::StrAppend(&out, "member ", name, " ",
                    entry.member.address.empty() ? "-" : entry.member.address, " ");
    absl::StrAppend(&out, entry.member.incarnation.value, " ", entry.member.rank, " ",
                    entry.instance, entry.live ? " live" : " dead",
                    entry.chose_rank ? " chosen\n" : " dealt\n");
  }
  absl::StrAppend(&out, "end ", Checksum(out), "\n");
  return out;
}

absl::StatusOr<World> ParseWorld(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.front() != kFirstLine) {
    return Bad(1, absl::StrCat("is not \"", kFirstLine, "\"; this is another file"));
  }
  if (lines.size() < 5 || !lines.back().empty()) return Bad(lines.size(), "the file is cut off");
  const absl::string_view end = lines[lines.size() - 2];
  const absl::string_view covered = text.substr(0, text.size() - end.size() - 1);
  if (end != absl::StrCat("end ", Checksum(covered))) {
    return Bad(lines.size() - 1, "the checksum doesn't fit: the file was cut off or changed");
  }
  uint64_t last = 0;
  int world_size = 0;
  std::vector<World::Entry> entries;
  for (size_t i = 1; i + 2 < lines.size(); ++i) {
    const std::vector<absl::string_view> words = absl::StrSplit(lines[i], ' ');
    bool good = false;
    if (i == 1) {
      good = words.size() == 2 && words[0] == "last" && absl::SimpleAtoi(words[1], &last);
    } else if (i == 2) {
      good = words.size() == 2 && words[0] == "world" && absl::SimpleAtoi(words[1], &world_size);
    } else if (words[0] == "member" && entries.size() < static_cast<size_t>(kMaxMembers)) {
      good = ParseMember(words, entries.emplace_back());
    }
    if (!good) return Bad(i + 1, "is malformed");
  }
  absl::StatusOr<World> world = World::FromParts(last, world_size, std::move(entries));
  if (!world.ok()) return absl::DataLossError(world.status().message());
  return world;
}

}  // namespace gradwire::rpc
