#include "worker/client/table_client.h"

namespace gradwire::worker {

absl::StatusOr<server::TableReply> CreateTable(
    Servers& servers, server::TableSpec spec,
    const std::function<std::vector<rpc::TensorView>(size_t server)>& values) {
  spec.server_count = static_cast<uint32_t>(servers.size());
  server::CreateTableRequest request{.spec = spec, .values = values(0)};
  GW_ASSIGN_OR_RETURN(const server::TableReply home,
                      servers.Start(0, server::kCreateTable(request)).Wait());
  std::vector<PendingCall<server::TableReply>> others;
  for (size_t i = 1; i < servers.size(); ++i) {
    request.server = static_cast<uint32_t>(i);
    request.table = home.table;
    request.create = home.created;
    request.values = home.created ? values(i) : std::vector<rpc::TensorView>();
    others.push_back(servers.Start(i, server::kCreateTable(request)));
  }
  for (auto& other : others) GW_RETURN_IF_ERROR(other.Wait().status());
  return home;
}

}  // namespace gradwire::worker
