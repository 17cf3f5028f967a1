// Plain gRPC as the peer of a bench: two processes on this machine, a unary echo of 64 bytes over
// TCP loopback, as gRPC's own examples do it.
//
// Prints "ready" and then answers each line of stdin with a number:
//   roundtrip N      p50 of N synchronous calls, one after the other, in us
//   rate WINDOW N    calls/s of N asynchronous calls with WINDOW in flight, one completion queue
// Ends at the end of stdin. The same program is the server when started with --serve.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/harness.h"
#include "bench/peer_process.h"
#include "echo_peer.grpc.pb.h"

namespace gradwire::bench {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

EchoMessage Question() {
  EchoMessage message;
  message.set_data(std::string(64, 'x'));
  return message;
}

class SyncEcho final : public EchoPeer::Service {
  grpc::Status Echo(grpc::ServerContext*, const EchoMessage* in, EchoMessage* out) override {
    out->set_data(in->data());
    return grpc::Status::OK;
  }
};

// One completion queue and thread, 64 calls posted.
class AsyncEcho {
 public:
  explicit AsyncEcho(int* port) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), port);
    builder.RegisterService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    for (int i = 0; i < 64; ++i) Post();
    std::thread([this] { Run(); }).detach();
  }

 private:
  struct Open {
    grpc::ServerContext context;
    EchoMessage request;
    grpc::ServerAsyncResponseWriter<EchoMessage> writer{&context};
    bool answered = false;
  };
  void Post() {
    auto* call = new Open;
    service_.RequestEcho(&call->context, &call->request, &call->writer, queue_.get(), queue_.get(),
                         call);
  }
  void Run() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
      auto* call = static_cast<Open*>(tag);
      if (!ok || call->answered) {
        delete call;
        continue;
      }
      Post();
      call->answered = true;
      EchoMessage out;
      out.set_data(call->request.data());
      call->writer.Finish(out, grpc::Status::OK, call);
    }
  }
  EchoPeer::AsyncService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
};

// Until the end of stdin.
int Serve(bool async) {
  SyncEcho sync;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<AsyncEcho> async_echo;
  if (async) {
    async_echo = std::make_unique<AsyncEcho>(&port);
  } else {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&sync);
    server = builder.BuildAndStart();
  }
  std::printf("ready\n%d\n", port);
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
  std::getline(std::cin, line);
  std::_Exit(0);
}

double RoundTrip(EchoPeer::Stub& stub, int count) {
  constexpr int kWarmUp = 50;
  std::vector<double> times;
  const EchoMessage in = Question();
  EchoMessage out;
  for (int i = 0; i < count + kWarmUp; ++i) {
    grpc::ClientContext context;
    const Clock::time_point start = Clock::now();
    if (!stub.Echo(&context, in, &out).ok()) std::exit(1);
    if (i >= kWarmUp) times.push_back(Seconds(start) * 1e6);
  }
  return Median(times);
}

double Rate(EchoPeer::Stub& stub, int window, int count) {
  struct Open {
    grpc::ClientContext context;
    EchoMessage reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<EchoMessage>> reader;
  };
  grpc::CompletionQueue queue;
  const EchoMessage in = Question();
  int started = 0, ended = 0;
  const auto start_one = [&] {
    auto* call = new Open;
    call->reader = stub.AsyncEcho(&call->context, in, &queue);
    call->reader->Finish(&call->reply, &call->status, call);
    ++started;
  };
  const Clock::time_point start = Clock::now();
  while (started < window) start_one();
  void* tag = nullptr;
  bool ok = false;
  while (ended < count && queue.Next(&tag, &ok)) {
    auto* call = static_cast<Open*>(tag);
    if (!call->status.ok()) std::exit(1);
    delete call;
    ++ended;
    if (started < count) start_one();
  }
  const double rate = count / Seconds(start);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return rate;
}

std::unique_ptr<EchoPeer::Stub> Connect(int port) {
  return EchoPeer::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
}

int Main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "--serve" || mode == "--serve-async") return Serve(mode == "--serve-async");
  PeerProcess sync({argv[0], "--serve"}), async({argv[0], "--serve-async"});
  if (!sync.ok() || !async.ok()) return 1;
  const auto sync_stub = Connect(static_cast<int>(sync.Ask("port")));
  const auto async_stub = Connect(static_cast<int>(async.Ask("port")));
  std::printf("ready\n");
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string what;
    int a = 0, b = 0;
    words >> what >> a >> b;
    if (what == "roundtrip" && a > 0) {
      std::printf("%f\n", RoundTrip(*sync_stub, a));
    } else if (what == "rate" && a > 0 && b > 0) {
      std::printf("%f\n", Rate(*async_stub, a, b));
    } else {
      std::fprintf(stderr, "grpc_peer: '%s' is neither \"roundtrip N\" nor \"rate WINDOW N\"\n",
                   line.c_str());
      return 1;
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gradwire::bench

int main(int argc, char** argv) { return gradwire::bench::Main(argc, argv); }
