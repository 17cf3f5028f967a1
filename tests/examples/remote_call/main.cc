// Two agents call each other's functions, over sockets of this machine.
#include <gradwire/rpc/agent.h>

#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "functions.h"

namespace rpc = gradwire::rpc;

absl::StatusOr<double> Dot(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return absl::InvalidArgumentError("lengths differ");
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::string Describe(rpc::CallInfo& call, const Sample& sample) {
  return call.caller() + " sent " + std::to_string(sample.x.size()) + " numbers, label " +
         std::to_string(sample.label);
}

absl::Status Run() {
  rpc::Registry functions;
  functions.Bind(kDot, Dot, {.run = rpc::kInline}).Bind(kDescribe, Describe);
  GW_ASSIGN_OR_RETURN(auto server, rpc::Agent::Start({.name = "server0", .functions = functions}));
  GW_ASSIGN_OR_RETURN(auto trainer, rpc::Agent::Start({.name = "trainer0",
                                                       .peers = "server0=" + server->address()}));

  GW_ASSIGN_OR_RETURN(rpc::Peer peer, trainer->Connect("server0"));
  rpc::Future<std::string> later = peer.Async(kDescribe(Sample{.x = {1, 2, 3}, .label = 7}));
  GW_ASSIGN_OR_RETURN(double dot,
                      peer.Call(kDot({1, 2, 3}, {4, 5, 6}), {.timeout = absl::Seconds(5)}));
  std::cout << "dot = " << dot << "\n";
  GW_ASSIGN_OR_RETURN(std::string text, later.Wait(absl::Seconds(5)));
  std::cout << text << "\n";
  std::cout << peer.Call(kDot({1}, {})).status() << "\n";
  return trainer->Leave(absl::Seconds(10));
}

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
