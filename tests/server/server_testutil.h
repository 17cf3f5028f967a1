// A parameter server behind a real socket and agents that call it, for tests.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/agent.h"
#include "server/server.h"
#include "tests/support/matchers.h"

namespace gradwire::server::testing {

template <class T>
rpc::TensorView View(rpc::DType dtype, std::vector<int64_t> sizes, const std::vector<T>& values) {
  rpc::TensorView view;
  view.layout = *rpc::TensorLayout::Make(dtype, sizes);
  view.bytes =
      Buffer::Copy({reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)});
  return view;
}
inline rpc::TensorView Ids(const std::vector<int64_t>& ids) {
  return View(rpc::DType::kInt64, {static_cast<int64_t>(ids.size())}, ids);
}
inline rpc::TensorView Rows(size_t dim, const std::vector<float>& values) {
  return View(rpc::DType::kFloat32,
              {static_cast<int64_t>(values.size() / dim), static_cast<int64_t>(dim)}, values);
}
inline rpc::TensorView Flat(const std::vector<float>& values) {
  return View(rpc::DType::kFloat32, {static_cast<int64_t>(values.size())}, values);
}
inline std::vector<float> Floats(const rpc::TensorView& view) {
  std::vector<float> values(view.bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

class World {
 public:
  explicit World(ParameterServerOptions options = {.owner_count = 1})
      : server_(*ParameterServer::Create(options)) {
    rpc::Registry functions;
    server_->Bind(functions);
    auto started = rpc::Agent::Start({.name = "ps0", .functions = functions});
    GW_CHECK(started.ok());
    agent_ = *std::move(started);
  }

  // A worker; starting one under a name again is its next life.
  rpc::Peer Worker(const std::string& name) {
    workers_.push_back(
        *rpc::Agent::Start({.name = name, .listen = "", .peers = "ps0=" + agent_->address()}));
    return *workers_.back()->Connect("ps0");
  }
  ParameterServer& server() { return *server_; }

 private:
  std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<rpc::Agent> agent_;
  std::vector<std::unique_ptr<rpc::Agent>> workers_;
};

inline TableSpec RowsSpec(const std::string& name, size_t dim, const optim::RuleOptions& rule,
                          const optim::InitOptions& init = {}) {
  TableSpec spec;
  spec.name = name;
  spec.rule = ToSpec(*optim::Rule::Create(rule));
  spec.dim = dim;
  spec.init = ToSpec(init);
  spec.seed = 7;
  return spec;
}

}  // namespace gradwire::server::testing
