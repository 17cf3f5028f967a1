// Requests of any bytes to every verb of a server with two tables: an answer or an error each time,
// and the server goes on. The first byte chooses the verb, the second the owner count, the rest is
// the arguments' head.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/future.h"
#include "rpc/base/status.h"
#include "server/server.h"

namespace gradwire::server {
namespace {

class FuzzCall final : public rpc::CallInfo {
 public:
  const std::string& caller() const override { return name_; }
  Incarnation caller_incarnation() const override { return Incarnation{7}; }
  const std::string& function() const override { return name_; }
  absl::Time deadline() const override { return absl::InfiniteFuture(); }
  bool cancelled() const override { return cancelled_; }
  void OnCancel(absl::AnyInvocable<void()> fn) override { on_cancel_.push_back(std::move(fn)); }
  void Cancel() {
    cancelled_ = true;
    for (auto& fn : on_cancel_) fn();
    on_cancel_.clear();
  }

 private:
  const std::string name_ = "worker0";
  bool cancelled_ = false;
  std::vector<absl::AnyInvocable<void()>> on_cancel_;
};

class FuzzServer {
 public:
  explicit FuzzServer(size_t owners)
      : server_(*ParameterServer::Create(
            {.owner_count = owners, .memory_limit_bytes = size_t{16} << 20})) {
    server_->Bind(functions_);
    TableSpec rows{.name = "rows", .rule = {.name = "sgd"}, .dim = 2, .init = {}, .seed = 1};
    TableSpec dense{.name = "dense", .rule = {.name = "sgd"}, .element_counts = {4, 3}};
    CreateTableRequest request{.spec = rows};
    GW_CHECK(Call(0, Encode(request)).ok());
    request = {.spec = dense, .values = {Zeros(4), Zeros(3)}};
    GW_CHECK(Call(0, Encode(request)).ok());
  }

  // Ends the call by cancelling it where it waits for something that never comes.
  absl::StatusOr<rpc::Payload> Call(size_t function, std::string head) {
    const rpc::BoundFunction& bound = functions_.functions()[function];
    const auto call = std::make_shared<FuzzCall>();
    const auto promise = std::make_shared<Promise<rpc::Payload>>();
    Future<rpc::Payload> future = promise->future();
    rpc::ReceivedPayload arguments;
    arguments.head = Buffer::FromString(std::move(head));
    bound.handler(call, std::move(arguments), [promise](absl::StatusOr<rpc::Payload> outcome) {
      promise->Set(std::move(outcome));
    });
    absl::StatusOr<rpc::Payload> outcome = std::as_const(future).Wait(absl::Milliseconds(50));
    if (future.ready()) return outcome;
    call->Cancel();
    outcome = std::as_const(future).Wait(absl::Seconds(5));
    GW_CHECK(future.ready());
    return outcome;
  }
  size_t function_count() const { return functions_.functions().size(); }

 private:
  static rpc::TensorView Zeros(int64_t count) {
    rpc::TensorView view;
    view.layout = *rpc::TensorLayout::Make(rpc::DType::kFloat32, std::span(&count, 1));
    view.bytes = Buffer::FromString(std::string(static_cast<size_t>(count) * 4, '\0'));
    return view;
  }
  static std::string Encode(const CreateTableRequest& request) {
    rpc::PayloadWriter out(rpc::Sharing::kCopy);
    GW_CHECK(rpc::Codec<CreateTableRequest>::Encode(out, request).ok());
    return std::string(AsText(out.TakePayload().head.bytes()));
  }

  std::unique_ptr<ParameterServer> server_;
  rpc::Registry functions_;
};

}  // namespace
}  // namespace gradwire::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static gradwire::server::FuzzServer* const servers[] = {new gradwire::server::FuzzServer(1),
                                                          new gradwire::server::FuzzServer(3)};
  if (size < 2) return 0;
  gradwire::server::FuzzServer& server = *servers[data[1] % 2];
  (void)server
      .Call(data[0] % server.function_count(),
            std::string(reinterpret_cast<const char*>(data + 2), size - 2))
      .ok();
  return 0;
}
