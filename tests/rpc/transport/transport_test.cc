// The suite over the transports that need no sockets.
#include "tests/rpc/transport/worlds.h"

namespace gradwire::rpc::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Socketless, TransportSuite,
    ::testing::Values(
        WorldCase{"Inproc", [] { return std::make_unique<InprocWorld>(); }},
        WorldCase{"Sim", [] { return std::make_unique<SimWorld>(); }},
        WorldCase{"FaultyInproc",
                  [] { return std::make_unique<FaultyWorld>(std::make_unique<InprocWorld>()); }},
        WorldCase{"FaultySim",
                  [] { return std::make_unique<FaultyWorld>(std::make_unique<SimWorld>()); }}),
    WorldCaseName);

}  // namespace
}  // namespace gradwire::rpc::testing
