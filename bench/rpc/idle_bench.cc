// What a connected agent costs while nobody calls it: its share of a core and its resident memory,
// without libtorch and with it. Figures, not ratios.
//
// The same program is the idle agent when started with --serve; the one with libtorch is
// add_peer_bench --serve.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/harness.h"
#include "bench/peer_process.h"
#include "rpc/agent.h"

namespace gradwire {
namespace {

constexpr rpc::Function<int64_t(int64_t)> kEcho{"bench.echo"};

std::unique_ptr<rpc::Agent> MustStart(rpc::AgentOptions options) {
  auto agent = rpc::Agent::Start(std::move(options));
  if (agent.ok()) return *std::move(agent);
  std::cerr << "idle_bench: " << agent.status() << "\n";
  std::exit(1);
}

int Serve() {
  rpc::AgentOptions options;
  options.name = "server";
  options.functions.Bind(kEcho, [](int64_t x) { return x; });
  const auto agent = MustStart(std::move(options));
  std::printf("ready\n%s\n", agent->address().c_str());
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  return 0;
}

// Seconds of CPU that a process has used.
double CpuSeconds(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text);
  // Fields 14 and 15, counted from the command's closing parenthesis (2).
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double ResidentMegabytes(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/statm"));
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

// One agent process and one connection to it, both idle but for the signs of life.
void Measure(const bench::Settings& settings, const std::string& name,
             const std::vector<std::string>& command) {
  bench::PeerProcess process(command);
  if (!process.ok()) std::exit(1);
  rpc::AgentOptions options;
  options.name = "client";
  options.peers = absl::StrCat("server=", process.AskText("address"));
  const auto agent = MustStart(std::move(options));
  if (absl::Status connected = agent->Connect("server").status(); !connected.ok()) {
    std::cerr << "idle_bench: " << connected << "\n";
    std::exit(1);
  }
  const double seconds = settings.quick ? 0.2 : 4;
  bench::Report(settings, absl::StrCat(name, ".cpu").c_str(), "% of a core", [&] {
    const double before = CpuSeconds(process.pid());
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return (CpuSeconds(process.pid()) - before) / seconds * 100;
  });
  bench::Report(settings, absl::StrCat(name, ".rss").c_str(), "MB",
                [&] { return ResidentMegabytes(process.pid()); });
}

int Main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--serve") return Serve();
  const bench::Settings settings = bench::ParseSettings(argc, argv);
  bench::PrintMachine();
  Measure(settings, "idle", {argv[0], "--serve"});
#ifdef GW_TORCH_AGENT
  Measure(settings, "idle.libtorch", {GW_TORCH_AGENT, "--serve"});
#endif
  return 0;
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
