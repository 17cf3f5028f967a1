#include "rpc/function.h"

#include <cstdint>

#include "absl/strings/str_format.h"

namespace gradwire::rpc::function_internal {

std::string FitDeclaration(std::string text) {
  if (text.size() <= kMaxDeclarationBytes) return text;
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bits
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return absl::StrFormat("%s...#%016x", text.substr(0, kMaxDeclarationBytes - 32), hash);
}

}  // namespace gradwire::rpc::function_internal
