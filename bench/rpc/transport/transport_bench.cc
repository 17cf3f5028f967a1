// The gRPC transport over TCP loopback between two processes, against plain gRPC and raw TCP in the
// same run: round trips on the control lane, a stream of 1 MiB messages on the bulk lane.
//
// The same program is the server when started with --serve: it echoes on the control lane, counts
// and copies out what comes on the bulk lane, and prints its addresses.
#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/harness.h"
#include "bench/peer_process.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "rpc/transport/grpc/grpc_transport.h"

namespace gradwire::rpc {
namespace {

constexpr size_t kMessageBytes = 1u << 20;
constexpr size_t kStreamMessages = 256;  // a stream is one batch of these, then one byte back
constexpr int kWarmUp = 50;

absl::Time Now() { return Clock::Real().Now(); }

// ---- ours ----

// Sends what is queued, one buffer a message; hands what comes to a function.
class End final : public ConnectionHandler {
 public:
  std::function<void(End&, const BufferList&)> on_message;
  bool dialled = false;  // an end that nobody asked for spoils the measurement

  void Attach(std::shared_ptr<Connection> connection) {
    MutexLock lock(mu_);
    connection_ = std::move(connection);
  }
  void Send(Buffer message, size_t times = 1) {
    std::shared_ptr<Connection> connection;
    {
      MutexLock lock(mu_);
      for (size_t i = 0; i < times; ++i) outgoing_.push_back(message);
      connection = connection_;
    }
    connection->WantWrite();
  }
  bool NextMessage(BufferList& out) override {
    MutexLock lock(mu_);
    if (outgoing_.empty()) return false;
    out.Append(std::move(outgoing_.front()));
    outgoing_.pop_front();
    return true;
  }
  void OnMessage(BufferList message) override { on_message(*this, message); }
  void OnClosed(absl::Status why) override {
    MutexLock lock(mu_);
    connection_ = nullptr;
    if (!dialled || why.code() == absl::StatusCode::kCancelled) return;
    std::cerr << "transport_bench: " << why << "\n";
    _exit(1);
  }

