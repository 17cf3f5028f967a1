#include "server/store/dense_store.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace gradwire::server {
namespace {

constexpr size_t kLineFloats = 64 / sizeof(float);
// From here on a part of a large page more is little.
constexpr size_t kLargePagesFromBytes = size_t{8} << 20;

}  // namespace

DenseBlock::DenseBlock(const optim::Rule& rule, std::span<float> weights, std::span<float> slots)
    : rule_(&rule), weights_(weights), slots_(slots) {
  rule_->InitSlots(slots_, weights_.size());
}

absl::Status DenseBlock::CheckCount(size_t count, const char* what) const {
  if (count == weights_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " of ", count, " floats for a block of ", weights_.size()));
}

absl::Status DenseBlock::Apply(double lr, std::span<const float> gradient) {
  GW_RETURN_IF_ERROR(CheckCount(gradient.size(), "a gradient"));
  rule_->Apply(lr, weights_, slots_, gradient);
  ++version_;
  return absl::OkStatus();
}

absl::Status DenseBlock::Assign(std::span<const float> weights) {
  GW_RETURN_IF_ERROR(CheckCount(weights.size(), "weights"));
  std::copy(weights.begin(), weights.end(), weights_.begin());
  rule_->InitSlots(slots_, weights_.size());
  ++version_;
  return absl::OkStatus();
}

absl::Status DenseBlock::Restore(std::span<const float> weights, std::span<const float> slots,
                                 uint64_t version) {
  GW_RETURN_IF_ERROR(CheckCount(weights.size(), "weights"));
  if (slots.size() != slots_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots of ", slots.size(), " floats for a block with ", slots_.size()));
  }
  std::copy(weights.begin(), weights.end(), weights_.begin());
  std::copy(slots.begin(), slots.end(), slots_.begin());
  version_ = version;
  return absl::OkStatus();
}

absl::Status DenseBlock::CopyTo(std::span<float> out) const {
  GW_RETURN_IF_ERROR(CheckCount(out.size(), "a place"));
  std::copy(weights_.begin(), weights_.end(), out.begin());
  return absl::OkStatus();
}

DenseStore::DenseStore(DenseStoreOptions options)
    : options_(std::move(options)), share_(options_.budget) {}

size_t DenseStore::PaddedFloats(size_t count) { return RoundUp(count, kLineFloats); }

absl::StatusOr<std::unique_ptr<DenseStore>> DenseStore::Create(DenseStoreOptions options,
                                                               const DenseLayout& layout,
                                                               size_t server) {
  if (std::holds_alternative<optim::RowwiseAdagrad>(options.rule.options())) {
    return absl::InvalidArgumentError(
        absl::StrCat("dense table ", options.name, ": ", options.rule.ToString(),
                     " is a rule for rows alone; use adagrad, or a sparse table"));
  }
  if (server >= layout.server_count()) {
    return absl::InvalidArgumentError(absl::StrCat("dense table ", options.name, ": server ",
                                                   server, " of ", layout.server_count()));
  }
  std::unique_ptr<DenseStore> store(new DenseStore(std::move(options)));
  const optim::Rule& rule = store->options_.rule;
  size_t float_count = 0;
  for (const uint32_t number : layout.BlocksOf(server)) {
    const size_t count = layout.blocks()[number].count;
    float_count += PaddedFloats(count) + PaddedFloats(rule.SlotCount(count));
  }
  if (float_count == 0) return store;
  const size_t least_bytes = float_count * sizeof(float);
  const bool large = least_bytes >= kLargePagesFromBytes;
  const size_t bytes = RoundUp(least_bytes, large ? kLargePageBytes : kSmallPageBytes);
  GW_RETURN_IF_ERROR(
      store->share_.Reserve(bytes, absl::StrCat("blocks of table ", store->options_.name)));
  GW_ASSIGN_OR_RETURN(store->memory_, PageMemory::Reserve(bytes));
  GW_RETURN_IF_ERROR(store->memory_.Commit(0, bytes, large ? PageSize::kLarge : PageSize::kSmall));
  auto* next = reinterpret_cast<float*>(store->memory_.data());
  const auto take = [&next](size_t count) {
    return std::span<float>(std::exchange(next, next + PaddedFloats(count)), count);
  };
  for (const uint32_t number : layout.BlocksOf(server)) {
    const size_t count = layout.blocks()[number].count;
    const std::span<float> weights = take(count);
    store->numbers_.push_back(number);
    store->blocks_.push_back(DenseBlock(rule, weights, take(rule.SlotCount(count))));
    store->element_count_ += count;
  }
  return store;
}

const DenseBlock* DenseStore::Find(uint32_t block) const {
  const auto at = std::lower_bound(numbers_.begin(), numbers_.end(), block);
  if (at == numbers_.end() || *at != block) return nullptr;
  return &blocks_[static_cast<size_t>(at - numbers_.begin())];
}

DenseBlock* DenseStore::Find(uint32_t block) {
  return const_cast<DenseBlock*>(std::as_const(*this).Find(block));
}

}  // namespace gradwire::server
