// A remote torch.add of one element between two processes over TCP loopback, against Python's
// torch.distributed.rpc in the same run (bench/peers/torch_rpc_peer.py): what a user of either
// writes, typed functions and tensors.
//
// The same program is the server when started with --serve: it prints its address and runs until
// the end of stdin. GW_PEER_PYTHON: the peer's interpreter; scripts/bench --peers sets it.
#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/harness.h"
#include "bench/peer_process.h"
#include "rpc/agent.h"
#include "rpc/tensor/torch.h"

namespace gradwire {
namespace {

using AddFunction = rpc::Function<at::Tensor(at::Tensor, at::Tensor)>;
// Bound inline: what a function that short is for (rpc/registry.h).
constexpr AddFunction kAdd{"bench.add"};
// The same on the executor: what BindOptions{} gives. Printed beside it; it has no goal.
constexpr AddFunction kAddOnExecutor{"bench.add_on_executor"};

at::Tensor Add(const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); }

std::unique_ptr<rpc::Agent> MustStart(rpc::AgentOptions options) {
  auto agent = rpc::Agent::Start(std::move(options));
  if (agent.ok()) return *std::move(agent);
  std::cerr << "add_peer_bench: " << agent.status() << "\n";
  std::exit(1);
}

void MustBeTwo(const absl::StatusOr<at::Tensor>& sum) {
  if (sum.ok() && sum->numel() == 1 && *static_cast<const float*>(sum->const_data_ptr()) == 2)
    return;
  std::cerr << "add_peer_bench: " << sum.status() << "\n";
  std::exit(1);
}

int Serve() {
  rpc::AgentOptions options;
  options.name = "server";
  options.functions.Bind(kAdd, Add, {.run = rpc::kInline}).Bind(kAddOnExecutor, Add);
  const auto agent = MustStart(std::move(options));
  std::printf("ready\n%s\n", agent->address().c_str());
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  return 0;
}

// p50 in microseconds.
double RoundTrip(const rpc::Peer& server, const AddFunction& add, int count) {
  const at::Tensor one = at::ones({1});
  std::vector<double> times;
  for (int i = 0; i < count + 50; ++i) {
    const absl::Time start = absl::Now();
    MustBeTwo(server.Call(add(one, one)));
    if (i >= 50) times.push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
  }
  return bench::Median(times);
}

// Calls a second, as the peer counts them.
double Rate(const rpc::Peer& server, const AddFunction& add, size_t window, int count) {
  const at::Tensor one = at::ones({1});
  std::deque<rpc::Future<at::Tensor>> calls;
  const absl::Time start = absl::Now();
  const auto take = [&calls] {
    MustBeTwo(std::move(calls.front()).Wait(absl::Seconds(60)));
    calls.pop_front();
  };
  for (int i = 0; i < count; ++i) {
    if (calls.size() == window) take();
    calls.push_back(server.Async(add(one, one)));
  }
  while (!calls.empty()) take();
  return count / absl::ToDoubleSeconds(absl::Now() - start);
}

int Main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--serve") return Serve();
  const bench::Settings settings = bench::ParseSettings(argc, argv);
  const char* python = std::getenv("GW_PEER_PYTHON");
  if (python == nullptr) {
    std::fprintf(stderr, "add_peer_bench: no GW_PEER_PYTHON; run scripts/bench --peers\n");
    return 1;
  }
  bench::PrintMachine();
  bench::PeerProcess server_process({argv[0], "--serve"});
  bench::PeerProcess torch({python, GW_TORCH_RPC_PEER});
  if (!server_process.ok() || !torch.ok()) return 1;
  rpc::AgentOptions options;
  options.name = "client";
  options.peers = absl::StrCat("server=", server_process.AskText("address"));
  const auto agent = MustStart(std::move(options));
  const absl::StatusOr<rpc::Peer> server = agent->Connect("server");
  if (!server.ok()) {
    std::cerr << "add_peer_bench: " << server.status() << "\n";
    return 1;
  }
  const int trips = settings.quick ? 50 : 1000;
  const int calls = settings.quick ? 500 : 50'000;
  const auto compare = [&](const std::string& name, const AddFunction& add) {
    bench::Compare(
        settings, absl::StrCat(name, ".roundtrip").c_str(), "us",
        [&] { return RoundTrip(*server, add, trips); },
        [&] { return torch.Ask(absl::StrCat("roundtrip ", trips)); });
    bench::Compare(
        settings, absl::StrCat(name, ".rate64").c_str(), "calls/s",
        [&] { return Rate(*server, add, 64, calls); },
        [&] { return torch.Ask(absl::StrCat("rate 64 ", calls / 20)); });
  };
  compare("add", kAdd);
  compare("add_on_executor", kAddOnExecutor);
  return 0;
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
