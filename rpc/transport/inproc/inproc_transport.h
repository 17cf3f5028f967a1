// The transport between agents of one process: no sockets, no copies, real time.
//
//   auto hub = std::make_shared<InprocHub>();
//   auto a = MakeInprocTransport(hub), b = MakeInprocTransport(hub);
//   b->Listen("inproc:b", accept);  a->Dial("inproc:b", Lane::kControl, handler, timeout);
//
// Addresses:     "inproc:NAME", unique in a hub; "inproc:" when listening = any free name.
// Threads:       one polling thread a transport, for all its connections of both lanes: an
//                OnMessage that takes long holds up the others of the same transport.
//                Back-pressure: a connection holds one message that its receiver has not yet begun
//                to look at.
// Errors:        as in transport.h; the peers of a destroyed transport see a cut.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "rpc/transport/transport.h"

namespace gradwire::rpc {

class InprocListener;

// Who listens where. Shared by the transports that can reach each other.
class InprocHub {
 private:
  friend class InprocListener;
  friend class InprocTransport;
  struct Accepting;

  Mutex mu_;
  uint64_t last_free_ GW_GUARDED_BY(mu_) = 0;
  std::map<std::string, std::shared_ptr<Accepting>> by_name_ GW_GUARDED_BY(mu_);
};

// `clock` null: the process's clock, for the limits on dialling and lingering.
std::unique_ptr<Transport> MakeInprocTransport(std::shared_ptr<InprocHub> hub,
                                               Clock* clock = nullptr);

}  // namespace gradwire::rpc
