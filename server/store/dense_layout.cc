#include "server/store/dense_layout.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace gradwire::server {
namespace {

// Blocks begin on cache lines of the tensor: 16 floats.
constexpr uint64_t kBlockMultiple = 16;

constexpr uint64_t DivideUp(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

absl::Status Check(std::span<const uint64_t> element_counts, size_t server_count) {
  if (server_count < 1 || server_count > kMaxServerCount) {
    return absl::InvalidArgumentError(absl::StrCat("a dense table lies on 1 to ", kMaxServerCount,
                                                   " servers, not ", server_count));
  }
  if (element_counts.size() > kMaxTensorCount) {
    return absl::InvalidArgumentError(absl::StrCat("a dense table has ", element_counts.size(),
                                                   " tensors, at most ", kMaxTensorCount,
                                                   " are allowed"));
  }
  uint64_t total = 0;
  for (size_t tensor = 0; tensor < element_counts.size(); ++tensor) {
    if (element_counts[tensor] > kMaxTableElements - total) {
      return absl::InvalidArgumentError(
          absl::StrCat("a dense table has more than ", kMaxTableElements, " elements: tensor ",
                       tensor, " has ", element_counts[tensor], ", those before it ", total));
    }
    total += element_counts[tensor];
  }
  return absl::OkStatus();
}

// The server of each block: largest first, ties in the blocks' order, to whoever has least, ties to
// the first server.
void Spread(std::vector<DenseBlockSpec>& blocks, size_t server_count) {
  std::vector<uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&blocks](uint32_t a, uint32_t b) {
    return blocks[a].count != blocks[b].count ? blocks[a].count > blocks[b].count : a < b;
  });
  using Load = std::pair<uint64_t, uint32_t>;  // elements, server
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (uint32_t server = 0; server < server_count; ++server) least.emplace(0, server);
  for (const uint32_t block : order) {
    const auto [elements, server] = least.top();
    least.pop();
    blocks[block].server = server;
    least.emplace(elements + blocks[block].count, server);
  }
}

}  // namespace

absl::StatusOr<DenseLayout> DenseLayout::Create(std::span<const uint64_t> element_counts,
                                                size_t server_count) {
  GW_RETURN_IF_ERROR(Check(element_counts, server_count));
  DenseLayout layout;
  layout.element_count_ =
      std::accumulate(element_counts.begin(), element_counts.end(), uint64_t{0});
  const uint64_t share = layout.element_count_ / (server_count * kBlocksPerServer);
  const uint64_t limit = std::clamp(share / kBlockMultiple * kBlockMultiple,
                                    uint64_t{kMinBlockElements}, uint64_t{kMaxBlockElements});
  for (uint32_t tensor = 0; tensor < element_counts.size(); ++tensor) {
    const uint64_t elements = element_counts[tensor];
    if (elements == 0) continue;
    const uint64_t count =
        DivideUp(DivideUp(elements, DivideUp(elements, limit)), kBlockMultiple) * kBlockMultiple;
    for (uint64_t offset = 0; offset < elements; offset += count) {
      layout.blocks_.push_back(
          {tensor, 0, offset, static_cast<uint32_t>(std::min(count, elements - offset))});
    }
  }
  Spread(layout.blocks_, server_count);
  layout.by_server_.resize(server_count);
  for (uint32_t block = 0; block < layout.blocks_.size(); ++block) {
    layout.by_server_[layout.blocks_[block].server].push_back(block);
  }
  return layout;
}

}  // namespace gradwire::server
