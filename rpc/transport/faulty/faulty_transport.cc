#include "rpc/transport/faulty/faulty_transport.h"

#include <utility>

#include "rpc/transport/faulty/faulty_connection.h"

namespace gradwire::rpc {

FaultyTransport::FaultyTransport(Transport* base, uint64_t seed)
    : base_(base), state_(std::make_shared<FaultyState>(seed)) {}

FaultyTransport::~FaultyTransport() = default;

absl::StatusOr<std::unique_ptr<Listener>> FaultyTransport::Listen(const std::string& address,
                                                                  AcceptFn accept) {
  return base_->Listen(
      address,
      [state = state_, accept = std::move(accept)](
          std::shared_ptr<Connection> base, Lane lane) -> std::shared_ptr<ConnectionHandler> {
        auto link = std::make_shared<FaultyLink>(state, lane);
        link->SetBase(base);
        std::shared_ptr<ConnectionHandler> handler =
            accept(std::make_shared<FaultyConnection>(link, base->peer_address()), lane);
        if (handler == nullptr) return nullptr;
        link->SetHandler(std::move(handler));
        return link;
      });
}

std::shared_ptr<Connection> FaultyTransport::Dial(const std::string& address, Lane lane,
                                                  std::shared_ptr<ConnectionHandler> handler,
                                                  absl::Duration timeout) {
  auto link = std::make_shared<FaultyLink>(state_, lane);
  link->SetHandler(std::move(handler));
  std::shared_ptr<Connection> base = base_->Dial(address, lane, link, timeout);
  std::string peer = base->peer_address();
  link->SetBase(std::move(base));
  return std::make_shared<FaultyConnection>(std::move(link), std::move(peer));
}

void FaultyTransport::SetRates(Direction direction, FaultRates rates) {
  MutexLock lock(state_->mu);
  state_->rates[direction == Direction::kOut ? 0 : 1] = rates;
}

void FaultyTransport::CutAfterMessages(Direction direction, Lane lane, uint64_t count) {
  MutexLock lock(state_->mu);
  state_->cuts[direction == Direction::kOut ? 0 : 1][lane == Lane::kControl ? 0 : 1] = {
      .messages_left = count, .bytes_left = {}};
}

void FaultyTransport::CutAfterBytes(Direction direction, Lane lane, uint64_t count_bytes) {
  MutexLock lock(state_->mu);
  state_->cuts[direction == Direction::kOut ? 0 : 1][lane == Lane::kControl ? 0 : 1] = {
      .messages_left = {}, .bytes_left = count_bytes};
}

FaultCounts FaultyTransport::counts() const {
  MutexLock lock(state_->mu);
  return state_->counts;
}

}  // namespace gradwire::rpc
