// What clients of both kinds of tables share: creating the table on all servers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/verbs/verbs.h"
#include "worker/client/servers.h"

namespace gradwire::worker {

// Creates the table, or finds it as another worker created it: server 0 decides who creates.
// values: of each server's blocks, for a dense table; empty for rows. Gives server 0's reply.
// FAILED_PRECONDITION: a table of that name is something else; both are shown.
absl::StatusOr<server::TableReply> CreateTable(
    Servers& servers, server::TableSpec spec,
    const std::function<std::vector<rpc::TensorView>(size_t server)>& values);

}  // namespace gradwire::worker
