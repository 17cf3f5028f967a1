// Calls over TCP loopback between two processes, against plain gRPC and raw TCP in the same run.
//
// The same program is the server when started with --serve: it runs our agents and a raw TCP echo,
// and prints their addresses. Plain gRPC is bench/peers/grpc_peer.cc.
#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/harness.h"
#include "bench/peer_process.h"
#include "rpc/agent/node.h"
#include "rpc/base/buffer_pool.h"
#include "rpc/base/future.h"
#include "rpc/transport/grpc/grpc_transport.h"

namespace gradwire::rpc {
namespace {

constexpr size_t kLarge = 64u << 20;

// ---- ours ----

struct OurAgent {
  OurAgent(const std::string& name, absl::Duration spin, std::vector<BoundFunction> functions)
      : transport(MakeGrpcTransport({.spin = spin})),
        executor({.name = "bench", .slot_count = 2}),
        pool(Clock::Real()),
        spin(spin) {
    NodeOptions options;
    options.name = name;
    options.incarnation = Incarnation{static_cast<uint64_t>(Clock::Real().WallNowNanos())};
    options.functions = *FunctionTable::Build(std::move(functions));
    options.transport = transport.get();
    options.clock = &Clock::Real();
    options.rng = &Rng::Secure();
    options.executor = &executor;
    options.pool = &pool;
    node = *Node::Create(std::move(options));
  }
  std::unique_ptr<Transport> transport;
  ThreadPool executor;
  BufferPool pool;
  absl::Duration spin;
  std::unique_ptr<Node> node;
};

BoundFunction Function(std::string name, Run run, std::function<Payload(ReceivedPayload)> fn) {
  BoundFunction bound;
  bound.name = std::move(name);
  bound.declaration = "bytes(bytes)";
  bound.place = "call_bench.cc";
  bound.run = run;
  bound.handler = [fn](std::shared_ptr<CallInfo>, ReceivedPayload arguments, ReplyFn reply) {
    reply(fn(std::move(arguments)));
  };
  return bound;
}

std::vector<BoundFunction> Functions() {
  const auto echo = [](ReceivedPayload arguments) {
    Payload payload;
    payload.head = arguments.head;
    return payload;
  };
  static std::string* const large = new std::string(kLarge, 'r');
  return {Function("echo.inline", Run::kInline, echo), Function("echo", Run::kExecutor, echo),
          Function("sink", Run::kExecutor, [](ReceivedPayload) { return Payload(); }),
          Function("source", Run::kExecutor, [](ReceivedPayload) {
            Payload payload;
            payload.attachments.push_back(Buffer(AsBytes(*large), nullptr));
            return payload;
          })};
}

Future<size_t> Call(OurAgent& agent, const FunctionId* function, Payload payload) {
  auto promise = std::make_shared<Promise<size_t>>();
  Future<size_t> future = promise->future();
  const CallHandle handle =
      agent.node->StartCall("server", function, std::move(payload), {},
                            [promise](absl::StatusOr<ReceivedPayload> outcome) {
                              if (outcome.ok()) {
                                promise->Set(outcome->size_bytes());
                              } else {
                                promise->Set(outcome.status());
                              }
                            });
  promise->SetWaitDriver(handle.wait_driver());
  return future;
}

double Micros(absl::Duration d) { return absl::ToDoubleMicroseconds(d); }

void MustBeOk(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << "call_bench: " << status << "\n";
  std::exit(1);
}

// p50 of round trips one after the other, in microseconds.
double OurRoundTrip(OurAgent& agent, const char* name, int count) {
  const FunctionId* function = agent.node->Intern(name, "bytes(bytes)");
  std::vector<double> times;
  for (int i = 0; i < count + 50; ++i) {
    Payload payload;
    payload.head = Buffer::FromString(std::string(64, 'x'));
    const absl::Time start = absl::Now();
    MustBeOk(Call(agent, function, std::move(payload)).Wait(absl::Seconds(10)).status());
    if (i >= 50) times.push_back(Micros(absl::Now() - start));
  }
  return bench::Median(times);
}

// Calls a second with `in_flight` of them open.
double OurRate(OurAgent& agent, const char* name, int in_flight, int count) {
  const FunctionId* function = agent.node->Intern(name, "bytes(bytes)");
  struct Shared {
    std::atomic<int> left, open;
    Promise<size_t> done;
  };
  auto shared = std::make_shared<Shared>();
  shared->left = count;
  shared->open = in_flight;
  Future<size_t> done = shared->done.future();
  std::function<void()> next = [&agent, function, shared, &next] {
    if (shared->left.fetch_sub(1) <= 0) {
      if (shared->open.fetch_sub(1) == 1) shared->done.Set(size_t{0});
      return;
    }
    Payload payload;
    payload.head = Buffer::FromString(std::string(64, 'x'));
    agent.node->StartCall("server", function, std::move(payload), {},
                          [&next](absl::StatusOr<ReceivedPayload> outcome) {
                            MustBeOk(outcome.status());
                            next();
                          });
  };
  const absl::Time start = absl::Now();
  for (int i = 0; i < in_flight; ++i) next();
  MustBeOk(done.Wait(absl::Seconds(60)).status());
  return count / absl::ToDoubleSeconds(absl::Now() - start);
}

// GB/s of 64 MiB as an argument or as a result.
double OurLarge(OurAgent& agent, bool as_argument, int count) {
  static std::string* const large = new std::string(kLarge, 'a');
  const FunctionId* function = agent.node->Intern(as_argument ? "sink" : "source", "bytes(bytes)");
  std::vector<double> rates;
  for (int i = 0; i < count + 3; ++i) {
    Payload payload;
    if (as_argument) payload.attachments.push_back(Buffer(AsBytes(*large), nullptr));
    const absl::Time start = absl::Now();
    MustBeOk(Call(agent, function, std::move(payload)).Wait(absl::Seconds(60)).status());
    if (i >= 3) rates.push_back(kLarge / absl::ToDoubleSeconds(absl::Now() - start) / 1e9);
  }
  return bench::Median(rates);
}

// ---- raw TCP: 1 byte of command, then 64 MiB that way or back, then 1 byte ----

bool WriteAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, data, std::min<size_t>(size, 1 << 20));
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}
bool ReadAll(int fd, char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = read(fd, data, std::min<size_t>(size, 1 << 20));
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

int ServeTcp(int* port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, 8) != 0) return -1;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  *port = ntohs(address.sin_port);
  std::thread([fd] {
    std::vector<char> buffer(kLarge, 'z');
    while (true) {
      const int client = accept(fd, nullptr, nullptr);
      if (client < 0) return;
      char command = 0;
      while (ReadAll(client, &command, 1)) {
        if (command == 'p' && !ReadAll(client, buffer.data(), kLarge)) break;
        if (command == 'g' && !WriteAll(client, buffer.data(), kLarge)) break;
        if (!WriteAll(client, &command, 1)) break;
      }
      close(client);
    }
  }).detach();
  return fd;
}

