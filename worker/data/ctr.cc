#include "worker/data/ctr.h"

#include <cmath>
#include <limits>

#include "absl/random/zipf_distribution.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/rng.h"
#include "rpc/base/status.h"

namespace gradwire::data {
namespace {

constexpr double kBias = -1;
// Of streams that must differ: rows and weights.
constexpr uint64_t kRowStream = 0x9e3779b97f4a7c15;
constexpr uint64_t kWeightStream = 0xd1b54a32d192ed03;

// An Rng as absl's distributions take one.
struct Bits {
  using result_type = uint64_t;
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }
  uint64_t operator()() { return rng.Next(); }
  SeededRng& rng;
};

}  // namespace

absl::StatusOr<CtrSet> CtrSet::Create(const CtrOptions& options) {
  if (options.rows < 0 || options.first_row < 0 || options.fields < 1 || options.ids < 1 ||
      options.fields > std::numeric_limits<int64_t>::max() / 2 / options.ids) {
    return absl::InvalidArgumentError(absl::StrCat(
        "clicks: ", options.rows, " rows from ", options.first_row, ", ", options.fields,
        " fields, ", options.ids,
        " ids a field; rows must not be negative, the others be positive, their product fit"));
  }
  if (!(options.skew > 1 && options.skew <= 100)) {
    return absl::InvalidArgumentError(
        absl::StrCat("clicks: skew ", options.skew, "; it must be above 1 and at most 100"));
  }
  return CtrSet(options);
}

double CtrSet::Weight(int64_t id) const {
  SeededRng rng(options_.seed * kWeightStream + static_cast<uint64_t>(id));
  // Uniform on [-a, a] has variance a² / 3.
  const double bound = std::sqrt(12.0 / static_cast<double>(options_.fields));
  return (2 * rng.Uniform() - 1) * bound;
}

CtrSet::Row CtrSet::Draw(int64_t row, std::span<int64_t> ids) const {
  SeededRng rng(options_.seed * kRowStream + static_cast<uint64_t>(options_.first_row + row));
  Bits bits{rng};
  absl::zipf_distribution<int64_t> zipf(options_.ids - 1, options_.skew, 1.0);
  double logit = kBias;
  for (int64_t field = 0; field < options_.fields; ++field) {
    const int64_t id = 1 + field * options_.ids + zipf(bits);
    if (!ids.empty()) ids[static_cast<size_t>(field)] = id;
    logit += Weight(id);
  }
  const double probability = 1 / (1 + std::exp(-logit));
  return {probability, rng.Chance(probability)};
}

absl::StatusOr<CtrSet::Batch> CtrSet::Take(std::span<const int64_t> rows) const {
  const auto count = static_cast<int64_t>(rows.size());
  Batch batch;
  GW_ASSIGN_OR_RETURN(batch.ids, rpc::Empty({count, options_.fields}, at::kLong));
  GW_ASSIGN_OR_RETURN(batch.clicks, rpc::Empty({count}, at::kFloat));
  auto* ids = static_cast<int64_t*>(batch.ids.mutable_data_ptr());
  auto* clicks = static_cast<float*>(batch.clicks.mutable_data_ptr());
  const auto fields = static_cast<size_t>(options_.fields);
  for (const int64_t row : rows) {
    *clicks++ = Draw(row, std::span(ids, fields)).click ? 1 : 0;
    ids += fields;
  }
  return batch;
}

double CtrSet::PlantedLogLoss() const {
  double sum = 0;
  for (int64_t row = 0; row < options_.rows; ++row) {
    const Row drawn = Draw(row, {});
    sum -= std::log(drawn.click ? drawn.probability : 1 - drawn.probability);
  }
  return options_.rows == 0 ? 0 : sum / static_cast<double>(options_.rows);
}

}  // namespace gradwire::data