 private:
  Mutex mu_;
  std::shared_ptr<Connection> connection_ GW_GUARDED_BY(mu_);
  std::deque<Buffer> outgoing_ GW_GUARDED_BY(mu_);
};

// The calling thread waits for a polling thread.
class Done {
 public:
  void Set() {
    MutexLock lock(mu_);
    set_ = true;
    changed_.NotifyOne();
  }
  void Wait() {
    MutexLock lock(mu_);
    while (!set_) {
      if (!changed_.WaitFor(mu_, absl::Seconds(60))) std::exit(1);
    }
    set_ = false;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool set_ GW_GUARDED_BY(mu_) = false;
};

// p50 in microseconds; each answer sends the next question from inside OnMessage.
double OurRoundTrip(Transport& transport, const std::string& address, int count) {
  Done done;
  std::vector<double> times;
  int trips = 0;
  absl::Time start;
  const Buffer question = Buffer::FromString(std::string(64, 'x'));
  auto end = std::make_shared<End>();
  end->dialled = true;
  end->on_message = [&](End& self, const BufferList&) {
    const absl::Time now = Now();
    if (++trips > kWarmUp) times.push_back(absl::ToDoubleMicroseconds(now - start));
    if (trips == count + kWarmUp) return done.Set();
    start = now;
    self.Send(question);
  };
  auto connection = transport.Dial(address, Lane::kControl, end, absl::Seconds(10));
  end->Attach(connection);
  start = Now();
  end->Send(question);
  done.Wait();
  connection->Close(absl::CancelledError("done"));
  return bench::Median(times);
}

// GB/s of batches of 1 MiB messages on one connection.
double OurStream(Transport& transport, const std::string& address, int batches) {
  static std::string* const block = new std::string(kMessageBytes, 'a');
  Done done;
  auto end = std::make_shared<End>();
  end->dialled = true;
  end->on_message = [&](End&, const BufferList&) { done.Set(); };
  auto connection = transport.Dial(address, Lane::kBulk, end, absl::Seconds(10));
  end->Attach(connection);
  std::vector<double> rates;
  for (int i = 0; i < batches + 1; ++i) {
    const absl::Time start = Now();
    // The owner is the block that is never freed; without one the transport would have to copy.
    end->Send(Buffer(AsBytes(*block), nullptr), kStreamMessages);
    done.Wait();
    const double seconds = absl::ToDoubleSeconds(Now() - start);
    if (i > 0) rates.push_back(kMessageBytes * kStreamMessages / seconds / 1e9);
  }
  connection->Close(absl::CancelledError("done"));
  return bench::Median(rates);
}

std::shared_ptr<ConnectionHandler> Accept(std::shared_ptr<Connection> connection, Lane lane) {
  auto end = std::make_shared<End>();
  end->Attach(std::move(connection));
  if (lane == Lane::kControl) {
    end->on_message = [](End& self, const BufferList& message) { self.Send(message.Flatten()); };
    return end;
  }
  // As a receiver of tensors does: each message is copied to its place.
  auto place = std::make_shared<std::vector<char>>(kMessageBytes * kStreamMessages, 'z');
  end->on_message = [place, count = size_t{0}](End& self, const BufferList& message) mutable {
    char* to = place->data() + kMessageBytes * count;
    for (const Buffer& piece : message.pieces()) {
      std::memcpy(to, piece.data(), piece.size());
      to += piece.size();
    }
    if (++count < kStreamMessages) return;
    count = 0;
    self.Send(Buffer::FromString("!"));
  };
  return end;
}

// ---- raw TCP: blocking writev and readv of 1 MiB, one byte back after a batch ----

bool MoveAll(ssize_t (*move)(int, const iovec*, int), int fd, char* data, size_t size) {
  while (size > 0) {
    const iovec piece{data, std::min(size, kMessageBytes)};
    const ssize_t n = move(fd, &piece, 1);
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

void ServeTcp(int* port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, 8) != 0) return;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  *port = ntohs(address.sin_port);
  std::thread([fd] {
    std::vector<char> place(kMessageBytes * kStreamMessages, 'z');
    const int client = accept(fd, nullptr, nullptr);
    char answer = '!';
    while (client >= 0 && MoveAll(readv, client, place.data(), place.size())) {
      if (!MoveAll(writev, client, &answer, 1)) break;
    }
  }).detach();
}

int ConnectTcp(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) std::exit(1);
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  return fd;
}

double TcpStream(int fd, int batches) {
  static std::vector<char>* const block = new std::vector<char>(kMessageBytes, 'a');
  std::vector<double> rates;
  for (int i = 0; i < batches + 1; ++i) {
    const absl::Time start = Now();
    for (size_t k = 0; k < kStreamMessages; ++k) {
      if (!MoveAll(writev, fd, block->data(), block->size())) std::exit(1);
    }
    char answer = 0;
    if (!MoveAll(readv, fd, &answer, 1)) std::exit(1);
    const double seconds = absl::ToDoubleSeconds(Now() - start);
    if (i > 0) rates.push_back(kMessageBytes * kStreamMessages / seconds / 1e9);
  }
  return bench::Median(rates);
}

// ---- the two processes ----

std::unique_ptr<Listener> MustListen(Transport& transport) {
  auto listener = transport.Listen("127.0.0.1:0", Accept);
  if (listener.ok()) return *std::move(listener);
  std::cerr << "transport_bench: " << listener.status() << "\n";
  std::exit(1);
}

int Serve() {
  auto spinning = MakeGrpcTransport(), sleeping = MakeGrpcTransport({.spin = absl::ZeroDuration()});
  auto spinning_listener = MustListen(*spinning), sleeping_listener = MustListen(*sleeping);
  int tcp_port = 0;
  ServeTcp(&tcp_port);
  std::cout << spinning_listener->address() << " " << sleeping_listener->address() << " "
            << tcp_port << std::endl;
  std::string line;
  std::getline(std::cin, line);  // until the client closes our input
  _exit(0);
}

int Main(int argc, char** argv) {
  // Without this glibc gives memory back and every message faults its pages in again.
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

  auto spinning = MakeGrpcTransport(), sleeping = MakeGrpcTransport({.spin = absl::ZeroDuration()});
  const int tcp = ConnectTcp(tcp_port);
  const int trips = settings.quick ? 50 : 2000;
  const int batches = settings.quick ? 1 : 4;
  const auto peer_trip = [&] { return grpc.Ask(absl::StrCat("roundtrip ", trips)); };
  bench::Compare(
      settings, "transport.echo.control", "us",
      [&] { return OurRoundTrip(*spinning, spinning_address, trips); }, peer_trip);
  bench::Compare(
      settings, "transport.echo.control.spin0", "us",
      [&] { return OurRoundTrip(*sleeping, sleeping_address, trips); }, peer_trip);
  bench::Compare(
      settings, "transport.stream.bulk.1MiB", "GB/s",
      [&] { return OurStream(*spinning, spinning_address, batches); },
      [&] { return TcpStream(tcp, batches); });
  close(tcp);
  close(to[1]);
  waitpid(child, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace gradwire::rpc

int main(int argc, char** argv) { return gradwire::rpc::Main(argc, argv); }
