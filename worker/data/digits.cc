#include "worker/data/digits.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"
#include "worker/data/digit_files.h"
#include "worker/data/split.h"

namespace gradwire::data {
namespace {

constexpr int64_t kTestRows = 1000;
constexpr uint64_t kSplitSeed = 1;

DigitsSet Select(const RawDigits& raw, std::span<const int64_t> rows) {
  std::vector<float> pixels;
  std::vector<int64_t> labels;
  pixels.reserve(rows.size() * kDigitPixels);
  for (const int64_t row : rows) {
    const uint8_t* grey = raw.pixels.data() + row * kDigitPixels;
    for (int64_t i = 0; i < kDigitPixels; ++i) pixels.push_back(static_cast<float>(grey[i]) / 255);
    labels.push_back(raw.labels[static_cast<size_t>(row)]);
  }
  return DigitsSet(std::move(pixels), std::move(labels));
}

DigitsSet All(const RawDigits& raw) {
  std::vector<int64_t> rows(raw.labels.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  return Select(raw, rows);
}

}  // namespace

absl::StatusOr<DigitsSet::Batch> DigitsSet::Take(std::span<const int64_t> rows) const {
  const auto count = static_cast<int64_t>(rows.size());
  Batch batch;
  GW_ASSIGN_OR_RETURN(batch.x, rpc::Empty({count, kDigitPixels}, at::kFloat));
  GW_ASSIGN_OR_RETURN(batch.y, rpc::Empty({count}, at::kLong));
  auto* x = static_cast<float*>(batch.x.mutable_data_ptr());
  auto* y = static_cast<int64_t*>(batch.y.mutable_data_ptr());
  for (const int64_t row : rows) {
    std::memcpy(x, pixels_.data() + row * kDigitPixels, kDigitPixels * sizeof(float));
    x += kDigitPixels;
    *y++ = labels_[static_cast<size_t>(row)];
  }
  return batch;
}

absl::StatusOr<Digits> Digits::Load(const std::string& folder, FileSystem& fs) {
  GW_ASSIGN_OR_RETURN(const bool has_idx, HasIdxFiles(folder, fs));
  if (has_idx) {
    GW_ASSIGN_OR_RETURN(const RawDigits train, ReadIdxDigits(folder, "train", fs));
    GW_ASSIGN_OR_RETURN(const RawDigits test, ReadIdxDigits(folder, "t10k", fs));
    return Digits{All(train), All(test)};
  }
  GW_ASSIGN_OR_RETURN(const RawDigits raw, ReadCsvDigits(JoinPath(folder, "mnist_5k.csv.gz"), fs));
  const Split split = SplitRows(static_cast<int64_t>(raw.labels.size()), kTestRows, kSplitSeed);
  return Digits{Select(raw, split.train), Select(raw, split.test)};
}

}  // namespace gradwire::data
