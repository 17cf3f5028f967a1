// remote_add serve ADDRESS   and, elsewhere,   remote_add call ADDRESS
#include <ATen/core/Formatting.h>
#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>
#include <gradwire/rpc/agent.h>
#include <gradwire/rpc/tensor/torch.h>

#include <iostream>

namespace rpc = gradwire::rpc;

// Name and type, for both sides.
inline constexpr rpc::Function<at::Tensor(at::Tensor, at::Tensor)> kAdd{"demo.add"};

absl::Status Serve(const std::string& address) {
  rpc::Registry functions;
  functions.Bind(kAdd, [](const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); });
  GW_ASSIGN_OR_RETURN(
      auto agent,
      rpc::Agent::Start({.name = "server0", .listen = address, .functions = functions}));
  std::cout << "server0 listens on " << agent->address() << std::endl;
  std::cin.get();  // until Enter
  return agent->Leave(absl::Seconds(5));
}

absl::Status Call(const std::string& address) {
  GW_ASSIGN_OR_RETURN(auto agent,
                      rpc::Agent::Start({.name = "trainer0", .peers = "server0=" + address}));
  GW_ASSIGN_OR_RETURN(rpc::Peer server, agent->Connect("server0"));
  const at::Tensor x = at::ones({2, 3});
  rpc::Future<at::Tensor> later = server.Async(kAdd(x, x));
  GW_ASSIGN_OR_RETURN(at::Tensor sum, server.Call(kAdd(x, x), {.timeout = absl::Seconds(5)}));
  std::cout << sum << "\n" << server.Call(kAdd(x, at::ones({4}))).status() << "\n";
  GW_RETURN_IF_ERROR(later.Wait(absl::Seconds(5)).status());
  return agent->Leave(absl::Seconds(5));
}

int main(int argc, char** argv) {
  if (argc != 3) return std::cerr << "usage: remote_add serve|call ADDRESS\n", 2;
  const absl::Status status = argv[1] == std::string("serve") ? Serve(argv[2]) : Call(argv[2]);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
