#include "worker/data/ratings.h"

#include "rpc/base/status.h"
#include "worker/data/split.h"

namespace gradwire::data {
namespace {

constexpr int64_t kTestShare = 5;  // a fifth
constexpr uint64_t kSplitSeed = 12;

RatingsSet Select(const RawRatings& raw, std::span<const int64_t> rows) {
  RawRatings part;
  for (const int64_t row : rows) {
    const auto i = static_cast<size_t>(row);
    part.users.push_back(raw.users[i]);
    part.items.push_back(raw.items[i]);
    part.ratings.push_back(raw.ratings[i]);
  }
  return RatingsSet(std::move(part));
}

}  // namespace

absl::StatusOr<RatingsSet::Batch> RatingsSet::Take(std::span<const int64_t> rows) const {
  const auto count = static_cast<int64_t>(rows.size());
  Batch batch;
  GW_ASSIGN_OR_RETURN(batch.user_ids, rpc::Empty({count}, at::kLong));
  GW_ASSIGN_OR_RETURN(batch.item_ids, rpc::Empty({count}, at::kLong));
  GW_ASSIGN_OR_RETURN(batch.ratings, rpc::Empty({count}, at::kFloat));
  auto* users = static_cast<int64_t*>(batch.user_ids.mutable_data_ptr());
  auto* items = static_cast<int64_t*>(batch.item_ids.mutable_data_ptr());
  auto* ratings = static_cast<float*>(batch.ratings.mutable_data_ptr());
  for (const int64_t row : rows) {
    const auto i = static_cast<size_t>(row);
    *users++ = rows_.users[i];
    *items++ = rows_.items[i];
    *ratings++ = rows_.ratings[i];
  }
  return batch;
}

float Ratings::mean() const {
  double sum = 0;
  for (const float rating : train.rows().ratings) sum += rating;
  return static_cast<float>(sum / static_cast<double>(train.row_count()));
}

absl::StatusOr<Ratings> Ratings::Load(const std::string& folder, FileSystem& fs) {
  GW_ASSIGN_OR_RETURN(const RawRatings raw, ReadRatings(folder, fs));
  const auto count = static_cast<int64_t>(raw.users.size());
  const Split split = SplitRows(count, count / kTestShare, kSplitSeed);
  return Ratings{Select(raw, split.train), Select(raw, split.test)};
}

}  // namespace gradwire::data
