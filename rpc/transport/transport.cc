#include "rpc/transport/transport.h"

namespace gradwire::rpc {

const char* LaneName(Lane lane) { return lane == Lane::kControl ? "control" : "bulk"; }

}  // namespace gradwire::rpc
