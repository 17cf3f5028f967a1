#include "rpc/transport/faulty/faulty_connection.h"

#include <utility>

namespace gradwire::rpc {
namespace {

size_t Index(Direction direction) { return direction == Direction::kOut ? 0 : 1; }
size_t Index(Lane lane) { return lane == Lane::kControl ? 0 : 1; }

// Seeds of neighbouring connections and directions differ in one bit; SeededRng mixes them.
uint64_t SeedOf(FaultyState& state, Direction direction) {
  MutexLock lock(state.mu);
  return state.seed + 2 * state.connection_count + Index(direction);
}

absl::Status CutStatus() { return absl::UnavailableError("cut by the faulty transport"); }

}  // namespace

// ---- what a transport's connections share ----

FaultyState::Fate FaultyState::Decide(Direction direction, Rng& rng, bool may_hold) {
  const double dice = rng.Uniform();  // one number a message, whatever the rates are
  MutexLock lock(mu);
  const FaultRates& rate = rates[Index(direction)];
  if (dice < rate.drop) {
    ++counts.dropped;
    return Fate::kDrop;
  }
  if (dice < rate.drop + rate.duplicate) {
    ++counts.duplicated;
    return Fate::kDuplicate;
  }
  if (may_hold && dice < rate.drop + rate.duplicate + rate.reorder) return Fate::kHold;
  return Fate::kPass;
}

FaultyState::Cut FaultyState::Passed(Direction direction, Lane lane, uint64_t size_bytes) {
  MutexLock lock(mu);
  CutPlan& plan = cuts[Index(direction)][Index(lane)];
  if (plan.messages_left == 0u || plan.bytes_left == 0u) {
    plan = CutPlan();
    ++counts.cut;
    return Cut::kBefore;
  }
  ++counts.passed;
  const bool last_message = plan.messages_left == 1u;
  if (plan.messages_left.has_value()) --*plan.messages_left;
  const bool last_byte = plan.bytes_left.has_value() && *plan.bytes_left <= size_bytes;
  if (plan.bytes_left.has_value() && !last_byte) *plan.bytes_left -= size_bytes;
  if (!last_message && !last_byte) return Cut::kNo;
  plan = CutPlan();
  ++counts.cut;
  return Cut::kAfter;
}

void FaultyState::Overtaken() {
  MutexLock lock(mu);
  ++counts.reordered;
}

// ---- one connection ----

FaultyLink::FaultyLink(std::shared_ptr<FaultyState> state, Lane lane)
    : state_(std::move(state)),
      lane_(lane),
      out_rng_(SeedOf(*state_, Direction::kOut)),
      in_rng_(SeedOf(*state_, Direction::kIn)) {
  MutexLock lock(state_->mu);
  ++state_->connection_count;
}

void FaultyLink::SetBase(std::shared_ptr<Connection> base) {
  bool over = false;
  {
    MutexLock lock(mu_);
    base_ = base;
    over = over_;
  }
  if (over) base->Close(CutStatus());
}

void FaultyLink::SetHandler(std::shared_ptr<ConnectionHandler> handler) {
  MutexLock lock(mu_);
  handler_ = std::move(handler);
}

std::shared_ptr<ConnectionHandler> FaultyLink::handler() {
  MutexLock lock(mu_);
  return over_ ? nullptr : handler_;
}

bool FaultyLink::NextMessage(BufferList& out) {
  const std::shared_ptr<ConnectionHandler> handler = this->handler();
  if (handler == nullptr) return false;
  while (true) {
    bool closing = false;
    {
      MutexLock lock(mu_);
      closing = closing_;
    }
    if (closing) {
      out_next_.clear();
      out_held_.reset();
    }
    if (!out_next_.empty()) {
      out = std::move(out_next_.front());
      out_next_.pop_front();
    } else {
      out.Clear();
      if (!handler->NextMessage(out)) return false;
      {
        // Closed meanwhile: what was just handed out is the last word.
        MutexLock lock(mu_);
        closing = closing_;
      }
      switch (closing ? FaultyState::Fate::kPass
                      : state_->Decide(Direction::kOut, out_rng_, !out_held_.has_value())) {
        case FaultyState::Fate::kDrop:
          continue;
        case FaultyState::Fate::kHold:
          std::swap(out_held_.emplace(), out);
          continue;
        case FaultyState::Fate::kDuplicate:
          out_next_.push_back(out);
          break;
        case FaultyState::Fate::kPass:
          break;
      }
      if (out_held_.has_value()) {
        state_->Overtaken();
        out_next_.push_back(*std::exchange(out_held_, std::nullopt));
      }
    }
    switch (state_->Passed(Direction::kOut, lane_, out.size_bytes())) {
      case FaultyState::Cut::kNo:
        return true;
      case FaultyState::Cut::kAfter:
        CutNow();
        return true;
      case FaultyState::Cut::kBefore:
        CutNow();
        return false;
    }
  }
}

bool FaultyLink::DeliverIn(const std::shared_ptr<ConnectionHandler>& to, BufferList message) {
  switch (state_->Passed(Direction::kIn, lane_, message.size_bytes())) {
    case FaultyState::Cut::kNo:
      to->OnMessage(std::move(message));
      return handler() != nullptr;
    case FaultyState::Cut::kAfter:
      to->OnMessage(std::move(message));
      CutNow();
      return false;
    case FaultyState::Cut::kBefore:
      CutNow();
      return false;
  }
  return false;
}

void FaultyLink::OnMessage(BufferList message) {
  const std::shared_ptr<ConnectionHandler> handler = this->handler();
  if (handler == nullptr) return;
  std::optional<BufferList> copy;
  switch (state_->Decide(Direction::kIn, in_rng_, !in_held_.has_value())) {
    case FaultyState::Fate::kDrop:
      return;
    case FaultyState::Fate::kHold:
      in_held_ = std::move(message);
      return;
    case FaultyState::Fate::kDuplicate:
      copy = message;
      break;
    case FaultyState::Fate::kPass:
      break;
  }
  if (!DeliverIn(handler, std::move(message))) return;
  if (copy.has_value() && !DeliverIn(handler, *std::move(copy))) return;
  if (!in_held_.has_value()) return;
  state_->Overtaken();
  DeliverIn(handler, *std::exchange(in_held_, std::nullopt));
}

void FaultyLink::OnClosed(absl::Status why) {
  std::shared_ptr<ConnectionHandler> handler;
  std::shared_ptr<Connection> base;
  {
    MutexLock lock(mu_);
    handler = std::move(handler_);
    base = base_;
  }
  if (handler != nullptr) handler->OnClosed(std::move(why));
}

void FaultyLink::CutNow() {
  std::shared_ptr<Connection> base;
  {
    MutexLock lock(mu_);
    over_ = true;
    base = base_;
  }
  if (base != nullptr) base->Close(CutStatus());
}

void FaultyLink::WantWrite() {
  std::shared_ptr<Connection> base;
  {
    MutexLock lock(mu_);
    base = base_;
  }
  if (base != nullptr) base->WantWrite();
}

void FaultyLink::Close(absl::Status why) {
  std::shared_ptr<Connection> base;
  {
    MutexLock lock(mu_);
    over_ = true;
    base = base_;
  }
  if (base != nullptr) base->Close(std::move(why));
}

void FaultyLink::CloseAfterWrites(absl::Status why, absl::Duration linger) {
  std::shared_ptr<Connection> base;
  {
    MutexLock lock(mu_);
    closing_ = true;
    base = base_;
  }
  if (base != nullptr) base->CloseAfterWrites(std::move(why), linger);
}

std::shared_ptr<WaitDriver> FaultyLink::wait_driver() {
  MutexLock lock(mu_);
  return base_ == nullptr ? nullptr : base_->wait_driver();
}

}  // namespace gradwire::rpc
