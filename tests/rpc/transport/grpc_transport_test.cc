// The suite over gRPC, bare and behind the faulty wrapper.
#include "tests/rpc/transport/faulty_cases.h"
#include "tests/rpc/transport/grpc_world.h"

namespace gradwire::rpc::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Sockets, TransportSuite,
    ::testing::Values(
        WorldCase{"Grpc", [] { return std::make_unique<GrpcWorld>(); }},
        WorldCase{"GrpcIpv6", [] { return std::make_unique<GrpcWorld>("[::1]"); }},
        WorldCase{"FaultyGrpc",
                  [] { return std::make_unique<FaultyWorld>(std::make_unique<GrpcWorld>()); }}),
    WorldCaseName);
INSTANTIATE_TEST_SUITE_P(
    Sockets, FaultySuite,
    ::testing::Values(WorldCase{
        "Grpc", [] { return std::make_unique<FaultyWorld>(std::make_unique<GrpcWorld>()); }}),
    WorldCaseName);

}  // namespace
}  // namespace gradwire::rpc::testing
