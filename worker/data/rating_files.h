// The files that movie ratings come in, parsed and checked; no tensors yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/base/fs.h"

namespace gradwire::data {

struct RawRatings {
  std::vector<int64_t> users;
  std::vector<int64_t> items;
  std::vector<float> ratings;  // 0.5 … 5
};

// Tab-separated user, item, rating, time; a first line "user_id:token …" names the columns.
absl::StatusOr<RawRatings> ParseRatings(const std::string& file, absl::string_view text);
// folder/ml-100k/ml-100k.inter, or folder/ml-100k/u.data.
absl::StatusOr<RawRatings> ReadRatings(const std::string& folder, FileSystem& fs);

}  // namespace gradwire::data
