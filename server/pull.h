// What pulls and pushes share: requests cut by part, snapshots of blocks, waiting for a push.
// Internal to server/.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "server/state.h"

namespace gradwire::server {

// The ids of a batch that one part has, and where they are in it.
struct PartSlice {
  std::vector<int64_t> ids;
  std::vector<uint32_t> places;
};
// One slice a part.
std::vector<PartSlice> SliceByPart(std::span<const int64_t> ids, size_t part_count);
// The parts with ids; {0} for no slices, which is how one part is written.
std::vector<size_t> NonEmpty(const std::vector<PartSlice>& slices);
// The parts of a dense table with blocks.
std::vector<size_t> DenseParts(Table& table);

// Calls `go` once push `after` of the caller is settled in all `parts`; at once for after = 0.
void AfterPush(State& state, rpc::CallInfo& call, std::shared_ptr<Table> table,
               const std::vector<size_t>& parts, uint64_t after,
               absl::AnyInvocable<void(absl::Status)> go);

// The blocks of a dense table, copied part by part.
struct DenseSnapshot {
  std::shared_ptr<Table> table;
  std::vector<PooledBuffer> memory;
  DenseReply reply;

  // On the owner of `part`.
  void Read(TablePart& part);
  DenseReply Take();
};
// RESOURCE_EXHAUSTED: no memory for the copies.
absl::StatusOr<DenseReply> AllocateBlocks(State& state, Table& table,
                                          std::vector<PooledBuffer>& out);

}  // namespace gradwire::server
