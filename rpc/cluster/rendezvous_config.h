// What --rendezvous says.
//
//   tcp://10.0.0.5:6000            an agent or the launcher serves it there
//   file:///shared/job7            a folder that all processes reach, made if it is missing
//   static:ps0=10.0.0.5:7000,...   a list; nobody serves anything
//
// Thread-safety: stateless. Errors: INVALID_ARGUMENT quotes the text and shows the three forms.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/cluster/rendezvous.h"

namespace gradwire::rpc {

enum class RendezvousKind { kNone, kTcp, kFile, kStatic };

struct RendezvousConfig {
  RendezvousKind kind = RendezvousKind::kNone;
  std::string address;          // kTcp: host:port
  std::string folder;           // kFile
  std::vector<Member> members;  // kStatic
};

// "" is kNone.
absl::StatusOr<RendezvousConfig> ParseRendezvous(absl::string_view text);

}  // namespace gradwire::rpc