double TcpLarge(int fd, char command, int count) {
  static std::vector<char>* const buffer = new std::vector<char>(kLarge, 'q');
  std::vector<double> rates;
  for (int i = 0; i < count + 1; ++i) {
    const absl::Time start = absl::Now();
    char answer = 0;
    if (!WriteAll(fd, &command, 1)) std::exit(1);
    if (command == 'p' && !WriteAll(fd, buffer->data(), kLarge)) std::exit(1);
    if (command == 'g' && !ReadAll(fd, buffer->data(), kLarge)) std::exit(1);
    if (!ReadAll(fd, &answer, 1)) std::exit(1);
    if (i >= 1) rates.push_back(kLarge / absl::ToDoubleSeconds(absl::Now() - start) / 1e9);
  }
  return bench::Median(rates);
}

// ---- the two processes ----

int Serve() {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  OurAgent spinning("server", absl::Microseconds(30), Functions());
  OurAgent sleeping("server", absl::ZeroDuration(), Functions());
  int tcp_port = 0;
  ServeTcp(&tcp_port);
  std::cout << *spinning.node->Listen("127.0.0.1:0") << " " << *sleeping.node->Listen("127.0.0.1:0")
            << " " << tcp_port << std::endl;
  std::string line;
  std::getline(std::cin, line);  // until the client closes our input
  _exit(0);
}

int Main(int argc, char** argv) {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
  if (argc > 1 && std::string(argv[1]) == "--serve") return Serve();
  const bench::Settings settings = bench::ParseSettings(argc, argv);
  bench::PrintMachine();
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    close(to[1]);
    close(from[0]);
    execl("/proc/self/exe", argv[0], "--serve", nullptr);
    _exit(1);
  }
  close(to[0]);
  close(from[1]);
  std::string line;
  char c = 0;
  while (read(from[0], &c, 1) == 1 && c != '\n') line += c;
  std::istringstream words(line);
  std::string spinning_address, sleeping_address;
  int tcp_port = 0;
  words >> spinning_address >> sleeping_address >> tcp_port;
  bench::PeerProcess grpc({GW_GRPC_PEER});
  if (!grpc.ok()) return 1;

  OurAgent spinning("client", absl::Microseconds(30), {}),
      sleeping("client", absl::ZeroDuration(), {});
  MustBeOk(spinning.node->AddPeer("server", spinning_address));
  MustBeOk(sleeping.node->AddPeer("server", sleeping_address));
  const int tcp = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(tcp_port));
  if (connect(tcp, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return 1;
  const int one = 1;
  setsockopt(tcp, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

  const int trips = settings.quick ? 50 : 1000;
  const int calls = settings.quick ? 2000 : 100'000;
  const int large = settings.quick ? 1 : 5;
  const auto peer_trip = [&] { return grpc.Ask(absl::StrCat("roundtrip ", trips)); };
  bench::Compare(
      settings, "call.inline.roundtrip", "us",
      [&] { return OurRoundTrip(spinning, "echo.inline", trips); }, peer_trip);
  bench::Compare(
      settings, "call.inline.roundtrip.spin0", "us",
      [&] { return OurRoundTrip(sleeping, "echo.inline", trips); }, peer_trip);
  bench::Compare(
      settings, "call.executor.roundtrip", "us",
      [&] { return OurRoundTrip(spinning, "echo", trips); }, peer_trip);
  bench::Compare(
      settings, "call.inline.rate64", "calls/s",
      [&] { return OurRate(spinning, "echo.inline", 64, calls); },
      [&] { return grpc.Ask(absl::StrCat("rate 64 ", calls / 4)); });
  bench::Compare(
      settings, "call.argument.64MiB", "GB/s", [&] { return OurLarge(spinning, true, large); },
      [&] { return TcpLarge(tcp, 'p', large); });
  bench::Compare(
      settings, "call.result.64MiB", "GB/s", [&] { return OurLarge(spinning, false, large); },
      [&] { return TcpLarge(tcp, 'g', large); });
  close(to[1]);
  waitpid(child, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace gradwire::rpc

int main(int argc, char** argv) { return gradwire::rpc::Main(argc, argv); }
