#include "worker/data/rating_files.h"

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"
#include "worker/data/files.h"

namespace gradwire::data {
namespace {

constexpr size_t kColumns = 4;
constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max();

}  // namespace

absl::StatusOr<RawRatings> ParseRatings(const std::string& file, absl::string_view text) {
  RawRatings ratings;
  GW_RETURN_IF_ERROR(
      ForEachLine(file, text, '\t', kColumns, [&](int64_t line, const Fields& fields) {
        FieldPlace place{.file = &file, .line = line, .column = 1};
        if (line == 1 && absl::StartsWith(fields[0], "user_id")) return absl::OkStatus();
        GW_ASSIGN_OR_RETURN(const int64_t user, ParseWhole(fields[0], 0, kMaxId, place));
        place.column = 2;
        GW_ASSIGN_OR_RETURN(const int64_t item, ParseWhole(fields[1], 0, kMaxId, place));
        place.column = 3;
        GW_ASSIGN_OR_RETURN(const float rating, ParseDecimal(fields[2], 0.5f, 5, place));
        ratings.users.push_back(user);
        ratings.items.push_back(item);
        ratings.ratings.push_back(rating);
        return absl::OkStatus();
      }));
  if (ratings.users.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " has no ratings"));
  }
  return ratings;
}

absl::StatusOr<RawRatings> ReadRatings(const std::string& folder, FileSystem& fs) {
  const std::string classic = JoinPath(folder, "ml-100k/u.data");
  const std::string path =
      fs.Stat(classic).ok() ? classic : JoinPath(folder, "ml-100k/ml-100k.inter");
  GW_ASSIGN_OR_RETURN(const std::string text, ReadDataFile(path, fs));
  return ParseRatings(path, text);
}

}  // namespace gradwire::data
