// Any text is an address, a list of members, a rendezvous, or refused with a status; what was
// accepted is written and read back as the same.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "rpc/base/status.h"
#include "rpc/cluster/address.h"
#include "rpc/cluster/interface.h"
#include "rpc/cluster/rendezvous_config.h"

namespace gradwire::rpc {
namespace {

void Check(absl::string_view text) {
  if (const auto parsed = ParseHostPort(text); parsed.ok()) {
    const auto again = ParseHostPort(parsed->ToString());
    GW_CHECK(again.ok() && *again == *parsed);
  } else {
    GW_CHECK(absl::IsInvalidArgument(parsed.status()));
  }
  if (const auto dial = ParseDialAddress(text); dial.ok()) {
    GW_CHECK(dial->port != 0 && !dial->is_any());
  }
  const std::vector<InterfaceAddress> interfaces = {{"eth0", "10.0.0.5", false},
                                                    {"6", "::1", true}};
  const size_t middle = text.size() / 2;
  if (const auto a = ListenAddress(text, "", interfaces); a.ok()) GW_CHECK(ParseHostPort(*a).ok());
  if (const auto a = ListenAddress(text.substr(0, middle), text.substr(middle), interfaces);
      a.ok()) {
    GW_CHECK(ParseHostPort(*a).ok());
  }
  if (const auto a = AdvertisedAddress("0.0.0.0:7", text, interfaces); a.ok()) {
    GW_CHECK(ParseDialAddress(*a).ok());
  }
  if (const auto config = ParseRendezvous(text); config.ok()) {
    GW_CHECK(config->kind != RendezvousKind::kTcp || ParseDialAddress(config->address).ok());
    GW_CHECK(config->kind != RendezvousKind::kFile || config->folder.size() > 1);
  } else {
    GW_CHECK(absl::IsInvalidArgument(config.status()));
  }
}

}  // namespace
}  // namespace gradwire::rpc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gradwire::rpc::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
